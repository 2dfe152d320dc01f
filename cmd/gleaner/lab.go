package main

import (
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"gleaner/lab/colocation"
	"gleaner/lab/search"
)

// newLab is the processes that experiments start; people do not call it.
func newLab() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "lab",
		Short:  "Processes of experiments (started by 'gleaner reproduce')",
		Hidden: true,
		Args:   noArgs,
		RunE:   help,
	}
	cmd.AddCommand(newLabSearch(), newLabBatch())
	return cmd
}

func newLabSearch() *cobra.Command {
	return &cobra.Command{
		Use:   "search DIR",
		Short: "Serve queries to the index in a directory",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return search.Serve(cmd.Context(), args[0], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func newLabBatch() *cobra.Command {
	var b colocation.Batch
	cmd := &cobra.Command{
		Use:   "batch STAGE DIR",
		Short: "Do the work of one task of a batch job",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			b.Stage, b.Dir = args[0], args[1]
			if b.Index, err = strconv.Atoi(os.Getenv("GLEANER_TASK_INDEX")); err != nil {
				return err
			}
			return b.Run(cmd.OutOrStdout())
		},
	}
	cmd.Flags().IntVar(&b.Rows, "rows", 0, "rows to go through")
	cmd.Flags().IntVar(&b.MB, "mb", 0, "megabytes to move")
	return cmd
}
