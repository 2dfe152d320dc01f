package plan

import (
	"math"
	"slices"

	"gleaner/plan/spec"
)

// Input is the three specifications of a plan, and what can be harvested.
type Input struct {
	App spec.Application
	HW  spec.Hardware
	SLA spec.SLA

	Harvested *spec.Harvested // nil if there is nothing
	use       *use            // of it; nil: all
	inZone    bool            // it is of one of the SLA's zones
	colocated bool            // tasks and remote data may share a server
	slowest   float64         // cores on which latency goals are met, by speed; 0: all
}

// Needs are what servers must host to meet the SLA, before servers are chosen.
// Loads are by phase, in the application's order of phases, or by level of the day.
type Needs struct {
	Architecture Architecture // nil while datasets have a choice
	Open         [][]Choice   // by dataset: what it may lie on
	Phases       []string
	Seconds      []float64 // of each phase of a batch job; empty for request rates
	Tasks        []TaskNeed
	Tiers        []Tier
	Roles        []Role
	Harvest      []Harvest
	Idle         []int // tasks that neither the SLA nor another task invokes
	// Targets are the most of each resource that may be used. All needs are of what
	// must be bought: divided by the target of their resource.
	Targets spec.Targets
	Answers []Answer // of the latency goals, for which targets are lower
}

// A TaskNeed is a task that has instances of its own.
type TaskNeed struct {
	Task      int
	Rate      float64 // executions a second
	Runtime   float64 // seconds that an execution occupies an instance; the least of them while datasets have a choice
	CPU       float64 // of them computing
	Instances int     // at least; in a plan, those of all servers
}

// A Copy is one copy of a dataset on one kind of unit: the store, or a cache,
// or a store behind a cache, which gets fewer reads.
type Copy struct {
	Dataset int
	Cache   bool
	Behind  bool
	Unit    int
}

// A Tier is a copy of a remote dataset.
type Tier struct {
	Copy
	Units    int       // at least; in a plan, those of all servers
	Capacity float64   // units needed for capacity
	IO       []float64 // units needed for I/O
	Net      []float64 // bytes a second to and from the hosts
	Traffic  []float64 // bytes a second on the bus
	CPU      []float64 // cores of the hosts for its records
	Least    float64   // units over all servers, before rounding up
	Servers  int       // that share it at least
}

// A Role is tasks that use the same local data and so run side by side; an instance
// has one of each. Most roles are a single task.
type Role struct {
	Tasks     []int
	Instances float64   // that must run at a time, before rounding up; 1 at least
	CPU       []float64 // cores
	Net       []float64 // bytes a second
	Memory    []float64 // bytes in proportion to the load
	Held      []float64 // bytes of each instance
	Locals    []Local
	Servers   int    // that share it at least
	Long      bool   // it computes longer than tasks that have no time to wait, and shares no server with them
	Hours     string // the level of the day in which it runs; "": in all, with the same shares
}

// A Local is a copy of a dataset local to a role.
type Local struct {
	Copy
	Each     int       // units for the whole copy of an instance; 0 if partitioned
	Capacity float64   // units needed for capacity over all servers, if partitioned
	IO       []float64 // units needed for I/O over all servers
	Traffic  []float64 // bytes a second
	CPU      []float64 // cores for its records
}

// units is how many a partitioned copy takes over all servers, before rounding up.
func (l Local) units() float64 { return max(l.Capacity, slices.Max(l.IO)) }

// Countless is more units or instances than can be planned.
const Countless = 1e9

// ceil rounds up, but ignores floating-point errors.
func ceil(x float64) int {
	if !(x < Countless) {
		return Countless
	}
	return int(math.Ceil(x - 1e-9*max(1, math.Abs(x))))
}

// countless lists the copies that take too many units.
func (n Needs) countless() []Copy {
	var out []Copy
	for _, t := range n.Tiers {
		if !(t.Least < Countless) {
			out = append(out, t.Copy)
		}
	}
	for _, r := range n.Roles {
		for _, l := range r.Locals {
			if !(l.units() < Countless) || !(float64(l.Each)*r.Instances < Countless) {
				out = append(out, l.Copy)
			}
		}
	}
	return out
}

// NeedsOf computes the needs of an architecture. For a batch job, seconds is the
// time of each phase.
func NeedsOf(in Input, arch Architecture, seconds []float64) Needs {
	n := needsOf(in, arch.open(), seconds)
	n.Architecture = arch
	return n
}

// needsOf computes the needs of each of the open choices. Those of tasks are the
// least over the choices.
func needsOf(in Input, open [][]Choice, seconds []float64) Needs {
	if len(in.SLA.Day) > 0 {
		return overTheDay(in, open)
	}
	n := &needing{in: in, clock: clock{in: in, open: open, memo: make([]*profile, len(in.App.Tasks))}}
	n.out = Needs{Open: open, Phases: in.App.Phases(), Seconds: seconds, Targets: in.SLA.Targets.Full()}
	n.answers()
	n.frequencies()
	n.tiers()
	n.roles()
	n.out.Idle = idle(in)
	return n.out
}

