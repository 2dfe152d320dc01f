package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"gleaner/control/board"
	"gleaner/input"
	"gleaner/web"
)

func newCancel() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "cancel JOB...",
		Short: "End jobs: kill their tasks and forget the rest",
		Long: `Cancel ends jobs. Their tasks are told to end (SIGTERM), and killed when their grace
time is over. A name is the last job of that name; with --all it is every job of that
name that has not ended, and without a name every job that has not.`,
		Example: `  gleaner cancel job-7 job-8
  gleaner cancel wordcount     # the last one of that name
  gleaner cancel --all`,
		Args: someJobs(&all),
		RunE: func(cmd *cobra.Command, args []string) error {
			return eachJob(cmd, args, all, func(j *board.Job) bool { return j.Ended.IsZero() }, http.MethodPost, "/cancel", "cancelled")
		},
	}
	addDataFlag(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "every job that has not ended, or every one of these names")
	return cmd
}

// someJobs requires jobs, or --all.
func someJobs(all *bool) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && !*all {
			return input.Errorf("", "'%s' takes jobs, or --all; see --help", cmd.CommandPath())
		}
		return nil
	}
}

// eachJob sends a request for each of the named jobs, and goes on when one fails.
// With all it is for every job of these names, or of any name, for which may is true.
func eachJob(cmd *cobra.Command, names []string, all bool, may func(*board.Job) bool, method, path, done string) error {
	c, err := newClient(cmd)
	if err != nil {
		return err
	}
	jobs, failed := c.named(cmd, names, all, may)
	if all && errors.Join(failed...) == nil {
		tellMissing(cmd, names, jobs, done)
	}
	taken := []web.Accepted{}
	for _, j := range jobs {
		var one web.Accepted
		if err := c.ask(cmd.Context(), method, fmt.Sprintf("jobs/%d%s", int64(j.ID), path), nil, &one); err != nil {
			failed = append(failed, err)
			continue
		}
		if taken = append(taken, one); !wantJSON(cmd) {
			fmt.Fprintf(cmd.OutOrStdout(), "%s is %s\n", j.ID, done)
		}
	}
	if wantJSON(cmd) {
		failed = append(failed, printJSON(cmd, taken))
	}
	return errors.Join(failed...)
}

// tellMissing says which of the names after --all none of the jobs has. That is no
// mistake: they may have been cancelled or removed before.
func tellMissing(cmd *cobra.Command, names []string, jobs []board.Job, done string) {
	if len(names) == 0 && len(jobs) == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "no job can be %s\n", done)
	}
	for _, name := range names {
		if !slices.ContainsFunc(jobs, func(j board.Job) bool { return j.Name == name }) {
			fmt.Fprintf(cmd.ErrOrStderr(), "no job called %q can be %s\n", name, done)
		}
	}
}

// named finds jobs by their names or numbers; see eachJob.
func (c *client) named(cmd *cobra.Command, names []string, all bool, may func(*board.Job) bool) (jobs []board.Job, failed []error) {
	if !all {
		for _, name := range names {
			j, err := c.job(cmd.Context(), name)
			if err == nil {
				jobs = append(jobs, j)
			}
			failed = append(failed, err)
		}
		return jobs, failed
	}
	err := c.ask(cmd.Context(), http.MethodGet, "jobs", nil, &jobs)
	jobs = slices.DeleteFunc(jobs, func(j board.Job) bool { return !may(&j) || len(names) > 0 && !slices.Contains(names, j.Name) })
	return jobs, []error{err}
}
