package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/input"
	"gleaner/web"
)

// followJob prints what the tasks of a job write until the job has ended; Ctrl-C
// cancels it, and what the tasks write in their grace time is still printed. A single
// command passes on its exit code.
func followJob(cmd *cobra.Command, c *client, taken web.Accepted, single bool) error {
	interrupt := cmd.Context()
	ctx, giveUp := context.WithCancelCause(context.WithoutCancel(interrupt))
	defer giveUp(nil)
	cancelled := make(chan struct{})
	forget := context.AfterFunc(interrupt, func() {
		defer close(cancelled)
		if err := cancelFollowed(ctx, cmd, c, taken.ID); err != nil {
			giveUp(err)
		}
	})
	cmd.SetContext(ctx)
	j, err := followTasks(cmd, c, taken.ID)
	cmd.SetContext(interrupt)
	if !forget() {
		<-cancelled // the job may end before its cancelling is said
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case interrupt.Err() != nil:
		return interrupt.Err()
	}
	if err != nil {
		return fmt.Errorf("%s is submitted, but cannot be followed any more: %w", taken.ID, err)
	}
	if j.State == board.Finished {
		return nil
	}
	return ended(j, c.failedTask(cmd.Context(), &j), single)
}

// followTasks prints the output of each task, one after the other, and returns the
// job when it has ended.
func followTasks(cmd *cobra.Command, c *client, id cluster.JobID) (j board.Job, err error) {
	var watched sync.WaitGroup
	var failed error
	watched.Go(func() {
		j, failed = pollJob(cmd, c, id, &waiting{cmd: cmd, client: c, running: true})
	})
	err = eachTask(cmd.Context(), c, id, func(task string) error { return followTask(cmd, c, id, task) })
	watched.Wait()
	return j, errors.Join(err, failed)
}

func eachTask(ctx context.Context, c *client, id cluster.JobID, visit func(task string) error) error {
	var j board.Job
	if err := c.ask(ctx, http.MethodGet, fmt.Sprintf("jobs/%d", int64(id)), nil, &j); err != nil {
		return err
	}
	for _, st := range j.Stages {
		for i := range st.Tasks {
			if err := visit(fmt.Sprintf("%s-%d", st.Name, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// followTask prints both streams of a task until it has ended.
func followTask(cmd *cobra.Command, c *client, id cluster.JobID, task string) error {
	var both sync.WaitGroup
	var failed [2]error
	follow := func(i int, stream string, out, log io.Writer) {
		r := reader{client: c, job: id, task: task, query: url.Values{"follow": {"true"}, "stream": {stream}}, out: out, log: log, patient: true}
		if err := r.follow(cmd.Context()); !input.Is(err) { // else it never ran
			failed[i] = err
		}
	}
	both.Go(func() { follow(0, "stdout", cmd.OutOrStdout(), cmd.ErrOrStderr()) })
	both.Go(func() { follow(1, "stderr", cmd.ErrOrStderr(), io.Discard) })
	both.Wait()
	return errors.Join(failed[0], failed[1])
}

// cancelFollowed cancels a job whose user has pressed Ctrl-C.
func cancelFollowed(ctx context.Context, cmd *cobra.Command, c *client, id cluster.JobID) error {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	var taken web.Accepted
	err := c.ask(ctx, http.MethodPost, fmt.Sprintf("jobs/%d/cancel", int64(id)), nil, &taken)
	if err != nil && !input.Is(err) { // else it has ended meanwhile
		return fmt.Errorf("%s goes on, it cannot be cancelled: %w", id, err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s is cancelled\n", id)
	return nil
}
