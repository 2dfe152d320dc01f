package referee

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// latencies gives goals to tasks of a share of the documents, where they may have any: those
// that wait for local data may not.
func latencies(seed uint64, d *documents, share float64) {
	w := writer{Rand: rand.New(rand.NewPCG(seed, 13))}
	if !w.chance(share) {
		return
	}
	for i := range d.sla.all("sla") {
		goal, percentile := fmt.Sprintf("%.3gms", math.Pow(10, 4*w.Float64())), pick(w, "", "50%", "0.9", "99.9%")
		more := d.clone()
		e := more.sla.all("sla")[i]
		e.set("latency", goal)
		if percentile != "" {
			e.set("percentile", percentile)
		}
		if _, err := parse(more.files()); err == nil {
			*d = more
		}
	}
	w.speeds(d)
}

// As TestAgainstModel, with documents that have goals if they may, and servers of several speeds.
func TestLatenciesAgainstModel(t *testing.T) {
	from, to := seeds(t, 15, 600)
	several := 0
	agree(t, from, to, func(seed uint64) documents {
		d := documentsOf(seed, 1)
		latencies(seed, &d, 1)
		if in, err := parse(d.files()); err == nil && len(bySpeed(in)) > 1 {
			several++
		}
		return d
	})
	t.Logf("of %d documents, %d have goals and servers of several speeds", to-from+1, several)
}

// speeds gives servers of every other document with goals cores of several speeds.
func (w writer) speeds(d *documents) {
	if !w.chance(0.5) {
		return
	}
	more := d.clone()
	for _, e := range more.hw.all("server") {
		if w.chance(0.6) {
			e.set("speed", pick(w, "0.25", "0.5", "0.8", "2"))
		}
	}
	if _, err := parse(more.files()); err == nil {
		*d = more
	}
}

// slower is how much longer a computation takes on a server: cores faster than usual count as more cores.
func slower(s spec.Server) float64 {
	if s.Speed > 0 && s.Speed < 1 {
		return 1 / s.Speed
	}
	return 1
}

// notSlower leaves out the servers on which a computation takes longer than so many times.
func notSlower(in plan.Input, most float64) plan.Input {
	in.HW.Servers = slices.DeleteFunc(slices.Clone(in.HW.Servers), func(s spec.Server) bool { return slower(s) > most })
	return in
}

// bySpeed lists the inputs that remain if servers slower than some are left out. Without goals all are alike.
func bySpeed(in plan.Input) []plan.Input {
	if !slices.Contains((reading{in: in}).awaited(), true) {
		return []plan.Input{in}
	}
	var out []plan.Input
	for _, s := range in.HW.Servers {
		some := notSlower(in, slower(s))
		if !slices.ContainsFunc(out, func(o plan.Input) bool { return len(o.HW.Servers) == len(some.HW.Servers) }) {
			out = append(out, some)
		}
	}
	return out
}

// slow is how much longer a computation takes on the slowest server.
func (r reading) slow() float64 {
	most := 1.0
	for _, s := range r.in.HW.Servers {
		most = max(most, slower(s))
	}
	return most
}

// hurried is an input with the targets that its latency goals leave to an architecture.
// It reports whether there are any.
func hurried(in plan.Input, arch []choice, colocate bool) (plan.Input, bool) {
	r := reading{in: in, arch: arch}
	most := 1.0
	for _, rate := range in.SLA.Rates {
		if rate.Latency == 0 {
			continue
		}
		alone, waits := r.alone(rate.Task), r.waits(rate.Task, 1, 1, colocate)
		// In steps of a millionth, and then of a millionth of that: the first that is too much.
		tooMuch := func(u float64) bool {
			sum := alone
			for _, w := range waits {
				mean, often := w.seconds/(1-u), w.together*u/(1-rate.Percentile)
				if often > 1 {
					sum += mean * (1 + math.Log(often))
				} else {
					sum += mean * often
				}
			}
			return !(sum <= rate.Latency)
		}
		coarse := float64(sort.Search(1e6, func(i int) bool { return tooMuch(float64(i) / 1e6) })-1) / 1e6
		if coarse < 0 {
			return in, false
		}
		fine := float64(sort.Search(1e6, func(i int) bool { return tooMuch(coarse + float64(i)/1e12) })-1) / 1e12
		most = min(most, coarse+fine)
	}
	for _, t := range []*float64{&in.SLA.Targets.CPU, &in.SLA.Targets.Network, &in.SLA.Targets.Bus, &in.SLA.Targets.IO} {
		*t = min(target(*t), most)
	}
	return in, most >= 1e-3
}

func ceiled(x float64) float64 { return math.Ceil(x * (1 - 1e-9)) }

// alone is S of docs/plan.md.
func (r reading) alone(task int) float64 {
	sum := 0.0
	for _, op := range r.in.App.Tasks[task].Path {
		switch {
		case op.Probability == 0:
		case op.IO != nil:
			sum += ceiled(op.IO.Records) * (r.late(*op.IO) + r.slow()*r.in.App.Datasets[op.IO.Dataset].CPUPerOp)
		case op.Call != nil && (op.Blocking || op.Call.Inline):
			sum += ceiled(op.Call.Invocations) * r.alone(op.Call.Task)
		case op.Call == nil:
			sum += r.slow() * op.Compute
		}
	}
	return sum
}

