package dataserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"gleaner/fabric/disk"
)

// grace is how long a request whose ctx ended waits for a frame of its own that is half way, before
// it breaks the connection: the frame's bytes are the caller's, who gets them back.
const grace = 100 * time.Millisecond

// A link is one connection of a client's, from its handshake on.
type link struct {
	address  string
	conn     net.Conn
	identity disk.Identity
	window   *semaphore.Weighted // of what is in flight
	ended    chan struct{}       // closed when all calls have ended

	mu      sync.Mutex
	broken  error // why no call is taken any more
	calls   map[uint64]*call
	last    uint64 // number of a call
	sending bool
	waiting []byte // frames that are sent when who is sending has sent his own
	scratch []byte // of who is sending
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
}

// newLink connects to a server for a disk, or for beats if it has no name.
func newLink(ctx context.Context, address string, cluster Cluster, name string) (*link, error) {
	c, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Now()) })()
	l := &link{address: address, conn: c, window: semaphore.NewWeighted(window), ended: make(chan struct{}), calls: map[uint64]*call{}}
	if err := l.shakeHands(ctx, cluster, name); err != nil {
		c.Close()
		return nil, err
	}
	go l.receive()
	return l, nil
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

// breaks ends the link. The receiver then tells those who wait.
func (l *link) breaks(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		l.broken = why
		l.conn.Close()
	}
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
	if err := l.send(ctx, h, payload, c); err != nil {
		l.window.Release(c.cost)
		return nil, err
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
	c.abandoned = !c.delivering
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

// send sends a frame itself if nobody else is sending, and else leaves a copy to who
// is, so that frames leave together.
func (l *link) send(ctx context.Context, h head, payload []byte, c *call) error {
	l.mu.Lock()
	if l.broken != nil {
		l.mu.Unlock()
		return fmt.Errorf("%w: %w", ErrUnreachable, l.broken)
	}
	l.last++
	h.number = l.last
	l.calls[h.number] = c
	if l.sending {
		l.waiting = append(h.encode(l.waiting), payload...)
		l.mu.Unlock()
		return nil
	}
	l.sending = true
	l.mu.Unlock()

	if ctx.Done() != nil {
		sent := make(chan struct{})
		defer close(sent)
		defer context.AfterFunc(ctx, func() { l.hurry(sent) })()
	}
	l.scratch = h.encode(l.scratch[:0])
	if len(payload) <= copyUpTo {
		l.scratch = append(l.scratch, payload...)
		l.write(net.Buffers{l.scratch})
	} else {
		l.write(net.Buffers{l.scratch, payload})
	}
	l.sent()
	return nil
}

// copyUpTo is how long a payload is copied behind its head, which costs less than to send two pieces.
const copyUpTo = 16 << 10

// hurry breaks the link if a frame is not sent soon.
func (l *link) hurry(sent <-chan struct{}) {
	select {
	case <-sent:
	case <-time.After(grace):
		l.breaks(errStalled)
	}
}

func (l *link) write(frames net.Buffers) {
	if _, err := frames.WriteTo(l.conn); err != nil {
		l.breaks(err)
	}
}

// sent has the frames that wait sent by a goroutine of its own, if there are any.
func (l *link) sent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 || l.broken != nil {
		l.sending = false
		return
	}
	go l.sendWaiting(l.waiting)
	l.waiting = nil
}

func (l *link) sendWaiting(frames []byte) {
	l.write(net.Buffers{frames})
	l.sent()
}

// receive reads answers until the link breaks, and then tells all who still wait.
func (l *link) receive() {
	in := bufio.NewReaderSize(l.conn, readAhead)
	var err error
	for err == nil {
		err = l.receiveOne(in)
	}
	l.breaks(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		c.err = fmt.Errorf("data server %s: %w: %w", l.address, ErrLost, l.broken)
		l.end(c)
	}
	l.calls = nil
	close(l.ended)
}

// end tells who waits for a call.
func (l *link) end(c *call) {
	l.window.Release(c.cost)
	close(c.done)
}

func (l *link) receiveOne(in *bufio.Reader) error {
	data, err := in.Peek(answerBytes)
	if err != nil {
		return err
	}
	a, err := decodeAnswer(data)
	if err != nil {
		return err
	}
	in.Discard(answerBytes)
	l.mu.Lock()
	c := l.calls[a.number]
	if c == nil {
		l.mu.Unlock()
		return fmt.Errorf("an answer to request %d, which is not in flight", a.number)
	}
	c.delivering = !c.abandoned
	l.mu.Unlock()
	if err := l.deliver(in, a, c); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.delivering = false
	if a.status != statusMore {
		delete(l.calls, a.number)
		l.end(c)
	}
	return nil
}

// deliver gives a call its answer.
func (l *link) deliver(in *bufio.Reader, a answer, c *call) error {
	switch {
	case !c.delivering:
		_, err := in.Discard(a.payload)
		return err
	case a.status == statusDone && c.into != nil:
		if a.payload != len(c.into) {
			return errMalformed
		}
		_, err := io.ReadFull(in, c.into)
		return err
	}
	data := make([]byte, a.payload)
	if _, err := io.ReadFull(in, data); err != nil {
		return err
	}
	if a.status == statusError {
		failure, ok := decodeError(l.address, data)
		if !ok {
			return errMalformed
		}
		c.err = failure
		return nil
	}
	c.answer = append(c.answer, data...)
	return nil
}
