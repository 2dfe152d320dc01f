package check

import (
	"math"
	"math/rand/v2"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// A simulation is the state of one run of a cluster.
type simulation struct {
	*engine
	*cluster
	rng    *rand.Rand
	meters [][]meter // by task and step
	warm   float64   // end of the warm-up: meters count from then on

	seconds []float64          // of each phase of a job
	left    map[string]float64 // as in Config
	single  bool               // small records are not grouped: others may come in between
}

// A meter counts the completions of one step of a task.
type meter struct {
	want float64 // a second: records, or computations
	got  float64
	due  float64 // part of a record that is still owed
	hits float64 // part of a hit that is still owed

	copies float64 // part of a replica that is still owed
}

// draw returns a whole number whose mean is x, by carrying over the rest: only the
// times of requests are random, not how much they ask for in total.
func draw(owed *float64, x float64) int {
	*owed += x
	n := math.Floor(*owed + 1e-9)
	*owed -= n
	return int(n)
}

func (sim *simulation) count(m *meter, n float64) {
	if sim.now >= sim.warm {
		m.got += n
	}
}

// newMeters computes the wanted rate of each step, callers before those they call,
// and draws the parts that are carried over first.
func (sim *simulation) newMeters() {
	app := sim.in.App
	freq := make([]float64, len(app.Tasks))
	for _, s := range sim.in.SLA.Rates {
		freq[s.Task] += s.PerSecond
	}
	sim.meters = make([][]meter, len(app.Tasks))
	for _, t := range plan.CallersFirst(app) {
		for _, op := range app.Tasks[t].Path {
			m := meter{due: sim.rng.Float64(), hits: sim.rng.Float64()}
			switch {
			case op.IO != nil:
				m.want = freq[t] * op.Probability * op.IO.Records
			case op.Call != nil:
				freq[op.Call.Task] += freq[t] * op.Probability * op.Call.Invocations
			default:
				m.want = freq[t] * op.Probability
			}
			sim.meters[t] = append(sim.meters[t], m)
		}
	}
}

// A step is a part of an execution; it calls done when it is over.
type step func(inst *instance, done func())

// steps are those of one execution: those that wait for each other, and those that
// overlap. They include the steps of tasks that run inside.
func (sim *simulation) steps(task int) (blocking, overlapped []step) {
	put := func(blocks bool, s step) {
		if blocks {
			blocking = append(blocking, s)
		} else {
			overlapped = append(overlapped, s)
		}
	}
	for i, op := range sim.in.App.Tasks[task].Path {
		m := &sim.meters[task][i]
		switch {
		case op.IO != nil:
			if n := draw(&m.due, op.Probability*op.IO.Records); n > 0 {
				put(op.Blocking, sim.io(op.IO, n, m))
			}
		case op.Call != nil:
			sim.call(op, m, put)
		default:
			if draw(&m.due, op.Probability) > 0 {
				put(op.Blocking, sim.compute(op.Compute, m))
			}
		}
	}
	return blocking, overlapped
}

func (sim *simulation) compute(seconds float64, m *meter) step {
	return func(inst *instance, done func()) {
		inst.host.cpu.use(seconds, func() {
			sim.count(m, 1)
			done()
		})
	}
}

// call adds the invocations of another task.
func (sim *simulation) call(op spec.Op, m *meter, put func(bool, step)) {
	var all []step
	for range draw(&m.due, op.Probability*op.Call.Invocations) {
		if !op.Call.Inline {
			all = append(all, sim.invocation(op))
			continue
		}
		blocking, overlapped := sim.steps(op.Call.Task)
		for _, s := range overlapped {
			put(false, s)
		}
		all = append(all, chain(blocking))
	}
	switch {
	case len(all) == 0:
	case op.Call.Parallel:
		put(op.Blocking, together(all))
	default:
		put(op.Blocking, chain(all))
	}
}

// invocation runs another task on an instance of its own. Only a caller that
// blocks waits for it.
func (sim *simulation) invocation(op spec.Op) step {
	return func(inst *instance, done func()) {
		over := done
		if !op.Blocking {
			over = func() {}
		}
		inst.host.nic.use(op.Call.MessageSize/inst.host.bw, func() {
			sim.execute(op.Call.Task, op.Call.MessageSize, over)
		})
		if !op.Blocking {
			done()
		}
	}
}

// chain does steps one after the other.
func chain(steps []step) step {
	return func(inst *instance, done func()) {
		var at func(i int)
		at = func(i int) {
			if i == len(steps) {
				done()
				return
			}
			steps[i](inst, func() { at(i + 1) })
		}
		at(0)
	}
}

// together does steps at once and waits for the last.
func together(steps []step) step {
	return func(inst *instance, done func()) {
		left := len(steps)
		if left == 0 {
			done()
			return
		}
		for _, s := range steps {
			s(inst, func() {
				if left--; left == 0 {
					done()
				}
			})
		}
	}
}

// execute runs a task's path once on an instance. A request does its overlapping
// steps first, and then the blocking ones. A batch task goes on to its next execution
// while the I/O of this one is still under way, but at most one execution ahead.
func (sim *simulation) execute(task int, message float64, done func()) {
	p := sim.pools[task]
	p.take(func(inst *instance) {
		blocking, overlapped := sim.steps(task)
		if message > 0 {
			overlapped = append(overlapped, func(inst *instance, done func()) { inst.host.nic.use(message/inst.host.bw, done) })
		}
		if sim.in.SLA.Job != nil {
			sim.pipelined(p, inst, blocking, overlapped, done)
			return
		}
		together(overlapped)(inst, func() {
			chain(blocking)(inst, func() {
				p.give(inst)
				done()
			})
		})
	})
}

func (sim *simulation) pipelined(p *pool, inst *instance, blocking, overlapped []step, done func()) {
	inst.open++
	left := 2
	half := func() {
		if left--; left == 0 {
			done()
		}
	}
	together(overlapped)(inst, func() {
		inst.open--
		if inst.held {
			inst.held = false
			p.give(inst)
		}
		half()
	})
	chain(blocking)(inst, func() {
		if inst.open <= 1 {
			p.give(inst)
		} else {
			inst.held = true
		}
		half()
	})
}

// Sizes of a request to a station: small records are grouped so that they take about
// a hundredth of a second, large ones are cut so that other requests can come in
// between. Neither changes the total.
const (
	groupSeconds = 0.01
	pieceBytes   = 2e6
	mostGroups   = 100
	mostPieces   = 200
	readAhead    = 8
)

// io reads or writes n records. With a cache, it answers its share of the
// reads, and writes go to both copies.
func (sim *simulation) io(op *spec.IO, n int, m *meter) step {
	copies := sim.copies(op.Dataset)
	if op.Write { // written once all have it
		all := []step{sim.records(op, copies[0], n, m)}
		for range sim.replicas(op.Dataset, m) - 1 {
			all = append(all, sim.records(op, copies[0], n, &meter{}))
		}
		for _, cache := range copies[1:] {
			all = append(all, sim.records(op, cache, n, &meter{}))
		}
		return together(all)
	}
	if len(copies) == 1 {
		return sim.records(op, copies[0], n, m)
	}
	hits := min(n, draw(&m.hits, float64(n)*sim.in.App.Datasets[op.Dataset].HitRate))
	return chain([]step{sim.records(op, copies[1], hits, m), sim.records(op, copies[0], n-hits, m)})
}

// replicas is how many a write goes to.
func (sim *simulation) replicas(dataset int, m *meter) int {
	d := sim.in.App.Datasets[dataset]
	left, some := sim.left[d.Name]
	if !some {
		return d.Replicas
	}
	return max(1, draw(&m.copies, float64(d.Replicas)*left))
}

// records asks one copy of a dataset for n records.
func (sim *simulation) records(op *spec.IO, from copyOf, n int, m *meter) step {
	d := sim.in.App.Datasets[op.Dataset]
	rate, gap := sim.device(d, from.unit, op.Write)
	each := op.RecordSize/rate + gap
	cpu := d.CPUPerOp
	if op.Write && from.cache {
		cpu = 0
	}
	parts, ahead := sim.cut(op, n, each)
	share := float64(n) / float64(max(parts, 1))
	at := int(sim.rng.Uint64N(1 << 31)) // where the records begin; they go on from unit to unit
	part := func(inst *instance, done func()) {
		at++
		q := request{cpu * share, each * share, op.RecordSize * share}
		if d.Remote {
			units, s := sim.remote[from.place], sim.spreads[from.place]
			if s == nil {
				s = &spread{}
			}
			sim.ask(inst, units[s.pick(0, at, len(units))], true, q, func() {
				sim.count(m, share)
				done()
			})
			return
		}
		units := inst.local[from.place]
		u := units[at%len(units)]
		// The host's CPU works in parallel to the task, which does not wait for it.
		both := 2
		came := func() {
			if both--; both == 0 {
				sim.count(m, share)
			}
		}
		u.host.cpu.use(q.cpu, came)
		q.cpu = 0
		sim.ask(inst, u, false, q, func() {
			came()
			done()
		})
	}
	pace := 0.0
	if op.StreamRate > 0 {
		pace = op.RecordSize * share / op.StreamRate
	}
	return sim.stream(part, parts, ahead, pace)
}

// cut decides in how many parts n records are requested, and how many parts may be
// under way at once.
func (sim *simulation) cut(op *spec.IO, n int, each float64) (parts, ahead int) {
	switch {
	case op.Parallel:
		parts = min(n, mostGroups)
		return parts, parts
	case op.RecordSize > 2*pieceBytes:
		parts = int(min(mostPieces, math.Ceil(float64(n)*op.RecordSize/pieceBytes)))
		return parts, readAhead
	}
	group := max(1, math.Ceil(groupSeconds/each))
	if sim.single {
		group = 1
	}
	return int(min(mostGroups, math.Ceil(float64(n)/group))), 1
}

// stream runs part that many times, at most ahead of them at once, and none before
// its time if the stream has a pace.
func (sim *simulation) stream(part step, parts, ahead int, pace float64) step {
	return func(inst *instance, done func()) {
		if parts == 0 {
			done()
			return
		}
		start, issued, back := sim.now, 0, 0
		var issue func()
		arrived := func() {
			back++
			switch {
			case back == parts:
				sim.after(max(0, start+pace*float64(parts)-sim.now), done)
			case issued < parts:
				issue()
			}
		}
		issue = func() {
			at := start + pace*float64(issued)
			issued++
			if at > sim.now {
				sim.after(at-sim.now, func() { part(inst, arrived) })
				return
			}
			part(inst, arrived)
		}
		for range min(ahead, parts) {
			issue()
		}
	}
}

// A request is what a part takes of the stations on its way.
type request struct{ cpu, device, bytes float64 }

// ask sends a request through all stations: the host's CPU, the unit, its bus, and
// for remote data both networks.
func (sim *simulation) ask(inst *instance, u *unit, remote bool, q request, done func()) {
	u.host.cpu.use(q.cpu, func() {
		u.dev.use(q.device, func() {
			u.bus.use(q.bytes/u.bus.bw, func() {
				if !remote {
					done()
					return
				}
				u.host.nic.use(q.bytes/u.host.bw, func() {
					inst.host.nic.use(q.bytes/inst.host.bw, done)
				})
			})
		})
	})
}
