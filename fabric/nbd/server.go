package nbd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	handshakeTime  = 30 * time.Second
	maxHandshakes  = 64
	defaultClients = 128

	// farewell is how long requests under way may take once the server is to
	// end, and how long their clients have to take the replies.
	farewell = 5 * time.Second
)

// Options are what a server may be told beside its exports.
type Options struct {
	TLS     *tls.Config  // if set, every client must start TLS; needed beyond the loopback
	Clients int          // the most connections with an export open; 0 means 128
	Log     *slog.Logger // says who came and why they left; nil says nothing
}

// A server is one call of Serve.
type server struct {
	exports Exports
	options Options
	log     *slog.Logger

	mu         sync.Mutex
	handshakes []net.Conn // those under way, oldest first
	clients    int
	devices    map[string]*opened
}

// Serve answers clients until ctx ends, and then until the requests under way
// are done. It closes the listener. Its error is that of the listener.
func Serve(ctx context.Context, l net.Listener, exports Exports, options Options) error {
	defer l.Close()
	if options.TLS == nil && !withinMachine(l.Addr()) {
		return fmt.Errorf("nbd: %s can be reached from other machines, which needs TLS", l.Addr())
	}
	if options.Clients == 0 {
		options.Clients = defaultClients
	}
	s := &server{exports: exports, options: options, log: options.Log, devices: map[string]*opened{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var connections sync.WaitGroup
	defer connections.Wait()
	serving, end := context.WithCancel(ctx)
	defer end() // a server that cannot accept clients sends away those it has
	context.AfterFunc(serving, func() { l.Close() })
	for {
		conn, err := accept(serving, l)
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("nbd: accept a client: %w", err)
		}
		s.enlist(conn) // here, so that they stand in the order in which they came
		connections.Go(func() { s.serve(serving, conn) })
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

// serve speaks with one client from its first byte to its last.
func (s *server) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	device, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		hurry(conn)
		time.AfterFunc(farewell, stop)
	})()

	log := s.log.With("client", conn.RemoteAddr().String())
	h, session, err := s.shakeHands(ctx, conn)
	if err != nil {
		if err != errLeft {
			log.Info("nbd: handshake failed", "err", err)
		}
		return
	}
	defer h.conn.Close() // which under TLS says goodbye
	defer session.leave()
	log = log.With("export", session.export.Name)
	log.Info("nbd: client came")
	err = transmit(device, session, h.in, h.out)
	log.Info("nbd: client left", "err", err)
}

// shakeHands leads a client to an export, within handshakeTime.
func (s *server) shakeHands(ctx context.Context, conn net.Conn) (*handshake, *session, error) {
	defer s.delist(conn)
	allow(ctx, conn, time.Now().Add(handshakeTime))
	h := newHandshake(conn)
	h.exports, h.open, h.tlsConfig = s.exports, s.open, s.options.TLS
	within, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	session, err := h.negotiate(within)
	if err != nil {
		return nil, nil, err
	}
	allow(ctx, conn, time.Time{})
	return h, session, nil
}

// allow gives a connection until a time, or hurries it if the server is to end.
func allow(ctx context.Context, conn net.Conn, until time.Time) {
	conn.SetDeadline(until)
	if ctx.Err() != nil {
		hurry(conn)
	}
}

// hurry ends the reading of a connection; replies may still be sent for a while.
func hurry(conn net.Conn) {
	conn.SetReadDeadline(time.Now())
	conn.SetWriteDeadline(time.Now().Add(farewell))
}

// enlist counts a handshake, and cuts the oldest when there are too many: a client
// that connects and is silent keeps nobody out.
func (s *server) enlist(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.handshakes) == maxHandshakes {
		s.handshakes[0].Close()
		s.handshakes = s.handshakes[1:]
	}
	s.handshakes = append(s.handshakes, conn)
}

func (s *server) delist(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handshakes = slices.DeleteFunc(s.handshakes, func(c net.Conn) bool { return c == conn })
}

// An opened is a device with clients, or one that is being opened or closed.
type opened struct {
	server *server
	name   string
	claims int // of clients, and of those who wait to become one; kept by the server's lock

	mu      sync.Mutex // held while the device is opened or closed
	device  Device
	clients int
}

// open opens a device for one client more, or joins those who have it open.
func (s *server) open(ctx context.Context, name string) (*opened, error) {
	o, err := s.claim(name)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.device == nil {
		device, err := s.exports.Open(ctx, name)
		if err != nil {
			s.unclaim(o)
			return nil, err
		}
		o.device = device
	}
	o.clients++
	return o, nil
}

// leave takes a client from a device, and closes it after the last.
func (o *opened) leave() {
	defer o.server.unclaim(o)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clients--
	if o.clients > 0 {
		return
	}
	if err := o.device.Close(); err != nil {
		o.server.log.Error("nbd: close an export", "export", o.name, "err", err)
	}
	o.device = nil
}

func (s *server) claim(name string) (*opened, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients == s.options.Clients {
		return nil, fmt.Errorf("%d clients have an export open, which is the most", s.clients)
	}
	s.clients++
	o := s.devices[name]
	if o == nil {
		o = &opened{server: s, name: name}
		s.devices[name] = o
	}
	o.claims++
	return o, nil
}

func (s *server) unclaim(o *opened) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients--
	o.claims--
	if o.claims == 0 {
		delete(s.devices, o.name)
	}
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
