package conn

import (
	"net"
	"sync"
)

// What is copied to be sent together, and how much of it may wait.
const (
	copyUpTo = 16 << 10
	holdUpTo = 64 << 10
)

// Replies collect what goes to a client, so that several leave by one write.
type Replies struct {
	mu      sync.Mutex
	conn    net.Conn
	waiting []byte
	err     error // of the first write that failed; nothing is sent after it
}

// NewReplies collects what goes to a connection.
func NewReplies(conn net.Conn) *Replies { return &Replies{conn: conn} }

// Add appends a reply, whose head and payload stay together. A long payload is sent at once
// with all that waits, so that it need not be copied.
func (r *Replies) Add(head, payload []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, head...)
	if len(payload) > copyUpTo {
		r.send(payload)
		return
	}
	r.waiting = append(r.waiting, payload...)
	if len(r.waiting) > holdUpTo {
		r.send(nil)
	}
}

// Flush sends all that waits.
func (r *Replies) Flush() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.send(nil)
	return r.err
}

func (r *Replies) send(payload []byte) {
	if r.err == nil && len(r.waiting) > 0 {
		if payload == nil {
			_, r.err = r.conn.Write(r.waiting)
		} else {
			_, r.err = (&net.Buffers{r.waiting, payload}).WriteTo(r.conn)
		}
		if r.err != nil {
			r.conn.Close() // so that its leader stops reading
		}
	}
	r.waiting = r.waiting[:0]
}

// Read reads from the client after all replies have been sent: a client
// may wait for them before it goes on.
func (r *Replies) Read(p []byte) (int, error) {
	if err := r.Flush(); err != nil {
		return 0, err
	}
	return r.conn.Read(p)
}
