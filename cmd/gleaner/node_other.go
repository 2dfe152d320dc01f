//go:build !linux

package main

import (
	"runtime"

	"github.com/spf13/cobra"

	"gleaner/input"
)

func newNode() *cobra.Command {
	return &cobra.Command{
		Use:   "node",
		Short: "Lend disk space of this machine to the fabric (Linux only)",
		RunE: func(*cobra.Command, []string) error {
			return input.Errorf("", "this machine runs %s: a data server needs Linux (locks, preallocation); all other commands work here", runtime.GOOS)
		},
	}
}
