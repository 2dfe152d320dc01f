package harvest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gleaner/cluster"
)

// TestTheBooksBalance plays random days of a small cluster under each policy
// and recounts, after every event, what the core keeps in sums.
func TestTheBooksBalance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(PolicyNames()).Draw(t, "policy")
		policy, err := PolicyNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		p := player{t: t, core: New(Options{Policy: policy, Reserve: PaperReserve, Rand: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))}),
			at: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC), running: map[cluster.TaskID]cluster.ServerID{},
			after: map[cluster.JobID][]cluster.JobID{}, finished: map[cluster.JobID]bool{}}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			p.at = p.at.Add(time.Duration(rapid.IntRange(0, 1200).Draw(t, "seconds")) * time.Second)
			p.step(p.event())
			recount(t, p.core)
		}
		p.drain()
	})
}

type player struct {
	t       *rapid.T
	core    *Core
	at      time.Time
	jobs    int
	order   []cluster.TaskID // running, in the order they started
	running map[cluster.TaskID]cluster.ServerID

	after    map[cluster.JobID][]cluster.JobID
	finished map[cluster.JobID]bool
}

const most = 6 // servers

func (p *player) server() cluster.ServerID {
	return cluster.ServerID(fmt.Sprint("s", rapid.IntRange(0, most-1).Draw(p.t, "server")))
}

func (p *player) event() cluster.Event {
	t := p.t
	what := rapid.IntRange(0, 11).Draw(t, "what")
	if what >= 6 && len(p.order) > 0 {
		id := rapid.SampledFrom(p.order).Draw(t, "task")
		kind := rapid.SampledFrom([]cluster.EventKind{cluster.TaskFinished, cluster.TaskFinished, cluster.TaskKilled, cluster.TaskFailed, cluster.TaskNotStarted}).Draw(t, "outcome")
		return cluster.Event{Kind: kind, Task: id, On: p.running[id]}
	}
	switch what {
	case 0:
		return cluster.Event{Kind: cluster.ServerJoined, Server: &cluster.Server{ID: p.server(), Environment: fmt.Sprint("e", rapid.IntRange(0, 2).Draw(t, "tenant")),
			CPU: cluster.MilliCPU(rapid.IntRange(1, 16).Draw(t, "cores")) * cluster.Core, Memory: 32 * cluster.GB}}
	case 1:
		return cluster.Event{Kind: cluster.ServerLeft, On: p.server()}
	case 2:
		ev := cluster.Event{Kind: cluster.ClassesPublished}
		for i := range rapid.IntRange(0, 3).Draw(t, "classes") {
			mean := rapid.Float64Range(0, 0.8).Draw(t, "mean")
			ev.Classes = append(ev.Classes, cluster.Class{Pattern: cluster.Patterns[i], Mean: mean, Peak: mean + 0.1, Tenants: []cluster.TenantID{cluster.TenantOf(fmt.Sprint("e", i), "")}})
		}
		return ev
	case 3:
		if p.jobs > 0 {
			return cluster.Event{Kind: cluster.JobCancelled, ID: cluster.JobID(rapid.IntRange(1, p.jobs).Draw(t, "job"))}
		}
	case 4, 5:
		p.jobs++
		job := &cluster.Job{ID: cluster.JobID(p.jobs), Name: fmt.Sprint("job", p.jobs%3)}
		for range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "jobs before") {
			job.After = append(job.After, cluster.JobID(rapid.IntRange(1, p.jobs).Draw(t, "job before")))
		}
		p.after[job.ID] = job.After
		for i := range rapid.IntRange(1, 4).Draw(t, "stages") {
			s := cluster.Stage{Name: fmt.Sprint(i), Tasks: rapid.IntRange(1, 12).Draw(t, "tasks"), Request: cluster.Resources{
				CPU: cluster.MilliCPU(rapid.IntRange(1, 3).Draw(t, "cpu")) * cluster.Core, Memory: cluster.Bytes(rapid.IntRange(0, 3).Draw(t, "gb")) * cluster.GB}}
			s.KeepGoing, s.Failures = rapid.Bool().Draw(t, "keeps going"), rapid.IntRange(0, 2).Draw(t, "failures")
			if i > 0 {
				s.After = []string{fmt.Sprint(rapid.IntRange(0, i-1).Draw(t, "after"))}
			}
			job.Stages = append(job.Stages, s)
		}
		return cluster.Event{Kind: cluster.JobSubmitted, Job: job}
	}
	return cluster.Event{Kind: cluster.UseReported, Use: []cluster.Use{{On: p.server(), Primary: cluster.Resources{CPU: cluster.MilliCPU(rapid.IntRange(0, 16000).Draw(t, "use"))}}}}
}

