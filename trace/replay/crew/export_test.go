package crew

import (
	"crypto/tls"
)

// HangUp ends the connection to a machine, as the end of the host's process does.
func HangUp(m *Machine) { m.conn.Close() }

func (t Token) Config() (*tls.Config, error) { return t.config() }
