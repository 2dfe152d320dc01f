package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/input"
)

func newLogs() *cobra.Command {
	var follow, stderr bool
	cmd := &cobra.Command{
		Use:   "logs TASK",
		Short: "Print what a task has written",
		Long: `Logs prints what the last run of a task has written to its standard output, or with
--stderr to its standard error. A task is named as 'gleaner jobs JOB' names it:
job-7/map-3, and job-7/map-3#2 is its second run. If a job has one task, the name of the
job is enough.

With --follow it waits for a task that has not run yet and goes on until the task has
ended, also while gleaner is restarted. When the task is run again it goes on with that
run, and says so on stderr.`,
		Example: `  gleaner logs job-7/map-3
  gleaner logs wordcount/merge-0 --follow`,
		Args: oneArg("task"),
		RunE: func(cmd *cobra.Command, args []string) error { return runLogs(cmd, args[0], follow, stderr) },
	}
	addDataFlag(cmd)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the task has ended")
	cmd.Flags().BoolVar(&stderr, "stderr", false, "what it wrote to its standard error")
	return cmd
}

func runLogs(cmd *cobra.Command, name string, follow, stderr bool) error {
	c, err := newClient(cmd)
	if err != nil {
		return err
	}
	job, task, named := strings.Cut(name, "/")
	j, err := c.job(cmd.Context(), job)
	if err != nil {
		return err
	}
	if !named && !single(&j) {
		return input.Errorf("", "%s has more than one task; the name of a task is job, stage and number, as job-7/map-3: see 'gleaner tasks %s'", j.ID, j.ID)
	}
	if !named {
		task = j.Stages[0].Name + "-0"
	}
	task, attempt, _ := strings.Cut(task, "#")
	r := reader{client: c, job: j.ID, task: task, attempt: attempt, query: url.Values{"follow": {strconv.FormatBool(follow)}}, out: cmd.OutOrStdout(), log: cmd.ErrOrStderr()}
	var text bytes.Buffer
	if wantJSON(cmd) {
		r.out = &text
	}
	if stderr {
		r.query.Set("stream", "stderr")
	}
	if follow {
		err = r.follow(cmd.Context())
	} else {
		err = r.read(cmd.Context())
	}
	if err != nil || !wantJSON(cmd) {
		return err
	}
	return printJSON(cmd, map[string]string{"task": fmt.Sprintf("%s/%s", j.ID, task), "output": text.String()})
}

// single reports whether a job has one task.
func single(j *board.Job) bool { return len(j.Stages) == 1 && j.Stages[0].Tasks == 1 }

// A reader reads the output of a task.
type reader struct {
	client *client
	job    cluster.JobID
	task   string
	query  url.Values
	out    io.Writer
	log    io.Writer

	attempt string // the run that is read; "" for the last
	offset  int64  // bytes of it that were read
	told    string // the last message
	patient bool   // it does not say that it waits for the first run
}

func (r *reader) path() string {
	return fmt.Sprintf("jobs/%d/tasks/%s", int64(r.job), url.PathEscape(r.task))
}

// read reads a run, from the offset on.
func (r *reader) read(ctx context.Context) error {
	r.query.Set("attempt", r.attempt)
	r.query.Set("offset", strconv.FormatInt(r.offset, 10))
	response, err := r.client.send(ctx, http.MethodGet, r.path()+"/output?"+r.query.Encode(), nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	n, err := io.Copy(r.out, response.Body)
	r.offset += n
	return err
}

// follow reads a run until it has ended. If none is named, it waits for the first
// and goes on with later runs until the task has ended.
func (r *reader) follow(ctx context.Context) error {
	named := r.attempt != ""
	for gone := (absence{}); ; {
		over, err := r.look(ctx, named)
		switch {
		case err == nil && over:
			return nil
		case err == nil:
			gone = absence{}
			if !pause(ctx) {
				return ctx.Err()
			}
		case !gone.retry(ctx, err):
			return err
		}
	}
}

// look reads new output and reports whether there will be no more. It asks for the
// state first, so that nothing is missed.
func (r *reader) look(ctx context.Context, named bool) (over bool, err error) {
	var t board.Task
	if err := r.client.ask(ctx, http.MethodGet, r.path(), nil, &t); err != nil {
		return false, err
	}
	last := strconv.Itoa(int(t.Attempt))
	if named {
		return t.State != board.Running || r.attempt != last, r.read(ctx)
	}
	over = t.State != board.Running && t.State != board.Waiting && t.State != board.Blocked
	switch {
	case t.Attempt == 0 && !over:
		if !r.patient {
			r.tell("%s has not run yet; waiting for it", t.Task)
		}
		return false, nil
	case r.attempt != "" && r.attempt != last:
		if err := r.read(ctx); err != nil { // what it wrote last
			return false, err
		}
		r.tell("%s is run again; this is run %s", t.Task, last)
		r.attempt, r.offset = last, 0
	case t.Attempt > 0:
		r.attempt = last
	}
	err = r.read(ctx)
	if !over && input.Is(err) { // the run has only just been started
		err = nil
	}
	return over, err
}

// tell prints a message to stderr, once.
func (r *reader) tell(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); text != r.told {
		fmt.Fprintln(r.log, text)
		r.told = text
	}
}
