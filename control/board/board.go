// Package board shows what is going on in a world. It follows the loop as a
// recorder, decides nothing, and may be asked at any time.
package board

import (
	"slices"
	"sync"
	"time"

	"gleaner/cluster"
	"gleaner/dilation"
	"gleaner/harvest"
)

// A State says how far a job or a stage has come.
type State string

// The states. A stage that was not finished when its job ended is in the
// state of the job.
const (
	Blocked   State = "blocked" // a stage that comes after others that have not finished
	Waiting   State = "waiting" // tasks may start, and none runs
	Running   State = "running"
	Finished  State = "finished"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// A Job is what is shown of one.
type Job struct {
	ID        cluster.JobID `json:"id"`
	Name      string        `json:"name"`
	State     State         `json:"state"`
	Submitted time.Time     `json:"submitted"`
	Started   time.Time     `json:"started,omitzero"`
	Ended     time.Time     `json:"ended,omitzero"`
	Reason    string        `json:"reason,omitempty"` // why it did not run to its end
	Kills     int           `json:"kills"`            // of its tasks
	Stages    []Stage       `json:"stages"`
	Running   []Run         `json:"running"` // the oldest first
	Delayed   []Delay       `json:"delayed,omitempty"`
}

// A Delay is a task that has failed and waits before it is run again.
type Delay struct {
	Task   cluster.TaskID `json:"-"` // its next run
	Name   string         `json:"task"`
	Until  time.Time      `json:"until"`
	Reason string         `json:"reason"` // why it failed
}

// A Stage is what is shown of one.
type Stage struct {
	Name     string            `json:"name"`
	State    State             `json:"state"`
	After    []string          `json:"after,omitempty"`
	Request  cluster.Resources `json:"request"`
	Tasks    int               `json:"tasks"`
	Running  int               `json:"running"`
	Waiting  int               `json:"waiting"` // tasks that may start and do not run
	Finished int               `json:"finished"`
	Failures int               `json:"failures"` // of its tasks, that were or will be retried
	// Loading is the share of a task's time on a core and on the disk, as
	// learned from earlier runs; nil before.
	Loading []float64 `json:"loading,omitempty"`
}

// A Run is a task that runs.
type Run struct {
	Task    cluster.TaskID    `json:"-"`
	Name    string            `json:"task"`
	Since   time.Time         `json:"since"`
	Request cluster.Resources `json:"request"`
	// Dilation is by how much it is expected to be slowed down by all that runs
	// now; 0 when its loading is not known.
	Dilation float64 `json:"dilation,omitempty"`
}

// A Kill is a task that was killed.
type Kill struct {
	At     time.Time `json:"at"`
	Task   string    `json:"task"`
	Reason string    `json:"reason"`
}

// A Class is what history says of the server's primary.
type Class struct {
	Pattern     cluster.Pattern `json:"pattern"`
	Mean        float64         `json:"mean"` // 0 to 1
	Peak        float64         `json:"peak"`
	PeriodHours float64         `json:"period_hours,omitempty"`
}

// A Shortage is a part of gleaner that waits for files, memory, processes or
// room on the disk.
type Shortage struct {
	Of      string    `json:"of"`
	Since   time.Time `json:"since"`
	Because string    `json:"because"`
}

// A Status is the whole at a glance.
type Status struct {
	At      time.Time         `json:"at"` // of the last sample
	Server  cluster.ServerID  `json:"server"`
	Size    cluster.Resources `json:"size"`
	Reserve cluster.Resources `json:"reserve"`         // kept free for the primary
	Primary cluster.Resources `json:"primary"`         // used by all that is not harvested
	Counted cluster.Resources `json:"counted"`         // what that counts as: rounded up
	Held    cluster.Resources `json:"held"`            // asked for by the tasks that run
	Class   *Class            `json:"class,omitempty"` // once there is enough history
	Running int               `json:"running"`         // tasks
	Waiting int               `json:"waiting"`         // tasks that may start
	Blocked int               `json:"blocked"`         // tasks that come after stages which have not finished
	Jobs    int               `json:"jobs"`            // that have not ended
	Kills   int               `json:"kills"`           // since this process started
	Last    []Kill            `json:"last_kills"`
	// Dilation is that of the running tasks whose loading is known, on average;
	// 0 when there are none.
	Dilation float64    `json:"dilation,omitempty"`
	Short    []Shortage `json:"short,omitempty"` // what waits for room
}

// A Board keeps what was last known of one server and its jobs.
type Board struct {
	// Machine gives the resources that loadings speak of, cores first. Nil:
	// slow-downs are not foreseen. Set it before the first event.
	Machine dilation.Machine
	// Reserve is what is kept free. Set it before the first event.
	Reserve harvest.Reserve

	resumed chan struct{}
	known   func() // closes resumed

	mu     sync.Mutex
	status Status
	jobs   map[cluster.JobID]*Job
}

// New gives an empty board.
func New(reserve harvest.Reserve) *Board {
	resumed := make(chan struct{})
	return &Board{Reserve: reserve, resumed: resumed, known: sync.OnceFunc(func() { close(resumed) }), jobs: map[cluster.JobID]*Job{}, status: Status{Last: []Kill{}}}
}

// Resumed is closed once the board knows the jobs of the past: who asks before
// that would be told that there are none.
func (b *Board) Resumed() <-chan struct{} { return b.resumed }

// lastKills is how many kills are shown.
const lastKills = 10

// Event takes in what happened.
func (b *Board) Event(ev cluster.Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev.Kind {
	case cluster.ServerJoined:
		b.status.Server, b.status.Size, b.status.Reserve = ev.Server.ID, ev.Server.Size(), b.Reserve.Of(ev.Server.Size())
	case cluster.UseReported:
		for _, use := range ev.Use {
			b.status.At, b.status.Primary, b.status.Counted = ev.At, use.Primary, b.Reserve.Counted(use.Primary)
		}
	case cluster.ClassesPublished:
		b.status.Class = nil
		if len(ev.Classes) > 0 {
			c := &ev.Classes[0]
			b.status.Class = &Class{c.Pattern, c.Mean, c.Peak, c.Period.Hours()}
		}
	case cluster.JobSubmitted:
		b.add(ev.Job, ev.At)
	case cluster.Resumed:
		for i := range ev.Past {
			b.restore(&ev.Past[i])
		}
		b.known()
	case cluster.TaskStarted:
		b.started(ev)
	case cluster.TaskFinished, cluster.TaskFailed, cluster.TaskKilled, cluster.TaskNotStarted:
		b.stopped(ev)
	}
	return nil
}

// Action takes in what was decided: the end of a job, and what is run again later.
func (b *Board) Action(a cluster.Action) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch a.Kind {
	case cluster.FinishJob:
		if j := b.jobs[a.ID]; j != nil {
			j.end(time.Now(), a.Reason, a.Cancelled)
		}
	case cluster.DelayTask:
		if j := b.jobs[a.Task.Job]; j != nil {
			j.Delayed = append(j.Delayed, Delay{a.Task, a.Task.String(), time.Now().Add(a.Pause), a.Reason})
		}
	}
	return nil
}

