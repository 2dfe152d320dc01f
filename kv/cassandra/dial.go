package cassandra

import (
	"context"
	"net"
	"sync"
	"time"
)

// patience is how long a node may be silent after it was asked something. The
// driver asks every five seconds whether it is there, so one that is silent for
// longer is gone, or the network to it; by itself the driver takes minutes to notice.
const patience = 10 * time.Second

// A dialer makes connections that break when the node is silent for too long.
type dialer struct {
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	patience time.Duration
}

func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &impatientConn{Conn: conn, patience: d.patience}
	c.timer = time.AfterFunc(d.patience, func() { conn.Close() })
	c.timer.Stop() // nothing was asked yet
	return c, nil
}

type impatientConn struct {
	net.Conn
	patience time.Duration
	mu       sync.Mutex
	asked    bool // and not answered since
	timer    *time.Timer
}

func (c *impatientConn) Write(p []byte) (int, error) {
	c.expect(true)
	return c.Conn.Write(p)
}

func (c *impatientConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.expect(false)
	}
	return n, err
}

func (c *impatientConn) Close() error {
	c.timer.Stop()
	return c.Conn.Close()
}

// expect notes that something was asked, or that there was an answer.
func (c *impatientConn) expect(answer bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case answer && !c.asked:
		c.timer.Reset(c.patience)
	case !answer:
		c.timer.Stop()
	}
	c.asked = answer
}
