package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/netutil"

	"gleaner/input"
	"gleaner/web"
)

// serving are the servers of one API.
type serving struct {
	servers []*http.Server
	names   []string
	ready   <-chan struct{} // closed when there is something to tell; who asks before waits
	closed  context.Context
	stop    context.CancelFunc
	all     sync.WaitGroup // those that serve
	log     *slog.Logger
	failed  chan<- error
}

func newServing(ready <-chan struct{}, log *slog.Logger, failed chan<- error) *serving {
	s := &serving{ready: ready, log: log, failed: failed}
	s.closed, s.stop = context.WithCancel(context.Background())
	return s
}

func (s *serving) where() string { return strings.Join(s.names, ", ") }

// close lets requests that are under way end, but not for long: one that
// follows a task's output has no end of its own. When it returns, nobody
// listens any more, and the socket is gone.
func (s *serving) close() {
	s.stop()
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	for _, server := range s.servers {
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
	}
	s.all.Wait()
}

// serve offers the API on a socket in the data directory, which the directory's
// permissions guard, and on the network, guarded by the token.
func (u *upped) serve(api *web.API, failed chan<- error) (*serving, error) {
	s := newServing(u.shown.Resumed(), u.log, failed)
	var network net.Listener
	var secure *tls.Config
	var guard *web.Guard
	if u.flags.listen != "none" {
		token, err := readToken(tokenPath(u.dir))
		if err != nil {
			return nil, err
		}
		if network, secure, guard, err = listen(u.flags); err != nil {
			return nil, err
		}
		guard.Token = token
	}
	socket, err := listenSocket(u.dir)
	if err != nil {
		if network != nil {
			network.Close()
		}
		return nil, err
	}
	// The socket has files of its own: strangers cannot take those of its user.
	socket = netutil.LimitListener(web.Steady{Listener: socket, Short: u.short.of("the socket")}, u.files.socket)
	s.start(&http.Server{Handler: api.Handler()}, socket, "socket "+socketPath(u.dir))
	if network != nil {
		s.startNetwork(u, network, secure, guard.Wrap(api.Handler()))
	}
	return s, nil
}

func (s *serving) startNetwork(u *upped, l net.Listener, secure *tls.Config, h http.Handler) {
	door := &web.Door{Listener: web.Steady{Listener: l, Short: u.short.of("the network")}, Strangers: u.files.strangers, Known: u.files.known}
	server := &http.Server{Handler: h, ConnContext: door.Context}
	if secure != nil {
		s.start(server, tls.NewListener(door, secure), "https://"+l.Addr().String())
		return
	}
	s.start(server, door, "http://"+l.Addr().String())
}

func (s *serving) start(server *http.Server, l net.Listener, name string) {
	server.ReadHeaderTimeout, server.ReadTimeout, server.IdleTimeout, server.MaxHeaderBytes = 5*time.Second, 30*time.Second, time.Minute, 1<<16
	server.ErrorLog = log.New(ownFaults{s.log}, "", 0)
	s.servers, s.names = append(s.servers, server), append(s.names, name)
	s.all.Go(func() {
		select {
		case <-s.ready:
		case <-s.closed.Done():
			l.Close()
			return
		}
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("serve %s: %w", name, err)
		}
	})
}

// ownFaults lets through what a server complains of that is our fault. What
// strangers do wrong, as a handshake that fails, would let them fill the log.
type ownFaults struct{ log *slog.Logger }

func (o ownFaults) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("panic serving")) {
		o.log.Error("a request failed", "error", string(line))
	}
	return len(line), nil
}

// listenSocket opens the socket. It stands in a directory that is ours alone.
func listenSocket(dir string) (net.Listener, error) {
	if err := os.Remove(socketPath(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err // it is a dead one's: the data directory is held by us
	}
	address, release, err := socketAddress(dir)
	if err != nil {
		return nil, err
	}
	defer release()
	l, err := net.Listen("unix", address)
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(socketPath(dir), 0o600)
}

// listen opens the network address. What is not loopback needs TLS, and then
// is called by the names in the certificate.
func listen(f upFlags) (net.Listener, *tls.Config, *web.Guard, error) {
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return nil, nil, nil, input.Errorf("--listen", "%q is not an address and a port", f.listen)
	}
	guard := &web.Guard{Host: web.Loopback}
	if (f.cert == "") != (f.key == "") {
		return nil, nil, nil, input.Errorf("--tls-cert", "goes with --tls-key")
	}
	if f.cert == "" {
		if !web.Loopback(host) {
			return nil, nil, nil, input.Errorf("--listen", "%s is not loopback; whoever reaches it could run commands here, so it needs --tls-cert and --tls-key", f.listen)
		}
		l, err := net.Listen("tcp", f.listen)
		return l, nil, guard, listenError(f, err)
	}
	cert, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, nil, nil, input.Errorf("--tls-cert", "%v", err)
	}
	guard.Host = func(name string) bool { return web.Loopback(name) || cert.Leaf.VerifyHostname(name) == nil }
	l, err := net.Listen("tcp", f.listen)
	return l, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, guard, listenError(f, err)
}

func listenError(f upFlags, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return input.Errorf("--listen", "%s is taken, perhaps by another gleaner; name another address, or none", f.listen)
	case err != nil:
		return input.Errorf("--listen", "%v", err)
	}
	return nil
}

func tokenPath(dir string) string { return filepath.Join(dir, "token") }

// readToken reads the token, or makes one.
func readToken(name string) (string, error) {
	var random [32]byte
	rand.Read(random[:])
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		token := hex.EncodeToString(random[:])
		_, err = f.WriteString(token + "\n")
		return token, errors.Join(err, f.Sync(), f.Close())
	}
	if !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	text, err := readSecret(name)
	token := strings.TrimSpace(string(text))
	if err == nil && len(token) < 2*len(random) {
		return "", input.Errorf(name, "too short for a token; 'rm %s' mends it: a new one will be made", quoted(name))
	}
	return token, err
}
