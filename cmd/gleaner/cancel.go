package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"gleaner/web"
)

func newCancel() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel JOB",
		Short: "End a job: kill its tasks and forget the rest",
		Example: `  gleaner cancel job-7
  gleaner cancel wordcount     # the last one of that name`,
		Args: oneArg("job"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := newClient(cmd)
			if err != nil {
				return err
			}
			j, err := c.job(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			var taken web.Accepted
			if err := c.ask(cmd.Context(), http.MethodPost, fmt.Sprintf("jobs/%d/cancel", int64(j.ID)), nil, &taken); err != nil {
				return err
			}
			if wantJSON(cmd) {
				return printJSON(cmd, taken)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is cancelled\n", j.ID)
			return err
		},
	}
	addDataFlag(cmd)
	return cmd
}
