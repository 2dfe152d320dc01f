package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/input"
	"gleaner/web"
)

type runFlags struct {
	taskFlags
	after        []string
	priority     int
	ranked       bool // a priority was given
	wait, follow bool
}

func newRun() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run (JOB.yaml | - | -- COMMAND [ARGUMENT...])",
		Short: "Run a batch job, or one command, on what is idle",
		Long: `Run submits a job to the gleaner that is up (see 'gleaner up') and prints its number.
Once it is printed, the job will be run, even if gleaner or the machine crashes. With
- the job file is read from standard input.

After -- it takes a command, which is run as it is: no shell reads its arguments. It
prints what the command writes and exits with the command's exit code; Ctrl-C cancels
it. With --array or --each it submits a job with a task for each number, or for each
line of a file. {} in the command stands for that number or line, and so does the
variable GLEANER_ITEM.

A job runs where this command is called, unless its file says otherwise, with the
environment of 'gleaner up'. docs/formats/job.md describes job files.`,
		Example: `  gleaner run -- make -C src test
  gleaner run examples/wordcount.yaml --wait
  ls *.png | gleaner run --each - --cpu 0.5 --memory 200MB --follow -- optipng {}
  gleaner run --array 1-100 --after job-7 -- ./simulate --seed {}`,
		Args: oneJob,
		RunE: func(cmd *cobra.Command, args []string) error { return runJob(cmd, args, f) },
	}
	cmd.SetFlagErrorFunc(runFlagError)
	addDataFlag(cmd)
	f.add(cmd)
	cmd.Flags().StringArrayVar(&f.after, "after", nil, "start once this job has finished; may be repeated")
	cmd.Flags().IntVar(&f.priority, "priority", 0, "of the jobs that wait, those of a higher priority go first: -100 to 100; a job file may have its own")
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait until the job has ended; Ctrl-C then leaves it running")
	cmd.Flags().BoolVar(&f.follow, "follow", false, "print what the tasks write, in their order, until the job has ended; Ctrl-C then cancels it (default for one command)")
	return cmd
}

// runFlagError tells who has left out -- where the command goes.
func runFlagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		return input.Errorf("", "%v; a command and its flags go after --, see '%s --help'", err, cmd.CommandPath())
	}
	return flagError(cmd, err)
}

// oneJob requires a job file, or a command after --.
func oneJob(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	switch {
	case dash < 0 && len(args) == 1, dash == 0 && len(args) > 0 && args[0] != "":
		return nil
	case dash == 0:
		return input.Errorf("", "there is no command after --; see --help")
	}
	return input.Errorf("", "'%s' takes one job file, or a command after --; see --help", cmd.CommandPath())
}

func runJob(cmd *cobra.Command, args []string, f runFlags) error {
	command := cmd.ArgsLenAtDash() == 0
	f.ranked = cmd.Flags().Changed("priority")
	if f.priority < -cluster.MaxPriority || f.priority > cluster.MaxPriority {
		return input.Errorf("--priority", "%d is not between %d and %d", f.priority, -cluster.MaxPriority, cluster.MaxPriority)
	}
	source, text, err := f.jobText(cmd, args, command)
	if err != nil {
		return err
	}
	c, err := newClient(cmd)
	if err != nil {
		return err
	}
	taken, err := f.submit(cmd.Context(), c, source, text)
	if err != nil {
		return err
	}
	single := command && f.array == "" && f.each == ""
	if !cmd.Flags().Changed("follow") {
		f.follow = single && !f.wait
	}
	switch {
	case f.follow && !wantJSON(cmd):
		return followJob(cmd, c, taken, single)
	case f.follow || f.wait:
		return awaitJob(cmd, c, taken, single)
	case wantJSON(cmd):
		return printJSON(cmd, taken)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s (%s)\n", taken.ID, taken.Name)
	return err
}

// jobText is the text of the job file to submit, and what errors call it.
func (f *runFlags) jobText(cmd *cobra.Command, args []string, command bool) (source, text string, err error) {
	if command {
		text, err = f.ofCommand(cmd, args)
		return "the command", text, err
	}
	if flag, yes := given(cmd, taskFlagNames...); yes {
		return "", "", input.Errorf(flag, "goes with a command after --, not with a job file")
	}
	source = args[0]
	all, err := readOrStop(cmd, source)
	if source == "-" {
		source = "stdin"
	}
	return source, string(all), err
}

// longestSubmit is how long to wait until a job is submitted.
const longestSubmit = 10 * time.Second

func (f *runFlags) submit(ctx context.Context, c *client, source, text string) (taken web.Accepted, err error) {
	here, err := filepath.Abs(".")
	if err != nil {
		return taken, err
	}
	query := url.Values{"file": {source}, "dir": {here}}
	if f.ranked {
		query.Set("priority", strconv.Itoa(f.priority))
	}
	for _, name := range f.after {
		j, err := c.job(ctx, name)
		if err != nil {
			return taken, fmt.Errorf("--after: %w", err)
		}
		query.Add("after", strconv.FormatInt(int64(j.ID), 10))
	}
	if ctx.Err() != nil {
		return taken, ctx.Err()
	}
	// An interrupt must not hide the number of a job that is submitted.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), longestSubmit)
	defer stop()
	err = c.ask(ctx, http.MethodPost, "jobs?"+query.Encode(), []byte(text), &taken)
	if errors.Is(err, context.DeadlineExceeded) {
		return taken, fmt.Errorf("gleaner has not answered within %s; 'gleaner jobs' shows whether the job is submitted", longestSubmit)
	}
	var wrong *input.Error
	if errors.As(err, &wrong) && strings.HasPrefix(wrong.Msg, "the command:") {
		_, wrong.Msg, _ = strings.Cut(wrong.Msg, ": ") // a command has no lines
	}
	return taken, err
}

// awaitJob waits until a job has ended and prints how. A single command passes on
// its exit code.
func awaitJob(cmd *cobra.Command, c *client, taken web.Accepted, single bool) error {
	if !wantJSON(cmd) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s (%s) is submitted; waiting for it\n", taken.ID, taken.Name)
	}
	j, err := pollJob(cmd, c, taken.ID, &waiting{cmd: cmd, client: c})
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
		failed := c.failedTask(cmd.Context(), &j)
		if !wantJSON(cmd) && failed != nil {
			c.printEnd(cmd, j.ID, failed)
		}
		return ended(j, failed, single)
	}
	if !wantJSON(cmd) {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s finished in %s\n", j.ID, took(j))
	}
	return err
}

