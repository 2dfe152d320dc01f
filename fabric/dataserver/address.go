package dataserver

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"strings"
	"time"

	"gleaner/fabric/conn"
	"gleaner/fabric/disk"
)

// secure begins the address of a server that speaks TLS.
const secure = "tls:"

// CheckAddress says what is wrong with an address: a path with a slash is a Unix socket, host:port a
// port of the loopback, tls:host:port any port.
func CheckAddress(address string) error {
	if strings.Contains(address, "/") {
		return nil
	}
	plain, isTLS := strings.CutPrefix(address, secure)
	host, _, err := net.SplitHostPort(plain)
	if err != nil {
		return fmt.Errorf("%q is not a path with a slash, host:port or tls:host:port", address)
	}
	if ip := net.ParseIP(host); !isTLS && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%s can be reached from other machines, which needs TLS: %s%s", address, secure, address)
	}
	return nil
}

// Listen listens on an address; see CheckAddress. Port 0 is any that is free.
func Listen(address string) (net.Listener, error) {
	if err := CheckAddress(address); err != nil {
		return nil, fmt.Errorf("dataserver: listen: %w", err)
	}
	plain, isTLS := strings.CutPrefix(address, secure)
	l, err := conn.Listen(plain)
	if err != nil {
		return nil, fmt.Errorf("dataserver: %w", err)
	}
	if !isTLS {
		return l, nil
	}
	certificate, err := newCertificate()
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("dataserver: make a certificate: %w", err)
	}
	return &tlsListener{l, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}}, nil
}

// Address is what clients dial to reach a listener.
func Address(l net.Listener) string {
	if _, ok := l.(*tlsListener); ok {
		return secure + l.Addr().String()
	}
	return l.Addr().String()
}

// A tlsListener's connections speak TLS; they shake hands when they are first used.
type tlsListener struct {
	net.Listener
	config *tls.Config
}

func (l *tlsListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tls.Server(c, l.config), nil
}

// newCertificate makes one that says nothing: the cluster's key proves who a server is.
func newCertificate() (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, err
}

// dial connects to an address, without a handshake of ours.
func dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	if strings.Contains(address, "/") {
		c, err := d.DialContext(ctx, "unix", address)
		if err == nil {
			widen(c)
		}
		return c, err
	}
	plain, isTLS := strings.CutPrefix(address, secure)
	c, err := d.DialContext(ctx, "tcp", plain)
	if err != nil {
		return nil, err
	}
	if isTLS {
		// Whoever presents the certificate must prove by the cluster's key that it is theirs: see handshake.
		return tls.Client(c, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}), nil
	}
	if !conn.WithinMachine(c.RemoteAddr()) {
		c.Close()
		return nil, fmt.Errorf("%s is another machine, which needs TLS: %s%s", address, secure, address)
	}
	return c, nil
}

// sendAhead is how much the kernel may hold of what is sent over a Unix socket: a block, where
// it allows that much, so that who sends one does not wait for the other side in the midst of it.
const sendAhead = disk.BlockSize

func widen(c net.Conn) {
	if unix, ok := c.(*net.UnixConn); ok {
		_ = unix.SetWriteBuffer(sendAhead) // else it is slower
	}
}
