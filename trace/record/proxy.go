package record

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Proxy passes connections on to a target and copies what they carry.
type Proxy struct {
	// Dial connects to the target. Required.
	Dial func(context.Context) (net.Conn, error)
	// Hear is called for each connection with a copy of both directions, in a
	// goroutine of its own, and returns when both are at their end. Required.
	Hear func(c Conversation)

	open  sync.WaitGroup
	mu    sync.Mutex
	conns map[net.Conn]struct{}

	Connections atomic.Int64 // accepted so far
	Lost        atomic.Int64 // connections whose recording fell behind or failed
	Refused     atomic.Int64 // connections for which the target could not be reached
}

// A Conversation is the copy of one connection.
type Conversation struct {
	Client, Target string // addresses
	tape           *tape
}

// A Piece is some bytes that one side sent.
type Piece struct {
	At     time.Time
	Answer bool // sent by the target
	Bytes  []byte
}

// Next waits for the next piece and returns it, in the order they were sent. At the end
// of the connection it returns io.EOF.
func (c Conversation) Next() (Piece, error) { return c.tape.next() }

// maxBehind is how many bytes of a connection may wait for the listener. If there are
// more, the copy ends.
const maxBehind = 64 << 20

// Serve accepts connections until ctx is done or the listener fails, and
// returns when all have ended.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() {
		l.Close()
		p.closeAll()
	})
	defer stop()
	defer p.open.Wait()
	for {
		client, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		p.Connections.Add(1)
		p.open.Go(func() { p.pass(ctx, client) })
	}
}

// keep notes an open connection, so that it is closed at the end of the recording.
func (p *Proxy) keep(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		p.conns = map[net.Conn]struct{}{}
	}
	p.conns[c] = struct{}{}
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	c.Close()
}

func (p *Proxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// pass carries one connection, both ways, until both sides are done.
func (p *Proxy) pass(ctx context.Context, client net.Conn) {
	p.keep(client)
	defer p.drop(client)
	target, err := p.Dial(ctx)
	if err != nil {
		p.Refused.Add(1)
		return
	}
	p.keep(target)
	defer p.drop(target)

	said := newTape()
	var listener, ways sync.WaitGroup
	listener.Go(func() { p.hear(Conversation{client.RemoteAddr().String(), target.RemoteAddr().String(), said}) })
	ways.Go(func() { carry(target, client, said, false) })
	ways.Go(func() { carry(client, target, said, true) })
	ways.Wait()
	said.end()
	listener.Wait()
}

// hear runs the listener, and recovers if it panics.
func (p *Proxy) hear(c Conversation) {
	defer func() {
		failed := recover() != nil
		if c.tape.stop() || failed {
			p.Lost.Add(1)
		}
	}()
	p.Hear(c)
}

// carry passes bytes from one side to the other. The copy is made first, so that a
// request is on the tape before its answer; that never waits.
func carry(to, from net.Conn, said *tape, answer bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			said.write(Piece{time.Now(), answer, buf[:n]})
			if _, err := to.Write(buf[:n]); err != nil {
				from.Close()
				return
			}
		}
		if err != nil {
			halfClose(to)
			return
		}
	}
}

// halfClose passes on that one side has closed its direction.
func halfClose(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	c.Close()
}

// errBehind is the error of a listener that fell too far behind.
var errBehind = errors.New("record: too far behind the traffic")

// A tape holds the copy of a connection until the listener has read it.
type tape struct {
	mu      sync.Mutex
	more    sync.Cond
	pieces  []Piece
	waiting int  // bytes in pieces
	ended   bool // the connection has ended
	deaf    bool // the listener has stopped
	behind  bool // because it fell too far behind
}

func newTape() *tape {
	t := new(tape)
	t.more.L = &t.mu
	return t
}

// write adds a copy of the piece. It never waits.
func (t *tape) write(p Piece) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.deaf {
		return
	}
	if t.waiting += len(p.Bytes); t.waiting > maxBehind {
		t.deaf, t.behind, t.pieces = true, true, nil
	} else {
		p.Bytes = bytes.Clone(p.Bytes)
		t.pieces = append(t.pieces, p)
	}
	t.more.Signal()
}

// end marks the end of the connection.
func (t *tape) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.more.Signal()
}

// stop marks that the listener has stopped, and reports whether it fell too far behind.
func (t *tape) stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deaf, t.pieces = true, nil
	return t.behind
}

func (t *tape) next() (Piece, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.pieces) == 0 {
		switch {
		case t.behind:
			return Piece{}, errBehind
		case t.ended:
			return Piece{}, io.EOF
		}
		t.more.Wait()
	}
	p := t.pieces[0]
	t.pieces = t.pieces[1:]
	t.waiting -= len(p.Bytes)
	return p, nil
}