// late is how long a record takes on the slower copy.
func (r reading) late(io spec.IO) float64 {
	c := r.arch[io.Dataset]
	at := r.seconds(io.Dataset, c.store, io.Write, io.RecordSize, io.StreamRate)
	if c.cache >= 0 {
		at = max(at, r.seconds(io.Dataset, c.cache, io.Write, io.RecordSize, io.StreamRate))
	}
	return at
}

// A waiting is for services of some seconds, of which there are several together.
type waiting struct{ seconds, together float64 }

// waits lists all that an execution waits for.
func (r reading) waits(task int, times, together float64, colocate bool) []waiting {
	var out []waiting
	onCores, onHosts := r.stretches(colocate)
	for _, op := range r.in.App.Tasks[task].Path {
		n, m := times, together
		more := func(k float64, parallel bool) {
			if parallel {
				m *= ceiled(k)
			} else {
				n *= ceiled(k)
			}
		}
		switch {
		case op.Probability == 0:
		case op.IO != nil:
			more(op.IO.Records, op.IO.Parallel)
			c := r.arch[op.IO.Dataset]
			long := r.stretchAt(op.IO.Dataset, c.store)
			if c.cache >= 0 {
				long = max(long, r.stretchAt(op.IO.Dataset, c.cache))
			}
			out = append(out, waiting{n * long, m})
			if r.in.App.Datasets[op.IO.Dataset].CPUPerOp > 0 {
				out = append(out, waiting{n * onHosts, m})
			}
		case op.Call != nil && (op.Blocking || op.Call.Inline):
			more(op.Call.Invocations, op.Call.Parallel)
			out = append(out, r.waits(op.Call.Task, n, m, colocate)...)
		case op.Call == nil:
			out = append(out, waiting{n * onCores, m})
		}
	}
	return out
}

// stretches are the longest on the cores of tasks that are waited for, and of data.
func (r reading) stretches(colocate bool) (cores, hosts float64) {
	waited := r.awaited()
	for t := range r.in.App.Tasks {
		if waited[t] {
			cores = max(cores, r.stretch(t, r.onCores))
		}
		if r.running()[t] {
			hosts = max(hosts, r.stretch(t, func(op spec.Op) float64 {
				if op.IO == nil || !r.in.App.Datasets[op.IO.Dataset].Remote {
					return 0
				}
				return r.slow() * r.burst(*op.IO) * r.in.App.Datasets[op.IO.Dataset].CPUPerOp
			}))
		}
	}
	if colocate {
		return max(cores, hosts), max(cores, hosts)
	}
	return cores, hosts
}

func (r reading) onCores(op spec.Op) float64 {
	if op.IO != nil && !r.in.App.Datasets[op.IO.Dataset].Remote {
		return r.slow() * r.burst(*op.IO) * r.in.App.Datasets[op.IO.Dataset].CPUPerOp
	}
	if op.IO != nil || op.Call != nil {
		return 0
	}
	return r.slow() * op.Compute
}

// stretchAt is the longest at a unit of a dataset.
func (r reading) stretchAt(dataset, unit int) float64 {
	most := 0.0
	for t, runs := range r.running() {
		if runs {
			most = max(most, r.stretch(t, func(op spec.Op) float64 {
				if op.IO == nil || op.IO.Dataset != dataset {
					return 0
				}
				return r.burst(*op.IO) * r.seconds(dataset, unit, op.IO.Write, op.IO.RecordSize, 0)
			}))
		}
	}
	return most
}

func (r reading) burst(io spec.IO) float64 {
	if io.Parallel {
		return ceiled(io.Records)
	}
	return 1
}

// stretch is how long an execution keeps a station busy with what it asks for at once.
func (r reading) stretch(task int, station func(spec.Op) float64) float64 {
	one, all := 0.0, 0.0
	for _, op := range r.in.App.Tasks[task].Path {
		long := station(op)
		if op.Probability == 0 {
			long = 0
		} else if op.Call != nil {
			long = r.stretch(op.Call.Task, station)
			if op.Call.Parallel || !op.Blocking && !op.Call.Inline {
				long *= ceiled(op.Call.Invocations)
			}
		}
		if op.Blocking {
			one = max(one, long)
		} else {
			all += long
		}
	}
	return one + all
}

// awaited are the tasks that executions with a goal wait for.
func (r reading) awaited() []bool {
	out := make([]bool, len(r.in.App.Tasks))
	var mark func(int)
	mark = func(t int) {
		out[t] = true
		for _, op := range r.in.App.Tasks[t].Path {
			if op.Call != nil && (op.Blocking || op.Call.Inline) {
				mark(op.Call.Task)
			}
		}
	}
	for _, rate := range r.in.SLA.Rates {
		if rate.Latency > 0 {
			mark(rate.Task)
		}
	}
	return out
}

// running are the tasks that the SLA has a rate for, and those that they invoke.
func (r reading) running() []bool {
	out := make([]bool, len(r.in.App.Tasks))
	var mark func(int)
	mark = func(t int) {
		out[t] = true
		for _, op := range r.in.App.Tasks[t].Path {
			if op.Call != nil {
				mark(op.Call.Task)
			}
		}
	}
	for _, rate := range r.in.SLA.Rates {
		mark(rate.Task)
	}
	return out
}

// disturbs reports whether one of some tasks computes longer than those that executions with a goal wait
// for, and so has servers of its own.
func disturbs(in plan.Input, tasks []int, colocate bool) bool {
	r := reading{in: in}
	awaited := r.awaited()
	most, _ := r.stretches(colocate)
	return slices.Contains(awaited, true) && slices.ContainsFunc(tasks, func(t int) bool { return !awaited[t] && r.stretch(t, r.onCores) > most })
}
