package harvester

import (
	"log/slog"

	"gleaner/cluster"
)

// logged logs what happens to tasks and jobs, and why.
type logged struct{ *slog.Logger }

func (l logged) Event(ev cluster.Event) error {
	switch ev.Kind {
	case cluster.JobSubmitted:
		l.Info("job submitted", "job", ev.Job.ID.String(), "name", ev.Job.Name)
	case cluster.JobPaused, cluster.JobContinued:
		l.Info(ev.Kind.String(), "job", ev.ID.String())
	case cluster.ServerDrained, cluster.ServerOpened:
		l.Info(ev.Kind.String())
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
	case cluster.GiveUpTask:
		l.Warn("given up; its job goes on", "task", a.Task.String(), "reason", a.Reason)
	case cluster.FinishJob:
		l.Info("job ended", "job", a.ID.String(), "reason", a.Reason)
	}
	return nil
}
