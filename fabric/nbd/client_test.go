package nbd_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
)

// Commands and flags, by the names of the specification.
const (
	cmdRead, cmdWrite, cmdDisc, cmdFlush, cmdTrim, cmdZeroes, cmdStatus = 0, 1, 2, 3, 4, 6, 7

	flagFUA, flagNoHole, flagDF, flagReqOne = 1, 2, 4, 8
)

// A call is one request of a test.
type call struct {
	flags, kind uint16
	offset      uint64
	length      uint32
	data        []byte // of a write
}

// An answer is what came back.
type answer struct {
	cookie uint64
	code   uint32
	data   []byte   // of a read
	runs   []uint32 // of a block status: length, state, length, state …
}

// A client is one of our own, written from the specification and with nothing of the server's.
type client struct {
	conn       net.Conn
	in         *bufio.Reader
	structured bool
	size       uint64
	flags      uint16

	mu    sync.Mutex
	last  uint64
	asked map[uint64]call // by cookie
}

// dial opens an export, with structured replies and block status or without.
func dial(conn net.Conn, export string, structured bool) (*client, error) {
	c := &client{conn: conn, in: bufio.NewReader(conn), structured: structured, asked: map[uint64]call{}}
	if _, err := io.ReadFull(c.in, make([]byte, 18)); err != nil {
		return nil, err
	}
	c.conn.Write(be(uint32(3)))
	if structured {
		if err := c.option(8, nil); err != nil {
			return nil, err
		}
		if err := c.option(10, be(uint32(len(export)), export, uint32(1), uint32(15), "base:allocation")); err != nil {
			return nil, err
		}
	}
	return c, c.option(7, be(uint32(len(export)), export, uint16(0)))
}

// option sends an option and takes its replies.
func (c *client) option(kind uint32, data []byte) error {
	c.conn.Write(be("IHAVEOPT", kind, uint32(len(data)), data))
	for {
		head := make([]byte, 20)
		if _, err := io.ReadFull(c.in, head); err != nil {
			return err
		}
		data := make([]byte, binary.BigEndian.Uint32(head[16:]))
		if _, err := io.ReadFull(c.in, data); err != nil {
			return err
		}
		switch reply := binary.BigEndian.Uint32(head[12:]); {
		case reply == 1:
			return nil
		case reply>>31 == 1:
			return fmt.Errorf("option %d refused with %#x: %s", kind, reply, data)
		case reply == 3 && binary.BigEndian.Uint16(data) == 0:
			c.size = binary.BigEndian.Uint64(data[2:])
			c.flags = binary.BigEndian.Uint16(data[10:])
		}
	}
}

// send sends a request and gives its cookie.
func (c *client) send(r call) uint64 {
	c.mu.Lock()
	c.last++
	cookie := c.last
	c.asked[cookie] = r
	c.mu.Unlock()
	c.conn.Write(be(uint32(0x25609513), r.flags, r.kind, cookie, r.offset, r.length, r.data))
	return cookie
}

// receive takes the next reply, to whatever request it is.
func (c *client) receive() (answer, error) {
	var magic [4]byte
	if _, err := io.ReadFull(c.in, magic[:]); err != nil {
		return answer{}, err
	}
	if binary.BigEndian.Uint32(magic[:]) == 0x67446698 {
		return c.receiveSimple()
	}
	return c.receiveChunk(binary.BigEndian.Uint32(magic[:]))
}

func (c *client) receiveSimple() (a answer, err error) {
	head := make([]byte, 12)
	if _, err = io.ReadFull(c.in, head); err != nil {
		return a, err
	}
	a.code, a.cookie = binary.BigEndian.Uint32(head), binary.BigEndian.Uint64(head[4:])
	r, err := c.take(a.cookie)
	if r.kind == cmdRead && c.structured {
		return a, fmt.Errorf("a simple reply to a read")
	}
	if err == nil && r.kind == cmdRead && a.code == 0 {
		a.data = make([]byte, r.length)
		_, err = io.ReadFull(c.in, a.data)
	}
	return a, err
}

func (c *client) receiveChunk(magic uint32) (a answer, err error) {
	head := make([]byte, 16)
	if _, err = io.ReadFull(c.in, head); err != nil {
		return a, err
	}
	if magic != 0x668e33ef || !c.structured {
		return a, fmt.Errorf("a reply begins with %#x", magic)
	}
	a.cookie = binary.BigEndian.Uint64(head[4:])
	data := make([]byte, binary.BigEndian.Uint32(head[12:]))
	if _, err = io.ReadFull(c.in, data); err != nil {
		return a, err
	}
	r, err := c.take(a.cookie)
	if err != nil {
		return a, err
	}
	switch kind := binary.BigEndian.Uint16(head[2:]); {
	case kind == 1 && r.kind == cmdRead && binary.BigEndian.Uint64(data) == r.offset && len(data) == int(r.length)+8:
		a.data = data[8:]
	case kind == 5 && r.kind == cmdStatus && len(data)%8 == 4 && len(data) > 4:
		for data = data[4:]; len(data) > 0; data = data[4:] {
			a.runs = append(a.runs, binary.BigEndian.Uint32(data))
		}
	case kind == 1<<15+1 && len(data) == 6+int(binary.BigEndian.Uint16(data[4:])):
		a.code = binary.BigEndian.Uint32(data)
	default:
		return a, fmt.Errorf("a chunk of kind %d with %d bytes to command %d", kind, len(data), r.kind)
	}
	return a, nil
}

// take finds the request of a cookie, which is answered once.
func (c *client) take(cookie uint64) (call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.asked[cookie]
	delete(c.asked, cookie)
	if !ok {
		return r, fmt.Errorf("an answer to %d, which was not asked", cookie)
	}
	return r, nil
}

// do sends a request and waits for its answer, when nothing else is under way.
func (c *client) do(t testing.TB, r call) answer {
	t.Helper()
	c.send(r)
	a, err := c.receive()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// be puts numbers and texts one behind the other.
func be(parts ...any) (out []byte) {
	for _, p := range parts {
		switch p := p.(type) {
		case uint16:
			out = binary.BigEndian.AppendUint16(out, p)
		case uint32:
			out = binary.BigEndian.AppendUint32(out, p)
		case uint64:
			out = binary.BigEndian.AppendUint64(out, p)
		case string:
			out = append(out, p...)
		case []byte:
			out = append(out, p...)
		default:
			panic(p)
		}
	}
	return out
}
