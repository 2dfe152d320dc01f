package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"gleaner/classify"
	"gleaner/cluster"
	"gleaner/control"
	"gleaner/history"
)

// recorders keep what happens, each in its own way.
type recorders []control.Recorder

func (r recorders) Event(ev cluster.Event) error {
	for _, one := range r {
		if err := one.Event(ev); err != nil {
			return err
		}
	}
	return nil
}

func (r recorders) Action(a cluster.Action) error {
	for _, one := range r {
		if err := one.Action(a); err != nil {
			return err
		}
	}
	return nil
}

// logged says what happens to tasks and jobs, and why.
type logged struct{ *slog.Logger }

func (l logged) Event(ev cluster.Event) error {
	switch ev.Kind {
	case cluster.JobSubmitted:
		l.Info("job submitted", "job", ev.Job.ID.String(), "name", ev.Job.Name)
	case cluster.TaskStarted, cluster.TaskFinished:
		l.Info(ev.Kind.String(), "task", ev.Task.String())
	case cluster.TaskFailed, cluster.TaskKilled:
		l.Warn(ev.Kind.String(), "task", ev.Task.String(), "reason", ev.Reason)
	case cluster.ClassesPublished:
		for _, c := range ev.Classes {
			l.Info("the primary was classified", "pattern", c.Pattern.String(), "mean", c.Mean, "peak", c.Peak)
		}
	}
	return nil
}

func (l logged) Action(a cluster.Action) error {
	switch a.Kind {
	case cluster.KillTask:
		l.Warn("killing", "task", a.Task.String(), "reason", a.Reason)
	case cluster.DelayTask:
		l.Info("waits before it is run again", "task", a.Task.String(), "for", a.Pause.String())
	case cluster.FinishJob:
		l.Info("job ended", "job", a.ID.String(), "reason", a.Reason)
	}
	return nil
}

// A diary keeps the history of the primary: its mean use, every two minutes.
// It writes on its own time, so that the loop never waits for a disk.
type diary struct {
	store *history.Store
	size  cluster.Resources
	log   *slog.Logger
	pages chan history.Sample

	since, last time.Time
	cpu, memory float64 // used since then, times seconds
	full        bool    // the last page found no place
}

// pageEvery is how often the history gets a sample.
const pageEvery = 2 * time.Minute

func newDiary(store *history.Store, server cluster.Server, log *slog.Logger) *diary {
	return &diary{store: store, size: server.Size(), log: log, pages: make(chan history.Sample, 100)}
}

func (d *diary) Action(cluster.Action) error { return nil }

func (d *diary) Event(ev cluster.Event) error {
	if ev.Kind != cluster.UseReported || len(ev.Use) == 0 {
		return nil
	}
	if d.since.IsZero() {
		d.since, d.last = ev.At, ev.At
	}
	while := ev.At.Sub(d.last).Seconds() // since the report before, which this one tells of
	d.cpu += while * float64(ev.Use[0].Primary.CPU)
	d.memory += while * float64(ev.Use[0].Primary.Memory)
	d.last = ev.At
	all := ev.At.Sub(d.since)
	if all < pageEvery {
		return nil
	}
	cpu, _ := history.Clamp(d.cpu / all.Seconds() / float64(d.size.CPU))
	mem, _ := history.Clamp(d.memory / all.Seconds() / float64(d.size.Memory))
	full := false
	select {
	case d.pages <- history.Sample{Milli: ev.At.UnixMilli(), Server: ev.Use[0].On, CPU: cpu, Mem: mem}:
	default:
		full = true
	}
	if full && !d.full {
		d.log.Error("the history does not keep up; samples are lost until it does")
	}
	d.full = full
	d.since, d.cpu, d.memory = ev.At, 0, 0
	return nil
}

// keep writes the pages down until ctx is done.
func (d *diary) keep(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case page := <-d.pages:
			if err := d.store.Append(ctx, page); err != nil {
				return err
			}
		}
	}
}

// upkeep classifies the primary and forgets old jobs, now and every day.
func (u *upped) upkeep(ctx context.Context) error {
	days := time.NewTicker(24 * time.Hour)
	defer days.Stop()
	for {
		if err := u.classify(ctx); err != nil {
			return err
		}
		old := time.Now().Add(-u.flags.keep)
		if err := u.world.Prune(old); err != nil {
			u.log.Error("not all old jobs could be forgotten; they will be tomorrow", "error", err)
		}
		u.shown.Forget(old)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-days.C:
		}
	}
}

// classifyWindow is how much history tells a pattern (OSDI'16 §3.2: a month).
const classifyWindow = 30 * 24 * time.Hour

// classify tells the core what class this machine is in, once there is enough
// history to say.
func (u *upped) classify(ctx context.Context) error {
	step, err := u.history.Step(ctx)
	if errors.Is(err, history.ErrEmpty) {
		return nil
	}
	if err != nil {
		return err
	}
	first, last, err := u.history.Range(ctx)
	if err != nil {
		return err
	}
	w := windowBefore(last.Truncate(step).Add(step), first, classifyWindow, step)
	series, err := u.history.Window(ctx, w)
	if err != nil {
		return err
	}
	for _, s := range series {
		if s.Tenant != u.world.Machine().Tenant() {
			continue
		}
		result := classify.Run(w, []cluster.Series{s}, classify.Options{Seed: 1})
		for _, skipped := range result.Skipped {
			u.log.Info("the primary is not classified yet", "because", skipped.Reason)
		}
		u.world.Publish(result.Classes)
	}
	return nil
}
