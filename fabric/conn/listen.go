package conn

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
)

// Listen listens on a Unix socket, if address is a path (one with a slash), or on
// a TCP port, if it is host:port. Only the owner may connect to the socket. One
// that a server left behind without closing is replaced.
func Listen(address string) (net.Listener, error) {
	if !strings.Contains(address, "/") {
		return net.Listen("tcp", address)
	}
	if err := removeStale(address); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	l, err := net.Listen("unix", address)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(address, 0o600); err != nil {
		l.Close()
		return nil, err
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

// WithinMachine reports whether only this machine can reach an address.
func WithinMachine(addr net.Addr) bool {
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
