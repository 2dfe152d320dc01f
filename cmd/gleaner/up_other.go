//go:build !linux

package main

import (
	"runtime"

	"github.com/spf13/cobra"

	"gleaner/input"
)

func newUp() *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Harvest this machine (Linux only)",
		RunE: func(*cobra.Command, []string) error {
			return input.Errorf("", "this machine runs %s: harvesting it needs Linux (/proc, control groups); all other commands work here", runtime.GOOS)
		},
	}
}

func newTask() *cobra.Command {
	return &cobra.Command{Use: "task", Hidden: true, RunE: newUp().RunE}
}
