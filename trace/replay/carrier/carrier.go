// Package carrier holds connections in other processes, because one process may open a
// limited number of files. Only the connections of players are spread over processes.
// What players keep and when they start stays in one process, so that a program plays
// the same with any number of them.
package carrier

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gleaner/trace"
	"gleaner/trace/replay"
	"gleaner/trace/replay/frame"
)

// The kinds of request in a frame.
const (
	opDial = iota
	opCall
	opClose
)

// Properties of a connection or an error.
const (
	plain = iota
	multiplexed
	timedOut
	unsendable
	failed
	starved
)

// A Carrier is another process that holds connections.
type Carrier struct {
	ahead time.Duration // of its clock

	out  chan []byte
	quit chan struct{}
	once sync.Once
	last atomic.Uint64

	mu      sync.Mutex
	waiting map[uint64]chan []byte // nil after the process has ended
}

// errGone is the error of calls that were under way in a process when it ended.
var errGone = errors.New("the process that holds the connection has ended")

// New returns a carrier for a process that runs Serve, by its input and output. Its clock may be ahead of
// ours, on another machine.
func New(to io.Writer, from io.Reader, ahead time.Duration) *Carrier {
	c := &Carrier{ahead: ahead, out: make(chan []byte, 1024), quit: make(chan struct{}), waiting: map[uint64]chan []byte{}}
	go c.write(to)
	go c.read(from)
	return c
}

// write sends frames, all that wait at once.
func (c *Carrier) write(to io.Writer) {
	w := bufio.NewWriterSize(to, 64<<10)
	for {
		select {
		case b := <-c.out:
			if _, err := w.Write(b); err != nil {
				return
			}
			if len(c.out) == 0 && w.Flush() != nil {
				return
			}
		case <-c.quit:
			return
		}
	}
}

func (c *Carrier) read(from io.Reader) {
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		var body []byte
		if err := frame.Read(r, &body); err != nil {
			break
		}
		id, n := binary.Uvarint(body)
		if n <= 0 {
			break
		}
		c.mu.Lock()
		to := c.waiting[id]
		delete(c.waiting, id)
		c.mu.Unlock()
		if to != nil {
			to <- body[n:]
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, to := range c.waiting {
		close(to)
	}
	c.waiting = nil
	c.once.Do(func() { close(c.quit) })
}

// Gone is closed when the process has ended.
func (c *Carrier) Gone() <-chan struct{} { return c.quit }

// ask sends a frame and waits for its answer.
func (c *Carrier) ask(ctx context.Context, body func([]byte) []byte) (*frame.Parser, error) {
	id, to := c.last.Add(1), make(chan []byte, 1)
	c.mu.Lock()
	if c.waiting == nil {
		c.mu.Unlock()
		return nil, errGone
	}
	c.waiting[id] = to
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
	}()
	b := frame.Append(nil, func(b []byte) []byte { return body(binary.AppendUvarint(b, id)) })
	select {
	case c.out <- b:
	case <-c.quit:
		return nil, errGone
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case answer, ok := <-to:
		if !ok {
			return nil, errGone
		}
		return &frame.Parser{Body: answer}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Executor is the executor that all carriers have at an index. Nodes are spread over the
// carriers. checks knows the methods of the target.
func Executor(carriers []*Carrier, number int, checks replay.Executor) replay.Executor {
	return &executor{carriers: carriers, number: number, checks: checks}
}

type executor struct {
	carriers []*Carrier
	number   int
	checks   replay.Executor
	next     atomic.Int64
}

// Check is an error for a method that the target is known not to have.
func (e *executor) Check(method string) error {
	if c, ok := e.checks.(replay.Checker); ok {
		return c.Check(method)
	}
	return nil
}

// Dead asks the target which nodes it has declared dead, if it can tell.
func (e *executor) Dead(ctx context.Context) ([]string, error) {
	if w, ok := e.checks.(replay.Witness); ok {
		return w.Dead(ctx)
	}
	return nil, nil
}

// Dial connects a node in the next process.
func (e *executor) Dial(ctx context.Context, who replay.Identity) (replay.Conn, error) {
	c := e.carriers[int(e.next.Add(1)-1)%len(e.carriers)]
	p, err := c.ask(ctx, func(b []byte) []byte {
		b = append(b, opDial)
		b = binary.AppendUvarint(b, uint64(c.deadline(ctx)))
		b = binary.AppendUvarint(b, uint64(e.number))
		return frame.Text(frame.Text(frame.Text(b, who.Sender), who.Address), who.Target)
	})
	if err != nil {
		return nil, err
	}
	kind, id, text := p.Number(), p.Number(), p.Text()
	switch {
	case p.End() != nil:
		return nil, p.End()
	case kind >= timedOut:
		return nil, wrong(kind, text)
	case kind == multiplexed:
		return &several{conn{c, id}}, nil
	}
	return &conn{c, id}, nil
}

// deadline is when the process is to give up, by its clock; 0 for never.
func (c *Carrier) deadline(ctx context.Context) int64 {
	if t, ok := ctx.Deadline(); ok {
		return t.Add(c.ahead).UnixNano()
	}
	return 0
}

func wrong(kind uint64, text string) error {
	switch kind {
	case timedOut:
		return context.DeadlineExceeded
	case unsendable:
		return fmt.Errorf("%w: %s", replay.ErrUnsendable, text)
	case starved:
		return errStarved(text)
	}
	return errors.New(text)
}

// errStarved is that the process had no file or port left, in its words.
type errStarved string

func (e errStarved) Error() string { return string(e) }

func (e errStarved) Unwrap() error { return syscall.EMFILE }

type conn struct {
	c  *Carrier
	id uint64
}

// several is a connection that takes several calls at once.
type several struct{ conn }

func (s *several) Multiplexed() {}

// Call makes the call in the process, and sets when it was sent and answered there, by our clock.
func (c *conn) Call(ctx context.Context, call *trace.Call) (replay.Reply, error) {
	p, err := c.c.ask(ctx, func(b []byte) []byte {
		b = append(b, opCall)
		b = binary.AppendUvarint(b, uint64(c.c.deadline(ctx)))
		b = binary.AppendUvarint(b, c.id)
		for _, text := range []string{call.Sender, call.Address, call.Target, call.Method} {
			b = frame.Text(b, text)
		}
		return frame.Leaves(b, call.Request)
	})
	if err != nil {
		return replay.Reply{}, err
	}
	kind, text := p.Number(), p.Text()
	start, end := int64(p.Number()), int64(p.Number())
	reply := replay.Reply{Status: p.Text(), Message: p.Text(), Leaves: p.Leaves()}
	if err := p.End(); err != nil {
		return reply, err
	}
	call.Start, call.End = start-int64(c.c.ahead), end-int64(c.c.ahead)
	if kind >= timedOut {
		return replay.Reply{}, wrong(kind, text)
	}
	return reply, nil
}

// Close closes the connection in the process, and does not wait for that.
func (c *conn) Close() error {
	b := frame.Append(nil, func(b []byte) []byte {
		b = append(binary.AppendUvarint(b, 0), opClose)
		return binary.AppendUvarint(binary.AppendUvarint(b, 0), c.id)
	})
	select {
	case c.c.out <- b:
		return nil
	case <-c.c.quit:
		return fmt.Errorf("close: %w", errGone)
	}
}
