// Package board shows the state of a world. It follows the loop as a recorder,
// decides nothing, and may be read at any time.
package board

import (
	"maps"
	"slices"
	"sync"
	"time"

	"gleaner/cluster"
	"gleaner/dilation"
	"gleaner/harvest"
)

// A Board keeps the last known state of servers and jobs.
type Board struct {
	// Machine returns the resources, cores first, that loadings refer to on a
	// server of that size. Nil: slow-downs are not predicted. Set it before the
	// first event.
	Machine func(size cluster.Resources) dilation.Machine
	// Reserve is what is kept free. Set it before the first event.
	Reserve harvest.Reserve
	// Unaware: the policy knows nothing of primaries, and keeps nothing free for them. Set it before the first event.
	Unaware bool

	resumed chan struct{}
	known   func() // closes resumed

	mu      sync.Mutex
	at      time.Time // of the last event
	servers map[cluster.ServerID]*server
	classes map[cluster.TenantID]*Class
	jobs    map[cluster.JobID]*Job
	runs    map[cluster.JobID][]Run
	totals  Totals
	last    []Kill
	short   []Shortage
}

// A server is one that has joined, and what its primary used last.
type server struct {
	cluster.Server
	at               time.Time
	primary, counted cluster.Resources
	drained          bool
}

// New returns an empty board.
func New(reserve harvest.Reserve) *Board {
	resumed := make(chan struct{})
	return &Board{Reserve: reserve, resumed: resumed, known: sync.OnceFunc(func() { close(resumed) }),
		servers: map[cluster.ServerID]*server{}, jobs: map[cluster.JobID]*Job{}, runs: map[cluster.JobID][]Run{}, last: []Kill{}, totals: Totals{JobsEnded: map[State]int{}}}
}

// Resumed is closed once the board has the jobs of the past. Before that it shows
// none.
func (b *Board) Resumed() <-chan struct{} { return b.resumed }

// lastKills is how many kills are shown.
const lastKills = 10

