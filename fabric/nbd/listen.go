package nbd

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
)

// Listen listens on a Unix socket, if address is a path (one with a slash), or on
// a TCP port, if it is host:port. Only the owner may connect to the socket. One
// that a server left behind without closing is replaced.
func Listen(address string) (net.Listener, error) {
	if !strings.Contains(address, "/") {
		return listen("tcp", address)
	}
	if err := removeStale(address); err != nil {
		return nil, fmt.Errorf("nbd: listen on %s: %w", address, err)
	}
	l, err := listen("unix", address)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(address, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("nbd: %w", err)
	}
	return l, nil
}

func listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, fmt.Errorf("nbd: %w", err)
	}
	return l, nil
}

// removeStale removes a socket that nobody listens on.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return errors.New("a file that is not a socket is there")
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
		return errors.New("another server does")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// plainSlashes turns the escapes of a form into those of a URI that is read by people.
var plainSlashes = strings.NewReplacer("+", "%20", "%2F", "/")

// URI names an export of a server at addr as clients take it.
func URI(addr net.Addr, export string, tls bool) string {
	u := url.URL{Scheme: "nbd", Host: addr.String(), Path: "/" + export}
	if tls {
		u.Scheme = "nbds"
	}
	if addr.Network() == "unix" {
		u.Scheme += "+unix"
		u.Host = ""
		u.RawQuery = "socket=" + plainSlashes.Replace(url.QueryEscape(addr.String()))
	}
	return u.String()
}

// withinMachine reports whether only this machine can reach an address.
func withinMachine(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return addr.Network() == "unix" || ok && tcp.IP.IsLoopback()
}

// isShortage reports whether Accept failed for want of something that comes back.
func isShortage(err error) bool {
	for _, no := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}
