package plan

import (
	"math"
	"slices"

	"gleaner/plan/spec"
)

// Input is what a plan is made from.
type Input struct {
	App spec.Application
	HW  spec.Hardware
	SLA spec.SLA
}

// Needs are what an architecture takes to meet the SLA, before servers are
// chosen. Loads are by phase, in the application's order of phases.
type Needs struct {
	Architecture Architecture
	Phases       []string
	Seconds      []float64 // of each phase of a batch job; empty for request rates
	Tasks        []TaskNeed
	Tiers        []Tier
	Roles        []Role
}

// A TaskNeed is a task that has instances of its own.
type TaskNeed struct {
	Task      int
	Rate      float64 // executions a second
	Runtime   float64 // seconds an execution occupies an instance
	CPU       float64 // of them computing
	Instances int     // rate x runtime, rounded up, or more to fit servers and company
}

// A Tier is the units that hold one copy of a remote dataset.
type Tier struct {
	Dataset  int
	Cache    bool
	Unit     int
	Units    int
	Capacity float64   // units that capacity asks for
	IO       []float64 // units that I/O asks for
	Net      []float64 // bytes a second to and from the hosts
	CPU      []float64 // cores of the hosts
}

// A Role is tasks that work on the same local data and so run side by side,
// one of each an instance. Most roles are a single task.
type Role struct {
	Tasks     []int
	Instances int
	CPU       []float64 // cores
	Net       []float64 // bytes a second
	Memory    []float64 // bytes
	Locals    []Local
}

// A Local is the units that hold one copy of a dataset local to a role.
type Local struct {
	Dataset     int
	Cache       bool
	Unit        int
	PerInstance int       // units of each instance; 0 if partitioned
	Capacity    float64   // units that capacity asks for, of a partitioned one, over all instances
	IO          []float64 // units that I/O asks for, over all instances
	Traffic     []float64 // bytes a second
}

// Countless is more instances, or units of one dataset, than anyone will plan
// for: needs that reach it are refused.
const Countless = 10_000_000

// ceil rounds up, but for the dust of floating point.
func ceil(x float64) int {
	if !(x < Countless) {
		return Countless
	}
	return int(math.Ceil(x - 1e-9*max(1, math.Abs(x))))
}

// countless names what an input asks for too much of, whatever it lies on.
func (n Needs) countless(in Input) string {
	for _, t := range n.Tiers {
		if t.Units >= Countless {
			return "units of " + tierName(in, t)
		}
	}
	for _, r := range n.Roles {
		if r.Instances >= Countless {
			return "instances of " + roleName(in, r)
		}
		for _, l := range r.Locals {
			if float64(l.PerInstance)*float64(r.Instances) >= Countless || l.Capacity >= Countless || slices.Max(l.IO) >= Countless {
				return "units of " + localName(in, l)
			}
		}
	}
	return ""
}

// NeedsOf works out what an architecture needs. For a batch job, seconds is
// the time of each phase.
func NeedsOf(in Input, arch Architecture, seconds []float64) Needs {
	n := &needing{in: in, clock: clock{in, arch, make([]*profile, len(in.App.Tasks))}}
	n.out = Needs{Architecture: arch, Phases: in.App.Phases(), Seconds: seconds}
	n.frequencies()
	n.tiers()
	n.roles()
	return n.out
}

type needing struct {
	in    Input
	clock clock
	freq  []float64   // of executions on own instances, by task
	inNet []float64   // bytes a second of messages received, by task
	load  [][]traffic // by dataset and phase
	out   Needs
}

// traffic is what is asked of a dataset in one phase, by record size.
type traffic []access

func (n *needing) phase(task int) int {
	return slices.Index(n.out.Phases, n.in.App.Tasks[task].Phase)
}

// frequencies works out how often each task runs on instances of its own, and
// what that asks of every dataset. Callers come before those they call.
func (n *needing) frequencies() {
	app := n.in.App
	n.freq = make([]float64, len(app.Tasks))
	n.inNet = make([]float64, len(app.Tasks))
	if job := n.in.SLA.Job; job != nil {
		for _, t := range app.Starts() {
			executions := (job.Bytes + job.Records) / app.Intake(t, job.Records > 0)
			n.freq[t] = executions / n.out.Seconds[n.phase(t)]
		}
	}
	for _, r := range n.in.SLA.Rates {
		n.freq[r.Task] += r.PerSecond
	}
	n.load = make([][]traffic, len(app.Datasets))
	for d := range n.load {
		n.load[d] = make([]traffic, len(n.out.Phases))
	}
	for _, t := range CallersFirst(app) {
		if n.freq[t] == 0 {
			continue
		}
		p := n.clock.profile(t)
		for _, c := range p.calls {
			n.freq[c.task] += n.freq[t] * c.n
			n.inNet[c.task] += n.freq[t] * c.n * c.message
		}
		for _, a := range p.accesses {
			a.records *= n.freq[t]
			n.load[a.dataset][n.phase(t)] = append(n.load[a.dataset][n.phase(t)], a)
		}
	}
}