func (j *Job) end(at time.Time, reason string, cancelled bool) {
	j.Ended, j.Reason, j.State, j.Delayed = at, reason, Failed, nil
	switch {
	case cancelled:
		j.State = Cancelled
	case reason == "":
		j.State = Finished
	}
}

func (b *Board) add(spec *cluster.Job, at time.Time) *Job {
	j := &Job{ID: spec.ID, Name: spec.Name, State: Waiting, Submitted: at, Running: []Run{}}
	for _, s := range spec.Stages {
		j.Stages = append(j.Stages, Stage{Name: s.Name, After: s.After, Request: s.Request, Tasks: s.Tasks, Loading: s.Loading})
	}
	b.jobs[spec.ID] = j
	return j
}

func (b *Board) restore(p *cluster.PastJob) {
	j := b.add(p.Job, p.Submitted)
	j.Started, j.Kills = p.Started, p.Kills
	for _, s := range p.Stages {
		if st := j.stage(s.Name); st != nil {
			st.Finished, st.Failures = s.Finished.Len(), s.Failures
		}
	}
	for _, r := range p.Runs {
		if st := j.stage(r.Task.Stage); st != nil && r.State == cluster.Running {
			b.started(cluster.Event{At: r.Since, Task: r.Task, Request: st.Request})
		}
	}
	if !p.Ended.IsZero() {
		j.end(p.Ended, p.Reason, p.Cancelled)
		for i := range j.Stages {
			if p.Reason == "" {
				j.Stages[i].Finished = j.Stages[i].Tasks
			}
		}
	}
}

