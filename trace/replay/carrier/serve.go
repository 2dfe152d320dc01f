package carrier

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"gleaner/trace"
	"gleaner/trace/replay"
	"gleaner/trace/replay/frame"
)

// Serve holds connections for another process until its input ends. That process names
// executors by their index. Times are those of the clock here.
func Serve(ctx context.Context, from io.Reader, to io.Writer, executors []replay.Executor) error {
	return serve(ctx, from, to, executors, 0)
}

// serve is Serve with a clock that is ahead.
func serve(ctx context.Context, from io.Reader, to io.Writer, executors []replay.Executor, ahead time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k := &keeper{ctx: ctx, executors: executors, ahead: ahead, conns: map[uint64]replay.Conn{}, out: make(chan []byte, 1024)}
	go k.write(to)
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		var body []byte
		err := frame.Read(r, &body)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break // the other process has ended, perhaps in the middle of a frame
		}
		if err != nil {
			return err
		}
		p := &frame.Parser{Body: body}
		id := p.Number()
		if len(p.Body) == 0 {
			return errors.New("carrier: an empty frame")
		}
		op := p.Body[0]
		p.Body = p.Body[1:]
		go k.do(id, op, p)
	}
	k.hangUp()
	return nil
}

// A keeper holds connections.
type keeper struct {
	ctx       context.Context
	executors []replay.Executor
	ahead     time.Duration // of the clock, in tests
	out       chan []byte
	mu        sync.Mutex
	conns     map[uint64]replay.Conn
	last      uint64
}

func (k *keeper) write(to io.Writer) {
	w := bufio.NewWriterSize(to, 64<<10)
	for {
		select {
		case b := <-k.out:
			if _, err := w.Write(b); err != nil {
				return
			}
			if len(k.out) == 0 && w.Flush() != nil {
				return
			}
		case <-k.ctx.Done():
			return
		}
	}
}

func (k *keeper) say(id uint64, body func([]byte) []byte) {
	select {
	case k.out <- frame.Append(nil, func(b []byte) []byte { return body(binary.AppendUvarint(b, id)) }):
	case <-k.ctx.Done():
	}
}

func (k *keeper) do(id uint64, op byte, p *frame.Parser) {
	ctx, cancel := k.ctx, context.CancelFunc(func() {})
	if until := int64(p.Number()); until > 0 {
		ctx, cancel = context.WithDeadline(ctx, time.Unix(0, until).Add(-k.ahead))
	}
	defer cancel()
	which := p.Number()
	switch op {
	case opDial:
		k.dial(ctx, id, int(which), replay.Identity{Sender: p.Text(), Address: p.Text(), Target: p.Text()})
	case opCall:
		call := &trace.Call{Sender: p.Text(), Address: p.Text(), Target: p.Text(), Method: p.Text(), Request: p.Leaves()}
		k.call(ctx, id, which, call)
	case opClose:
		k.mu.Lock()
		c := k.conns[which]
		delete(k.conns, which)
		k.mu.Unlock()
		if c != nil {
			_ = c.Close() // the caller does not wait for the result
		}
	}
}

func (k *keeper) dial(ctx context.Context, id uint64, which int, who replay.Identity) {
	if which < 0 || which >= len(k.executors) {
		return
	}
	c, err := k.executors[which].Dial(ctx, who)
	kind, text := outcome(err)
	number := uint64(0)
	if err == nil {
		if _, ok := c.(replay.Multiplexed); ok {
			kind = multiplexed
		}
		k.mu.Lock()
		k.last++
		number = k.last
		k.conns[number] = c
		k.mu.Unlock()
	}
	k.say(id, func(b []byte) []byte {
		return frame.Text(binary.AppendUvarint(binary.AppendUvarint(b, kind), number), text)
	})
}

func outcome(err error) (kind uint64, text string) {
	switch {
	case err == nil:
		return plain, ""
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return timedOut, ""
	case errors.Is(err, replay.ErrUnsendable):
		return unsendable, strings.TrimPrefix(err.Error(), replay.ErrUnsendable.Error()+": ")
	}
	if replay.Starved(err) {
		return starved, err.Error()
	}
	return failed, err.Error()
}

func (k *keeper) call(ctx context.Context, id, which uint64, call *trace.Call) {
	k.mu.Lock()
	c := k.conns[which]
	k.mu.Unlock()
	var reply replay.Reply
	err := errors.New("the connection was closed")
	start := time.Now().Add(k.ahead).UnixNano()
	if c != nil {
		reply, err = c.Call(ctx, call)
		reply.Read()
	}
	end := time.Now().Add(k.ahead).UnixNano()
	kind, text := outcome(err)
	k.say(id, func(b []byte) []byte {
		b = frame.Text(binary.AppendUvarint(b, kind), text)
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(start)), uint64(end))
		return frame.Leaves(frame.Text(frame.Text(b, reply.Status), reply.Message), reply.Leaves)
	})
}

func (k *keeper) hangUp() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.conns {
		_ = c.Close() // the run is over
	}
}
