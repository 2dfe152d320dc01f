package hadooprpc

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// A link is one connection of one user to one protocol. Calls may overlap.
type link struct {
	conn   net.Conn
	client [16]byte

	writing sync.Mutex

	mu      sync.Mutex
	last    int32
	waiting map[int32]chan<- answer
	broken  error // why the link cannot be used any more
}

// An answer is a reply before it is decoded.
type answer struct {
	header responseHeader
	body   []byte
	err    error
}

// said is the reason that the server gave.
func (h responseHeader) said() string {
	if h.message == "" {
		return h.class
	}
	return h.message
}

// take reads the header of a frame.
func (h *responseHeader) take(buf []byte) (body []byte, err error) {
	head, body, err := next(buf)
	if err != nil {
		return nil, err
	}
	return body, h.parse(head)
}

// open opens a link on a connection. With a token it logs in; without, it names the user
// and the server trusts it.
func open(ctx context.Context, c net.Conn, user, protocol string, token *Token) (*link, error) {
	if until, ok := ctx.Deadline(); ok {
		c.SetDeadline(until)
	}
	r := bufio.NewReaderSize(c, 1<<11)
	l := &link{conn: c, waiting: map[int32]chan<- answer{}}
	rand.Read(l.client[:])
	hello := preamble(authNone)
	if token != nil {
		if _, err := c.Write(preamble(authSASL)); err != nil {
			return nil, err
		}
		if err := login(c, r, *token); err != nil {
			return nil, err
		}
		hello, user = nil, "" // the token names the user
	}
	header := requestHeader{call: callContext, client: l.client[:]}.append(nil)
	if _, err := c.Write(append(hello, frame(header, connectionContext(user, protocol))...)); err != nil {
		return nil, err
	}
	c.SetDeadline(time.Time{})
	go l.read(r)
	return l, nil
}

// call sends a request behind its method's header, and waits for its reply.
func (l *link) call(ctx context.Context, method, request []byte) (answer, error) {
	reply := make(chan answer, 1)
	id, err := l.register(reply)
	if err != nil {
		return answer{}, err
	}
	buf := buffers.Get().(*[]byte)
	header := requestHeader{call: id, client: l.client[:]}.append((*buf)[:0])
	*buf = appendFrame(header, header, method, request)
	err = l.write(ctx, (*buf)[len(header):])
	buffers.Put(buf)
	if err != nil {
		l.fail(err)
		a := <-reply // what broke the link first
		return a, a.err
	}
	select {
	case a := <-reply:
		return a, a.err
	case <-ctx.Done():
		l.mu.Lock()
		delete(l.waiting, id) // a late reply is dropped
		l.mu.Unlock()
		return answer{}, ctx.Err()
	}
}

func (l *link) register(reply chan<- answer) (int32, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return 0, l.broken
	}
	l.last = (l.last + 1) & (1<<30 - 1)
	l.waiting[l.last] = reply
	return l.last, nil
}

func (l *link) write(ctx context.Context, frame []byte) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	until, _ := ctx.Deadline() // zero, for no deadline, if there is none
	l.conn.SetWriteDeadline(until)
	_, err := l.conn.Write(frame)
	return err
}

// idle is how long an unused connection stays open, as in Hadoop's own clients
// (ipc.client.connection.maxidletime).
const idle = 10 * time.Second

var errIdle = errors.New("it was idle")

// await waits for something to read, and closes the link if it is idle.
func (l *link) await(r *bufio.Reader) error {
	for {
		l.conn.SetReadDeadline(time.Now().Add(idle))
		_, err := r.Peek(1)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			l.conn.SetReadDeadline(time.Time{})
			return err
		}
		if l.unused() {
			return errIdle
		}
	}
}

// unused closes a link without calls under way.
func (l *link) unused() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 && l.broken == nil {
		l.broken = errIdle
	}
	return l.broken != nil
}

// read hands every reply to the call that waits for it.
func (l *link) read(r *bufio.Reader) {
	for {
		var buf []byte
		err := l.await(r)
		if err == nil {
			buf, err = readFrame(r)
		}
		var a answer
		if err == nil {
			a.body, err = a.header.take(buf)
		}
		if err == nil && a.header.status == fatal {
			err = fmt.Errorf("the server ended the connection: %s", a.header.said())
		}
		if err != nil {
			l.fail(err)
			return
		}
		l.mu.Lock()
		reply := l.waiting[a.header.call]
		delete(l.waiting, a.header.call)
		l.mu.Unlock()
		if reply != nil {
			reply <- a
		}
	}
}

// fail ends the link and all calls that wait.
func (l *link) fail(err error) {
	if errors.Is(err, errFrame) {
		err = fmt.Errorf("%w: %w", errForeign, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		l.broken = err
	}
	l.conn.Close()
	for id, reply := range l.waiting {
		reply <- answer{err: l.broken}
		delete(l.waiting, id)
	}
}

func (l *link) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken == nil
}
