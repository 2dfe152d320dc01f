package plan

import (
	"math"
	"slices"

	"gleaner/plan/pack"
	"gleaner/plan/spec"
)

// A hurry knows what executions with a latency goal wait for: how long one execution of any task can
// keep a station busy at a stretch. Stations are the cores of servers for tasks, those of servers for data, and
// the units of each copy of a dataset.
//
// Tasks that no such execution runs would make it wait on its cores. Those that compute longer than
// what it runs itself have servers of their own.
type hurry struct {
	*clock
	waited []bool    // by task: an execution with a goal waits for it
	cpu    []float64 // by task: the longest stretch on the cores of a server for tasks
	tasks  float64   // the longest of those that are waited for
	hosts  float64   // the longest stretch on the cores of a server for data
	longer float64   // how much longer a computation takes on the slowest cores

	idle     []int // tasks that never run
	units    map[Copy]float64
	journeys []journey // by task
}

func newHurry(k *clock) *hurry {
	app := k.in.App
	h := &hurry{clock: k, waited: make([]bool, len(app.Tasks)), cpu: make([]float64, len(app.Tasks)),
		longer: 1 / k.in.speeds()[0], idle: idle(k.in), units: map[Copy]float64{}, journeys: make([]journey, len(app.Tasks))}
	for _, r := range k.in.SLA.Rates {
		if r.Latency > 0 {
			h.wait(r.Task)
		}
	}
	if !slices.Contains(h.waited, true) {
		return h
	}
	for t := range app.Tasks {
		h.cpu[t] = h.stretch(t, h.computes)
		if h.waited[t] {
			h.tasks = max(h.tasks, h.cpu[t])
		}
	}
	h.hosts = h.longest(func(op spec.Op) float64 {
		if op.IO != nil && app.Datasets[op.IO.Dataset].Remote {
			return h.longer * atOnce(op.IO) * app.Datasets[op.IO.Dataset].CPUPerOp
		}
		return 0
	})
	if k.in.colocated {
		h.tasks = max(h.tasks, h.hosts)
		h.hosts = h.tasks
	}
	return h
}

// wait notes a task that an execution with a goal waits for, and those that it waits for.
func (h *hurry) wait(task int) {
	if h.waited[task] {
		return
	}
	h.waited[task] = true
	for _, op := range h.in.App.Tasks[task].Path {
		if op.Call != nil && (op.Call.Inline || op.Blocking) {
			h.wait(op.Call.Task)
		}
	}
}

// disturbs reports whether a task computes too long to share cores with those that are waited for.
func (h *hurry) disturbs(task int) bool {
	return slices.Contains(h.waited, true) && !h.waited[task] && h.cpu[task] > h.tasks
}

// disturbed reports whether a server has loads that share none.
func (n Needs) disturbed(in Input, p pack.Problem, c pack.Content) bool {
	long, others := false, false
	for i, l := range p.Loads {
		is := slices.ContainsFunc(n.Roles, func(r Role) bool { return r.Long && roleName(in, r) == l.Name })
		long, others = long || is && c.Loads[i] > dust, others || !is && c.Loads[i] > dust
	}
	return long && others
}

// computes is how long a step keeps the cores of its own server busy.
func (h *hurry) computes(op spec.Op) float64 {
	switch {
	case op.IO != nil && !h.in.App.Datasets[op.IO.Dataset].Remote:
		return h.longer * atOnce(op.IO) * h.in.App.Datasets[op.IO.Dataset].CPUPerOp
	case op.IO == nil && op.Call == nil:
		return h.longer * op.Compute
	}
	return 0
}

// atOnce is how many records a step asks for at a time.
func atOnce(op *spec.IO) float64 {
	if op.Parallel {
		return whole(op.Records)
	}
	return 1
}

func whole(n float64) float64 { return math.Ceil(n - 1e-9) }

// longest is the longest stretch at a station of any task that runs.
func (h *hurry) longest(at func(spec.Op) float64) float64 {
	most := 0.0
	for t := range h.in.App.Tasks {
		if !slices.Contains(h.idle, t) {
			most = max(most, h.stretch(t, at))
		}
	}
	return most
}

