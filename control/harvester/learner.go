package harvester

import (
	"context"
	"time"

	"gleaner/cluster"
	"gleaner/control/loads"
	"gleaner/dilation"
	"gleaner/history"
)

// A learner learns how tasks load the machine, and stores it in the history.
// It writes in its own goroutine, so that the loop never waits for a disk.
type learner struct {
	*loads.Book
	world World
	store *history.Store
	ended chan endedTask
}

// An endedTask is a task to learn from.
type endedTask struct {
	task  cluster.TaskID
	stage string
	run   dilation.ObservedRun
}

// newLearner returns a learner with the task runs of the history.
func newLearner(ctx context.Context, world World, machine dilation.Machine, store *history.Store) (*learner, error) {
	l := &learner{loads.New(machine), world, store, make(chan endedTask, 1000)}
	l.Finished = func(task cluster.TaskID, stage string, run dilation.ObservedRun) {
		select {
		case l.ended <- endedTask{task, stage, run}:
		default: // other tasks of the stage suffice
		}
	}
	past, err := store.TaskRuns(ctx)
	for _, r := range past {
		l.Learn(r.Stage, dilation.ObservedRun{Took: r.Took, Used: r.Used, Beside: r.Beside})
	}
	return l, err
}

// keep learns from the tasks that end until ctx is done.
func (l *learner) keep(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-l.ended:
			spent, known := l.world.Spent(e.task)
			if !known || spent.Took <= 0 {
				continue
			}
			e.run.Used = used(spent)
			l.Learn(e.stage, e.run)
			err := l.store.AddTaskRun(ctx, history.TaskRun{Stage: e.stage, Start: spent.Start, Took: e.run.Took, Used: e.run.Used, Beside: e.run.Beside})
			if err != nil {
				return err
			}
		}
	}
}

// used are the shares of a run's time on cores and stalled for the disk, of the
// time in which it did not wait for a core. The disk's share is 0 if the kernel
// does not report stalls.
func used(s cluster.Spent) dilation.Vector {
	went := max(s.Took-max(s.Waited, 0), s.CPU, time.Millisecond).Seconds()
	return dilation.Limited(dilation.Vector{min(1, s.CPU.Seconds()/went), min(1, max(s.Stalled, 0).Seconds()/went)})
}
