// Package loads learns, from the tasks that a machine ran, how much of each of
// its resources the tasks of a stage use, and what ran beside them. It follows
// the loop as a recorder and decides nothing.
package loads

import (
	"maps"
	"slices"
	"sync"
	"time"

	"gleaner/cluster"
	"gleaner/dilation"
	"gleaner/history"
)

// A Book keeps the loading vectors of stages.
type Book struct {
	// Finished is called for every task that finished, by the loop: it must not
	// block. The run has no Used yet.
	Finished func(task cluster.TaskID, stage string, run dilation.ObservedRun)

	machine dilation.Machine

	mu      sync.Mutex
	runs    map[string][]dilation.ObservedRun
	learned map[string]dilation.Vector
	names   map[cluster.JobID]string
	running map[cluster.TaskID]*task
	primary dilation.Vector
	at      time.Time // of the last event
}

// A task is one that runs.
type task struct {
	stage string
	since time.Time
	load  dilation.Vector
	area  dilation.Vector // load beside it, times seconds
}

// New returns an empty book of a machine whose first resource is its cores.
func New(m dilation.Machine) *Book {
	return &Book{machine: m, runs: map[string][]dilation.ObservedRun{}, learned: map[string]dilation.Vector{}, names: map[cluster.JobID]string{},
		running: map[cluster.TaskID]*task{}, primary: make(dilation.Vector, len(m))}
}

// Stage is the name of a stage that is the same in every run.
func Stage(job, stage string) string { return job + "/" + stage }

// Learn adds a run of a stage. It keeps as many of the last runs as the history does.
func (b *Book) Learn(stage string, run dilation.ObservedRun) {
	if len(run.Used) != len(b.machine) || len(run.Beside) != len(b.machine) {
		return // a run on another machine
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	all := append(b.runs[stage], run)
	b.runs[stage] = all[max(0, len(all)-history.KeptTaskRuns):]
	b.learned[stage] = b.machine.Learn(b.runs[stage])
}

// Load is the loading vector of a stage; nil if it has not run yet.
func (b *Book) Load(stage string) dilation.Vector {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.learned[stage]
}

// A Learned stage is one that has run.
type Learned struct {
	Stage string
	Load  dilation.Vector
	Alone time.Duration // that a task takes on an idle machine
	// Predicted and Measured are by how much each run was stretched by what ran
	// beside it: by the loading vector, and by the time it took.
	Predicted, Measured []float64
}

// Learned lists what was learned, by stage.
func (b *Book) Learned() []Learned {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []Learned
	for _, stage := range slices.Sorted(maps.Keys(b.learned)) {
		runs, load := b.runs[stage], b.learned[stage]
		alone := b.machine.Alone(runs, load)
		l := Learned{Stage: stage, Load: load, Alone: time.Duration(alone * float64(time.Second))}
		for _, r := range runs {
			l.Predicted = append(l.Predicted, b.machine.Factor(load, b.machine.Sum(load, r.Beside)))
			l.Measured = append(l.Measured, r.Took.Seconds()/alone)
		}
		all = append(all, l)
	}
	return all
}

// Known is a job with the loading vectors learned for its stages, except those
// that it has itself.
func (b *Book) Known(job *cluster.Job) *cluster.Job {
	known := *job
	known.Stages = slices.Clone(job.Stages)
	for i := range known.Stages {
		if st := &known.Stages[i]; st.Loading == nil {
			st.Loading = b.Load(Stage(job.Name, st.Name))
		}
	}
	return &known
}

// Action updates the book by a decision.
func (b *Book) Action(a cluster.Action) error {
	if a.Kind == cluster.FinishJob {
		b.mu.Lock()
		delete(b.names, a.ID)
		b.mu.Unlock()
	}
	return nil
}

// Event updates the book by an event.
func (b *Book) Event(ev cluster.Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(ev.At)
	switch ev.Kind {
	case cluster.UseReported:
		for _, use := range ev.Use {
			b.primary[0] = float64(use.Primary.CPU) / float64(cluster.Core)
		}
	case cluster.JobSubmitted:
		b.names[ev.Job.ID] = ev.Job.Name
	case cluster.Resumed:
		for _, p := range ev.Past {
			if p.Ended.IsZero() {
				b.names[p.Job.ID] = p.Job.Name
			}
		}
	case cluster.TaskStarted:
		b.started(ev)
	case cluster.TaskFinished, cluster.TaskFailed, cluster.TaskKilled, cluster.TaskNotStarted:
		b.stopped(ev)
	}
	return nil
}

// advance adds up the load beside each task until now.
func (b *Book) advance(now time.Time) {
	past := now.Sub(b.at).Seconds()
	b.at = now
	if past <= 0 {
		return
	}
	total := b.machine.Sum(b.primary)
	for _, t := range b.running {
		total.Add(t.load)
	}
	for _, t := range b.running {
		for i := range t.area {
			t.area[i] += max(0, total[i]-t.load[i]) * past
		}
	}
}

// started adds a task. One whose load is unknown counts as computing all the time.
func (b *Book) started(ev cluster.Event) {
	name, known := b.names[ev.Task.Job]
	if !known {
		return
	}
	t := &task{stage: Stage(name, ev.Task.Stage), since: ev.At, area: make(dilation.Vector, len(b.machine))}
	if t.load = b.learned[t.stage]; t.load == nil {
		t.load = make(dilation.Vector, len(b.machine))
		t.load[0] = 1
	}
	b.running[ev.Task] = t
}

func (b *Book) stopped(ev cluster.Event) {
	t := b.running[ev.Task]
	delete(b.running, ev.Task)
	if t == nil || ev.Kind != cluster.TaskFinished || b.Finished == nil {
		return
	}
	took := ev.At.Sub(t.since)
	if took <= 0 {
		return
	}
	run := dilation.ObservedRun{Took: took, Beside: t.area}
	for i := range run.Beside {
		run.Beside[i] /= took.Seconds()
	}
	b.Finished(ev.Task, t.stage, run)
}
