package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"gleaner/control/board"
	"gleaner/input"
	"gleaner/web"
)

func newTasks() *cobra.Command {
	var state string
	var limit int
	cmd := &cobra.Command{
		Use:   "tasks JOB",
		Short: "List the tasks of a job",
		Long: `Tasks lists the tasks of a job: their state, the exit code and number of their last
run, where they run, since when they run or wait or have ended, how long that run
took, and why it has not finished or what the task waits for.`,
		Example: `  gleaner tasks wordcount
  gleaner tasks job-7 --state failed`,
		Args: oneArg("job"),
		RunE: func(cmd *cobra.Command, args []string) error { return runTasks(cmd, args[0], state, limit) },
	}
	addDataFlag(cmd)
	cmd.Flags().StringVar(&state, "state", "", "only those in this state: "+stateNames)
	cmd.Flags().IntVar(&limit, "limit", 1000, "at most so many")
	return cmd
}

func runTasks(cmd *cobra.Command, name, state string, limit int) error {
	if err := checkStates(state); err != nil {
		return err
	}
	if limit < 1 {
		return input.Errorf("--limit", "%d is less than 1", limit)
	}
	c, err := newClient(cmd)
	if err != nil {
		return err
	}
	j, err := c.job(cmd.Context(), name)
	if err != nil {
		return err
	}
	query := url.Values{"limit": {strconv.Itoa(limit + 1)}} // one more shows that there are more
	if state != "" {
		query.Set("state", state)
	}
	var all []board.Task
	if err := c.ask(cmd.Context(), http.MethodGet, fmt.Sprintf("jobs/%d/tasks?%s", int64(j.ID), query.Encode()), nil, &all); err != nil {
		return err
	}
	more := len(all) > limit
	all = all[:min(len(all), limit)]
	if wantJSON(cmd) {
		return printJSON(cmd, all)
	}
	var s web.Status
	if err := c.ask(cmd.Context(), http.MethodGet, "status", nil, &s); err != nil {
		return err
	}
	if err := printTasks(cmd.OutOrStdout(), all, s.WaitsFor(&j, time.Local)); err != nil || !more {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), "… and more, see --limit and --state")
	return err
}

// printTasks prints tasks; why is what waiting ones wait for, if it is known.
func printTasks(out io.Writer, all []board.Task, why string) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "no such tasks")
		return err
	}
	t := newTable("task", "state", ">exit", ">run", "on", "since", ">took", "why")
	for _, task := range all {
		took, exit, run := task.Took, "-", "-"
		if task.State == board.Running {
			took = time.Since(task.Since)
		}
		if task.Exit != nil && task.State != board.Running {
			exit = strconv.Itoa(*task.Exit)
		}
		if task.Attempt > 0 {
			run = strconv.Itoa(int(task.Attempt))
		}
		if task.State == board.Waiting {
			task.Reason = cmp.Or(task.Reason, why)
		}
		t.row(task.Task, string(task.State), exit, run, cmp.Or(string(task.On), "-"), task.Since.Local().Format(time.DateTime), took.Round(100*time.Millisecond).String(), task.Reason)
	}
	return t.print(out)
}
