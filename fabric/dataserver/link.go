package dataserver

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"gleaner/fabric/disk"
)

// grace is how long a request whose ctx ended waits for a frame of its own that is half way, before
// it breaks the connection: the frame's bytes are the caller's, who gets them back.
const grace = time.Second

// A link is one connection of a client's, from its handshake on.
type link struct {
	address  string
	conn     net.Conn
	identity disk.Identity
	window   *semaphore.Weighted // of what is in flight
	answers

	mu      sync.Mutex
	broken  error // why no call is taken any more
	calls   map[uint64]*call
	last    uint64        // number of a call
	turn    chan struct{} // has one in it while somebody sends
	queue   int           // of those who wait for their turn
	waiting []byte        // short frames, for who sends next
	leaving []byte        // those that are being sent
	begun   bool          // the first of the calls in flight may have nobody yet who receives
}

// A call is a request in flight.
type call struct {
	into []byte // where the payload of the answer belongs; nil if it may be anywhere
	cost int64
	done chan struct{}

	answer     []byte
	err        error
	delivering bool // into is being filled
	abandoned  bool // nobody waits
	begun      bool // who waits for it does something else before
}

// newLink connects to a server for a disk, or for beats if it has no name.
func newLink(ctx context.Context, address string, cluster Cluster, name string) (*link, error) {
	c, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Now()) })()
	l := linkOver(c, address)
	if err := l.shakeHands(ctx, cluster, name); err != nil {
		hangUp(c)
		return nil, err
	}
	go l.attend()
	return l, nil
}

func linkOver(c net.Conn, address string) *link {
	return &link{address: address, conn: c, answers: newAnswers(c), window: semaphore.NewWeighted(window), turn: make(chan struct{}, 1), calls: map[uint64]*call{}}
}

func (l *link) shakeHands(ctx context.Context, cluster Cluster, name string) error {
	p, err := newPact(ctx, l.conn, cluster)
	if err != nil {
		return err
	}
	said, err := p.introduce(l.conn, name)
	if err != nil {
		return err
	}
	if name == "" {
		return nil
	}
	return json.Unmarshal(said, &l.identity)
}

// breaks ends the link. Who receives then tells those who wait.
func (l *link) breaks(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		l.broken = why
		hangUp(l.conn)
	}
}

// hangUp closes a connection without a goodbye of TLS's, which would wait for who is not there any more.
func hangUp(c net.Conn) {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	c.Close()
}

func (l *link) whole() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken == nil
}

// ask sends a request and waits for its answer. What is read goes into a buffer, if there
// is one, and else is given back.
func (l *link) ask(ctx context.Context, h head, payload, into []byte) ([]byte, error) {
	c := &call{into: into, cost: max(requestCost, int64(len(payload)), int64(len(into))), done: make(chan struct{})}
	if err := l.window.Acquire(ctx, c.cost); err != nil {
		return nil, err
	}
	h.payload = len(payload)
	alone, err := l.send(ctx, h, payload, c)
	if err != nil {
		return nil, err
	}
	return l.await(ctx, c, alone)
}

// begin sends a short request that is answered with nothing, and gives what waits for that: a caller may begin several, over several links, and then wait
// for one after the other. It gives nil if that is not possible now.
func (l *link) begin(ctx context.Context, h head, payload []byte) (wait func() error) {
	c := &call{cost: max(requestCost, int64(len(payload))), done: make(chan struct{}), begun: true}
	if !l.window.TryAcquire(c.cost) {
		return nil
	}
	h.payload = len(payload)
	alone, err := l.send(ctx, h, payload, c)
	if err != nil {
		return nil
	}
	return func() error {
		_, err := l.await(ctx, c, alone)
		return err
	}
}

// await waits for the answer of a call that was sent.
func (l *link) await(ctx context.Context, c *call, alone bool) ([]byte, error) {
	if alone {
		l.receiveFor(ctx, c)
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		if l.abandon(c) {
			return nil, ctx.Err()
		}
	}
	return c.answer, c.err
}

