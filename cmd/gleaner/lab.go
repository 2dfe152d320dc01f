package main

import "github.com/spf13/cobra"

func newLab() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Start a real master, alone, to play traffic against",
		Long: `Lab starts the masters of other systems, each as a process with its data in a
folder and on loopback addresses only. They have no workers: those are played
('gleaner trace replay').`,
		Args: noArgs,
		RunE: help,
	}
	cmd.AddCommand(newLabNameNode(), newLabResourceManager())
	return cmd
}