// idle lists the tasks that never run: the SLA has no rate for them, and no task
// that runs invokes them.
func idle(in Input) []int {
	runs := make([]bool, len(in.App.Tasks))
	for _, r := range in.SLA.Rates {
		runs[r.Task] = true
	}
	if in.SLA.Job != nil {
		for _, t := range in.App.Starts() {
			runs[t] = true
		}
	}
	var out []int
	for _, t := range CallersFirst(in.App) {
		if !runs[t] {
			out = append(out, t)
			continue
		}
		for _, op := range in.App.Tasks[t].Path {
			if op.Call != nil {
				runs[op.Call.Task] = true
			}
		}
	}
	slices.Sort(out)
	return out
}

type needing struct {
	in    Input
	clock clock
	hurry *hurry
	freq  []float64   // of executions on own instances, by task
	inNet []float64   // bytes a second of messages received, by task
	load  [][]traffic // by dataset and phase
	share []float64   // of executions on harvested cores, by task
	again []float64   // how often an execution is done on average, by task
	out   Needs
}

// traffic is the accesses to a dataset in one phase, by record size.
type traffic []access

func (n *needing) phase(task int) int {
	return slices.Index(n.out.Phases, n.in.App.Tasks[task].Phase)
}

// frequencies computes how often each task runs on instances of its own, and the
// traffic of every dataset. Callers come before those they call.
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
	n.harvest()
	n.load = make([][]traffic, len(app.Datasets))
	for d := range n.load {
		n.load[d] = make([]traffic, len(n.out.Phases))
	}
	for _, t := range CallersFirst(app) {
		if n.freq[t] == 0 {
			continue
		}
		p, times := n.clock.profile(t), n.freq[t]*n.again[t]
		for _, c := range p.calls {
			n.freq[c.task] += times * c.n
			n.inNet[c.task] += times * c.n * c.message
		}
		for _, a := range p.accesses {
			a.records *= times
			n.load[a.dataset][n.phase(t)] = append(n.load[a.dataset][n.phase(t)], a)
		}
	}
}

// CallersFirst orders an application's tasks so that each comes after all that invoke it.
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

// A demand is the work of a copy of a dataset in one phase, per second.
type demand struct {
	busy    float64 // seconds of device time: units needed for I/O
	bytes   float64
	records float64 // that take host CPU
}

// demand is the work of a copy for accesses. The store does all writes and the reads
// that its cache misses; the cache does all writes too, and the reads it answers.
// The CPU of a write is spent at the store.
func (n *needing) demand(c Copy, k kept, accesses []access) demand {
	d := n.in.App.Datasets[c.Dataset]
	reads := 1.0
	switch {
	case c.Cache:
		reads = d.HitRate
	case c.Behind:
		reads = 1 - d.HitRate
	}
	var out demand
	for _, a := range accesses {
		share := reads * k.reads
		if a.write {
			share = k.writes
		}
		out.busy += share * a.records * n.in.device(d, c.Unit, a.write, a.size, 0)
		out.bytes += share * a.records * a.size
		if !(a.write && c.Cache) {
			out.records += share * a.records
		}
	}
	return out
}

// copies lists the copies of a dataset by its open choices.
func (n *needing) copies(dataset int) []Copy {
	var out []Copy
	for _, choice := range n.clock.open[dataset] {
		for _, c := range choice.copies(dataset) {
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	return out
}

// size is how many bytes a copy holds.
func (in Input) size(c Copy) float64 {
	if c.Cache {
		return in.App.Datasets[c.Dataset].CacheSize()
	}
	return in.App.Datasets[c.Dataset].Size
}

// tiers sizes remote datasets: units for capacity, for the I/O of every phase
// and, if they are memory, for the cores that their records keep busy.
func (n *needing) tiers() {
	for i, d := range n.in.App.Datasets {
		if !d.Remote {
			continue
		}
		for _, c := range n.copies(i) {
			unit, most := n.in.HW.Units[c.Unit], n.out.Targets
			k := n.in.kept(c)
			t := Tier{Copy: c, Servers: k.servers, Capacity: k.space * n.in.size(c) / unit.Capacity / most.Space}
			t.Least = t.Capacity
			for p := range n.out.Phases {
				dem := n.demand(c, k, n.load[i][p])
				busy := dem.records * d.CPUPerOp
				t.IO = append(t.IO, dem.busy/most.IO)
				t.Net = append(t.Net, dem.bytes/most.Network)
				t.Traffic = append(t.Traffic, dem.bytes/most.Bus)
				t.CPU = append(t.CPU, busy/most.CPU)
				t.Least = max(t.Least, t.IO[p])
				if unit.Volatile {
					t.Least = max(t.Least, busy)
				}
			}
			t.Units = max(1, ceil(t.Least))
			n.out.Tiers = append(n.out.Tiers, t)
		}
	}
}
