package harvest

import (
	"slices"
	"time"

	"gleaner/cluster"
)

// A job was submitted and has not ended, or still has dying tasks.
type job struct {
	spec      *cluster.Job
	number    int // in the order they came in
	submitted time.Time
	cluster.Account
	stages    []stage
	waves     []cluster.Resources // what unfinished tasks of each wave ask for
	user      *user
	awaits    bool // it comes after a job that has not ended
	keptBack  bool // its user has paused it
	running   int
	unstarted int // tasks that may start now
	cancelled bool
	firstLost string // why the first task was given up
	ended     bool

	// Where its tasks may run: anywhere, or on servers of classes.
	anywhere bool
	classes  []int
	held     cluster.Resources   // by its tasks
	shares   []float64           // of what is promised to it, by class
	promised []cluster.Resources // to it, of each of classes
	listed   bool                // among those that wait for a server
}

// A stage is a count of tasks. Only those that have started and not finished
// are held one by one.
type stage struct {
	spec     *cluster.Stage
	wave     int
	waitsFor int   // stages before it that are not finished
	then     []int // stages that wait for it
	left     int   // tasks neither finished nor given up
	gaveUp   int   // tasks that have failed too often
	next     int32 // first task that never started
	again    []int32
	tasks    pages
}

// newJob returns a job that may start, or awaits other jobs.
func newJob(spec *cluster.Job, at time.Time, awaits bool) *job {
	j := &job{spec: spec, submitted: at, awaits: awaits, stages: make([]stage, len(spec.Stages)), waves: make([]cluster.Resources, len(spec.Stages))}
	place := make(map[string]int, len(spec.Stages))
	for i := range spec.Stages {
		place[spec.Stages[i].Name] = i
	}
	for i, wave := range spec.Waves() {
		s := &spec.Stages[i]
		j.stages[i] = stage{spec: s, wave: wave, waitsFor: len(s.After), left: s.Tasks}
		j.waves[wave] = j.waves[wave].Add(s.Request.Times(s.Tasks))
		switch {
		case len(s.After) > 0:
		case awaits:
			j.stages[i].waitsFor = 1 // the other jobs count as one stage
		default:
			j.open(i)
		}
	}
	for i := range spec.Stages {
		for _, before := range spec.Stages[i].After {
			st := &j.stages[place[before]]
			st.then = append(st.then, i)
		}
	}
	return j
}

// width is the most that the unfinished part of the job holds at once
// (Algorithm 1 line 4).
func (j *job) width() cluster.Resources {
	width := j.waves[0]
	for _, sum := range j.waves[1:] {
		width = width.Max(sum)
	}
	return width
}

// toStart is what the tasks ask for that may start now.
func (j *job) toStart() cluster.Resources {
	var sum cluster.Resources
	for i := range j.stages {
		st := &j.stages[i]
		sum = sum.Add(st.spec.Request.Times(st.toStart()))
	}
	return sum
}

func (j *job) open(i int) {
	st := &j.stages[i]
	st.tasks = newPages(st.spec.Tasks)
	j.unstarted += st.spec.Tasks
}

// toStart is how many tasks of the stage may start now.
func (st *stage) toStart() int {
	if st.waitsFor > 0 {
		return 0
	}
	return st.spec.Tasks - int(st.next) + len(st.again)
}

// ready reports whether a task of the stage may start now.
func (st *stage) ready() bool { return st.toStart() > 0 }

// hopeless reports whether no task of j can start, given that the requests in
// failed could not.
func (j *job) hopeless(failed []cluster.Resources) bool {
	for i := range j.stages {
		st := &j.stages[i]
		if st.ready() && !slices.ContainsFunc(failed, func(f cluster.Resources) bool { return f.Fits(st.spec.Request) }) {
			return false
		}
	}
	return true
}

// take returns the stage's next task; killed ones come first.
func (st *stage) take() int32 {
	if n := len(st.again); n > 0 {
		index := st.again[n-1]
		st.again = st.again[:n-1]
		return index
	}
	st.next++
	return st.next - 1
}

func (j *job) stage(name string) (int, *stage) {
	for i := range j.stages {
		if j.stages[i].spec.Name == name {
			return i, &j.stages[i]
		}
	}
	return -1, nil
}

// giveUp counts a task of a stage as lost, for a reason.
func (j *job) giveUp(i int, reason string) {
	if j.stages[i].gaveUp++; j.firstLost == "" {
		j.firstLost = reason
	}
}

// incomplete is a stage whose tasks have all ended, but not all finished; nil if
// there is none.
func (j *job) incomplete() *stage {
	for i := range j.stages {
		if st := &j.stages[i]; st.left == 0 && st.gaveUp > 0 {
			return st
		}
	}
	return nil
}

// finished counts a task as done, and opens the stages that waited only for it.
func (j *job) finished(i int) {
	st := &j.stages[i]
	j.waves[st.wave] = j.waves[st.wave].Sub(st.spec.Request)
	if st.left--; st.left > 0 {
		return
	}
	st.tasks = nil
	if st.gaveUp > 0 {
		return // the job fails
	}
	for _, k := range st.then {
		j.letGo(k)
	}
}

// awaited lets a job start once the jobs it comes after have finished.
func (j *job) awaited() {
	j.awaits = false
	for i := range j.stages {
		if len(j.stages[i].spec.After) == 0 {
			j.letGo(i)
		}
	}
}

// letGo opens a stage if it waits for nothing else.
func (j *job) letGo(i int) {
	if j.stages[i].waitsFor--; j.stages[i].waitsFor == 0 {
		j.open(i)
	}
}

func (j *job) done() bool {
	for i := range j.stages {
		if j.stages[i].left > 0 {
			return false
		}
	}
	return true
}
