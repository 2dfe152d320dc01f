package main

import (
	"net/http"

	"github.com/spf13/cobra"

	"gleaner/control/board"
)

func newRm() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "rm JOB...",
		Short: "Forget jobs that have ended, and what their tasks wrote",
		Long: `Rm forgets jobs that have ended, and removes what their tasks have written. A name is
the last job of that name; with --all it is every job of that name that has ended, and
without a name every job that has. Jobs are forgotten by themselves after
'gleaner up --keep'.`,
		Example: `  gleaner rm job-7 job-8
  gleaner rm --all wordcount`,
		Args: someJobs(&all),
		RunE: func(cmd *cobra.Command, args []string) error {
			return eachJob(cmd, args, all, func(j *board.Job) bool { return !j.Ended.IsZero() }, http.MethodDelete, "", "removed")
		},
	}
	addDataFlag(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "every job that has ended, or every one of these names")
	return cmd
}
