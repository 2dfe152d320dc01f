package hadooprpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"

	"gleaner/trace"
	"gleaner/trace/replay"
)

// answerNodes listens on the port that all nodes registered, for a Resource Manager that
// starts application masters on them. Its calls carry their tokens.
func (e *Executor) answerNodes(ctx context.Context, port string) error {
	// One socket for all loopback addresses, and for no others.
	l, err := new(net.ListenConfig).Listen(ctx, "tcp4", net.JoinHostPort("0.0.0.0", port))
	if err != nil {
		return fmt.Errorf("hadoop: answer for the nodes: %w", err)
	}
	e.Tokens = &Wallet{}
	s := &Server{Schema: e.Schema, Answer: e.startContainers}
	go s.Serve(ctx, loopback{l})
	return nil
}

// A loopback closes connections that do not come from this machine.
type loopback struct{ net.Listener }

func (l loopback) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if at, ok := c.RemoteAddr().(*net.TCPAddr); ok && at.IP.IsLoopback() {
			return c, nil
		}
		c.Close()
	}
}

// startContainers answers like a node that starts every container.
func (e *Executor) startContainers(c *trace.Call) replay.Reply {
	for _, l := range c.Request {
		if !strings.HasSuffix(l.Path, ".container_launch_context.tokens") {
			continue
		}
		raw, err := rawBytes(l.Value)
		if err != nil {
			return replay.Reply{Status: statusFailed, Message: err.Error()}
		}
		tokens, err := credentials(raw)
		if err != nil {
			return replay.Reply{Status: statusFailed, Message: err.Error()}
		}
		for _, t := range tokens {
			if t.Kind == "YARN_AM_RM_TOKEN" {
				e.Tokens.Put(t)
			}
		}
	}
	return replay.Reply{Status: statusOK}
}

var errCredentials = errors.New("these are not Hadoop's credentials")

// credentials reads tokens in Hadoop's own format: "HDTS", a version, a count, and for
// each a name and the token.
func credentials(b []byte) ([]Token, error) {
	r := writable{rest: b}
	if string(r.take(4)) != "HDTS" || len(r.take(1)) != 1 {
		return nil, errCredentials
	}
	var out []Token
	for range r.length() {
		r.bytes() // the name
		t := Token{Identifier: r.bytes(), Password: r.bytes(), Kind: string(r.bytes()), Service: string(r.bytes())}
		if r.short {
			return nil, errCredentials
		}
		out = append(out, t)
	}
	if r.short {
		return nil, errCredentials
	}
	return out, nil
}

// A writable reads values that Java has written.
type writable struct {
	rest  []byte
	short bool // it ended too early
}

func (r *writable) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.short, n = true, 0
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

func (r *writable) bytes() []byte { return r.take(r.length()) }

// length reads a number that is not negative: in one byte up to 127, else in as
// many as the first byte says below -112.
func (r *writable) length() int {
	first := r.take(1)
	if len(first) == 0 {
		return 0
	}
	if v := int8(first[0]); v >= 0 {
		return int(v)
	}
	n := -112 - int(int8(first[0]))
	if n < 1 || n > 4 {
		r.short = true
		return 0
	}
	var buf [8]byte
	copy(buf[8-n:], r.take(n))
	return int(binary.BigEndian.Uint64(buf[:]))
}
