package web

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
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

// grace is how long a stranger may stay at least, however many others come:
// time to shake hands and show a token.
const grace = 20 * time.Millisecond

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
	v := &visitor{Conn: conn, door: d, since: time.Now()}
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
	for _, v := range d.strangers {
		if v.awaited && time.Since(v.since) >= grace {
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
	since   time.Time
	awaited bool // the server waits for what it sends
	known   bool // it has shown the token
	left    bool
}

func (v *visitor) Read(p []byte) (int, error) {
	v.await(true)
	defer v.await(false)
	return v.Conn.Read(p)
}

func (v *visitor) await(awaited bool) {
	v.door.mu.Lock()
	defer v.door.mu.Unlock()
	v.awaited = awaited
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
