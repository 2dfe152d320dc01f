package conn

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	handshakeTime = 30 * time.Second
	maxHandshakes = 64

	// farewell is how long requests under way may take once the server is to
	// end, and how long their clients have to take the replies.
	farewell = 5 * time.Second
)

// A Client is a connection that was accepted. It begins with its handshake.
type Client struct {
	net.Conn
	// Working is the context of the client's requests. It ends farewell after the
	// server is to end.
	Working context.Context

	serving context.Context
	crowd   *crowd
}

// Serve accepts clients until ctx ends, and then waits for those under way. It closes the listener, and
// each client when serve returns. Its error is that of the listener.
func Serve(ctx context.Context, l net.Listener, serve func(*Client)) error {
	defer l.Close()
	var clients sync.WaitGroup
	defer clients.Wait()
	serving, end := context.WithCancel(ctx)
	defer end() // a server that cannot accept clients sends away those it has
	context.AfterFunc(serving, func() { l.Close() })
	var all crowd
	for {
		conn, err := accept(serving, l)
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept a client: %w", err)
		}
		all.enlist(conn) // here, so that they stand in the order in which they came
		c := &Client{Conn: conn, serving: serving, crowd: &all}
		clients.Go(func() { c.serve(serve) })
	}
}

// accept waits for a client. A process that has no file descriptor to spare
// gets one when a client leaves.
func accept(ctx context.Context, l net.Listener) (net.Conn, error) {
	for {
		conn, err := l.Accept()
		if err == nil || !isShortage(err) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (c *Client) serve(serve func(*Client)) {
	defer c.Close()
	defer c.crowd.delist(c.Conn)
	working, stop := context.WithCancel(context.WithoutCancel(c.serving))
	defer stop()
	defer context.AfterFunc(c.serving, func() {
		hurry(c.Conn)
		time.AfterFunc(farewell, stop)
	})()
	c.Working = working
	c.allow(time.Now().Add(handshakeTime))
	serve(c)
}

// Handshaking is the context of the handshake.
func (c *Client) Handshaking() (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.serving, handshakeTime)
}

// Welcome ends the handshake: from here on the client may take its time.
func (c *Client) Welcome() {
	c.crowd.delist(c.Conn)
	c.allow(time.Time{})
}

// allow gives a connection until a time, or hurries it if the server is to end.
func (c *Client) allow(until time.Time) {
	c.SetDeadline(until)
	if c.serving.Err() != nil {
		hurry(c.Conn)
	}
}

// hurry ends the reading of a connection; replies may still be sent for a while.
func hurry(conn net.Conn) {
	conn.SetReadDeadline(time.Now())
	conn.SetWriteDeadline(time.Now().Add(farewell))
}

// A crowd are the clients whose handshake is under way, the oldest first.
type crowd struct {
	mu    sync.Mutex
	conns []net.Conn
}

// enlist counts a handshake, and cuts the oldest when there are too many.
func (c *crowd) enlist(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.conns) == maxHandshakes {
		c.conns[0].Close()
		c.conns = c.conns[1:]
	}
	c.conns = append(c.conns, conn)
}

func (c *crowd) delist(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = slices.DeleteFunc(c.conns, func(other net.Conn) bool { return other == conn })
}
