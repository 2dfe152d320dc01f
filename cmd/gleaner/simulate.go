package main

import "github.com/spf13/cobra"

func newSimulate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Try policies on a whole datacenter in virtual time",
		Example: `  gleaner simulate compute --datacenter DC-9 --utilisation 0.45
  gleaner simulate storage --datacenter DC-9 --blocks 100000
  gleaner simulate storage --datacenter DC-9 --blocks 100000 --placement stock`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newSimulateCompute(),
		newSimulateStorage(),
	)
	return cmd
}
