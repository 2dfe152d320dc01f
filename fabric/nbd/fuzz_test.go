package nbd_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"maps"
	"net"
	"sync"
	"testing"
	"time"

	"gleaner/fabric/nbd"
)

// A recorded connection says what is written down and keeps what is answered.
type recorded struct {
	net.Conn // nil: whatever else is called is a mistake
	says     io.Reader
	mu       sync.Mutex
	answers  bytes.Buffer
	once     sync.Once
	closed   chan struct{}
}

func (c *recorded) Read(p []byte) (int, error) { return c.says.Read(p) }

func (c *recorded) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answers.Write(p)
}

func (c *recorded) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

func (c *recorded) RemoteAddr() net.Addr             { return &net.UnixAddr{Net: "unix"} }
func (c *recorded) SetDeadline(time.Time) error      { return nil }
func (c *recorded) SetReadDeadline(time.Time) error  { return nil }
func (c *recorded) SetWriteDeadline(time.Time) error { return nil }

// answersTo serves one client that says all of input and then hangs up.
func answersTo(t *testing.T, input []byte) []byte {
	l := newPipeListener()
	c := &recorded{says: bytes.NewReader(input), closed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := nbd.Serve(ctx, l, scenarioExports(), nbd.Options{}); err != nil {
			t.Error(err)
		}
	})
	l.conns <- c
	<-c.closed
	cancel()
	serving.Wait()
	return c.answers.Bytes()
}

// FuzzHandshake: whatever a client says, all it hears are a greeting and well-formed
// replies to its options, in their order, until one opens an export or ends it.
func FuzzHandshake(f *testing.F) {
	option := func(kind uint32, data ...any) []byte {
		d := be(data...)
		return be("IHAVEOPT", kind, uint32(len(d)), d)
	}
	flags := uint32(3)
	f.Add(be(flags, option(3), option(2)))
	f.Add(be(flags, option(8), option(10, uint32(4), "disk", uint32(1), uint32(15), "base:allocation"), option(7, uint32(4), "disk", uint16(1), uint16(3))))
	f.Add(be(flags, option(9, uint32(0), uint32(2), uint32(5), "base:", uint32(1), "x"), option(6, uint32(4), "snap", uint16(2), uint16(1), uint16(2))))
	f.Add(be(uint32(0), option(1, "snap")))
	f.Add(be(flags, option(5), option(99, "what"), option(1, "nope")))
	f.Add(be(flags, option(7, make([]byte, 70_000)), option(2)))
	f.Fuzz(func(t *testing.T, input []byte) {
		heard := bufio.NewReader(bytes.NewReader(answersTo(t, input)))
		if greeting := next(heard, 18); !bytes.Equal(greeting, be("NBDMAGIC", "IHAVEOPT", uint16(3))) {
			t.Fatalf("greeted with %x", greeting)
		}
		said := bufio.NewReader(bytes.NewReader(input))
		if next(said, 4) == nil {
			return
		}
		for !checkOption(t, said, heard) {
		}
	})
}

// checkOption compares one option with its replies. It reports whether
// there is nothing more to compare.
func checkOption(t *testing.T, said, heard *bufio.Reader) (last bool) {
	option := next(said, 16)
	if option == nil || next(said, int(min(binary.BigEndian.Uint32(option[12:]), 1<<26))) == nil || binary.BigEndian.Uint32(option[8:]) == 1 {
		return true // the rest is for scenarios
	}
	for {
		head := next(heard, 20)
		if head == nil {
			return true
		}
		data := next(heard, int(binary.BigEndian.Uint32(head[16:])))
		if !bytes.Equal(head[:8], be(uint64(0x3e889045565a9))) || !bytes.Equal(head[8:12], option[8:12]) || data == nil {
			t.Fatalf("option %x was answered by %x %x", option, head, data)
		}
		kind, reply := binary.BigEndian.Uint32(option[8:]), binary.BigEndian.Uint32(head[12:])
		switch {
		case reply == 1:
			return kind == 2 || kind == 7
		case reply>>31 == 1 && len(data) <= 4096:
			return false
		case reply == 2 && kind == 3, reply == 3 && (kind == 6 || kind == 7), reply == 4 && (kind == 9 || kind == 10):
		default:
			t.Fatalf("option %d has a reply of kind %#x", kind, reply)
		}
	}
}

// next reads n bytes, or nil if there are fewer.
func next(r *bufio.Reader, n int) []byte {
	b, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil || len(b) < n {
		return nil
	}
	return b
}

