//go:build !linux

package engine

import (
	"errors"
	"os/exec"
)

// CanNode returns an error: no real node can run here.
func CanNode() error { return errors.New("engine: a real node needs Linux") }

func apart(*exec.Cmd) {}

func makeGroups(string) ([]string, error) { return nil, CanNode() }

func removeGroups([]string) bool { return true }
