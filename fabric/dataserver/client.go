package dataserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"gleaner/fabric/disk"
)

const (
	dialTime     = 5 * time.Second
	firstBackoff = 50 * time.Millisecond
	longestWait  = 5 * time.Second
)

// A Client reaches the disks of one data server. It connects when it is used, and again when a
// connection broke.
type Client struct {
	address string
	cluster Cluster

	mu     sync.Mutex
	lines  map[string]*line // by disk; beats have no name
	closed bool
}

// NewClient makes a client for an address, of a server that may not be up yet.
func NewClient(address string, cluster Cluster) (*Client, error) {
	if err := CheckAddress(address); err != nil {
		return nil, fmt.Errorf("dataserver: %w", err)
	}
	return &Client{address: address, cluster: cluster, lines: map[string]*line{}}, nil
}

// Dial is NewClient for a server that is up.
func Dial(ctx context.Context, address string, cluster Cluster) (*Client, error) {
	c, err := NewClient(address, cluster)
	if err != nil {
		return nil, err
	}
	if _, err := c.Beat(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Address is that of the server.
func (c *Client) Address() string { return c.address }

// Disk gives a disk of the server by the name in its identity.
func (c *Client) Disk(name string) Disk { return &remote{c.line(name), 0} }

// Opened gives a disk as a beat told of it. When it is opened again, and may have lost what was not synced, all requests are ErrReopened.
func (c *Client) Opened(id disk.Identity) Disk { return &remote{c.line(id.Disk), id.Opened} }

// Beat asks how the server is. A server that does not answer until the deadline of
// ctx is given up: all that is in flight is ErrLost.
func (c *Client) Beat(ctx context.Context) (Beat, error) {
	var b Beat
	data, err := c.line("").ask(ctx, head{op: opBeat}, nil, nil)
	if errors.Is(err, context.DeadlineExceeded) {
		c.hangUp(errors.New("no beat came"))
	}
	if err != nil {
		return b, err
	}
	return b, json.Unmarshal(data, &b)
}

// Close ends all connections; what is in flight is ErrLost.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.hangUp(errClosed)
}

var errClosed = errors.New("the client is closed")

// hangUp breaks all connections.
func (c *Client) hangUp(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lines {
		l.hangUp(why)
	}
}

func (c *Client) line(name string) *line {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lines[name]
	if l == nil {
		l = &line{client: c, name: name}
		c.lines[name] = l
	}
	return l
}

func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// A line is the way to one disk: a link, and another when it broke.
type line struct {
	client *Client
	name   string

	mu      sync.Mutex
	link    *link
	dialing chan struct{} // closed when a dial has ended; nil if there is none
	failed  error         // the last dial
	wait    time.Duration // between the last dial and the next
	next    time.Time     // no dial before
}

// ask sends a request, over a new link if need be.
func (l *line) ask(ctx context.Context, h head, payload, into []byte) ([]byte, error) {
	link, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	return l.askLink(ctx, link, h, payload, into)
}

func (l *line) askLink(ctx context.Context, link *link, h head, payload, into []byte) ([]byte, error) {
	data, err := link.ask(ctx, h, payload, into)
	return data, l.named(ctx, err)
}

// named is the error of a request, which says whose it is if ctx ended.
func (l *line) named(ctx context.Context, err error) error {
	if err != nil && err == ctx.Err() {
		return l.error(err)
	}
	return err
}

func (l *line) error(err error) error {
	return fmt.Errorf("data server %s: %w", l.client.address, err)
}

// get gives a link that is whole, or says that there is none. Those who come while it is dialed
// wait for that.
func (l *line) get(ctx context.Context) (*link, error) {
	for {
		link, dialed, err := l.look()
		if link != nil || err != nil {
			return link, err
		}
		select {
		case <-dialed:
		case <-ctx.Done():
			return nil, l.error(fmt.Errorf("%w: %w", ErrUnreachable, ctx.Err()))
		}
	}
}

// look gives a link, or what to wait for, or why there is neither.
func (l *line) look() (*link, <-chan struct{}, error) {
	if l.client.isClosed() {
		return nil, nil, l.error(fmt.Errorf("%w: %w", ErrUnreachable, errClosed))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.link != nil && l.link.whole() {
		return l.link, nil, nil
	}
	if l.dialing == nil {
		if time.Now().Before(l.next) {
			return nil, nil, l.error(fmt.Errorf("%w: %w", ErrUnreachable, l.failed))
		}
		l.dialing = make(chan struct{})
		go l.dial()
	}
	return nil, l.dialing, nil
}

func (l *line) dial() {
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	link, err := newLink(ctx, l.client.address, l.client.cluster, l.name)
	l.dialed(link, err)
	if link != nil && l.client.isClosed() { // Close may have looked before the link was there
		link.breaks(errClosed)
	}
}

func (l *line) dialed(link *link, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.link, l.failed = link, err
	if err == nil {
		l.wait = 0
	} else {
		l.wait = min(max(2*l.wait, firstBackoff), longestWait)
	}
	l.next = time.Now().Add(l.wait)
	close(l.dialing)
	l.dialing = nil
}

func (l *line) hangUp(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.link != nil {
		l.link.breaks(why)
	}
}
