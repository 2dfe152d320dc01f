//go:build !linux

package main

import (
	"github.com/spf13/cobra"

	"gleaner/input"
)

func newAgent() *cobra.Command {
	return &cobra.Command{
		Use:   "agent",
		Short: "Guard the node that this runs on (Linux only)",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return input.Errorf("", "an agent needs Linux") },
	}
}