// abandon gives up a call, unless it is being answered: then it waits for that.
func (l *link) abandon(c *call) bool {
	l.mu.Lock()
	select {
	case <-c.done: // as ctx ended
	default:
		c.abandoned = !c.delivering
	}
	l.mu.Unlock()
	if c.abandoned {
		return true
	}
	select {
	case <-c.done:
	case <-time.After(grace):
		l.breaks(errStalled)
		<-c.done
	}
	return false
}

var errStalled = errors.New("the connection stalled within a frame")

// send sends a frame when nobody else is sending. A short one does not wait for that: a copy is left to who
// sends next, so that frames leave together. It says whether nothing else is in flight.
func (l *link) send(ctx context.Context, h head, payload []byte, c *call) (alone bool, err error) {
	l.mu.Lock()
	if l.broken != nil {
		l.mu.Unlock()
		l.window.Release(c.cost)
		return false, fmt.Errorf("data server %s: %w: %w", l.address, ErrUnreachable, l.broken)
	}
	l.last++
	h.number = l.last
	short := len(payload) <= copyUpTo
	if short {
		l.waiting = append(h.encode(l.waiting), payload...)
	} else {
		l.queue++
	}
	if alone = len(l.calls) == 0; alone {
		l.begun = c.begun
	} else if l.begun {
		l.begun = false
		l.want()
	}
	l.calls[h.number] = c
	taken := l.takeTurn()
	l.mu.Unlock()
	if short {
		if taken {
			if !alone {
				runtime.Gosched() // who is about to send as well does so with this
			}
			l.sendNow(ctx, nil, nil)
		}
		return alone, nil
	}
	if !taken {
		select {
		case l.turn <- struct{}{}:
		case <-ctx.Done():
			l.withdraw(h.number)
			return false, ctx.Err()
		}
	}
	l.mu.Lock()
	l.queue--
	l.mu.Unlock()
	l.sendNow(ctx, h.encode(make([]byte, 0, headBytes)), payload)
	return alone, nil
}

// copyUpTo is how long the payload of a short frame is.
const copyUpTo = 16 << 10

// takeTurn takes the right to send, if nobody has it.
func (l *link) takeTurn() bool {
	select {
	case l.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

// withdraw takes back a call of which nothing was sent, unless the link broke and ended it. Frames that wait
// may have been left to it.
func (l *link) withdraw(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.calls[number]; c != nil {
		delete(l.calls, number)
		l.end(c)
	}
	l.queue--
	if len(l.waiting) > 0 && l.takeTurn() {
		go l.sendAll(nil, nil)
	}
}

// sendNow sends the frames that wait and then one more, for a caller who has the turn and until its
// ctx ends.
func (l *link) sendNow(ctx context.Context, head, payload []byte) {
	if ctx.Done() != nil {
		sent := make(chan struct{})
		defer close(sent)
		defer context.AfterFunc(ctx, func() { l.hurry(sent) })()
	}
	l.sendAll(head, payload)
}

// hurry breaks the link if a frame is not sent soon.
func (l *link) hurry(sent <-chan struct{}) {
	select {
	case <-sent:
	case <-time.After(grace):
		l.breaks(errStalled)
	}
}

// sendAll is sendNow for as long as it takes. Then it gives the turn to the next, or to a goroutine
// of its own if there are only short frames left.
func (l *link) sendAll(head, payload []byte) {
	l.mu.Lock()
	l.waiting, l.leaving = l.leaving[:0], l.waiting
	l.mu.Unlock()
	frames := net.Buffers{l.leaving}
	if len(payload) > 0 {
		frames = net.Buffers{append(l.leaving, head...), payload}
	}
	if _, err := frames.WriteTo(l.conn); err != nil {
		l.breaks(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) > 0 && l.queue == 0 && l.broken == nil {
		go l.sendAll(nil, nil)
		return
	}
	<-l.turn
}
