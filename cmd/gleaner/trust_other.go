//go:build !linux

package main

import "net"

// Where gleaner is never up it runs nobody's commands, and there is nothing to
// be had by changing what it reads.

func trustData(dir string) (string, error) { return dir, nil }

func trustStore(string) error { return nil }

func trustPeer(net.Conn) error { return nil }
