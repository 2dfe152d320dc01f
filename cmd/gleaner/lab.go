package main

import (
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/trace/replay/lean"
)

// newLab holds targets to play against.
func newLab() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Start a target to play traffic against",
		Long: `Lab starts targets, the masters of real systems among them, each as a process with
its data in a folder and on loopback addresses only. They have no workers: those
are played ('gleaner trace replay').`,
		Args: noArgs,
		RunE: help,
	}
	cmd.AddCommand(newLabEcho(), newLabNameNode(), newLabResourceManager())
	return cmd
}

func newLabEcho() *cobra.Command {
	var listen []string
	cmd := &cobra.Command{
		Use:   "echo",
		Short: "Answer every call of the lean protocol with what it asked",
		Long: `Echo is the least a target can do: it answers every call of the lean protocol with
what it asked. Played against it, a program shows what the players can do.`,
		Example: `  gleaner lab echo --listen 127.0.0.1:7000`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []net.Listener
			for _, at := range listen {
				l, err := net.Listen("tcp", at)
				if err != nil {
					return input.Errorf("--listen", "%v", err)
				}
				defer l.Close()
				fmt.Fprintf(cmd.OutOrStdout(), "lean://%s answers; Ctrl-C stops\n", l.Addr())
				all = append(all, l)
			}
			done := make(chan error)
			for _, l := range all {
				go func() { done <- lean.Serve(cmd.Context(), l, lean.Echo) }()
			}
			var errs []error
			for range all {
				errs = append(errs, <-done)
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().StringSliceVar(&listen, "listen", []string{"127.0.0.1:7000"}, "where to listen")
	return cmd
}