func (j *Job) stage(name string) *Stage {
	i := slices.IndexFunc(j.Stages, func(s Stage) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &j.Stages[i]
}

// stages are those of the job with their states.
func (j *Job) stages() []Stage {
	unfinished := map[string]bool{}
	for _, st := range j.Stages {
		unfinished[st.Name] = st.Finished < st.Tasks
	}
	all := slices.Clone(j.Stages)
	for i := range all {
		switch st := &all[i]; {
		case !unfinished[st.Name]:
			st.State = Finished
		case !j.Ended.IsZero():
			st.State = j.State
		case slices.ContainsFunc(st.After, func(name string) bool { return unfinished[name] }):
			st.State = Blocked
		default:
			st.State, st.Waiting = Running, st.Tasks-st.Finished-st.Running
			if st.Running == 0 {
				st.State = Waiting
			}
		}
	}
	return all
}

func (b *Board) started(ev cluster.Event) {
	j := b.jobs[ev.Task.Job]
	if j != nil && slices.ContainsFunc(j.Running, func(r Run) bool { return r.Task == ev.Task }) {
		return // it has run since before this board was there
	}
	b.status.Running++
	b.status.Held = b.status.Held.Add(ev.Request)
	if j == nil {
		return
	}
	if j.Started.IsZero() {
		j.Started = ev.At
	}
	if j.Ended.IsZero() {
		j.State = Running
	}
	j.Delayed = slices.DeleteFunc(j.Delayed, func(d Delay) bool { return d.Task == ev.Task })
	j.Running = append(j.Running, Run{Task: ev.Task, Name: ev.Task.String(), Since: ev.At, Request: ev.Request})
	if st := j.stage(ev.Task.Stage); st != nil {
		st.Running++
	}
}

func (b *Board) stopped(ev cluster.Event) {
	if ev.Kind == cluster.TaskKilled {
		b.status.Kills++
		b.status.Last = append(b.status.Last, Kill{ev.At, ev.Task.String(), ev.Reason})
		b.status.Last = b.status.Last[max(len(b.status.Last)-lastKills, 0):]
	}
	j := b.jobs[ev.Task.Job]
	if j == nil {
		return
	}
	if i := slices.IndexFunc(j.Running, func(r Run) bool { return r.Task == ev.Task }); i >= 0 {
		b.status.Running--
		b.status.Held = b.status.Held.Sub(j.Running[i].Request)
		j.Running = slices.Delete(j.Running, i, i+1)
	}
	if len(j.Running) == 0 && j.Ended.IsZero() {
		j.State = Waiting
	}
	st := j.stage(ev.Task.Stage)
	if st == nil {
		return
	}
	st.Running--
	switch ev.Kind {
	case cluster.TaskFinished:
		st.Finished++
	case cluster.TaskFailed:
		st.Failures++
	case cluster.TaskKilled:
		j.Kills++
	}
}

// Short takes in that a part of gleaner waits, and why, or with nil that it
// goes on. It reports whether that is news.
func (b *Board) Short(of string, because error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.status.Short, func(s Shortage) bool { return s.Of == of })
	switch {
	case because != nil && i < 0:
		b.status.Short = append(b.status.Short, Shortage{of, time.Now(), because.Error()})
	case because == nil && i >= 0:
		b.status.Short = slices.Delete(b.status.Short, i, i+1)
	case because != nil:
		b.status.Short[i].Because = because.Error()
		return false
	default:
		return false
	}
	return true
}

// Forget drops the jobs that ended before a moment.
func (b *Board) Forget(before time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, j := range b.jobs {
		if !j.Ended.IsZero() && j.Ended.Before(before) {
			delete(b.jobs, id)
		}
	}
}

// Status tells the whole at a glance.
func (b *Board) Status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.status
	s.Last, s.Short = slices.Clone(s.Last), slices.Clone(s.Short)
	for _, j := range b.jobs {
		if !j.Ended.IsZero() {
			continue
		}
		s.Jobs++
		for _, st := range j.stages() {
			s.Waiting += st.Waiting
			if st.State == Blocked {
				s.Blocked += st.Tasks
			}
		}
	}
	s.Dilation = b.meanDilation()
	return s
}

// Jobs lists all jobs, the oldest first.
func (b *Board) Jobs() []Job {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := []Job{}
	for _, j := range b.jobs {
		all = append(all, b.show(j))
	}
	slices.SortFunc(all, func(a, b Job) int { return int(a.ID - b.ID) })
	return all
}

// Job finds one job.
func (b *Board) Job(id cluster.JobID) (Job, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j := b.jobs[id]
	if j == nil {
		return Job{}, false
	}
	return b.show(j), true
}

// Run finds the run of a task that runs now, whichever it is.
func (b *Board) Run(task cluster.TaskID) (cluster.TaskID, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if j := b.jobs[task.Job]; j != nil {
		for _, r := range j.Running {
			if r.Task.Stage == task.Stage && r.Task.Index == task.Index {
				return r.Task, true
			}
		}
	}
	return cluster.TaskID{}, false
}

// show is a job with the slow-down of its tasks as it is foreseen now.
func (b *Board) show(j *Job) Job {
	c := *j
	c.Stages, c.Running, c.Delayed = j.stages(), slices.Clone(j.Running), slices.Clone(j.Delayed)
	total := b.total()
	for i := range c.Running {
		if load := b.loading(j, c.Running[i].Task.Stage); load != nil {
			c.Running[i].Dilation = b.Machine.Factor(load, total)
		}
	}
	return c
}

// loading is that of a stage's tasks; nil when it is not known.
func (b *Board) loading(j *Job, stage string) dilation.Vector {
	if st := j.stage(stage); st != nil && b.Machine != nil && len(st.Loading) == len(b.Machine) {
		return st.Loading
	}
	return nil
}

// total is the load of all that runs: the primary, by the cores it uses, and
// the tasks whose loading is known.
func (b *Board) total() dilation.Vector {
	total := make(dilation.Vector, len(b.Machine))
	if len(total) > 0 {
		total[0] = float64(b.status.Primary.CPU) / float64(cluster.Core)
	}
	for _, j := range b.jobs {
		for _, r := range j.Running {
			if load := b.loading(j, r.Task.Stage); load != nil {
				total.Add(load)
			}
		}
	}
	return total
}

func (b *Board) meanDilation() float64 {
	sum, n := 0.0, 0
	total := b.total()
	for _, j := range b.jobs {
		for _, r := range j.Running {
			if load := b.loading(j, r.Task.Stage); load != nil {
				sum, n = sum+b.Machine.Factor(load, total), n+1
			}
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}
