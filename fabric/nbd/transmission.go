package nbd

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/semaphore"

	"gleaner/fabric/conn"
)

const (
	maxInFlight      = 64
	maxInFlightBytes = 2 * maxPayload // so that one request of any size leaves room for another
	maxRuns          = 4096           // of a reply to BLOCK_STATUS
)

// A request is one command of the client's.
type request struct {
	flags, kind uint16
	cookie      uint64
	offset      uint64
	length      uint32
	payload     *conn.Buffer // what to write, or room for what is read; nil for other commands
	refused     *refusal
}

// A refusal is why a request is not executed.
type refusal struct {
	code uint32
	why  string
}

// A transmission carries out the requests of one client.
type transmission struct {
	*session
	in  *bufio.Reader
	out *conn.Replies

	ctx    context.Context // of all calls of the device
	cancel context.CancelFunc
	room   *semaphore.Weighted // bytes of payloads
	lead   *conn.Lead[request]
}

// transmit serves a session until its client leaves, and all that it asked for is done.
func transmit(ctx context.Context, s *session, in *bufio.Reader, out *conn.Replies) error {
	t := &transmission{session: s, in: in, out: out, room: semaphore.NewWeighted(maxInFlightBytes)}
	t.ctx, t.cancel = context.WithCancel(ctx)
	defer t.cancel()
	t.lead = conn.NewLead(t, cmdBlockStatus+1, maxInFlight)
	ended := t.lead.Run()
	if err := t.Flush(); ended == errLeft {
		return err
	}
	return ended
}

// Kind, More and Flush are what a lead asks of requests, with Next and Execute.
func (t *transmission) Kind(r request) int { return int(r.kind) }
func (t *transmission) More() bool         { return t.in.Buffered() > 0 }
func (t *transmission) Flush() error       { return t.out.Flush() }

// Next reads a request. Those of a client that is gone are of no use to anyone.
func (t *transmission) Next() (request, error) {
	r, err := t.next()
	if err != nil && err != errLeft && !isTimeout(err) {
		t.cancel()
	}
	return r, err
}

// next reads a request, and finds room for its payload.
func (t *transmission) next() (request, error) {
	head, err := t.in.Peek(requestHead)
	if err != nil {
		if err == io.EOF && len(head) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return request{}, err
	}
	if magic := binary.BigEndian.Uint32(head); magic != magicRequest {
		return request{}, fmt.Errorf("a request begins with %#x", magic)
	}
	r := request{
		flags:  binary.BigEndian.Uint16(head[4:]),
		kind:   binary.BigEndian.Uint16(head[6:]),
		cookie: binary.BigEndian.Uint64(head[8:]),
		offset: binary.BigEndian.Uint64(head[16:]),
		length: binary.BigEndian.Uint32(head[24:]),
	}
	t.in.Discard(requestHead)
	if r.kind == cmdDisc {
		return r, errLeft
	}
	r.refused = t.judge(r)
	err = t.takePayload(&r)
	return r, err
}

// takePayload reads what a write brings, and finds a buffer for what a read takes.
func (t *transmission) takePayload(r *request) error {
	if r.kind != cmdRead && r.kind != cmdWrite {
		return nil
	}
	if r.refused != nil {
		if r.kind == cmdWrite {
			return t.passOver(int64(r.length))
		}
		return nil
	}
	if !t.room.TryAcquire(int64(r.length)) {
		if err := t.out.Flush(); err != nil {
			return err
		}
		if err := t.room.Acquire(t.ctx, int64(r.length)); err != nil {
			return err
		}
	}
	r.payload = conn.TakeBuffer(int(r.length))
	if r.kind == cmdWrite {
		if _, err := io.ReadFull(t.in, r.payload.Data); err != nil {
			t.freePayload(r)
			return err
		}
	}
	return nil
}

func (t *transmission) passOver(n int64) error {
	_, err := io.CopyN(io.Discard, t.in, n)
	return err
}

func (t *transmission) freePayload(r *request) {
	if r.payload != nil {
		r.payload.Free()
		t.room.Release(int64(r.length))
	}
}

// flagsOf are the flags that a command may have: none for those that do not exist.
var flagsOf = [...]uint16{
	cmdRead:        flagFUA | flagDF,
	cmdWrite:       flagFUA,
	cmdFlush:       flagFUA,
	cmdTrim:        flagFUA,
	cmdWriteZeroes: flagFUA | flagNoHole,
	cmdBlockStatus: flagFUA | flagReqOne,
}

