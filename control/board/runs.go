package board

import (
	"slices"
	"time"

	"gleaner/cluster"
)

// A Run is one run of a task that was started or still ran since this board exists.
type Run struct {
	Task     cluster.TaskID
	On       cluster.ServerID
	From, To time.Time // To is zero while it runs
	End      State     // Running, Finished, Failed or Killed
	Reason   string    // why it failed or was killed
}

// Killed is the end of a run that made way for the primary, was cancelled, or whose
// server left.
const Killed State = "killed"

// keptRuns is how many runs of a job are kept, the last ones.
const keptRuns = 500

// Runs lists the last runs of a job, in the order of their starts.
func (b *Board) Runs(id cluster.JobID) []Run {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.runs[id])
}

func (b *Board) begin(ev cluster.Event) {
	all := append(b.runs[ev.Task.Job], Run{Task: ev.Task, On: ev.On, From: ev.At, End: Running})
	b.runs[ev.Task.Job] = all[max(len(all)-keptRuns, 0):]
}

// finish notes how a run ended. One that did not start is not a run.
func (b *Board) finish(ev cluster.Event) {
	all := b.runs[ev.Task.Job]
	i := slices.IndexFunc(all, func(r Run) bool { return r.Task == ev.Task })
	if i < 0 {
		return
	}
	if ev.Kind == cluster.TaskNotStarted {
		b.runs[ev.Task.Job] = slices.Delete(all, i, i+1)
		return
	}
	all[i].To, all[i].Reason = ev.At, ev.Reason
	all[i].End = map[cluster.EventKind]State{cluster.TaskFinished: Finished, cluster.TaskFailed: Failed, cluster.TaskKilled: Killed}[ev.Kind]
}

// lose ends the runs on a server that left.
func (b *Board) lose(on cluster.ServerID, at time.Time) {
	for _, all := range b.runs {
		for i := range all {
			if r := &all[i]; r.On == on && r.End == Running {
				r.To, r.End, r.Reason = at, Killed, "the server left"
			}
		}
	}
}
