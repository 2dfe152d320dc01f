package replay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gleaner/trace"
)

// WithStandbys returns an executor for masters of which one serves at a time. Calls go to the
// first until it cannot be reached, breaks a connection, says that it stands by, or answers
// nobody for as long as a call may take; then to the next, and after the last to the first again.
func WithStandbys(masters ...Executor) Executor {
	m := &ensemble{masters: masters}
	if _, shares := masters[0].(Sharer); shares {
		return &sharing{m}
	}
	return m
}

// An ensemble is a master and those that stand by.
type ensemble struct {
	masters []Executor
	turn    atomic.Int64 // how often calls have gone over to the next
	heard   atomic.Int64 // when one answered last
}

// A sharing ensemble is one of Sharers.
type sharing struct{ *ensemble }

func (s *sharing) Share(n int) Executor {
	shared := make([]Executor, len(s.masters))
	for i, m := range s.masters {
		shared[i] = m.(Sharer).Share(n)
	}
	return &sharing{&ensemble{masters: shared}}
}

// Check asks the first: all have the same methods.
func (e *ensemble) Check(method string) error {
	if c, ok := e.masters[0].(Checker); ok {
		return c.Check(method)
	}
	return nil
}

// Dial connects a node to the master that serves, or to the first that it can be connected to.
func (e *ensemble) Dial(ctx context.Context, who Identity) (Conn, error) {
	c := &following{of: e, who: who}
	conn, turn, err := c.follow(ctx)
	for i := 1; err != nil && i < len(e.masters) && e.turn.Load() != turn && ctx.Err() == nil; i++ {
		before := err
		if conn, turn, err = c.follow(ctx); err != nil {
			err = fmt.Errorf("%w; %w", before, err)
		}
	}
	if err != nil {
		return nil, err
	}
	_, many := conn.(Multiplexed)
	_, pushes := conn.(Pusher)
	switch {
	case many && pushes:
		return pushed{multiplexed{c}}, nil
	case many:
		return multiplexed{c}, nil
	}
	return c, nil
}

// leave has calls go to the next master, unless they did since that turn.
func (e *ensemble) leave(turn int64) { e.turn.CompareAndSwap(turn, turn+1) }

// A following connection is to whatever master serves.
type following struct {
	of  *ensemble
	who Identity

	mu     sync.Mutex
	conn   Conn
	turn   int64 // in which it was made
	closed bool
}

type multiplexed struct{ *following }

func (multiplexed) Multiplexed() {}

type pushed struct{ multiplexed }

// Pushed waits for a push of the master that serves now.
func (c pushed) Pushed(method string, take func(Reply)) (cancel func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.conn.(Pusher); ok {
		return p.Pushed(method, take)
	}
	return func() {}
}

// follow gives the connection to the master that serves, and makes it if there is none. It also returns the turn in which it tried.
func (c *following) follow(ctx context.Context) (Conn, int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, 0, net.ErrClosed
	}
	turn := c.of.turn.Load()
	if c.conn != nil && c.turn == turn {
		return c.conn, turn, nil
	}
	if c.conn != nil {
		_ = c.conn.Close() // its master does not serve any more
		c.conn = nil
	}
	conn, err := c.of.masters[turn%int64(len(c.of.masters))].Dial(ctx, c.who)
	if err != nil {
		if !Starved(err) && (ctx.Err() == nil || late(ctx)) {
			c.of.leave(turn)
		}
		return nil, turn, err
	}
	c.conn, c.turn = conn, turn
	return conn, turn, nil
}

// Call makes a call to the master that serves. If that shows that it does not, the error has the call made again, to the next.
func (c *following) Call(ctx context.Context, call *trace.Call) (Reply, error) {
	conn, turn, err := c.follow(ctx)
	if err != nil {
		return Reply{}, err
	}
	began := time.Now()
	reply, err := conn.Call(ctx, call)
	switch {
	case err == nil && reply.standsBy():
		c.of.leave(turn)
		return Reply{}, fmt.Errorf("it stands by: %s", reply.Message)
	case err == nil:
		c.of.heard.Store(time.Now().UnixNano())
	case late(ctx):
		if c.of.heard.Load() < began.UnixNano() { // else it is slow, and others are answered
			c.of.leave(turn)
		}
	case !errors.Is(err, ErrUnsendable) && !Starved(err) && ctx.Err() == nil:
		c.of.leave(turn)
	}
	return reply, err
}

// late reports whether the time of a call is over.
func late(ctx context.Context) bool {
	until, limited := ctx.Deadline()
	return limited && !time.Now().Before(until)
}

// standsBy reports whether a master says that another serves.
func (r *Reply) standsBy() bool {
	class, _, _ := strings.Cut(r.Message, ":")
	return r.refused() && strings.HasSuffix(class, ".StandbyException")
}

func (c *following) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.conn == nil {
		return nil
	}
	return c.conn.Close()
}
