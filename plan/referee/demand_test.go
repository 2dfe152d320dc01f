package referee

import (
	"math"
	"slices"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// A choice is where a dataset lies: indices of storage units; cache is -1 for none.
type choice struct{ store, cache int }

// A load is split into shares: it is a role of tasks, or one copy of a remote
// dataset. All its figures are for the whole load, by phase.
type load struct {
	name      string
	tasks     []int // none for data
	instances float64
	cpu       []float64 // cores
	net       []float64 // bytes a second
	memory    []float64 // bytes, by share
	held      []float64 // bytes for each instance
	copies    []stored
	servers   int // at least: none has more than its part
	level     int // of the day, in which it runs; or always
}

// A stored is one copy of a dataset: what it needs of the units it lies on.
type stored struct {
	dataset, unit int
	cache         bool
	units         float64   // a share x needs x times as many, rounded up
	perInstance   int       // units that every instance has for itself
	traffic       []float64 // bytes a second on the bus
	cpuPerUnit    float64
	system        string
}

// counted reports whether the number of instances on a server matters.
func (l load) counted() bool {
	return slices.Max(append([]float64{0}, l.held...)) > 0 || slices.ContainsFunc(l.copies, func(c stored) bool { return c.perInstance > 0 })
}

// records are reads or writes of one size.
type records struct {
	dataset int
	write   bool
	size    float64
}

// A path is what one execution does, with all that runs inside it.
type path struct {
	blocking, beside float64 // seconds: B and N of docs/plan.md
	cpu              float64
	coreMemory       float64 // bytes for each core it keeps busy
	held             float64 // bytes for each instance
	io               map[records]float64
	calls            map[int]float64 // of tasks with instances of their own
	sent             map[int]float64 // bytes of messages by the task they go to
}

// A reading computes what an architecture demands.
type reading struct {
	in     plan.Input
	arch   []choice
	paths  map[int]path
	course course
}

// A course is how a job goes: the seconds of each phase, and the share of those of its tasks
// that may be harvested which are (none if nothing is); again is how often the work of each task is then
// done, 0 if it may not be.
type course struct {
	seconds, harvested, again []float64
}

// seconds is what one record takes on a unit, for a stream or for the device.
func (r reading) seconds(dataset, unit int, write bool, size, stream float64) float64 {
	read, wrote := r.in.App.Through(r.in.App.Datasets[dataset].System, r.in.HW.Units[unit])
	rate, gap := read.RateR, read.GapR
	if write {
		rate, gap = wrote.RateW, wrote.GapW
	}
	if stream > 0 && stream < rate {
		rate = stream
	}
	return size/rate + gap
}

// record is what a task waits for one record.
func (r reading) record(io spec.IO) float64 {
	c := r.arch[io.Dataset]
	store := r.seconds(io.Dataset, c.store, io.Write, io.RecordSize, io.StreamRate)
	if c.cache < 0 {
		return store
	}
	cache := r.seconds(io.Dataset, c.cache, io.Write, io.RecordSize, io.StreamRate)
	if io.Write {
		return max(store, cache)
	}
	hit := r.in.App.Datasets[io.Dataset].HitRate
	return hit*cache + (1-hit)*store
}

// target is how much of a resource may be used: all of it if nothing is said.
func target(given float64) float64 {
	if given == 0 {
		return 1
	}
	return given
}

func (r reading) runtime(p path) float64 {
	if r.in.SLA.Job != nil {
		return max(p.blocking, p.beside)
	}
	return p.blocking + p.beside
}

func (r reading) path(task int) path {
	if p, ok := r.paths[task]; ok {
		return p
	}
	t := r.in.App.Tasks[task]
	p := path{io: map[records]float64{}, calls: map[int]float64{}, sent: map[int]float64{}}
	if t.PerInstance {
		p.held = t.Memory
	} else {
		p.coreMemory = t.Memory
	}
	wait := func(op spec.Op, seconds float64) {
		if op.Blocking {
			p.blocking += op.Probability * seconds
		} else {
			p.beside = max(p.beside, op.Probability*seconds)
		}
	}
	for _, op := range t.Path {
		switch {
		case op.IO != nil:
			times := op.IO.Records
			p.io[records{op.IO.Dataset, op.IO.Write, op.IO.RecordSize}] += op.Probability * times
			if op.IO.Parallel {
				times = 1
			}
			wait(op, times*r.record(*op.IO))
		case op.Call != nil:
			times, together := op.Call.Invocations, 1.0 // one after the other, and at the same time
			if op.Call.Parallel {
				times, together = together, times
			}
			all := op.Probability * times * together
			callee := r.path(op.Call.Task)
			if op.Call.Inline {
				p.blocking += op.Probability * times * callee.blocking
				p.beside = max(p.beside, op.Probability*times*callee.beside)
				p.takeIn(callee, all)
				p.held += together * callee.held
				continue
			}
			if op.Blocking {
				wait(op, times*r.runtime(callee))
			}
			p.calls[op.Call.Task] += all
			p.sent[op.Call.Task] += all * op.Call.MessageSize
		default:
			wait(op, op.Compute)
			p.cpu += op.Probability * op.Compute
		}
	}
	r.paths[task] = p
	return p
}

// takeIn adds the resources of an invocation that runs inside.
func (p *path) takeIn(q path, times float64) {
	p.cpu += times * q.cpu
	p.coreMemory += q.coreMemory
	for k, n := range q.io {
		p.io[k] += times * n
	}
	for k, n := range q.calls {
		p.calls[k] += times * n
	}
	for k, n := range q.sent {
		p.sent[k] += times * n
	}
}

// frequencies is how often a second each task with instances of its own runs.
func (r reading) frequencies() []float64 {
	app := r.in.App
	f := make([]float64, len(app.Tasks))
	invoked := make([]int, len(app.Tasks))
	for _, t := range app.Tasks {
		for _, op := range t.Path {
			if op.Call != nil {
				invoked[op.Call.Task]++
			}
		}
	}
	for _, s := range r.in.SLA.Rates {
		f[s.Task] += s.PerSecond / r.left()
	}
	if job := r.in.SLA.Job; job != nil {
		for t := range app.Tasks {
			if invoked[t] == 0 {
				f[t] = max(job.Bytes, job.Records) / r.left() / intake(app.Tasks[t], job.Bytes > 0) / r.course.seconds[r.phase(t)]
			}
		}
	}
	var ready []int // callers before those they call
	for t, n := range invoked {
		if n == 0 {
			ready = append(ready, t)
		}
	}
	for len(ready) > 0 {
		t := ready[0]
		ready = ready[1:]
		for to, times := range r.path(t).calls {
			f[to] += f[t] * r.redone(t) * times
		}
		for _, op := range app.Tasks[t].Path {
			if op.Call == nil {
				continue
			}
			if invoked[op.Call.Task]--; invoked[op.Call.Task] == 0 {
				ready = append(ready, op.Call.Task)
			}
		}
	}
	return f
}

func intake(t spec.Task, bytes bool) float64 {
	if t.Consumes > 0 {
		return t.Consumes
	}
	sum := 0.0
	for _, op := range t.Path {
		if op.IO != nil && !op.IO.Write {
			n := op.Probability * op.IO.Records
			if bytes {
				n *= op.IO.RecordSize
			}
			sum += n
		}
	}
	return sum
}

// phase is 0 for request rates: all tasks run at the same time.
func (r reading) phase(task int) int {
	if r.in.SLA.Job == nil {
		return 0
	}
	return slices.Index(r.in.App.Phases(), r.in.App.Tasks[task].Phase)
}

func (r reading) phases() int {
	if r.in.SLA.Job == nil {
		return 1
	}
	return len(r.in.App.Phases())
}

// demand is all loads of an architecture: roles first, then copies of remote datasets.
func demand(in plan.Input, arch []choice, how course) []load {
	r := reading{in: in, arch: arch, paths: map[int]path{}, course: how}
	if len(in.SLA.Day) > 0 {
		return r.overDay()
	}
	f := r.frequencies()
	var out []load
	bought, done := r.divided(f)
	for _, tasks := range r.roles(bought) {
		out = append(out, r.role(tasks, bought, done))
	}
	for d := range in.App.Datasets {
		if in.App.Datasets[d].Remote {
			out = append(out, r.copiesOf(d, done)...)
		}
	}
	return out
}

// copiesOf is the loads of a remote dataset.
func (r reading) copiesOf(d int, f []float64) []load {
	var out []load
	for _, c := range r.copies(d, f) {
		l := r.empty()
		l.name = r.in.App.Datasets[d].Name + " on " + r.in.HW.Units[c.unit].Name
		l.net, l.cpu = c.traffic, r.hostCPU(d, c.cache, f)
		if r.in.HW.Units[c.unit].Volatile {
			c.units = max(c.units, slices.Max(l.cpu))
		}
		l.copies, l.servers = []stored{c}, r.servers(d, c.cache)
		out = append(out, l)
	}
	return out
}

func (r reading) empty() load {
	n := r.phases()
	return load{level: always, cpu: make([]float64, n), net: make([]float64, n), memory: make([]float64, n), held: make([]float64, n)}
}

// roles groups the tasks that run by the local datasets they touch.
func (r reading) roles(f []float64) [][]int {
	group := make([]int, len(f))
	for t := range group {
		group[t] = t
	}
	for d, data := range r.in.App.Datasets {
		first := -1
		for t := range f {
			if data.Remote || f[t] == 0 || !r.touches(t, d) {
				continue
			}
			if first < 0 {
				first = group[t]
			}
			from := group[t]
			for u := range group {
				if group[u] == from {
					group[u] = first
				}
			}
		}
	}
	var out [][]int
	for g := range group {
		var tasks []int
		for t := range group {
			if group[t] == g && f[t] > 0 {
				tasks = append(tasks, t)
			}
		}
		if len(tasks) > 0 {
			out = append(out, tasks)
		}
	}
	return out
}

func (r reading) touches(task, dataset int) bool {
	for k := range r.path(task).io {
		if k.dataset == dataset {
			return true
		}
	}
	return false
}

// role is tasks that run side by side, so often a second; done is how often all tasks run with those that
// are harvested.
func (r reading) role(tasks []int, f, done []float64) load {
	l := r.empty()
	l.tasks = tasks
	l.servers = 1 + r.in.SLA.Survive
	for _, t := range tasks {
		l.servers = max(l.servers, r.inZone(r.in.App.Tasks[t].Spread))
	}
	all := f
	f = slices.Clone(f)
	for _, t := range tasks { // the others do the work of those that failed
		f[t] *= float64(l.servers) / float64(l.servers-r.in.SLA.Survive)
	}
	touched := map[int]bool{}
	for _, t := range tasks {
		p, ph := r.path(t), r.phase(t)
		l.name += r.in.App.Tasks[t].Name + " "
		l.instances = max(l.instances, f[t]*r.runtime(p)/target(r.in.SLA.Targets.IO))
		l.cpu[ph] += f[t] * p.cpu
		l.memory[ph] += f[t] * p.cpu * p.coreMemory
		l.held[ph] += p.held
		for k, n := range p.io {
			touched[k.dataset] = true
			if r.in.App.Datasets[k.dataset].Remote {
				sent := 1.0
				if k.write {
					sent = max(1, float64(r.in.App.Datasets[k.dataset].Replicas)*r.left()/r.zones())
				}
				l.net[ph] += f[t] * n * k.size * sent
			}
		}
		for _, bytes := range p.sent {
			l.net[ph] += f[t] * bytes
		}
		for caller := range f {
			l.net[ph] += done[caller] * r.path(caller).sent[t] * f[t] / all[t]
		}
	}
	for d, data := range r.in.App.Datasets {
		if !touched[d] || data.Remote {
			continue
		}
		for _, c := range r.copies(d, f) {
			l.copies = append(l.copies, c)
			for ph, cores := range r.hostCPU(d, c.cache, f) {
				l.cpu[ph] += cores
			}
		}
	}
	return l
}

// flow visits the I/O of one copy of a dataset: records a second, by kind and phase.
func (r reading) flow(dataset int, cache bool, f []float64, visit func(phase int, k records, perSecond float64)) {
	data := r.in.App.Datasets[dataset]
	for t := range f {
		if f[t] == 0 {
			continue
		}
		for k, n := range r.path(t).io {
			if k.dataset != dataset {
				continue
			}
			if !k.write && r.arch[dataset].cache >= 0 {
				if cache {
					n *= data.HitRate
				} else {
					n *= 1 - data.HitRate
				}
			}
			visit(r.phase(t), k, f[t]*n*r.times(dataset, cache, k.write))
		}
	}
}

// copies are the store of a dataset and its cache.
func (r reading) copies(dataset int, f []float64) []stored {
	c, data := r.arch[dataset], r.in.App.Datasets[dataset]
	one := func(unit int, cache bool, size float64) stored {
		s := stored{dataset: dataset, unit: unit, cache: cache, cpuPerUnit: data.CPUPerUnit, system: data.System,
			traffic: make([]float64, r.phases())}
		busy := make([]float64, r.phases())
		r.flow(dataset, cache, f, func(ph int, k records, n float64) {
			busy[ph] += n * r.seconds(dataset, unit, k.write, k.size, 0)
			s.traffic[ph] += n * k.size
		})
		s.units = slices.Max(busy) / target(r.in.SLA.Targets.IO)
		if full := r.room(dataset, cache) * size / (r.in.HW.Units[unit].Capacity * target(r.in.SLA.Targets.Space)); data.Remote || data.Partitioned {
			s.units = max(s.units, full)
		} else {
			s.perInstance = int(math.Ceil(full * (1 - forgiven)))
		}
		return s
	}
	out := []stored{one(c.store, false, data.Size)}
	if c.cache >= 0 {
		size := data.Size
		if data.WorkingSet > 0 {
			size = data.WorkingSet
		}
		out = append(out, one(c.cache, true, size))
	}
	return out
}

// hostCPU is the cores that the records of one copy keep busy: a cache's for
// the reads it answers, a store's for all else.
func (r reading) hostCPU(dataset int, cache bool, f []float64) []float64 {
	cores := make([]float64, r.phases())
	r.flow(dataset, cache, f, func(ph int, k records, n float64) {
		if !cache || !k.write {
			cores[ph] += n * r.in.App.Datasets[dataset].CPUPerOp
		}
	})
	return cores
}

// choices are all choices of a dataset.
func choices(in plan.Input, dataset int) []choice {
	data := in.App.Datasets[dataset]
	r := reading{in: in}
	faster := func(cache, store int) bool {
		total, n := 0.0, 0
		for _, t := range in.App.Tasks {
			for _, op := range t.Path {
				if op.IO != nil && op.IO.Dataset == dataset && !op.IO.Write {
					n++
					total += r.seconds(dataset, cache, false, op.IO.RecordSize, 0) - r.seconds(dataset, store, false, op.IO.RecordSize, 0)
				}
			}
		}
		return n > 0 && total < 0
	}
	var out []choice
	for s, u := range in.HW.Units {
		if u.Volatile && data.Persistent {
			continue
		}
		out = append(out, choice{s, -1})
		for c := range in.HW.Units {
			if (data.Persistent || data.WorkingSet > 0) && faster(c, s) {
				out = append(out, choice{s, c})
			}
		}
	}
	return out
}

// architectures are all architectures of an input.
func architectures(in plan.Input) [][]choice {
	out := [][]choice{nil}
	for d := range in.App.Datasets {
		var next [][]choice
		for _, head := range out {
			for _, c := range choices(in, d) {
				next = append(next, append(slices.Clone(head), c))
			}
		}
		out = next
	}
	return out
}

// servers is over how many servers a copy of a remote dataset is spread at least.
func (r reading) servers(dataset int, cache bool) int {
	data := r.in.App.Datasets[dataset]
	n := max(1+r.in.SLA.Survive, r.inZone(data.Spread))
	if !cache {
		n = max(n, r.inZone(data.Replicas))
	}
	return n
}

// times is how often a read or a write of a remote dataset reaches its servers, as a
// multiple of once: writes, and bytes, are as many as there are replicas. What has
// none that outlives a failure is on the servers that are left.
func (r reading) times(dataset int, cache, write bool) float64 {
	data := r.in.App.Datasets[dataset]
	if !data.Remote {
		return 1
	}
	if r.zones() > 1 {
		if write && !cache && data.Replicas > r.in.SLA.Zones.Failed {
			return float64(data.Replicas) / r.zones() * r.left() // of all writes, and a zone's tasks do 1/left of those
		}
		return 1
	}
	if write && !cache && data.Replicas > r.in.SLA.Survive {
		return float64(data.Replicas)
	}
	n := max(1+r.in.SLA.Survive, data.Spread)
	return float64(n) / float64(n-r.in.SLA.Survive)
}