// CallersFirst orders an application's tasks so that each stands behind all that invoke it.
func CallersFirst(app spec.Application) []int {
	var order []int
	seen := make([]bool, len(app.Tasks))
	var visit func(int)
	visit = func(t int) {
		if seen[t] {
			return
		}
		seen[t] = true
		for _, op := range app.Tasks[t].Path {
			if op.Call != nil {
				visit(op.Call.Task)
			}
		}
		order = append(order, t)
	}
	for t := range app.Tasks {
		visit(t)
	}
	slices.Reverse(order)
	return order
}

// A demand is what a copy of a dataset has to do in one phase, a second.
type demand struct {
	busy    float64 // seconds of device time: units that I/O asks for
	bytes   float64
	records float64 // that cost host CPU
}

// demand is what the store or the cache has to do for accesses. The store
// does all writes and the reads its cache misses; the cache does all writes
// too, and the reads it answers. The CPU of a write is spent at the store.
func (n *needing) demand(dataset int, cache bool, accesses []access) demand {
	d := n.in.App.Datasets[dataset]
	c := n.clock.arch[dataset]
	unit, reads := c.Store, 1.0
	switch {
	case cache:
		unit, reads = c.Cache, d.HitRate
	case c.Cache != NoCache:
		reads = 1 - d.HitRate
	}
	var out demand
	for _, a := range accesses {
		share := reads
		if a.write {
			share = 1
		}
		out.busy += share * a.records * n.clock.device(d, unit, a.write, a.size, 0)
		out.bytes += share * a.records * a.size
		if !(a.write && cache) {
			out.records += share * a.records
		}
	}
	return out
}

// copies calls f for the store and, if there is one, the cache of a dataset.
func (n *needing) copies(dataset int, f func(cache bool, unit int, size float64)) {
	c, d := n.clock.arch[dataset], n.in.App.Datasets[dataset]
	f(false, c.Store, d.Size)
	if c.Cache != NoCache {
		f(true, c.Cache, d.CacheSize())
	}
}

// tiers sizes remote datasets: units enough for capacity, for the I/O of
// every phase, and so many that one unit's share fits into some server.
func (n *needing) tiers() {
	for i, d := range n.in.App.Datasets {
		if !d.Remote {
			continue
		}
		n.copies(i, func(cache bool, unit int, size float64) {
			t := Tier{Dataset: i, Cache: cache, Unit: unit, Capacity: size / n.in.HW.Units[unit].Capacity}
			most := t.Capacity
			for p := range n.out.Phases {
				dem := n.demand(i, cache, n.load[i][p])
				t.IO = append(t.IO, dem.busy)
				t.Net = append(t.Net, dem.bytes)
				t.CPU = append(t.CPU, dem.records*d.CPUPerOp)
				most = max(most, dem.busy, n.in.hosts(n.in.HW.Units[unit].Bus, t.CPU[p], dem.bytes, dem.bytes))
				if unit == n.in.HW.Memory() {
					most = max(most, t.CPU[p])
				}
			}
			t.Units = max(1, ceil(most))
			for p := range t.CPU {
				t.CPU[p] += d.CPUPerUnit * float64(t.Units)
			}
			n.out.Tiers = append(n.out.Tiers, t)
		})
	}
}

// hosts is the fewest shares a load must be cut into for one to fit into a
// server, taking each limit at the server that has most of it.
func (in Input) hosts(bus string, cpu, net, busBytes float64) float64 {
	var cpus, bw, busBW float64
	for _, s := range in.HW.Servers {
		cpus, bw = max(cpus, float64(s.CPUs)), max(bw, s.BW)
		for _, b := range s.Buses {
			if b.Name == bus {
				busBW = max(busBW, b.BW)
			}
		}
	}
	most := 0.0
	for _, limit := range [][2]float64{{cpu, cpus}, {net, bw}, {busBytes, busBW}} {
		if limit[0] > 0 && limit[1] > 0 {
			most = max(most, limit[0]/limit[1])
		}
	}
	return most
}
