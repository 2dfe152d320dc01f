package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"gleaner/control/board"
	"gleaner/input"
)

func newJobs() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jobs [NAME]",
		Short: "List jobs, or show one in detail",
		Long: `Jobs lists the jobs of the gleaner that is up, the newest last. With a name or a
number it shows the progress of each stage of that job and its running tasks.`,
		Example: `  gleaner jobs
  gleaner jobs wordcount
  gleaner jobs job-7 --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return input.Errorf("", "'%s' takes one job at most; see --help", cmd.CommandPath())
			}
			return nil
		},
		RunE: runJobs,
	}
	addDataFlag(cmd)
	return cmd
}

func runJobs(cmd *cobra.Command, args []string) error {
	c, err := newClient(cmd)
	if err != nil {
		return err
	}
	if len(args) == 1 {
		j, err := c.job(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if wantJSON(cmd) {
			return printJSON(cmd, j)
		}
		return printJob(cmd.OutOrStdout(), j, c.waitsFor(cmd.Context(), &j))
	}
	var all []board.Job
	if err := c.ask(cmd.Context(), http.MethodGet, "jobs", nil, &all); err != nil {
		return err
	}
	if wantJSON(cmd) {
		return printJSON(cmd, all)
	}
	return printJobs(cmd.OutOrStdout(), all)
}

func printJobs(out io.Writer, all []board.Job) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "no jobs; see 'gleaner run --help'")
		return err
	}
	t := newTable("job", "name", "state", ">tasks", ">running", ">waiting", ">finished", ">killed", "submitted", ">took")
	for _, j := range all {
		var sum board.Stage
		for _, s := range j.Stages {
			sum.Tasks, sum.Running, sum.Waiting, sum.Finished = sum.Tasks+s.Tasks, sum.Running+s.Running, sum.Waiting+s.Waiting, sum.Finished+s.Finished
		}
		t.row(j.ID.String(), j.Name, string(j.State), strconv.Itoa(sum.Tasks), strconv.Itoa(sum.Running), strconv.Itoa(sum.Waiting), strconv.Itoa(sum.Finished), strconv.Itoa(j.Kills),
			j.Submitted.Local().Format(time.DateTime), took(j))
	}
	return t.print(out)
}

// printJob prints one job; why is what it waits for, if it does.
func printJob(out io.Writer, j board.Job, why string) error {
	fmt.Fprintf(out, "%s (%s): %s", j.ID, j.Name, j.State)
	if why = cmp.Or(j.Reason, why); why != "" && why != string(j.State) {
		fmt.Fprintf(out, ": %s", why)
	}
	ran := "took " + took(j)
	if j.Started.IsZero() {
		ran = "has not started"
	}
	fmt.Fprintf(out, "\nsubmitted %s, %s, %s killed\n\n", j.Submitted.Local().Format(time.DateTime), ran, counted(j.Kills, "task"))
	t := newTable("stage", "state", ">tasks", ">running", ">waiting", ">finished", ">failed", ">cores", ">memory")
	for _, s := range j.Stages {
		t.row(s.Name, string(s.State), strconv.Itoa(s.Tasks), strconv.Itoa(s.Running), strconv.Itoa(s.Waiting), strconv.Itoa(s.Finished), strconv.Itoa(s.Failures), cores(s.Request), s.Request.Memory.Text())
	}
	if err := t.print(out); err != nil {
		return err
	}
	return errors.Join(printRunning(out, j.Running), printDelayed(out, j.Delayed))
}

func printRunning(out io.Writer, running []board.RunningTask) error {
	if len(running) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	t := newTable("running", ">for", ">slowed down")
	for _, r := range slices.Backward(running) {
		t.row(r.Name, time.Since(r.Since).Round(100*time.Millisecond).String(), slowedDown(r.Dilation))
	}
	return t.print(out)
}

func printDelayed(out io.Writer, delayed []board.Delay) error {
	if len(delayed) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	t := newTable("run again", ">in", "after")
	for _, d := range delayed {
		t.row(d.Name, max(time.Until(d.Until), 0).Round(100*time.Millisecond).String(), d.Reason)
	}
	return t.print(out)
}

// slowedDown writes the predicted slow-down of a task; "-" if its loading is not
// known.
func slowedDown(factor float64) string {
	if factor == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2fx", factor)
}
