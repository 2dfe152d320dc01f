package harvest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"gleaner/cluster"
	"gleaner/dilation"
)

// Options say how a Core decides.
type Options struct {
	Policy  Policy
	Reserve Reserve
	Rand    *rand.Rand
	Choice  Choice
	// Steady is how long capacity that a primary gives back must stay unused
	// before it counts as free. 0: half an hour, about as long as a task runs.
	Steady time.Duration
	// Machine returns the resources, on a server of that size, which loading
	// vectors refer to. Nil: loading vectors are ignored.
	Machine func(size cluster.Resources) dilation.Machine
}

// A Core schedules batch jobs on the spare part of a cluster. It takes events
// and answers each with actions.
type Core struct {
	policy  Policy
	picker  ClassPicker // nil if the policy picks no classes
	reserve Reserve
	rand    *rand.Rand
	choice  Choice
	machine func(cluster.Resources) dilation.Machine
	steady  time.Duration

	servers    []server
	byID       map[cluster.ServerID]int
	classes    []class
	states     []ClassState // of classes
	byTenant   map[cluster.TenantID]int
	everywhere []int // all classes
	opened     []int // classes that have more room than when waiting tasks last looked

	jobs      map[cluster.JobID]*job
	active    line      // jobs, in order
	waiting   line      // those that may run anywhere and wait for a server
	lined     int       // jobs that wait for a server
	lineSince time.Time // when the first of them began to wait
	number    int       // of the last job
	awaiting  int       // jobs that wait for other jobs to end
	timed     int       // jobs that have a time limit
	urgent    int       // jobs whose priority is not 0
	users     users
	broken    map[cluster.JobID]bool // jobs that ended and had not finished

	paused      []paused // tasks that have failed, ordered by the end of their pause
	shutServers int

	memory     memory
	thresholds Thresholds
	at         time.Time
	picked     []int               // scratch
	failed     []cluster.Resources // requests that found no server; scratch
	actions    []cluster.Action
}

// New returns a Core of an empty cluster.
func New(o Options) *Core {
	c := &Core{policy: o.Policy, reserve: o.Reserve, rand: o.Rand, choice: o.Choice, machine: o.Machine, steady: cmp.Or(o.Steady, steadyFor),
		byID: map[cluster.ServerID]int{}, byTenant: map[cluster.TenantID]int{}, jobs: map[cluster.JobID]*job{}, broken: map[cluster.JobID]bool{}, users: users{all: map[cluster.User]*user{}}, thresholds: PaperThresholds}
	c.picker, _ = o.Policy.(ClassPicker)
	c.publish(nil)
	return c
}

// Step takes an event and returns the actions to carry out, which are valid
// until the next Step. Events about unknown things, or about things that have
// ended, change nothing.
func (c *Core) Step(ev cluster.Event) []cluster.Action {
	c.at, c.actions = ev.At, c.actions[:0]
	switch ev.Kind {
	case cluster.ServerJoined:
		c.join(ev.Server)
	case cluster.ServerLeft:
		c.leave(ev.On)
	case cluster.UseReported:
		for _, use := range ev.Use {
			c.report(ev.At, use)
		}
		c.endLate()
	case cluster.ClassesPublished:
		c.publish(ev.Classes)
	case cluster.JobSubmitted:
		c.submit(ev.Job)
	case cluster.JobCancelled:
		if j := c.jobs[ev.ID]; j != nil && !j.ended {
			j.cancelled = true
			c.end(j, "cancelled")
		}
	case cluster.JobPaused, cluster.JobContinued:
		c.keepBack(ev.ID, ev.Kind == cluster.JobPaused)
	case cluster.ServerDrained, cluster.ServerOpened:
		c.drain(ev.On, ev.Kind == cluster.ServerDrained)
	case cluster.TaskFinished, cluster.TaskFailed, cluster.TaskKilled, cluster.TaskNotStarted:
		c.stopped(ev)
	case cluster.Resumed:
		c.resume(ev.Past)
	}
	c.wake()
	c.serve()
	return c.actions
}

// publish takes in new classes. Jobs lose the classes that they had; those with
// tasks left to start ask again.
func (c *Core) publish(published []cluster.Class) {
	for _, j := range c.active {
		if !j.anywhere {
			c.unlist(j)
		}
		j.classes, j.shares, j.promised = j.classes[:0], j.shares[:0], j.promised[:0]
	}
	c.classes = make([]class, 1+len(published))
	c.states = make([]ClassState, 1+len(published))
	c.everywhere, c.opened = c.everywhere[:0], c.opened[:0]
	clear(c.byTenant)
	for i := range c.classes {
		c.everywhere = append(c.everywhere, i)
	}
	for i, p := range published {
		c.states[i+1] = ClassState{Pattern: p.Pattern, Mean: p.Mean, Peak: p.Peak}
		for _, t := range p.Tenants {
			c.byTenant[t] = i + 1
		}
	}
	for i := range c.servers {
		if !c.servers[i].gone {
			c.enterClass(i)
		}
	}
	c.rethink()
	for _, j := range c.active {
		c.place(j)
	}
}

