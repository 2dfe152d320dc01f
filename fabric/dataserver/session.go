package dataserver

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sync/semaphore"

	"gleaner/fabric/conn"
	"gleaner/fabric/disk"
)

// A session carries out the requests of one client for one disk, or for beats.
type session struct {
	server *server
	disk   *served // nil for beats
	name   string
	ctx    context.Context // of all requests
	cancel context.CancelFunc
	in     *bufio.Reader
	out    *conn.Replies
	room   *semaphore.Weighted
	lead   *conn.Lead[request]
}

// A request is what the client asks for.
type request struct {
	head
	payload *conn.Buffer // what it brings, or room for what is read; nil if neither
	cost    int64        // what it takes of the rooms of disk and session
	refused error        // why it is not executed
}

// Kind, More and Flush are what a lead asks of requests, with Next and Execute.
func (s *session) Kind(r request) int { return int(r.op) }
func (s *session) More() bool         { return s.in.Buffered() > 0 }
func (s *session) Flush() error       { return s.out.Flush() }

// Next reads a request. Those of a client that is gone are of no use to anyone.
func (s *session) Next() (request, error) {
	r, err := s.next()
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		s.cancel()
	}
	return r, err
}

func (s *session) next() (request, error) {
	data, err := s.in.Peek(headBytes)
	if err != nil {
		if err == io.EOF && len(data) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return request{}, err
	}
	h, err := decodeHead(data)
	if err != nil {
		return request{}, err
	}
	s.in.Discard(headBytes)
	if (s.disk == nil) != (h.op == opBeat) {
		return request{}, fmt.Errorf("a request of kind %d on a connection for %q", h.op, s.name)
	}
	r := request{head: h}
	r.refused = s.admit(&r)
	return r, s.takePayload(&r)
}

// admit finds room for a request, or says why there is none.
func (s *session) admit(r *request) error {
	if r.op == opBeat {
		return nil
	}
	if r.op.isWork() && s.server.options.Busy() {
		return fmt.Errorf("%w: the primary needs this server", ErrBusy)
	}
	cost := max(requestCost, int64(r.head.payload), int64(r.count))
	if !s.room.TryAcquire(cost) {
		return fmt.Errorf("%w: this connection has too much in hand", ErrBusy)
	}
	if !s.disk.room.TryAcquire(cost) {
		s.room.Release(cost)
		return fmt.Errorf("%w: disk %s has too much in hand", ErrBusy, s.name)
	}
	r.cost = cost
	return nil
}

// isWork says whether an op is refused while the primary needs the machine.
func (o op) isWork() bool {
	switch o {
	case opRead, opWrite, opSalvage, opVerify, opPut, opCopy:
		return true
	}
	return false
}

// takePayload reads what a request brings, and finds a buffer for what it reads.
func (s *session) takePayload(r *request) error {
	if r.refused != nil {
		_, err := s.in.Discard(r.head.payload)
		return err
	}
	switch {
	case r.op == opRead && r.count > 0:
		r.payload = conn.TakeBuffer(int(r.count))
	case r.head.payload > 0:
		r.payload = conn.TakeBuffer(r.head.payload)
		if _, err := io.ReadFull(s.in, r.payload.Data); err != nil {
			s.finish(r)
			s.release(r)
			return err
		}
	}
	return nil
}

// finish says that the disk is done with a request.
func (s *session) finish(r *request) {
	if r.cost > 0 {
		s.disk.room.Release(r.cost)
	}
}

// release says that a request is answered. A client that takes no answers holds up itself alone.
func (s *session) release(r *request) {
	if r.payload != nil {
		r.payload.Free()
	}
	s.room.Release(r.cost)
}

// Execute carries out a request and answers it.
func (s *session) Execute(r request) {
	defer s.release(&r)
	if r.refused != nil {
		s.answer(r, statusError, encodeError(r.refused))
		return
	}
	begun := time.Now()
	data, err := s.do(r)
	s.lead.Took(int(r.op), time.Since(begun))
	s.finish(&r)
	if err != nil {
		s.answer(r, statusError, encodeError(err))
		return
	}
	s.answer(r, statusDone, data)
}

func (s *session) answer(r request, status byte, data []byte) {
	var room [answerBytes]byte
	s.out.Add(answer{status, r.number, len(data)}.encode(room[:0]), data)
}

// do asks the disk. It gives the payload of the answer.
func (s *session) do(r request) ([]byte, error) {
	var data []byte
	if r.payload != nil {
		data = r.payload.Data
	}
	switch r.op {
	case opRead:
		return data, s.disk.Read(s.ctx, r.group, r.generation, int64(r.offset), data)
	case opWrite:
		return nil, s.disk.Write(s.ctx, r.group, r.generation, r.token, int64(r.offset), data, r.sync)
	case opSync:
		return nil, s.disk.Sync(s.ctx)
	case opSalvage:
		buf := make([]byte, disk.SliceSize)
		return buf, s.disk.Salvage(s.ctx, r.group, r.generation, int(r.offset), buf)
	case opCreate:
		return nil, s.disk.Create(s.ctx, r.group, r.vdisk, r.generation)
	case opSeal:
		return nil, s.disk.Seal(s.ctx, r.group, r.generation, r.token)
	case opRaise:
		return nil, s.disk.Raise(s.ctx, r.group, r.generation)
	case opTruncate:
		return nil, s.disk.Truncate(s.ctx, r.group, r.generation, int(r.offset))
	case opRemove:
		return nil, s.disk.Remove(s.ctx, r.group, r.generation)
	case opFence:
		return nil, s.disk.Fence(s.ctx, r.vdisk, r.token)
	case opBeat:
		return json.Marshal(s.server.beat())
	}
	return s.tell(r, data)
}

// tell is do for what is known of groups, and for copies.
func (s *session) tell(r request, data []byte) ([]byte, error) {
	switch r.op {
	case opStat:
		info, err := s.disk.Stat(s.ctx, r.group)
		return encodeInfo(info), err
	case opWritten:
		mask, err := s.disk.Written(s.ctx, r.group, r.generation)
		return encodeMask(mask), err
	case opSums:
		sums, err := s.disk.Sums(s.ctx, r.group, r.generation)
		return encodeSums(nil, sums), err
	case opVerify:
		found, err := s.disk.Verify(s.ctx, r.group)
		return encodeFlaws(found), err
	case opList:
		return s.list(r)
	case opPut:
		replica, err := decodePut(r.head, data)
		if err != nil {
			return nil, err
		}
		return nil, s.disk.put(replica, r.token)
	}
	return nil, s.copy(r, data)
}

// list answers with many groups at a time; it gives the last.
func (s *session) list(r request) ([]byte, error) {
	const together = 8 << 10
	part := make([]byte, 0, together)
	err := s.disk.List(s.ctx, func(group disk.GroupID) error {
		if len(part) == together {
			s.answer(r, statusMore, part)
			part = part[:0]
		}
		part = binary.LittleEndian.AppendUint64(part, uint64(group))
		return nil
	})
	return part, err
}

// A source is the payload of a copy.
type source struct {
	Address string `json:"address"`
	Disk    string `json:"disk"`
}

// copyTime is how long a server tries to fetch a group.
const copyTime = time.Minute

// copy fetches a group from another server.
func (s *session) copy(r request, data []byte) error {
	var from source
	if err := json.Unmarshal(data, &from); err != nil {
		return err
	}
	c, err := NewClient(from.Address, s.server.cluster)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSource, err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(s.ctx, copyTime)
	defer cancel()
	return s.disk.Copy(ctx, r.group, r.generation, r.token, c.Disk(from.Disk))
}
