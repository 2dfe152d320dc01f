package web

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A Serving runs several servers together, each on a listener.
type Serving struct {
	Ready <-chan struct{} // closed when requests can be answered; earlier ones wait
	Log   *slog.Logger
	// Patience is how long Run waits for requests under way when it ends; a second if 0:
	// one that follows a task's output may never end.
	Patience time.Duration

	servers   []*http.Server
	listeners []net.Listener
	names     []string
}

// Add adds a server on one more listener, whose name is for people.
func (s *Serving) Add(server *http.Server, l net.Listener, name string) {
	server.ReadHeaderTimeout, server.ReadTimeout, server.IdleTimeout, server.MaxHeaderBytes = 5*time.Second, 30*time.Second, time.Minute, 1<<16
	server.ErrorLog = log.New(ownFaults{s.Log}, "", 0)
	s.servers, s.listeners, s.names = append(s.servers, server), append(s.listeners, l), append(s.names, name)
}

// String lists the listeners.
func (s *Serving) String() string { return strings.Join(s.names, ", ") }

// Run serves until ctx is done or a listener fails. When it returns, all listeners
// are closed, and sockets are removed.
func (s *Serving) Run(ctx context.Context) error {
	select {
	case <-s.Ready:
	case <-ctx.Done():
		for _, l := range s.listeners {
			l.Close()
		}
		return ctx.Err()
	}
	failed := make(chan error, len(s.servers))
	var all sync.WaitGroup
	for i, server := range s.servers {
		all.Go(func() {
			if err := server.Serve(s.listeners[i]); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serve %s: %w", s.names[i], err)
			}
		})
	}
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.shutDown()
	all.Wait()
	return err
}

// shutDown waits for requests under way, within Patience.
func (s *Serving) shutDown() {
	ctx, stop := context.WithTimeout(context.Background(), cmp.Or(s.Patience, time.Second))
	defer stop()
	for _, server := range s.servers {
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
	}
}

// ownFaults logs only the server's complaints that are our fault. Faults of
// strangers, such as a failed handshake, would let them fill the log.
type ownFaults struct{ log *slog.Logger }

func (o ownFaults) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("panic serving")) {
		o.log.Error("a request failed", "error", string(line))
	}
	return len(line), nil
}
