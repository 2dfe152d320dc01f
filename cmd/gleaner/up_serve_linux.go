package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gleaner/input"
	"gleaner/web"
)

// serving are the servers of one API.
type serving struct {
	servers []*http.Server
	names   []string
}

func (s *serving) where() string { return strings.Join(s.names, ", ") }

// close lets requests that are under way end, but not for long: one that
// follows a task's output has no end of its own.
func (s *serving) close() {
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	for _, server := range s.servers {
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
	}
}

// serve offers the API on a socket in the data directory, which the directory's
// permissions guard, and on the network, guarded by the token.
func serve(dir string, f upFlags, api *web.API, failed chan<- error) (*serving, error) {
	s := &serving{}
	var network net.Listener
	var guard *web.Guard
	if f.listen != "none" {
		token, err := readToken(filepath.Join(dir, "token"))
		if err != nil {
			return nil, err
		}
		if network, guard, err = listen(f); err != nil {
			return nil, err
		}
		guard.Token = token
	}
	socket, err := listenSocket(dir)
	if err != nil {
		if network != nil {
			network.Close()
		}
		return nil, err
	}
	s.start(socket, "socket "+socketPath(dir), api.Handler(), failed)
	if network != nil {
		scheme := "http"
		if f.cert != "" {
			scheme = "https"
		}
		s.start(network, scheme+"://"+network.Addr().String(), guard.Wrap(api.Handler()), failed)
	}
	return s, nil
}

func (s *serving) start(l net.Listener, name string, h http.Handler, failed chan<- error) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 16}
	s.servers, s.names = append(s.servers, server), append(s.names, name)
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve %s: %w", name, err)
		}
	}()
}

func listenSocket(dir string) (net.Listener, error) {
	if err := os.Chmod(filepath.Dir(socketPath(dir)), 0o700); err != nil {
		return nil, err
	}
	if err := os.Remove(socketPath(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err // it is a dead one's: the data directory is held by us
	}
	address, release, err := socketAddress(dir)
	if err != nil {
		return nil, err
	}
	defer release()
	return net.Listen("unix", address)
}

// listen opens the network address. What is not loopback needs TLS, and then
// is called by the names in the certificate.
func listen(f upFlags) (net.Listener, *web.Guard, error) {
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return nil, nil, input.Errorf("--listen", "%q is not an address and a port", f.listen)
	}
	guard := &web.Guard{Host: web.Loopback}
	if (f.cert == "") != (f.key == "") {
		return nil, nil, input.Errorf("--tls-cert", "goes with --tls-key")
	}
	if f.cert == "" {
		if !web.Loopback(host) {
			return nil, nil, input.Errorf("--listen", "%s is not loopback; whoever reaches it could run commands here, so it needs --tls-cert and --tls-key", f.listen)
		}
		l, err := net.Listen("tcp", f.listen)
		return l, guard, listenError(f, err)
	}
	cert, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, nil, input.Errorf("--tls-cert", "%v", err)
	}
	guard.Host = func(name string) bool { return web.Loopback(name) || cert.Leaf.VerifyHostname(name) == nil }
	l, err := tls.Listen("tcp", f.listen, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	return l, guard, listenError(f, err)
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
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", input.Errorf(name, "others may read this token (mode %04o); remove it, and a new one will be made", info.Mode().Perm())
	}
	text, err := os.ReadFile(name)
	token := strings.TrimSpace(string(text))
	if err == nil && len(token) < 2*len(random) {
		return "", input.Errorf(name, "too short for a token; remove it, and a new one will be made")
	}
	return token, err
}
