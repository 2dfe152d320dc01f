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

// A Door is a listener that strangers cannot block. A connection is a stranger
// until the Guard has seen the token. There are separate, few places for
// strangers: when all are taken, the oldest one that has sent no request is
// closed. So there is always a place for the next connection, which may have the
// token, and connections that stay open without sending anything cost the others
// neither files nor time.
type Door struct {
	net.Listener
	Strangers, Known int // how many may be in at once

	mu        sync.Mutex
	strangers []*visitor // the oldest first
	known     int
}

// How long a stranger may stay at least, however many others come: time to send
// the first bytes (toSpeak), and from then on time for the handshake and the token
// (toShow), also from far away or on a busy machine. The first is short, because
// silent connections make the next one wait that long. When all strangers have sent
// something and none has shown a token, they too have only toSpeak: otherwise bytes
// that never become a request would make the next connection wait for seconds.
const (
	toSpeak = 50 * time.Millisecond
	toShow  = time.Second
)

// Accept returns the next connection.
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

// dispensable is the stranger to close for another connection. One whose request is
// being read is not: it may have the token.
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
			return nil // it still has time to send something
		}
	}
	for _, v := range d.strangers {
		if v.awaited && now.After(v.until.Add(toSpeak-toShow)) && !unread(v.Conn) {
			return v
		}
	}
	return nil
}

// Context stores the connection for the Guard: it is a server's ConnContext.
func (d *Door) Context(ctx context.Context, conn net.Conn) context.Context {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	return context.WithValue(ctx, visitorKey{}, conn)
}

type visitorKey struct{}

// enter counts the connection of r as one with the token. It reports false if there
// are too many of these. A connection that did not come through a Door may always
// enter.
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

// speak lets a connection that has sent its first bytes stay longer. The door is
// locked.
func (v *visitor) speak(now time.Time) {
	if !v.spoken {
		v.spoken, v.until = true, now.Add(toShow)
	}
}

// speaks reports whether v has just sent its first bytes, which the server has not
// read yet. The door is locked.
func (v *visitor) speaks(now time.Time) bool {
	if v.spoken || !unread(v.Conn) {
		return false
	}
	v.speak(now)
	return true
}

// unread reports whether a connection has bytes to read now.
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

// Close frees the place.
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

// drop removes v from the strangers.
func (d *Door) drop(v *visitor) {
	if i := slices.Index(d.strangers, v); i >= 0 {
		d.strangers = slices.Delete(d.strangers, i, i+1)
	}
}

// A Steady listener does not fail when the machine is short of what a connection
// needs: it waits until that is available. It calls Short with the reason for
// waiting, and with nil when it continues.
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
