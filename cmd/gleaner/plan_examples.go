package main

import (
	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/plan/examples"
)

func newPlanExamples() *cobra.Command {
	return &cobra.Command{
		Use:     "examples DIR",
		Short:   "Write the paper's three applications and its hardware to a directory",
		Example: "  gleaner plan examples scc",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return input.Errorf("", "name one directory to write to; see 'gleaner plan examples --help'")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeDocuments(cmd, args[0], examples.Names(), examples.Read)
		},
	}
}
