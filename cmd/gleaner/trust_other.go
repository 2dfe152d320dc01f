//go:build !linux

package main

import "net"

// On systems where gleaner is never up it runs no commands, and changing what it
// reads gains nothing.

func trustData(dir string) (string, error) { return dir, nil }

func trustStore(string) error { return nil }

func trustPeer(net.Conn) error { return nil }
