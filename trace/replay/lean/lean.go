// Package lean is the smallest protocol that carries calls: frames with their
// length before them (docs/formats/lean.md). It costs a player about a kilobyte
// and a few microseconds, so that what is measured is the target.
package lean

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"gleaner/trace"
	"gleaner/trace/replay"
)

// magic opens a connection in both directions, so that one who speaks
// something else is found out at once.
var magic = []byte("lean1\n")

// maxFrame is the largest frame believed.
const maxFrame = 16 << 20

// Open makes an executor for lean://host:port[,host:port...]; nodes are spread
// over several addresses, because between two there are but 28,000 ports.
func Open(_ context.Context, at *url.URL) (replay.Executor, error) {
	e := &executor{hosts: strings.Split(at.Host, ",")}
	for _, h := range e.hosts {
		if _, _, err := net.SplitHostPort(h); err != nil {
			return nil, fmt.Errorf("lean: %w", err)
		}
	}
	return e, nil
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
	return &conn{c: c}, nil
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

type conn struct {
	c    net.Conn
	last uint64 // number of the newest call
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
	if err := readFrame(c.c, buf); err != nil {
		return replay.Reply{}, err
	}
	number, reply, err := parseReply(*buf)
	if err == nil && number != c.last {
		err = fmt.Errorf("lean: the reply to call %d came for call %d", number, c.last)
	}
	return reply, err
}

// Close hangs up.
func (c *conn) Close() error { return c.c.Close() }

// appendFrame appends what body appends, with its length before it.
func appendFrame(b []byte, body func([]byte) []byte) []byte {
	at := len(b)
	b = body(append(b, 0, 0, 0, 0))
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

func appendRequest(b []byte, number uint64, call *trace.Call) []byte {
	return appendFrame(b, func(b []byte) []byte {
		b = binary.AppendUvarint(b, number)
		b = appendText(b, call.Sender)
		b = appendText(b, call.Method)
		return appendLeaves(b, call.Request)
	})
}

func appendReply(b []byte, number uint64, r *replay.Reply) []byte {
	return appendFrame(b, func(b []byte) []byte {
		b = binary.AppendUvarint(b, number)
		b = appendText(b, r.Status)
		b = appendText(b, r.Message)
		return appendLeaves(b, r.Leaves)
	})
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendLeaves(b []byte, leaves []trace.Leaf) []byte {
	b = binary.AppendUvarint(b, uint64(len(leaves)))
	for _, l := range leaves {
		b = append(appendText(b, l.Path), byte(l.Kind))
		b = appendText(b, l.Value)
	}
	return b
}

// readFrame reads one frame's body into buf.
func readFrame(r io.Reader, buf *[]byte) error {
	*buf = append((*buf)[:0], 0, 0, 0, 0)
	if _, err := io.ReadFull(r, *buf); err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(*buf)
	if length > maxFrame {
		return fmt.Errorf("lean: a frame of %d bytes", length)
	}
	if cap(*buf) < int(length) {
		*buf = make([]byte, length)
	}
	*buf = (*buf)[:length]
	_, err := io.ReadFull(r, *buf)
	return err
}

var errShort = errors.New("lean: the frame ends too early")

// A parser takes a frame apart; it remembers that something was missing.
type parser struct {
	b   []byte
	bad bool
}

func (p *parser) number() uint64 {
	v, n := binary.Uvarint(p.b)
	if n <= 0 {
		p.bad, p.b = true, nil
		return 0
	}
	p.b = p.b[n:]
	return v
}

func (p *parser) text() string {
	n := p.number()
	if n > uint64(len(p.b)) {
		p.bad, p.b = true, nil
		return ""
	}
	s := string(p.b[:n])
	p.b = p.b[n:]
	return s
}

func (p *parser) leaves() []trace.Leaf {
	n := p.number()
	if n > uint64(len(p.b)) { // each takes three bytes at least
		p.bad = true
		return nil
	}
	out := make([]trace.Leaf, 0, n)
	for range n {
		l := trace.Leaf{Path: p.text()}
		if len(p.b) == 0 || p.b[0] > byte(trace.String) {
			p.bad = true
			return nil
		}
		l.Kind, p.b = trace.Kind(p.b[0]), p.b[1:]
		l.Value = p.text()
		out = append(out, l)
	}
	return out
}

func (p *parser) end() error {
	if p.bad || len(p.b) > 0 {
		return errShort
	}
	return nil
}

func parseReply(b []byte) (uint64, replay.Reply, error) {
	p := parser{b: b}
	number := p.number()
	r := replay.Reply{Status: p.text(), Message: p.text(), Leaves: p.leaves()}
	return number, r, p.end()
}

func parseRequest(b []byte) (uint64, *trace.Call, error) {
	p := parser{b: b}
	number := p.number()
	call := &trace.Call{Sender: p.text(), Method: p.text(), Request: p.leaves()}
	return number, call, p.end()
}