func (c *Core) leave(id cluster.ServerID) {
	i, known := c.byID[id]
	if !known || c.servers[i].gone {
		return
	}
	type lost struct {
		j     *job
		st    *stage
		index int32
	}
	var all []lost
	for _, j := range c.active {
		for k := range j.stages {
			st := &j.stages[k]
			for index, t := range st.tasks.running() {
				if int(t.server) == i {
					c.stop(j, st, t)
					all = append(all, lost{j, st, index})
				}
			}
		}
	}
	s := &c.servers[i]
	c.leaveClass(s)
	s.gone, s.primary, s.past, s.recent, s.load = true, cluster.Resources{}, Past{}, recent{}, nil
	for _, l := range all {
		c.again(l.j, l.st, l.index)
	}
}

func (c *Core) submit(spec *cluster.Job) {
	if c.jobs[spec.ID] != nil {
		return
	}
	if err := spec.Validate(); err != nil {
		c.broken[spec.ID] = true
		c.actions = append(c.actions, cluster.Action{Kind: cluster.FinishJob, ID: spec.ID, Reason: err.Error()})
		return
	}
	c.begin(c.add(spec, c.at))
}

// begin lets a job run, unless it comes after others.
func (c *Core) begin(j *job) {
	if c.lost(j) || j.awaits {
		return
	}
	c.ask(j)
	c.place(j)
}

// add adds a job.
func (c *Core) add(spec *cluster.Job, at time.Time) *job {
	c.number++
	j := newJob(spec, at, c.awaits(spec))
	j.number = c.number
	if j.awaits {
		c.awaiting++
	}
	if spec.Time > 0 {
		c.timed++
	}
	if spec.Priority != 0 {
		c.urgent++
	}
	j.user = c.users.enter(spec.User, c.at)
	c.jobs[spec.ID] = j
	c.active = append(c.active, j)
	return j
}

// awaits reports whether a job comes after one that has not ended.
func (c *Core) awaits(spec *cluster.Job) bool {
	return slices.ContainsFunc(spec.After, func(id cluster.JobID) bool { return c.jobs[id] != nil && !c.jobs[id].ended })
}

// lost ends a job that comes after one that did not finish.
func (c *Core) lost(j *job) bool {
	i := slices.IndexFunc(j.spec.After, func(id cluster.JobID) bool { return c.broken[id] })
	if i >= 0 && !j.ended {
		c.end(j, fmt.Sprintf("%s, which it comes after, did not finish", j.spec.After[i]))
	}
	return j.ended
}

// follow lets the jobs run, or ends them, that came after one that has ended.
func (c *Core) follow(id cluster.JobID) {
	if c.awaiting == 0 {
		return
	}
	for _, j := range slices.Clone(c.active) {
		if j.awaits && slices.Contains(j.spec.After, id) && !c.lost(j) && !c.awaits(j.spec) {
			c.awaiting--
			j.awaited()
			c.begin(j)
		}
	}
}

// stopped notes that a task no longer runs.
func (c *Core) stopped(ev cluster.Event) {
	j := c.jobs[ev.Task.Job]
	if j == nil {
		return
	}
	i, st := j.stage(ev.Task.Stage)
	if st == nil {
		return
	}
	index := ev.Task.Index
	t := st.tasks.get(index)
	if t == nil || t.server < 0 || t.attempt != ev.Task.Attempt {
		return
	}
	s := &c.servers[t.server]
	c.stop(j, st, t)
	if ev.Kind == cluster.TaskNotStarted {
		c.shut(s)
	} else {
		s.pause = 0
	}
	switch {
	case j.ended:
		c.dropIfOver(j)
	case ev.Kind == cluster.TaskFinished:
		j.Work += ev.At.Sub(t.since).Seconds() * float64(st.spec.Request.CPU) / float64(cluster.Core)
		st.tasks.drop(index)
		c.finished(j, i)
	case ev.Kind == cluster.TaskFailed && int(t.failures)+1 >= st.spec.MaxFailures() && st.spec.KeepGoing:
		st.tasks.drop(index)
		j.giveUp(i, failedTooOften(j, st, index, ev.Reason))
		c.actions = append(c.actions, cluster.Action{Kind: cluster.GiveUpTask, Task: ev.Task, Reason: ev.Reason})
		c.finished(j, i)
	case ev.Kind == cluster.TaskFailed && int(t.failures)+1 >= st.spec.MaxFailures():
		c.end(j, failedTooOften(j, st, index, ev.Reason))
	case ev.Kind == cluster.TaskFailed:
		c.pause(j, i, index, ev.Reason)
	case ev.Kind == cluster.TaskKilled:
		j.Kills++
		c.again(j, st, index)
	default:
		c.again(j, st, index)
	}
}