// judge says whether a request is refused before the device hears of it.
func (t *transmission) judge(r request) *refusal {
	known := int(r.kind) < len(flagsOf) && flagsOf[r.kind] != 0
	writes := r.kind == cmdWrite || r.kind == cmdTrim || r.kind == cmdWriteZeroes
	size := uint64(t.export.Size)
	switch {
	case !known:
		return &refusal{codeEINVAL, "unknown command"}
	case r.flags&^flagsOf[r.kind] != 0 || r.flags&flagDF != 0 && !t.structured:
		return &refusal{codeEINVAL, "a flag that this command does not have"}
	case writes && t.export.ReadOnly:
		return &refusal{codeEPERM, "the export is read-only"}
	case r.kind == cmdFlush:
		return nil
	case r.kind == cmdBlockStatus && !t.allocation:
		return &refusal{codeEINVAL, allocation + " was not chosen"}
	case r.kind == cmdRead && r.length > maxPayload && t.structured:
		return &refusal{codeEOVERFLOW, "at most 32 MiB can be read at once"}
	case (r.kind == cmdRead || r.kind == cmdWrite) && r.length > maxPayload:
		return &refusal{codeEINVAL, "at most 32 MiB can be read or written at once"}
	case r.length == 0:
		return &refusal{codeEINVAL, "a range of no bytes"}
	case r.offset > size || uint64(r.length) > size-r.offset:
		code := uint32(codeEINVAL)
		if r.kind == cmdWrite || r.kind == cmdWriteZeroes {
			code = codeENOSPC
		}
		return &refusal{code, "beyond the end of the export"}
	}
	return nil
}

// Execute carries out a request and answers it.
func (t *transmission) Execute(r request) {
	defer t.freePayload(&r)
	if r.refused != nil {
		t.fail(r, r.refused.code, r.refused.why)
		return
	}
	begun := time.Now()
	blocks, err := t.ask(r)
	t.lead.Took(int(r.kind), time.Since(begun))
	switch {
	case err != nil:
		t.fail(r, codeOf(err), err.Error())
	case r.kind == cmdRead:
		t.answerRead(r)
	case r.kind == cmdBlockStatus:
		t.answerStatus(r, blocks)
	default:
		t.out.Add(simple(r, 0), nil)
	}
}

// ask asks the device. Runs are the answer to BLOCK_STATUS.
func (t *transmission) ask(r request) ([]BlockStatus, error) {
	offset, length, fua := int64(r.offset), int64(r.length), r.flags&flagFUA != 0
	switch r.kind {
	case cmdRead:
		return nil, t.device.ReadAt(t.ctx, r.payload.Data, offset)
	case cmdWrite:
		return nil, t.device.WriteAt(t.ctx, r.payload.Data, offset, fua)
	case cmdFlush:
		return nil, t.device.Flush(t.ctx)
	case cmdTrim:
		return nil, t.device.Trim(t.ctx, offset, length, fua)
	case cmdWriteZeroes:
		return nil, t.device.Zero(t.ctx, offset, length, r.flags&flagNoHole != 0, fua)
	}
	most := maxRuns
	if r.flags&flagReqOne != 0 {
		most = 1
	}
	blocks, err := t.device.Status(t.ctx, offset, length, most)
	return blocks[:min(len(blocks), most)], err
}

func (t *transmission) answerRead(r request) {
	if !t.structured {
		t.out.Add(simple(r, 0), r.payload.Data)
		return
	}
	head := chunk(r, chunkData, 8+len(r.payload.Data))
	t.out.Add(binary.BigEndian.AppendUint64(head, r.offset), r.payload.Data)
}

// answerStatus sends blocks, cut to the range that was asked for.
func (t *transmission) answerStatus(r request, blocks []BlockStatus) {
	data := binary.BigEndian.AppendUint32(nil, allocationID)
	left := int64(r.length)
	for _, block := range blocks {
		length := min(block.Length, left)
		if length <= 0 {
			break
		}
		state := uint32(0)
		if block.Hole {
			state |= stateHole
		}
		if block.Zero {
			state |= stateZero
		}
		data = binary.BigEndian.AppendUint32(data, uint32(length))
		data = binary.BigEndian.AppendUint32(data, state)
		left -= length
	}
	if left == int64(r.length) {
		t.fail(r, codeEIO, "the device does not know")
		return
	}
	t.out.Add(chunk(r, chunkStatus, len(data)), data)
}

// fail answers a request with an error, with its reason if the client can take one.
func (t *transmission) fail(r request, code uint32, why string) {
	if !t.structured {
		t.out.Add(simple(r, code), nil)
		return
	}
	why = clip(why)
	head := chunk(r, chunkError, 6+len(why))
	head = binary.BigEndian.AppendUint32(head, code)
	head = binary.BigEndian.AppendUint16(head, uint16(len(why)))
	t.out.Add(head, []byte(why))
}

// simple is the head of a simple reply. Those without payload are allowed to
// every client.
func simple(r request, code uint32) []byte {
	head := binary.BigEndian.AppendUint32(make([]byte, 0, 16), magicSimple)
	head = binary.BigEndian.AppendUint32(head, code)
	return binary.BigEndian.AppendUint64(head, r.cookie)
}

// chunk is the head of a structured reply of one chunk.
func chunk(r request, kind uint16, length int) []byte {
	head := binary.BigEndian.AppendUint32(make([]byte, 0, 32), magicChunk)
	head = binary.BigEndian.AppendUint16(head, chunkDone)
	head = binary.BigEndian.AppendUint16(head, kind)
	head = binary.BigEndian.AppendUint64(head, r.cookie)
	return binary.BigEndian.AppendUint32(head, uint32(length))
}
