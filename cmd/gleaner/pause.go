package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"gleaner/control/board"
	"gleaner/input"
	"gleaner/web"
)

func newPause() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "pause JOB...",
		Short: "Start no more tasks of jobs, for now",
		Long: `Pause makes jobs start no more tasks, until 'gleaner resume'. Tasks that run go on; one
that is killed for the primary is not run again before the job is resumed. A pause
outlives a restart of gleaner. The time limit of a job goes on.`,
		Example: `  gleaner pause job-7
  gleaner pause --all`,
		Args: someJobs(&all),
		RunE: func(cmd *cobra.Command, args []string) error {
			return eachJob(cmd, args, all, func(j *board.Job) bool { return j.Ended.IsZero() && !j.Paused }, http.MethodPost, "/pause", "paused")
		},
	}
	addDataFlag(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "every job that has not ended, or every one of these names")
	return cmd
}

func newResume() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "resume [JOB...]",
		Short: "Let paused jobs, or a drained machine, start tasks again",
		Long: `Resume lets jobs that were paused ('gleaner pause') start tasks again. Without a job it
does the same for the machine, if that was drained ('gleaner drain').`,
		Example: `  gleaner resume job-7
  gleaner resume --all         # every paused job
  gleaner resume               # the machine`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && !all {
				return drain(cmd, "resume", "starts tasks again")
			}
			return eachJob(cmd, args, all, func(j *board.Job) bool { return j.Ended.IsZero() && j.Paused }, http.MethodPost, "/resume", "resumed")
		},
	}
	addDataFlag(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "every paused job, or every one of these names")
	return cmd
}

func newDrain() *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Start no more tasks on this machine, for now",
		Long: `Drain makes this machine start no more tasks, until 'gleaner resume'. Tasks that run go
on, and jobs are still accepted. A drain outlives a restart of gleaner.`,
		Example: `  gleaner drain --wait && reboot`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := drain(cmd, "drain", "starts no more tasks"); err != nil || !wait {
				return err
			}
			return awaitDrained(cmd)
		},
	}
	addDataFlag(cmd)
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until no task runs")
	return cmd
}

// drain sends a request about the machine and says what is done.
func drain(cmd *cobra.Command, path, done string) error {
	c, err := newClient(cmd)
	if err != nil {
		return err
	}
	var s web.Status
	if err := c.ask(cmd.Context(), http.MethodPost, path, nil, &s); err != nil {
		return err
	}
	if wantJSON(cmd) {
		return printJSON(cmd, s)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s; running: %d\n", s.Server, done, s.Running)
	return err
}

// awaitDrained waits until no task runs.
func awaitDrained(cmd *cobra.Command) error {
	c, err := newClient(cmd)
	if err != nil {
		return err
	}
	for pause(cmd.Context()) {
		var s web.Status
		switch err := c.ask(cmd.Context(), http.MethodGet, "status", nil, &s); {
		case err != nil:
			return err
		case !s.Drained:
			return input.Errorf("", "%s was resumed meanwhile", s.Server)
		case s.Running == 0:
			return nil
		}
	}
	return cmd.Context().Err()
}
