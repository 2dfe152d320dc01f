package replay

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"gleaner/trace"
)

// A Multiplexed connection takes several calls at once. On others, calls wait for each
// other.
type Multiplexed interface{ Multiplexed() }

// A Sharer is an executor whose nodes can share a few connections. Other executors are
// shared call by call.
type Sharer interface {
	// Share returns an executor that dials n times at most.
	Share(n int) Executor
}

// A Pusher is a connection on which the target also sends messages without a request.
// A step whose method ends in trace.Push waits for one.
type Pusher interface {
	// Pushed calls take, once, with the next push on the method's stream: at once if
	// one has come already. Cancel withdraws that.
	Pushed(method string, take func(Reply)) (cancel func())
}

// A Checker is an executor that knows which methods its target has.
type Checker interface{ Check(method string) error }

// A Witness is an executor whose target can be asked which nodes it has
// declared dead.
type Witness interface {
	Dead(context.Context) ([]string, error)
}

// A link is a connection to a role that is made again after it was lost.
type link struct {
	to   Executor
	who  Identity
	free chan struct{} // empty during a call, if the connection takes one at a time

	mu    sync.Mutex
	conn  Conn
	over  bool          // it was closed, and connects no more
	wait  time.Duration // before the next try to connect
	after time.Time     // no try to connect before this
	cause error         // why the last try failed
}

const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 5 * time.Second
)

func newLink(to Executor, who Identity) *link {
	k := &link{to: to, who: who, free: make(chan struct{}, 1)}
	k.free <- struct{}{}
	return k
}

// get gives the connection, and makes it if there is none.
func (k *link) get(ctx context.Context, dialled func(time.Duration)) (Conn, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn != nil {
		return k.conn, nil
	}
	if k.over {
		return nil, net.ErrClosed
	}
	begin := time.Now()
	if begin.Before(k.after) {
		return nil, &notYet{k.after.Sub(begin), k.cause}
	}
	conn, err := k.to.Dial(ctx, k.who)
	if err != nil {
		k.backOff(err)
		return nil, err
	}
	dialled(time.Since(begin))
	k.conn, k.wait = conn, 0
	return conn, nil
}

// notYet is the error while a link waits before it connects again.
type notYet struct {
	wait  time.Duration
	cause error
}

func (e *notYet) Error() string { return "not connected: " + e.cause.Error() }

// notSent is the error of a call that was not sent.
type notSent struct{ error }

func (e *notSent) Unwrap() error { return e.error }

func (k *link) backOff(err error) {
	k.wait = min(max(2*k.wait, firstBackoff), lastBackoff)
	k.after, k.cause = time.Now().Add(k.wait), err
}

// drop closes a broken connection.
func (k *link) drop(conn Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn == conn {
		k.conn = nil
		_ = conn.Close() // it is broken already
	}
}

// close ends the link. A beat that was due when the run ended is not sent.
func (k *link) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over = true
	if k.conn != nil {
		_ = k.conn.Close() // nothing is sent any more
		k.conn = nil
	}
}

// call makes one call over the link. After a call without a reply the connection is
// closed: a late reply would be taken for that to the next call.
func (k *link) call(ctx context.Context, call *trace.Call, dialled func(time.Duration)) (Reply, error) {
	conn, err := k.get(ctx, dialled)
	if err != nil {
		return Reply{}, &notSent{err}
	}
	if _, ok := conn.(Multiplexed); ok {
		return conn.Call(ctx, call)
	}
	select {
	case <-k.free:
		defer func() { k.free <- struct{}{} }()
	case <-ctx.Done():
		return Reply{}, ctx.Err()
	}
	reply, err := conn.Call(ctx, call)
	if err != nil && !errors.Is(err, ErrUnsendable) {
		k.drop(conn)
	}
	return reply, err
}
