//go:build !linux

package main

import (
	"runtime"

	"github.com/spf13/cobra"

	"gleaner/input"
)

func newDisk() *cobra.Command {
	return &cobra.Command{Use: "disk", Short: "Make block devices out of spare disk (Linux only)", RunE: noDisks}
}

func newCurate() *cobra.Command {
	return &cobra.Command{Use: "curate", Short: "Look after the disks' data (Linux only)", RunE: noDisks}
}

func newLabFabric() *cobra.Command {
	return &cobra.Command{Use: "fabric", Short: "Start a storage fabric (Linux only)", RunE: noDisks}
}

func noDisks(*cobra.Command, []string) error {
	return input.Errorf("", "this machine runs %s: disks need Linux (locks, preallocation); all other commands work here", runtime.GOOS)
}
