package nbd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"

	"gleaner/fabric/conn"
)

const defaultClients = 128

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

	mu      sync.Mutex
	clients int
	devices map[string]*opened
}

// Serve answers clients until ctx ends, and then until the requests under way
// are done. It closes the listener. Its error is that of the listener.
func Serve(ctx context.Context, l net.Listener, exports Exports, options Options) error {
	if options.TLS == nil && !conn.WithinMachine(l.Addr()) {
		l.Close()
		return fmt.Errorf("nbd: %s can be reached from other machines, which needs TLS", l.Addr())
	}
	if options.Clients == 0 {
		options.Clients = defaultClients
	}
	s := &server{exports: exports, options: options, log: options.Log, devices: map[string]*opened{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := conn.Serve(ctx, l, s.serve); err != nil {
		return fmt.Errorf("nbd: %w", err)
	}
	return nil
}

// serve speaks with one client from its first byte to its last.
func (s *server) serve(c *conn.Client) {
	log := s.log.With("client", c.RemoteAddr().String())
	h, session, err := s.shakeHands(c)
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
	err = transmit(c.Working, session, h.in, h.out)
	log.Info("nbd: client left", "err", err)
}

// shakeHands leads a client to an export.
func (s *server) shakeHands(c *conn.Client) (*handshake, *session, error) {
	h := newHandshake(c.Conn)
	h.exports, h.open, h.tlsConfig = s.exports, s.open, s.options.TLS
	ctx, cancel := c.Handshaking()
	defer cancel()
	session, err := h.negotiate(ctx)
	if err != nil {
		return nil, nil, err
	}
	c.Welcome()
	return h, session, nil
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
