// Package lean is the smallest protocol that carries calls: frames with their
// length before them (docs/formats/lean.md). It takes a player about a kilobyte and a few
// microseconds, so that a replay measures the target.
package lean

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"gleaner/trace"
	"gleaner/trace/replay"
	"gleaner/trace/replay/frame"
)

// magic opens a connection in both directions, so that another protocol is detected at
// once.
var magic = []byte("lean1\n")

// Open makes an executor for lean://host:port[,host:port...]; nodes are spread
// over several addresses, because two addresses have only 28,000 ports between them.
func Open(_ context.Context, at *url.URL) (replay.Executor, error) {
	return &executor{hosts: strings.Split(at.Host, ",")}, nil
}

type executor struct {
	hosts []string
	next  atomic.Int64
}

// Dial connects and exchanges greetings.
func (e *executor) Dial(ctx context.Context, _ replay.Identity) (replay.Conn, error) {
	to := e.hosts[int(e.next.Add(1)-1)%len(e.hosts)]
	c, err := new(net.Dialer).DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, err
	}
	if err := greet(ctx, c); err != nil {
		c.Close()
		return nil, fmt.Errorf("%s does not speak the lean protocol: %w", to, err)
	}
	return &conn{c: c, r: bufio.NewReaderSize(c, readBuffer)}, nil
}

func greet(ctx context.Context, c net.Conn) error {
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := c.Write(magic); err != nil {
		return err
	}
	got := make([]byte, len(magic))
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if !bytes.Equal(got, magic) {
		return fmt.Errorf("it greets with %q", got)
	}
	return nil
}

// readBuffer is the memory of an idle connection: enough for a usual message in one
// system call.
const readBuffer = 512

type conn struct {
	c    net.Conn
	r    *bufio.Reader
	last uint64 // number of the last call
}

// buffers are shared by all connections: one is in use only during a call.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// Call sends a request and waits for its reply.
func (c *conn) Call(ctx context.Context, call *trace.Call) (replay.Reply, error) {
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.c.SetDeadline(deadline); err != nil {
			return replay.Reply{}, err
		}
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	c.last++
	*buf = appendRequest((*buf)[:0], c.last, call)
	if _, err := c.c.Write(*buf); err != nil {
		return replay.Reply{}, err
	}
	if err := frame.Read(c.r, buf); err != nil {
		return replay.Reply{}, err
	}
	number, reply, err := parseReply(*buf)
	if err == nil && number != c.last {
		err = fmt.Errorf("lean: the reply to call %d came for call %d", number, c.last)
	}
	return reply, err
}

// Close closes the connection.
func (c *conn) Close() error { return c.c.Close() }

func appendRequest(b []byte, number uint64, call *trace.Call) []byte {
	return frame.Append(b, func(b []byte) []byte {
		b = binary.AppendUvarint(b, number)
		b = frame.Text(b, call.Sender)
		b = frame.Text(b, call.Method)
		return frame.Leaves(b, call.Request)
	})
}

func appendReply(b []byte, number uint64, r *replay.Reply) []byte {
	return frame.Append(b, func(b []byte) []byte {
		b = binary.AppendUvarint(b, number)
		b = frame.Text(b, r.Status)
		b = frame.Text(b, r.Message)
		return frame.Leaves(b, r.Leaves)
	})
}

func parseReply(b []byte) (uint64, replay.Reply, error) {
	p := frame.Parser{Body: b}
	number := p.Number()
	r := replay.Reply{Status: p.Text(), Message: p.Text(), Leaves: p.Leaves()}
	return number, r, p.End()
}

func parseRequest(b []byte) (uint64, *trace.Call, error) {
	p := frame.Parser{Body: b}
	number := p.Number()
	call := &trace.Call{Sender: p.Text(), Method: p.Text(), Request: p.Leaves()}
	return number, call, p.End()
}
