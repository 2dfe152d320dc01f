package nbd

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"gleaner/fabric/conn"
)

// Listen listens on a Unix socket, if address is a path (one with a slash), or on
// a TCP port, if it is host:port; see conn.Listen.
func Listen(address string) (net.Listener, error) {
	l, err := conn.Listen(address)
	if err != nil {
		return nil, fmt.Errorf("nbd: %w", err)
	}
	return l, nil
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
