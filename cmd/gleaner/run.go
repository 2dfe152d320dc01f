package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/web"
)

func newRun() *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use:   "run JOB.yaml",
		Short: "Run a batch job on what is idle",
		Long: `Run submits a job to the gleaner that is up (see 'gleaner up') and prints its number.
Once it is printed, the job will be run, even if gleaner or the machine crashes.

A stage without a dir runs where this command is called. docs/formats/job.md describes
job files.`,
		Example: `  gleaner run examples/wordcount.yaml --wait
  gleaner run nightly.yaml --json`,
		Args: oneArg("job file"),
		RunE: func(cmd *cobra.Command, args []string) error { return runJob(cmd, args[0], wait) },
	}
	addDataFlag(cmd)
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the job has ended; Ctrl-C then leaves it running")
	return cmd
}

func runJob(cmd *cobra.Command, name string, wait bool) error {
	text, err := readInput(name)
	if err != nil {
		return err
	}
	c, err := newClient(cmd)
	if err != nil {
		return err
	}
	here, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	var taken web.Accepted
	query := url.Values{"file": {name}, "dir": {here}}
	if err := c.ask(cmd.Context(), http.MethodPost, "jobs?"+query.Encode(), text, &taken); err != nil {
		return err
	}
	if !wait {
		if wantJSON(cmd) {
			return printJSON(cmd, taken)
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s (%s)\n", taken.ID, taken.Name)
		return err
	}
	return awaitJob(cmd, c, taken)
}

// awaitJob waits until a job has ended and prints how.
func awaitJob(cmd *cobra.Command, c *client, taken web.Accepted) error {
	if !wantJSON(cmd) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s (%s) is submitted; waiting for it\n", taken.ID, taken.Name)
	}
	j, err := pollJob(cmd, c, taken.ID)
	if errors.Is(err, context.Canceled) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s goes on; see 'gleaner jobs %s'\n", taken.ID, taken.ID)
		return err
	}
	if err != nil {
		return fmt.Errorf("%s is submitted, but cannot be watched any more: %w", taken.ID, err)
	}
	if wantJSON(cmd) {
		if err := printJSON(cmd, j); err != nil {
			return err
		}
	}
	if j.State != board.Finished {
		return fmt.Errorf("%s %s: %s", j.ID, j.State, j.Reason)
	}
	if !wantJSON(cmd) {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s finished in %s\n", j.ID, took(j))
	}
	return err
}

// pollJob asks until the job has ended. It waits for a gleaner that is being
// restarted.
func pollJob(cmd *cobra.Command, c *client, id cluster.JobID) (board.Job, error) {
	tasks := 0
	var bar *progress
	w := waiting{cmd: cmd, client: c}
	for gone := (absence{}); ; {
		var j board.Job
		err := c.ask(cmd.Context(), http.MethodGet, fmt.Sprintf("jobs/%d", int64(id)), nil, &j)
		if err != nil {
			if !gone.retry(cmd.Context(), err) {
				return j, err
			}
			continue
		}
		gone = absence{}
		done := 0
		for _, s := range j.Stages {
			done += s.Finished
		}
		if bar == nil {
			for _, s := range j.Stages {
				tasks += s.Tasks
			}
			bar = newProgress(cmd, j.Name, int64(tasks))
			defer bar.finish()
		}
		bar.add(int64(done) - bar.done)
		if !j.Ended.IsZero() {
			return j, nil
		}
		w.look(&j)
		if !pause(cmd.Context()) {
			return j, cmd.Context().Err()
		}
	}
}

// took is how long a job has run.
func took(j board.Job) string {
	if j.Started.IsZero() {
		return "-"
	}
	end := j.Ended
	if end.IsZero() {
		end = time.Now()
	}
	return end.Sub(j.Started).Round(time.Millisecond * 100).String()
}