// FuzzRequests: each whole request has one answer, with the error and the length that the
// specification asks for.
func FuzzRequests(f *testing.F) {
	request := func(flags, kind uint16, offset uint64, length uint32, data ...any) []byte {
		return be(uint32(0x25609513), flags, kind, uint64(0), offset, length, be(data...))
	}
	f.Add(true, false, be(request(0, cmdRead, 0, 4096), request(flagFUA, cmdWrite, 100, 3, "xyz"), request(flagReqOne, cmdStatus, 0, 65536)))
	f.Add(false, true, be(request(0, cmdRead, 65535, 2), request(0, cmdWrite, 100, 3, "xyz"), request(0, cmdFlush, 0, 0)))
	f.Add(true, false, be(request(0, cmdTrim, 0, 65536), request(flagNoHole, cmdZeroes, 5000, 5000), request(0, cmdDisc, 0, 0)))
	f.Add(true, true, be(request(flagDF, cmdRead, 0, 1<<25+1), request(0, cmdWrite, 1<<63, 1<<26), request(0, 5, 0, 1)))
	f.Fuzz(func(t *testing.T, structured, readOnly bool, input []byte) {
		export, size := "disk", uint64(64<<10)
		if readOnly {
			export, size = "snap", 8<<10
		}
		input, calls := number(input)
		open := be("IHAVEOPT", uint32(7), uint32(6+len(export)), uint32(len(export)), export, uint16(0))
		hello := be(uint32(3), open)
		skip := 18 + 32 + 20
		if structured {
			hello = be(uint32(3), "IHAVEOPT", uint32(8), uint32(0),
				"IHAVEOPT", uint32(10), uint32(27+len(export)), uint32(len(export)), export, uint32(1), uint32(15), "base:allocation", open)
			skip += 20 + 39 + 20
		}
		c := &client{in: bufio.NewReader(bytes.NewReader(answersTo(t, be(hello, input))[skip:])), structured: structured, asked: calls}
		asked := maps.Clone(calls)
		for len(calls) > 0 {
			a, err := c.receive()
			if err != nil {
				t.Fatalf("%d requests are not answered: %v", len(calls), err)
			}
			r := asked[a.cookie]
			if want := wanted(r, size, readOnly, structured); a.code != want {
				t.Errorf("%+v: error %d, not %d", r, a.code, want)
			}
		}
		if rest, _ := io.ReadAll(c.in); len(rest) > 0 {
			t.Errorf("%x was not asked for", rest)
		}
	})
}

// number gives each whole request of input a cookie of its own, as far as the server will read.
func number(input []byte) ([]byte, map[uint64]call) {
	input, calls := bytes.Clone(input), map[uint64]call{}
	for at := 0; len(input)-at >= 28; {
		head := input[at:]
		r := call{flags: binary.BigEndian.Uint16(head[4:]), kind: binary.BigEndian.Uint16(head[6:]),
			offset: binary.BigEndian.Uint64(head[16:]), length: binary.BigEndian.Uint32(head[24:])}
		at += 28
		if r.kind == cmdWrite {
			at += int(r.length)
		}
		if binary.BigEndian.Uint32(head) != 0x25609513 || r.kind == cmdDisc || at > len(input) {
			break
		}
		cookie := uint64(len(calls) + 1)
		binary.BigEndian.PutUint64(head[8:], cookie)
		calls[cookie] = r
	}
	return input, calls
}

// wanted is the error that the specification asks for, written from it.
func wanted(r call, size uint64, readOnly, structured bool) uint32 {
	const eperm, einval, enospc, eoverflow = 1, 22, 28, 75
	allowed := map[uint16]uint16{cmdRead: flagFUA, cmdWrite: flagFUA, cmdFlush: flagFUA, cmdTrim: flagFUA, cmdZeroes: flagFUA | flagNoHole, cmdStatus: flagFUA | flagReqOne}
	if structured {
		allowed[cmdRead] |= flagDF
	} else {
		delete(allowed, cmdStatus)
	}
	flags, known := allowed[r.kind]
	beyond := r.offset > size || r.offset+uint64(r.length) > size
	changes := r.kind == cmdWrite || r.kind == cmdTrim || r.kind == cmdZeroes
	switch {
	case !known || r.flags|flags != flags:
		return einval
	case changes && readOnly:
		return eperm
	case r.kind == cmdFlush:
		return 0
	case r.kind == cmdRead && r.length > 32<<20 && structured:
		return eoverflow
	case r.length == 0, (r.kind == cmdRead || r.kind == cmdWrite) && r.length > 32<<20:
		return einval
	case beyond && (r.kind == cmdWrite || r.kind == cmdZeroes):
		return enospc
	case beyond:
		return einval
	}
	return 0
}
