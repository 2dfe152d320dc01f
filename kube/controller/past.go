package controller

import (
	"context"
	"log/slog"
	"time"

	"gleaner/cluster"
	"gleaner/history"
)

// A ledger records how long jobs took: their objects may be deleted, and plain pods are. It
// writes in its own goroutine, so that the loop never waits for a disk.
type ledger struct {
	store *history.Store
	log   *slog.Logger
	names map[cluster.JobID]string // of jobs that have not ended
	ended chan history.JobRun
	at    time.Time // of the last event
}

func newLedger(store *history.Store, log *slog.Logger) *ledger {
	return &ledger{store: store, log: log, names: map[cluster.JobID]string{}, ended: make(chan history.JobRun, 1000)}
}

func (l *ledger) Event(ev cluster.Event) error {
	l.at = ev.At
	switch ev.Kind {
	case cluster.JobSubmitted:
		l.names[ev.Job.ID] = ev.Job.Name
	case cluster.Resumed:
		for _, p := range ev.Past {
			if p.Ended.IsZero() {
				l.names[p.Job.ID] = p.Job.Name
			}
		}
	}
	return nil
}

func (l *ledger) Action(a cluster.Action) error {
	if a.Kind != cluster.FinishJob {
		return nil
	}
	name := l.names[a.ID]
	delete(l.names, a.ID)
	if a.Reason == "" && !a.Account.Started.IsZero() && name != "" {
		select {
		case l.ended <- history.JobRun{Name: name, Ended: l.at, Took: l.at.Sub(a.Account.Started), Work: a.Account.Work}:
		default: // other runs of the job suffice
		}
	}
	return nil
}

// keep writes what was recorded until ctx is done.
func (l *ledger) keep(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case run := <-l.ended:
			if err := l.store.AddJobRun(ctx, run); err != nil && ctx.Err() == nil {
				l.log.Error("it is not kept how long a job took", "job", run.Name, "because", err)
			}
		}
	}
}

// past are the jobs of the history, for a core that starts.
func past(ctx context.Context, store *history.Store) ([]cluster.PastJob, error) {
	runs, err := store.JobRuns(ctx)
	var all []cluster.PastJob
	for i, r := range runs {
		all = append(all, cluster.PastJob{ // a number that no job has, and the least that a job is made of
			Job:   &cluster.Job{ID: cluster.JobID(-1 - i), Name: r.Name, Stages: []cluster.Stage{{Name: "all", Tasks: 1, Request: cluster.Resources{CPU: 1}}}},
			Ended: r.Ended, Account: cluster.Account{Started: r.Ended.Add(-r.Took), Work: r.Work}})
	}
	return all, err
}
