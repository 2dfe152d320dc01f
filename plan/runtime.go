package plan

import (
	"math"

	"gleaner/plan/spec"
)

// A profile is what one execution of a task takes, including tasks that run inside
// it.
type profile struct {
	blocking   float64 // seconds of steps that wait for each other
	overlapped float64 // seconds of the longest step that does not block
	cpu        float64 // seconds of computing
	memory     float64 // bytes while it computes
	held       float64 // bytes an instance holds all the time
	accesses   []access
	calls      []call
}

// An access is I/O on a dataset, in expected records per execution.
type access struct {
	dataset int
	write   bool
	records float64
	size    float64
}

// A call is an invocation of a task that has instances of its own.
type call struct {
	task    int
	n       float64 // expected per execution
	message float64 // bytes each
}

// runtime is how long an execution occupies an instance. A request waits for
// the longest of the steps that overlap and for all that block. A batch task
// runs its path over and over, so that the I/O of one record overlaps the
// computing of the next.
func (p profile) runtime(batch bool) float64 {
	if batch {
		return max(p.blocking, p.overlapped)
	}
	return p.blocking + p.overlapped
}

// A clock computes how long tasks and records take under an architecture.
type clock struct {
	in   Input
	open [][]Choice // by dataset; the fastest counts
	memo []*profile // by task
}

func (k *clock) profile(task int) *profile {
	if k.memo[task] == nil {
		p := k.walk(k.in.App.Tasks[task])
		k.memo[task] = &p
	}
	return k.memo[task]
}

func (k *clock) walk(t spec.Task) profile {
	var p profile
	if t.PerInstance {
		p.held = t.Memory
	} else {
		p.memory = t.Memory
	}
	for _, op := range t.Path {
		switch {
		case op.IO != nil:
			n := op.Probability * op.IO.Records
			p.access(access{op.IO.Dataset, op.IO.Write, n, op.IO.RecordSize})
			if op.IO.Parallel {
				n = op.Probability
			}
			p.step(op.Blocking, n*k.record(op.IO))
		case op.Call != nil:
			k.invoke(&p, op)
		default:
			p.cpu += op.Probability * op.Compute
			p.step(op.Blocking, op.Probability*op.Compute)
		}
	}
	return p
}

func (p *profile) step(blocking bool, seconds float64) {
	if blocking {
		p.blocking += seconds
	} else {
		p.overlapped = max(p.overlapped, seconds)
	}
}

// invoke adds another task's execution. If it runs inside the caller, its steps are
// the caller's. If it has instances of its own, the caller waits only if it blocks.
func (k *clock) invoke(p *profile, op spec.Op) {
	sub := k.profile(op.Call.Task)
	n := op.Probability * op.Call.Invocations
	turns, copies := n, 1.0
	if op.Call.Parallel {
		turns, copies = op.Probability, op.Call.Invocations
	}
	if !op.Call.Inline {
		p.call(call{op.Call.Task, n, op.Call.MessageSize})
		if op.Blocking {
			p.step(true, turns*sub.runtime(k.in.SLA.Job != nil))
		}
		return
	}
	if op.Blocking {
		p.step(true, turns*sub.blocking)
		p.step(false, turns*sub.overlapped)
	} else {
		p.step(false, turns*(sub.blocking+sub.overlapped))
	}
	p.cpu += n * sub.cpu
	p.memory += sub.memory // for each busy core; parallel copies have more cores
	p.held += copies * sub.held
	for _, a := range sub.accesses {
		a.records *= n
		p.access(a)
	}
	for _, c := range sub.calls {
		c.n *= n
		p.call(c)
	}
}

// access adds I/O. Equal accesses are added up: a path that invokes another twice,
// which invokes a third twice, must not list each access 2^n times.
func (p *profile) access(a access) {
	for i, b := range p.accesses {
		if b.dataset == a.dataset && b.write == a.write && b.size == a.size {
			p.accesses[i].records += a.records
			return
		}
	}
	p.accesses = append(p.accesses, a)
}

// call adds an invocation, as access does.
func (p *profile) call(c call) {
	for i, b := range p.calls {
		if b.task == c.task && b.message == c.message {
			p.calls[i].n += c.n
			return
		}
	}
	p.calls = append(p.calls, c)
}

// record is how long the task waits for one record, at least.
func (k *clock) record(op *spec.IO) float64 {
	least := math.Inf(1)
	for _, c := range k.open[op.Dataset] {
		least = min(least, k.in.record(op, c))
	}
	return least
}

// record is how long a task waits for one record of a dataset by this choice: a read
// waits for the cache for the share it answers and for the store for the rest; a write
// waits for the slower copy, because it is committed to both.
func (in Input) record(op *spec.IO, c Choice) float64 {
	d := in.App.Datasets[op.Dataset]
	store := in.device(d, c.Store, op.Write, op.RecordSize, op.StreamRate)
	if c.Cache == NoCache {
		return store
	}
	cache := in.device(d, c.Cache, op.Write, op.RecordSize, op.StreamRate)
	if op.Write {
		return max(store, cache)
	}
	return d.HitRate*cache + (1-d.HitRate)*store
}

// device is how long a storage unit takes for a record (Section 3.2.1).
func (in Input) device(d spec.Dataset, unit int, write bool, size, stream float64) float64 {
	read, wr := in.App.Through(d.System, in.HW.Units[unit])
	rate, gap := read.RateR, read.GapR
	if write {
		rate, gap = wr.RateW, wr.GapW
	}
	if stream > 0 {
		rate = min(rate, stream)
	}
	return size/rate + gap
}