// Event updates the board by an event.
func (b *Board) Event(ev cluster.Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = ev.At
	b.totals.count(ev.Kind, b.dropped(ev))
	switch ev.Kind {
	case cluster.ServerJoined:
		b.servers[ev.Server.ID] = &server{Server: *ev.Server}
	case cluster.ServerDrained, cluster.ServerOpened:
		if s := b.servers[ev.On]; s != nil {
			s.drained = ev.Kind == cluster.ServerDrained
		}
	case cluster.ServerLeft:
		b.left(ev.On, ev.At)
	case cluster.UseReported:
		for _, use := range ev.Use {
			if s := b.servers[use.On]; s != nil {
				s.at, s.primary, s.counted = ev.At, use.Primary, b.Reserve.Counted(use.Primary)
			}
		}
	case cluster.ClassesPublished:
		b.publish(ev.Classes)
	case cluster.JobSubmitted:
		b.add(ev.Job, ev.At)
	case cluster.JobPaused, cluster.JobContinued:
		if j := b.jobs[ev.ID]; j != nil {
			j.Paused = ev.Kind == cluster.JobPaused
		}
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

// Action updates the board by a decision: the end of a job, or the delay of a task.
func (b *Board) Action(a cluster.Action) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch a.Kind {
	case cluster.FinishJob:
		if j := b.jobs[a.ID]; j != nil {
			j.end(b.at, a.Reason, a.Cancelled)
			b.totals.JobsEnded[j.State]++
		}
	case cluster.DelayTask:
		if j := b.jobs[a.Task.Job]; j != nil {
			j.Delayed = append(j.Delayed, Delay{a.Task, a.Task.String(), b.at.Add(a.Pause), a.Reason})
		}
	case cluster.GiveUpTask:
		if j := b.jobs[a.Task.Job]; j != nil {
			j.giveUp(a.Task)
		}
	}
	return nil
}

func (b *Board) publish(classes []cluster.Class) {
	b.classes = map[cluster.TenantID]*Class{}
	for _, c := range classes {
		for _, tenant := range c.Tenants {
			b.classes[tenant] = &Class{c.Pattern, c.Mean, c.Peak, c.Period.Hours()}
		}
	}
}

func (j *Job) end(at time.Time, reason string, cancelled bool) {
	j.Ended, j.Reason, j.State, j.Delayed, j.Paused = at, reason, Failed, nil, false
	switch {
	case cancelled:
		j.State = Cancelled
	case reason == "":
		j.State = Finished
	}
}

func (b *Board) add(spec *cluster.Job, at time.Time) *Job {
	j := &Job{ID: spec.ID, Name: spec.Name, Submitted: at, After: spec.After, Priority: spec.Priority, User: spec.User.Name, UID: spec.User.UID, Running: []RunningTask{}, gaveUp: map[cluster.TaskID]bool{}}
	for _, s := range spec.Stages {
		j.Stages = append(j.Stages, Stage{Name: s.Name, After: s.After, Request: s.Request, Tasks: s.Tasks, Loading: s.Loading})
	}
	b.jobs[spec.ID] = j
	return j
}

func (b *Board) restore(p *cluster.PastJob) {
	j := b.add(p.Job, p.Submitted)
	j.Started, j.Kills, j.Paused = p.Started, p.Kills, p.Paused
	for _, s := range p.Stages {
		if st := j.stage(s.Name); st != nil {
			st.Finished, st.Failures = s.Finished.Len(), s.Failures
		}
	}
	for _, r := range p.Runs {
		if st := j.stage(r.Task.Stage); st != nil && r.State == cluster.Running {
			b.started(cluster.Event{At: r.Since, Task: r.Task, On: r.On, Request: st.Request})
		}
		for _, s := range p.Job.Stages {
			if s.Name == r.Task.Stage && s.KeepGoing && r.State == cluster.Stopped && r.Failures >= s.MaxFailures() {
				j.giveUp(r.Task)
			}
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

func (j *Job) giveUp(task cluster.TaskID) {
	task.Attempt = 0
	if st := j.stage(task.Stage); st != nil && !j.gaveUp[task] {
		j.gaveUp[task] = true
		st.GaveUp++
	}
}

func (j *Job) stage(name string) *Stage {
	i := slices.IndexFunc(j.Stages, func(s Stage) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &j.Stages[i]
}

// awaits reports whether a job comes after one that has not ended.
func (b *Board) awaits(j *Job) bool {
	return slices.ContainsFunc(j.After, func(id cluster.JobID) bool { return b.jobs[id] != nil && b.jobs[id].Ended.IsZero() })
}

// stages are those of a job with their states.
func (b *Board) stages(j *Job) []Stage {
	awaits := b.awaits(j)
	unfinished := map[string]bool{}
	for _, st := range j.Stages {
		unfinished[st.Name] = st.Finished < st.Tasks
	}
	running := map[string]int{}
	for _, r := range j.Running {
		running[r.Task.Stage]++
	}
	all := slices.Clone(j.Stages)
	for i := range all {
		all[i].Running = running[all[i].Name]
		switch st := &all[i]; {
		case !unfinished[st.Name]:
			st.State = Finished
		case !j.Ended.IsZero() && st.Failures == 0:
			st.State = Cancelled
		case !j.Ended.IsZero():
			st.State = j.State
		case awaits, slices.ContainsFunc(st.After, func(name string) bool { return unfinished[name] }):
			st.State = Blocked
		default:
			st.State, st.Waiting = Running, st.Tasks-st.Finished-st.Running-st.GaveUp
			if st.Running == 0 {
				st.State = Waiting
			}
		}
	}
	return all
}

func (b *Board) started(ev cluster.Event) {
	j := b.jobs[ev.Task.Job]
	if j == nil || j.run(ev.Task) >= 0 { // it has run since before this board existed
		return
	}
	if j.Started.IsZero() {
		j.Started = ev.At
	}
	j.Delayed = slices.DeleteFunc(j.Delayed, func(d Delay) bool { return d.Task == ev.Task })
	j.Running = append(j.Running, RunningTask{Task: ev.Task, On: ev.On, Name: ev.Task.String(), Since: ev.At, Request: ev.Request})
	b.begin(ev)
}

// run is the index of a task among those that run; -1 if it does not.
func (j *Job) run(task cluster.TaskID) int {
	return slices.IndexFunc(j.Running, func(r RunningTask) bool { return r.Task == task })
}

// dropped reports whether a task was ended because its job had ended, and not for the primary.
func (b *Board) dropped(ev cluster.Event) bool {
	j := b.jobs[ev.Task.Job]
	return ev.Kind == cluster.TaskKilled && (j == nil || !j.Ended.IsZero())
}

func (b *Board) stopped(ev cluster.Event) {
	if ev.Kind == cluster.TaskKilled && !b.dropped(ev) {
		b.last = append(b.last, Kill{ev.At, ev.Task.String(), ev.Reason})
		b.last = b.last[max(len(b.last)-lastKills, 0):]
	}
	b.finish(ev)
	j := b.jobs[ev.Task.Job]
	if j == nil {
		return
	}
	if i := j.run(ev.Task); i >= 0 {
		j.Running = slices.Delete(j.Running, i, i+1)
	}
	st := j.stage(ev.Task.Stage)
	if st == nil {
		return
	}
	switch ev.Kind {
	case cluster.TaskFinished:
		st.Finished++
	case cluster.TaskFailed:
		st.Failures++
	case cluster.TaskKilled:
		if !b.dropped(ev) {
			j.Kills++
		}
	}
}

// left forgets a server and its tasks: no event will say how these ended.
func (b *Board) left(id cluster.ServerID, at time.Time) {
	delete(b.servers, id)
	b.lose(id, at)
	for _, j := range b.jobs {
		j.Running = slices.DeleteFunc(j.Running, func(r RunningTask) bool { return r.On == id })
	}
}

// Short notes that a part of gleaner waits, and why, or with nil that it
// continues. It reports whether that is a change.
func (b *Board) Short(at time.Time, of string, because error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.short, func(s Shortage) bool { return s.Of == of })
	switch {
	case because != nil && i < 0:
		b.short = append(b.short, Shortage{of, at, because.Error()})
	case because == nil && i >= 0:
		b.short = slices.Delete(b.short, i, i+1)
	case because != nil:
		b.short[i].Because = because.Error()
		return false
	default:
		return false
	}
	return true
}

// Forget drops the jobs that ended before a time.
func (b *Board) Forget(before time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, j := range b.jobs {
		if !j.Ended.IsZero() && j.Ended.Before(before) {
			delete(b.jobs, id)
			delete(b.runs, id)
		}
	}
}

// Remove drops a job.
func (b *Board) Remove(id cluster.JobID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.jobs, id)
}

// Status summarises all servers and jobs.
func (b *Board) Status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Status{Kills: b.totals.TasksKilled, Last: slices.Clone(b.last), Short: slices.Clone(b.short), Dilation: b.meanDilation()}
	each := b.usages()
	if len(each) == 1 {
		s.Usage = each[0]
	} else {
		s.Servers = each
	}
	for _, u := range s.Servers {
		s.Usage.add(u)
	}
	for _, j := range b.jobs {
		if !j.Ended.IsZero() {
			continue
		}
		s.Jobs++
		for _, st := range b.stages(j) {
			s.Waiting += st.Waiting
			if st.State == Blocked {
				s.Blocked += st.Tasks
			}
		}
	}
	return s
}

// usages lists every server, in order of name.
func (b *Board) usages() []Usage {
	running := map[cluster.ServerID][]RunningTask{}
	for _, j := range b.jobs {
		for _, r := range j.Running {
			running[r.On] = append(running[r.On], r)
		}
	}
	var all []Usage
	for _, id := range slices.Sorted(maps.Keys(b.servers)) {
		s := b.servers[id]
		u := Usage{At: s.at, Server: id, Size: s.Size(), Reserve: b.Reserve.Of(s.Size()), Primary: s.primary, Counted: s.counted,
			Class: b.classes[s.Tenant()], Running: len(running[id]), Drained: s.drained}
		if b.Unaware {
			u.Unaware, u.Reserve, u.Counted = true, cluster.Resources{}, cluster.Resources{}
		}
		for _, r := range running[id] {
			u.Held = u.Held.Add(r.Request)
		}
		all = append(all, u)
	}
	return all
}

// Jobs lists all jobs, the oldest first.
func (b *Board) Jobs() []Job {
	b.mu.Lock()
	defer b.mu.Unlock()
	loads := b.loads()
	all := []Job{}
	for _, j := range b.jobs {
		all = append(all, b.show(j, loads))
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
	return b.show(j, b.loads()), true
}

// Run finds the present run of a task, whatever its attempt.
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

// state is the state of a job.
func (b *Board) state(j *Job) State {
	switch {
	case !j.Ended.IsZero():
		return j.State
	case len(j.Running) > 0:
		return Running
	case b.awaits(j):
		return Blocked
	}
	return Waiting
}

// GaveUp reports whether a task has failed too often and is not run again, while
// its job goes on.
func (b *Board) GaveUp(task cluster.TaskID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	task.Attempt = 0
	j := b.jobs[task.Job]
	return j != nil && j.gaveUp[task]
}

// show is a job with the slow-down of its tasks as predicted now.
func (b *Board) show(j *Job, all loads) Job {
	c := *j
	c.Stages, c.Running, c.Delayed = b.stages(j), slices.Clone(j.Running), slices.Clone(j.Delayed)
	c.State = b.state(j)
	for i, r := range c.Running {
		c.Running[i].Dilation = all.factor(j, r)
	}
	return c
}
