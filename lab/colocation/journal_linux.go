package colocation

import (
	"time"

	"gleaner/cluster"
	"gleaner/local"
)

// A journal collects the figures of an outcome.
type journal struct {
	world     *local.World
	end       time.Time
	jobs      []jobRun
	place     map[cluster.JobID]int // in jobs
	started   int
	killed    int
	moved     int     // tables
	harvested float64 // thousandths of a core, times seconds

	begun, reported time.Time
}

func newJournal(world *local.World) *journal {
	return &journal{world: world, place: map[cluster.JobID]int{}}
}

// Event updates the journal by an event.
func (j *journal) Event(ev cluster.Event) error {
	switch ev.Kind {
	case cluster.UseReported:
		if j.begun.IsZero() {
			j.begun, j.reported = ev.At, ev.At
		}
		j.harvested += ev.At.Sub(j.reported).Seconds() * float64(j.world.Last().Harvested.CPU)
		j.reported = ev.At
	case cluster.JobSubmitted:
		j.place[ev.Job.ID] = len(j.jobs)
		j.jobs = append(j.jobs, jobRun{name: ev.Job.Name, since: ev.At})
	case cluster.TaskStarted:
		j.started++
	case cluster.TaskKilled:
		j.killed++
	case cluster.TaskFinished:
		if ev.Task.Stage == "write" || ev.Task.Stage == "read" {
			j.moved++
		}
	}
	return nil
}

// Action updates the journal by a decision.
func (j *journal) Action(a cluster.Action) error {
	if a.Kind == cluster.FinishJob {
		run := &j.jobs[j.place[a.ID]]
		run.took, run.finished, run.failed = time.Since(run.since), a.Reason == "", a.Reason
	}
	return nil
}

// sum adds the journal up. A job that has not ended counts with the time it
// has taken so far.
func (j *journal) sum(o *outcome, mb int) {
	for _, run := range j.jobs {
		if !run.finished && run.failed == "" {
			run.took = j.end.Sub(run.since)
		}
		o.jobs = append(o.jobs, run)
	}
	o.started, o.killed, o.moved = j.started, j.killed, j.moved*mb
	if while := j.reported.Sub(j.begun).Seconds(); while > 0 {
		o.harvested = j.harvested / while / float64(j.world.Machine().CPU)
	}
}
