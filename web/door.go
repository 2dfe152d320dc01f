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
// few: when all are taken, the one who came first has to leave. So there is
// always a place for the next, who may have the token, and those who hold
// their connections and say nothing cost the others neither files nor time.
type Door struct {
	net.Listener
	Strangers, Known int // how many may be in at once

	mu        sync.Mutex
	strangers []*visitor // the first to come first
	known     int
}

// grace is how long a stranger may stay at least, however many others come:
// time to shake hands and show a token. While all places are taken by strangers
// who have just come, the next waits outside.
const grace = 100 * time.Millisecond

// Accept lets the next one in.
func (d *Door) Accept() (net.Conn, error) {
	conn, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	for {
		first, wait := d.full()
		if first == nil {
			break
		}
		if wait > 0 {
			time.Sleep(wait)
			continue
		}
		first.Close()
	}
	v := &visitor{Conn: conn, door: d, since: time.Now()}
	d.mu.Lock()
	d.strangers = append(d.strangers, v)
	d.mu.Unlock()
	return v, nil
}

// full gives the stranger who has to leave before another can come in, and for
// how long he may stay; nil when there is a place.
func (d *Door) full() (first *visitor, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.strangers) < d.Strangers {
		return nil, 0
	}
	return d.strangers[0], grace - time.Since(d.strangers[0].since)
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
	door  *Door
	since time.Time
	known bool // has shown the token
	left  bool
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
