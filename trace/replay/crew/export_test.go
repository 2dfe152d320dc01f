package crew

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// HangUp ends the connection to a machine, as the end of the host's process does.
func HangUp(m *Machine) { m.conn.Close() }

// SetSilence sets how long a machine may be silent. Nobody has joined yet.
func (h *Host) SetSilence(d time.Duration) { h.silence = d }

// Silent is a machine that joins and says nothing more.
func Silent(ctx context.Context, address string, token Token) (net.Conn, error) {
	config, err := token.config()
	if err != nil {
		return nil, err
	}
	return (&seat{address: address, config: config}).dial(ctx, hello{Version: version, Name: "silent"})
}

// JoinImpatiently is Join for a machine that soon takes its host for gone.
func JoinImpatiently(ctx context.Context, address string, token Token, silence time.Duration) error {
	s, err := newSeat(address, token)
	if err != nil {
		return err
	}
	s.silence = silence
	return s.join(ctx, 0, Work{Joined: func() {}})
}

func (t Token) Config() (*tls.Config, error) { return t.config() }
