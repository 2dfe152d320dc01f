package main

import (
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"gleaner/lab/colocation"
	"gleaner/lab/search"
	"gleaner/lab/search/service"
)

// newLabSearch and newLabBatch are processes that experiments start; users do not
// call them.
func newLabSearch() *cobra.Command {
	var listen string
	var build bool
	cmd := &cobra.Command{
		Use:    "search DIR",
		Hidden: true,
		Short:  "Serve queries to the index in a directory",
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if build {
				return service.Build(args[0], search.Usual)
			}
			return service.Serve(cmd.Context(), args[0], listen, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address of this machine")
	cmd.Flags().BoolVar(&build, "build", false, "make the index of the usual corpus in the directory, and end")
	return cmd
}

func newLabBatch() *cobra.Command {
	var b colocation.Batch
	cmd := &cobra.Command{
		Use:    "batch STAGE DIR",
		Hidden: true,
		Short:  "Do the work of one task of a batch job",
		Args:   cobra.ExactArgs(2),
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