// exitLate is the exit code for a command that ends without an error after its time
// limit, as of timeout(1).
const exitLate = 124

// ended is the error for a job that has not finished. Its exit code is never 0.
func ended(j board.Job, failed *board.Task, single bool) error {
	err := fmt.Errorf("%s %s: %s", j.ID, j.State, j.Reason)
	switch {
	case !single || failed == nil:
		return err
	case failed.Exit != nil && *failed.Exit != 0:
		return commandFailure{*failed.Exit, err}
	case failed.Late:
		return commandFailure{exitLate, err}
	}
	return err
}

// failedTask is a task that made its job fail, the one that the reason names if it is among the first; nil if none is known.
func (c *client) failedTask(ctx context.Context, j *board.Job) *board.Task {
	var failed []board.Task
	if c.ask(ctx, http.MethodGet, fmt.Sprintf("jobs/%d/tasks?state=%s&limit=1000", int64(j.ID), board.Failed), nil, &failed) != nil || len(failed) == 0 {
		return nil
	}
	named := slices.IndexFunc(failed, func(t board.Task) bool { return slices.Contains(strings.Fields(j.Reason), t.Task) })
	return &failed[max(named, 0)]
}

// The end of a log that is shown: enough for the last error message.
const (
	endLines = 10
	endBytes = 4096
)

// printEnd prints the end of what a failed task has written to stderr or, if that
// is nothing, to stdout.
func (c *client) printEnd(cmd *cobra.Command, id cluster.JobID, failed *board.Task) {
	_, name, _ := strings.Cut(failed.Task, "/")
	for _, stream := range []string{"stderr", "stdout"} {
		r := reader{client: c, job: id, task: name, query: url.Values{"stream": {stream}, "tail": {strconv.Itoa(endBytes)}}}
		var text strings.Builder
		r.out = &text
		if r.read(cmd.Context()) != nil || text.Len() == 0 {
			continue
		}
		lines := strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
		fmt.Fprintf(cmd.ErrOrStderr(), "%s wrote last to its %s:\n", failed.Task, stream)
		for _, line := range lines[max(len(lines)-endLines, 0):] {
			fmt.Fprintln(cmd.ErrOrStderr(), "  "+line)
		}
		return
	}
}

// pollJob asks until the job has ended. It waits for a gleaner that is being
// restarted.
func pollJob(cmd *cobra.Command, c *client, id cluster.JobID, w *waiting) (board.Job, error) {
	tasks := 0
	var bar *progress
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

// took writes how long a job has run.
func took(j board.Job) string {
	if j.Started.IsZero() {
		return "-"
	}
	return ran(j).Round(time.Millisecond * 100).String()
}

// ran is how long a job has run; 0 if it has not started.
func ran(j board.Job) time.Duration {
	switch {
	case j.Started.IsZero():
		return 0
	case j.Ended.IsZero():
		return time.Since(j.Started)
	}
	return j.Ended.Sub(j.Started)
}
