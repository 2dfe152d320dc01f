package replay

import (
	"context"
	"sync"
	"time"

	"gleaner/trace"
)

// A Multiplexed connection takes several calls at once. Others are kept to one
// after another.
type Multiplexed interface{ Multiplexed() }

// A Sharer is an executor that can let many nodes speak over a few
// connections. Others are shared call by call.
type Sharer interface {
	// Share returns an executor that dials n times at most.
	Share(n int) Executor
}

// A Pusher is a connection on which the target also speaks unasked. A step
// whose method ends in trace.Push waits for that.
type Pusher interface {
	// Pushed calls take, once, with the next thing the target says unasked on
	// the method's stream: at once, if it has been said. Cancel takes that back.
	Pushed(method string, take func(Reply)) (cancel func())
}

// A Checker is an executor that knows beforehand which methods its target has.
type Checker interface{ Check(method string) error }

// A Witness is an executor whose target can be asked which nodes it has
// declared dead.
type Witness interface {
	Dead(context.Context) ([]string, error)
}

// A link is a connection to a role that comes back when it was lost.
type link struct {
	to   Executor
	who  Identity
	free chan struct{} // empty during a call of a connection that takes one at a time

	mu    sync.Mutex
	conn  Conn
	wait  time.Duration // before the next try to connect
	after time.Time     // not to be tried before
	cause error         // why not
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

// get gives the connection, and makes it where there is none.
func (k *link) get(ctx context.Context, dialled func(time.Duration)) (Conn, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn != nil {
		return k.conn, nil
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

// notYet is the error of a connection that was lost and is not to be tried yet.
type notYet struct {
	wait  time.Duration
	cause error
}

func (e *notYet) Error() string { return "not connected: " + e.cause.Error() }

// notSent is the error of a call that was not even sent.
type notSent struct{ error }

func (e *notSent) Unwrap() error { return e.error }

func (k *link) backOff(err error) {
	k.wait = min(max(2*k.wait, firstBackoff), lastBackoff)
	k.after, k.cause = time.Now().Add(k.wait), err
}

// drop gives a broken connection up.
func (k *link) drop(conn Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn == conn {
		k.conn = nil
		_ = conn.Close() // it is broken already
	}
}

func (k *link) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn != nil {
		_ = k.conn.Close() // nothing is under way any more
		k.conn = nil
	}
}

// call makes one call over the link. A connection without a reply is given up,
// because a reply that comes late would be taken for the next one's.
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
	if err != nil {
		k.drop(conn)
	}
	return reply, err
}
