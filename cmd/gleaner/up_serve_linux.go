package main

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/net/netutil"

	"gleaner/input"
	"gleaner/web"
)

// serve offers the API on a socket in the data directory, which the directory's
// permissions guard, and on the network, guarded by the token, with the pages beside it. base is
// the address of the pages; "" if there is no network.
func (u *wiring) serve(a *web.API, pages http.Handler) (s *web.Serving, base string, err error) {
	api := a.Handler()
	s = &web.Serving{Ready: u.shown.Resumed(), Log: u.log}
	var network net.Listener
	var secure *tls.Config
	var guard *web.Guard
	if u.listen != "none" {
		token, err := readToken(tokenPath(u.dir))
		if err != nil {
			return nil, "", err
		}
		if network, secure, guard, err = listen(u.upFlags); err != nil {
			return nil, "", err
		}
		guard.Token, guard.Browsers = token, u.browsers
		base = address(network, secure)
	}
	socket, err := listenSocket(socketPath(u.dir), 0o600)
	if err != nil {
		if network != nil {
			network.Close()
		}
		return nil, "", err
	}
	// The socket has its own share of files: strangers cannot use it up, nor can users.
	places := u.files.socket
	if u.users != "" {
		places /= 2
		if err := u.serveUsers(s, a, places); err != nil {
			return nil, "", errors.Join(err, socket.Close())
		}
	}
	socket = netutil.LimitListener(web.Steady{Listener: socket, Short: u.short.Of("the socket")}, places)
	s.Add(&http.Server{Handler: withLinks(api, u.browsers, base)}, socket, "socket "+socketPath(u.dir))
	if network == nil {
		return s, "", nil
	}
	door := &web.Door{Listener: web.Steady{Listener: network, Short: u.short.Of("the network")}, Strangers: u.files.strangers, Known: u.files.known}
	server := &http.Server{Handler: guard.Wrap(u.browsers.Handler(api, pages)), ConnContext: door.Context}
	if secure != nil {
		s.Add(server, tls.NewListener(door, secure), "https://"+network.Addr().String())
	} else {
		s.Add(server, door, "http://"+network.Addr().String())
	}
	return s, base, nil
}

// address is what a browser calls a listener: by a name in the certificate, if there is one.
func address(l net.Listener, secure *tls.Config) string {
	if secure == nil {
		return "http://" + l.Addr().String()
	}
	host, port, _ := net.SplitHostPort(l.Addr().String())
	cert := secure.Certificates[0].Leaf
	for _, ip := range cert.IPAddresses {
		host = ip.String()
	}
	for _, name := range cert.DNSNames {
		if !strings.Contains(name, "*") {
			host = name
		}
	}
	return "https://" + net.JoinHostPort(host, port)
}

// withLinks adds to the API what only the owner of the data may ask for: links that
// let a browser in.
func withLinks(api http.Handler, browsers *web.Browsers, base string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", api)
	mux.HandleFunc("POST /api/v1/link", browsers.LinkTo(base))
	return mux
}

// listenSocket opens a socket, in a directory in which only we can write.
func listenSocket(path string, mode fs.FileMode) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err // an old socket is a dead process's: we hold the data directory
	}
	address, release, err := socketAddress(path)
	if err != nil {
		return nil, err
	}
	defer release()
	l, err := net.Listen("unix", address)
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(path, mode)
}

// listen opens the network address. Beyond loopback it needs TLS, and then accepts
// the host names in the certificate.
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
			return nil, nil, nil, input.Errorf("--listen", "%s is not loopback; anyone who reaches it could run commands here, so it needs --tls-cert and --tls-key", f.listen)
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
		return "", input.Errorf(name, "too short for a token; 'rm %s' fixes it: a new one will be made", quoted(name))
	}
	return token, err
}