// failedTooOften says that a task has failed as often as it may.
func failedTooOften(j *job, st *stage, index int32, reason string) string {
	times := "times"
	if st.spec.MaxFailures() == 1 {
		times = "time"
	}
	return fmt.Sprintf("%s/%s-%d failed %d %s: %s", j.spec.ID, st.spec.Name, index, st.spec.MaxFailures(), times, reason)
}

// endIncomplete ends a job if all tasks of one of its stages have ended, and some
// were given up.
func (c *Core) endIncomplete(j *job) bool {
	st := j.incomplete()
	if st != nil {
		c.end(j, fmt.Sprintf("%d of %d tasks of %s failed; the first: %s", st.gaveUp, st.spec.Tasks, st.spec.Name, j.firstLost))
	}
	return st != nil
}

func (c *Core) stop(j *job, st *stage, t *task) {
	c.release(j, &c.servers[t.server], st.spec)
	t.server = -1
	j.running--
}

// again makes a task that was killed or has failed wait for a server once more.
func (c *Core) again(j *job, st *stage, index int32) {
	if j.ended {
		c.dropIfOver(j)
		return
	}
	st.tasks.get(index).attempt++
	st.again = append(st.again, index)
	j.unstarted++
	c.promise(j)
	c.place(j)
}

func (c *Core) finished(j *job, i int) {
	waiting := j.unstarted
	j.finished(i)
	c.promise(j)
	if c.endIncomplete(j) {
		return
	}
	if j.done() {
		c.memory.remember(j.spec.Name, JobRun{Took: c.at.Sub(j.Started), Work: j.Work})
		if c.memory.finished%enoughRuns == 0 {
			c.rethink()
		}
		c.end(j, "")
		return
	}
	if j.unstarted > waiting {
		if j.anywhere {
			c.unlist(j)
			c.ask(j) // there may be classes by now
		}
		c.place(j)
	}
}

// rethink derives the thresholds again from the known jobs and classes.
func (c *Core) rethink() {
	if t, ok := ThresholdsFrom(c.memory.runs, c.states); ok {
		c.thresholds = t
	}
}

// end ends a job, with a reason if it has not finished, and kills its tasks that
// still run.
func (c *Core) end(j *job, reason string) {
	j.ended = true
	j.unstarted = 0
	c.unlist(j)
	c.promise(j)
	for i := range j.stages {
		st := &j.stages[i]
		for index, t := range st.tasks.running() {
			id := cluster.TaskID{Job: j.spec.ID, Stage: st.spec.Name, Index: index, Attempt: t.attempt}
			c.actions = append(c.actions, cluster.Action{Kind: cluster.KillTask, Task: id, On: c.servers[t.server].id, Reason: "its job has ended", Gently: true})
		}
	}
	c.actions = append(c.actions, cluster.Action{Kind: cluster.FinishJob, ID: j.spec.ID, Reason: reason, Cancelled: j.cancelled, Account: j.Account})
	c.dropIfOver(j)
	if j.awaits {
		c.awaiting--
		j.awaits = false
	}
	if reason != "" {
		c.broken[j.spec.ID] = true
	}
	c.follow(j.spec.ID)
}

// endLate ends the jobs that have run longer than they may.
func (c *Core) endLate() {
	if c.timed == 0 {
		return
	}
	for _, j := range slices.Clone(c.active) {
		if limit := j.spec.Time; limit > 0 && !j.ended && !j.Started.IsZero() && c.at.Sub(j.Started) >= limit {
			c.end(j, fmt.Sprintf("took longer than its time limit of %s", limit))
		}
	}
}

// dropIfOver forgets a job that has ended once none of its tasks runs.
func (c *Core) dropIfOver(j *job) {
	if j.running == 0 {
		delete(c.jobs, j.spec.ID)
		c.active.remove(j)
		if j.spec.Time > 0 {
			c.timed--
		}
		if j.spec.Priority != 0 {
			c.urgent--
		}
		c.users.leave(j.spec.User, c.at)
	}
}