// stretch is how long an execution can keep a station busy with what it asks for at a time: one of the
// steps that wait for each other, and all that do not. Invocations that nobody waits for
// come at a time, too.
func (h *hurry) stretch(task int, at func(spec.Op) float64) float64 {
	memo := make([]float64, len(h.in.App.Tasks))
	for i := range memo {
		memo[i] = -1
	}
	var visit func(int) float64
	visit = func(t int) float64 {
		if memo[t] >= 0 {
			return memo[t]
		}
		turn, beside := 0.0, 0.0
		for _, op := range h.in.App.Tasks[t].Path {
			if op.Probability == 0 {
				continue
			}
			long := at(op)
			if op.Call != nil {
				if long = visit(op.Call.Task); op.Call.Parallel || !op.Call.Inline && !op.Blocking {
					long *= whole(op.Call.Invocations)
				}
			}
			if op.Blocking {
				turn = max(turn, long)
			} else {
				beside += long
			}
		}
		memo[t] = turn + beside
		return memo[t]
	}
	return visit(task)
}

// A journey is what one execution goes through: how long it takes if it waits for nobody, and the longest
// services of others that it waits for, by how many such waits there are at a time.
type journey struct {
	alone  float64
	waits  map[float64]float64
	others float64 // the longest of these services
}

// add adds a journey, so many times one after the other, and each time so many at a time.
func (j *journey) add(other journey, turns, together float64) {
	j.alone += turns * together * other.alone
	j.others = max(j.others, other.others)
	for n, long := range other.waits {
		j.waits[n*together] += turns * long
	}
}

// journey is that of a task: all its steps one after the other, each certain to happen, and each read on the
// slower copy, because a percentile is not about the mean execution.
func (h *hurry) journey(task int) journey {
	if h.journeys[task].waits != nil {
		return h.journeys[task]
	}
	out := journey{waits: map[float64]float64{}}
	for _, op := range h.in.App.Tasks[task].Path {
		switch {
		case op.Probability == 0:
		case op.IO != nil:
			out.times(h.record(op.IO), op.IO.Records, op.IO.Parallel)
		case op.Call == nil:
			out.add(journey{h.longer * op.Compute, map[float64]float64{1: h.tasks}, h.tasks}, 1, 1)
		case op.Call.Inline || op.Blocking:
			out.times(h.journey(op.Call.Task), op.Call.Invocations, op.Call.Parallel)
		}
	}
	h.journeys[task] = out
	return out
}

func (j *journey) times(one journey, n float64, parallel bool) {
	if parallel {
		j.add(one, 1, whole(n))
	} else {
		j.add(one, whole(n), 1)
	}
}

// record is the journey of a record: the slower of its copies, on the least of the open choices.
func (h *hurry) record(op *spec.IO) journey {
	d := h.in.App.Datasets[op.Dataset]
	alone, others := math.Inf(1), math.Inf(1)
	for _, c := range h.open[op.Dataset] {
		one, long := 0.0, 0.0
		for _, copy := range c.copies(op.Dataset) {
			one = max(one, h.in.device(d, copy.Unit, op.Write, op.RecordSize, op.StreamRate))
			long = max(long, h.stretchOn(copy))
		}
		alone, others = min(alone, one), min(others, long)
	}
	out := journey{alone, map[float64]float64{1: others}, others}
	if d.CPUPerOp > 0 {
		out.alone += h.longer * d.CPUPerOp
		out.waits[1] += h.hosts
		out.others = max(others, h.hosts)
	}
	return out
}

// stretchOn is the longest stretch on a unit of a copy.
func (h *hurry) stretchOn(c Copy) float64 {
	c.Cache, c.Behind = false, false
	if long, ok := h.units[c]; ok {
		return long
	}
	h.units[c] = h.longest(func(op spec.Op) float64 {
		if op.IO == nil || op.IO.Dataset != c.Dataset {
			return 0
		}
		return atOnce(op.IO) * h.in.device(h.in.App.Datasets[c.Dataset], c.Unit, op.IO.Write, op.IO.RecordSize, 0)
	})
	return h.units[c]
}