func (p *player) step(ev cluster.Event) {
	ev.At = p.at
	gone := func(id cluster.TaskID) bool { _, on := p.running[id]; return !on }
	switch ev.Kind {
	case cluster.TaskFinished, cluster.TaskKilled, cluster.TaskFailed, cluster.TaskNotStarted:
		delete(p.running, ev.Task)
	case cluster.ServerLeft:
		for id, on := range p.running {
			if on == ev.On {
				delete(p.running, id)
			}
		}
	}
	for _, a := range p.core.Step(ev) {
		switch a.Kind {
		case cluster.StartTask:
			if on, twice := p.running[a.Task]; twice {
				p.t.Fatalf("%s starts on %s and runs on %s", a.Task, a.On, on)
			}
			for _, before := range p.after[a.Task.Job] {
				if !p.finished[before] {
					p.t.Fatalf("%s starts before %s has finished", a.Task, before)
				}
			}
			p.running[a.Task] = a.On
			p.order = append(p.order, a.Task)
		case cluster.FinishJob:
			p.finished[a.ID] = a.Reason == ""
		case cluster.KillTask:
			if _, on := p.running[a.Task]; !on {
				p.t.Fatalf("%s, which does not run", a)
			}
		}
	}
	p.order = slices.DeleteFunc(p.order, gone)
}

// drain frees the cluster, takes the classes from jobs (under osdi16 a job stays
// in classes that may never have room again) and lets everything run: every job
// must end.
func (p *player) drain() {
	p.step(cluster.Event{Kind: cluster.ClassesPublished})
	for i := range 2 {
		p.step(cluster.Event{Kind: cluster.ServerJoined, Server: &cluster.Server{ID: cluster.ServerID(fmt.Sprint("big", i)), CPU: 64 * cluster.Core, Memory: 256 * cluster.GB}})
	}
	for range 500 {
		if len(p.core.active) == 0 {
			return
		}
		p.at = p.at.Add(10 * time.Minute)
		for i := range 2 {
			p.step(cluster.Event{Kind: cluster.UseReported, Use: []cluster.Use{{On: cluster.ServerID(fmt.Sprint("big", i))}}})
		}
		for _, id := range slices.Clone(p.order) {
			p.step(cluster.Event{Kind: cluster.TaskFinished, Task: id, On: p.running[id]})
		}
	}
	p.t.Fatalf("%d jobs never end", len(p.core.active))
}

// recount adds up from scratch what the core keeps in sums.
func recount(t *rapid.T, c *Core) {
	states := make([]ClassState, len(c.states))
	held := make([]cluster.Resources, len(c.servers))
	listed, awaiting := 0, 0
	for _, j := range c.active {
		var mine cluster.Resources
		running, unstarted := 0, 0
		for i := range j.stages {
			st := &j.stages[i]
			for _, task := range st.tasks.running() {
				running++
				mine = mine.Add(st.spec.Request)
				held[task.server] = held[task.server].Add(st.spec.Request)
			}
			if st.waitsFor == 0 {
				unstarted += st.spec.Tasks - int(st.next) + len(st.again)
			}
		}
		if j.ended {
			unstarted = 0
		}
		if running != j.running || unstarted != j.unstarted || mine != j.held {
			t.Fatalf("%s: %d running, %d to start, holds %v; counted %d, %d, %v", j.spec.ID, j.running, j.unstarted, j.held, running, unstarted, mine)
		}
		for i, k := range j.classes {
			states[k].Promised = states[k].Promised.Add(j.promised[i])
		}
		if j.listed {
			listed++
		}
		if j.awaits {
			awaiting++
		}
	}
	for i := range c.servers {
		s := &c.servers[i]
		if s.held != held[i] {
			t.Fatalf("%s holds %v, counted %v", s.id, s.held, held[i])
		}
		if s.gone {
			continue
		}
		state := &states[s.class]
		state.Size, state.Reserve = state.Size.Add(s.size), state.Reserve.Add(s.reserve)
		state.Room, state.Surely, state.Held = state.Room.Add(s.room), state.Surely.Add(s.surely), state.Held.Add(s.held)
		if got, want := c.tree(s.class).weight[s.place], c.weight(s); got != want || c.classes[s.class].servers[s.place] != i {
			t.Fatalf("%s weighs %d in its class, should %d", s.id, got, want)
		}
	}
	for k := range states {
		want := c.states[k]
		want.Pattern, want.Mean, want.Peak = 0, 0, 0
		if states[k] != want {
			t.Fatalf("class %d is %+v, counted %+v", k, want, states[k])
		}
	}
	if awaiting != c.awaiting {
		t.Fatalf("%d jobs await others, counted %d", c.awaiting, awaiting)
	}
	if listed != c.lined {
		t.Fatalf("%d jobs in line, counted %d", c.lined, listed)
	}
}

