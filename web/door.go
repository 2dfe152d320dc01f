package web

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A Door is a listener that strangers cannot block. Who comes in is a stranger
// until the Guard has seen the token. Strangers have places of their own, and
// few: when all are taken, one who has not said yet what he wants has to leave,
// the first to come first. So there is always a place for the next, who may
// have the token, and those who hold their connections and say nothing cost the
// others neither files nor time.
type Door struct {
	net.Listener
	Strangers, Known int // how many may be in at once

	mu        sync.Mutex
	strangers []*visitor // the first to come first
	known     int
}

// How long a stranger may stay at least, however many others come: time to say
// something, and from the first word on time to shake hands and show a token,
// also from far away or on a busy machine. The first is short, for it is how
// long those who say nothing make the next one wait. When all who are in have
// said something and none has shown a token, toSpeak is all they have: else
// words that never become a request would make the next one wait for seconds.
const (
	toSpeak = 50 * time.Millisecond
	toShow  = time.Second
)

// Accept lets the next one in.
func (d *Door) Accept() (net.Conn, error) {
	conn, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	for d.full() {
		if v := d.dispensable(); v != nil {
			v.Close()
		} else {
			time.Sleep(time.Millisecond)
		}
	}
	v := &visitor{Conn: conn, door: d, until: time.Now().Add(toSpeak)}
	d.mu.Lock()
	d.strangers = append(d.strangers, v)
	d.mu.Unlock()
	return v, nil
}

func (d *Door) full() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.strangers) >= d.Strangers
}

// dispensable is the stranger who has to leave for another to come in. One whose
// request is being looked at is not: it may bring the token.
func (d *Door) dispensable() *visitor {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for _, v := range d.strangers {
		if v.awaited && now.After(v.until) && !v.speaks(now) {
			return v
		}
	}
	for _, v := range d.strangers {
		if !v.spoken {
			return nil // one who has still to speak, and soon has to leave
		}
	}
	for _, v := range d.strangers {
		if v.awaited && now.After(v.until.Add(toSpeak-toShow)) && !unread(v.Conn) {
			return v
		}
	}
	return nil
}

// Context remembers who a server's connection belongs to, for the Guard: it is
// a server's ConnContext.
func (d *Door) Context(ctx context.Context, conn net.Conn) context.Context {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	return context.WithValue(ctx, visitorKey{}, conn)
}

type visitorKey struct{}

// enter makes who sent r one of those with the token. It reports false when
// too many of them are in. Who did not come through a Door may always enter.
func enter(r *http.Request) bool {
	v, ok := r.Context().Value(visitorKey{}).(*visitor)
	return !ok || v.enter()
}

// A visitor is a connection that came through a Door.
type visitor struct {
	net.Conn
	door    *Door
	until   time.Time // it may stay
	spoken  bool      // it has sent something
	awaited bool      // the server waits for what it sends
	known   bool      // it has shown the token
	left    bool
}

func (v *visitor) Read(p []byte) (int, error) {
	v.door.mu.Lock()
	v.awaited = true
	v.door.mu.Unlock()
	n, err := v.Conn.Read(p)
	v.door.mu.Lock()
	v.awaited = false
	if n > 0 {
		v.speak(time.Now())
	}
	v.door.mu.Unlock()
	return n, err
}

// speak gives who has sent something for the first time longer to stay. The door
// is locked.
func (v *visitor) speak(now time.Time) {
	if !v.spoken {
		v.spoken, v.until = true, now.Add(toShow)
	}
}

// speaks reports whether v has just sent its first words, which the server has
// not come to read yet. The door is locked.
func (v *visitor) speaks(now time.Time) bool {
	if v.spoken || !unread(v.Conn) {
		return false
	}
	v.speak(now)
	return true
}

// unread reports whether there is something to be read from a connection now.
func unread(conn net.Conn) (some bool) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
		some = err == nil && n > 0
	})
	return some
}

func (v *visitor) enter() bool {
	d := v.door
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.known || v.left {
		return true
	}
	if d.known >= d.Known {
		return false
	}
	v.known = true
	d.known++
	d.drop(v)
	return true
}

// Close gives the place free.
func (v *visitor) Close() error {
	v.door.mu.Lock()
	switch {
	case v.left:
	case v.known:
		v.door.known--
	default:
		v.door.drop(v)
	}
	v.left = true
	v.door.mu.Unlock()
	return v.Conn.Close()
}

// drop takes v off the list of strangers.
func (d *Door) drop(v *visitor) {
	if i := slices.Index(d.strangers, v); i >= 0 {
		d.strangers = slices.Delete(d.strangers, i, i+1)
	}
}

// A Steady listener goes on when the machine is short of what a connection
// needs: it waits until there is some again. Short is told why it waits, and
// nil when it goes on.
type Steady struct {
	net.Listener
	Short func(error)
}

const acceptAgain = 100 * time.Millisecond

// Accept fails only when the listener is closed.
func (l Steady) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		l.Short(err)
		if err == nil {
			return conn, nil
		}
		time.Sleep(acceptAgain)
	}
}