// A watcher is a policy that leaves no room, and records the facts it gets.
type watcher struct{ facts *Facts }

func (w watcher) Room(f Facts) (may, surely cluster.Resources) {
	*w.facts = f
	return cluster.Resources{}, cluster.Resources{}
}
func (watcher) Weight(_, _ cluster.Resources) int64 { return 1 }

// Options.Steady sets what counts as recent use. It does not change when waiting
// tasks are pressed.
func TestSteadyIsAnOption(t *testing.T) {
	began := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	one := []cluster.Stage{{Name: "map", Tasks: 1, Request: cluster.Resources{CPU: cluster.Core}}}
	for steady, at := range map[time.Duration]map[time.Duration]Facts{
		time.Minute: {59 * time.Second: {Recent: cluster.Resources{CPU: 5000}}, 3 * time.Minute: {Recent: cluster.Resources{CPU: 1000}},
			29 * time.Minute: {Recent: cluster.Resources{CPU: 1000}}, 30 * time.Minute: {Recent: cluster.Resources{CPU: 1000}, Pressed: true}},
		0: {29 * time.Minute: {Recent: cluster.Resources{CPU: 5000}}, 31 * time.Minute: {Recent: cluster.Resources{CPU: 5000}, Pressed: true},
			90 * time.Minute: {Recent: cluster.Resources{CPU: 1000}, Pressed: true}},
	} {
		for after, want := range at {
			var f Facts
			c := New(Options{Policy: watcher{&f}, Reserve: PaperReserve, Rand: rand.New(rand.NewPCG(1, 1)), Steady: steady})
			report := func(after time.Duration, cores cluster.MilliCPU) {
				c.Step(cluster.Event{At: began.Add(after), Kind: cluster.UseReported, Use: []cluster.Use{{On: "s1", Primary: cluster.Resources{CPU: cores * cluster.Core}}}})
			}
			c.Step(cluster.Event{At: began, Kind: cluster.ServerJoined, Server: &cluster.Server{ID: "s1", CPU: 12 * cluster.Core}})
			report(0, 5)
			c.Step(cluster.Event{At: began, Kind: cluster.JobSubmitted, Job: &cluster.Job{ID: 1, Name: "a", Stages: one}})
			report(after, 1)
			if f.Pressed != want.Pressed || f.Recent != want.Recent {
				t.Errorf("steady %v, after %v: pressed %v, recently %v", steady, after, f.Pressed, f.Recent)
			}
		}
	}
}

// A job's account comes with its end, also from a core that took the job over.
func TestTheAccountOfAJob(t *testing.T) {
	policy, err := PolicyNamed("primary")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	core := New(Options{Policy: policy, Reserve: PaperReserve, Rand: rand.New(rand.NewPCG(1, 0))})
	job := &cluster.Job{ID: 1, Name: "sort", Stages: []cluster.Stage{{Name: "map", Tasks: 1, Request: cluster.Resources{CPU: 2 * cluster.Core}}}}
	var last []cluster.Action
	for _, ev := range []cluster.Event{
		{Kind: cluster.ServerJoined, Server: &cluster.Server{ID: "s", CPU: 12 * cluster.Core, Memory: 32 * cluster.GB}},
		{Kind: cluster.Resumed, Past: []cluster.PastJob{{Job: job, Submitted: at, Account: cluster.Account{Started: at, Work: 10, Kills: 3}}}},
		{Kind: cluster.TaskKilled, Task: cluster.TaskID{Job: 1, Stage: "map"}, On: "s"},
		{Kind: cluster.TaskFinished, Task: cluster.TaskID{Job: 1, Stage: "map", Attempt: 1}, On: "s"},
	} {
		at = at.Add(time.Minute)
		ev.At = at
		last = slices.Clone(core.Step(ev))
	}
	want := cluster.Account{Started: at.Add(-4 * time.Minute), Work: 10 + 2*60, Kills: 4}
	if len(last) != 1 || last[0].Kind != cluster.FinishJob || last[0].Account != want || last[0].Cancelled {
		t.Errorf("%+v, want an end with %+v", last, want)
	}
}
