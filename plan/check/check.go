package check

import (
	"math"
	"math/rand/v2"
	"slices"

	"gleaner/plan"
)

// Offered is the load that is put on a cluster, as a multiple of the SLA's
// rates: somewhat more, so that what is sustained is told from what was asked.
const Offered = 1.1

// Enough is the share of the SLA that counts as met; the rest is the
// simulation's own edge: the start and the end of a run.
const Enough = 0.998

// A Result is how a cluster did.
type Result struct {
	Share     float64      // of the SLA, the worst task's; 1 when all of it
	Tasks     []TaskResult // of request rates
	Seconds   float64      // of a batch job
	Busiest   []Busy       // the five busiest stations
	Shortages []string     // what is missing whatever the load
}

// A TaskResult is a rate that was asked for, and the one sustained.
type TaskResult struct {
	Task                string
	Required, Sustained float64
}

// Busy is how much of the time a station served.
type Busy struct {
	Station string
	Share   float64
}

// Meets tells whether the SLA is met.
func (r Result) Meets() bool { return r.Share >= Enough && len(r.Shortages) == 0 }

// Run simulates a configuration. One that lacks something outright is not run.
func Run(in plan.Input, c Config, rng *rand.Rand) Result {
	if short := Shortages(in, c); len(short) > 0 {
		return Result{Shortages: short}
	}
	e := &engine{}
	r := &run{engine: e, cluster: newCluster(e, in, c), rng: rng}
	r.newMeters()
	if stuck := r.stuck(); len(stuck) > 0 {
		return Result{Shortages: stuck}
	}
	var out Result
	if in.SLA.Job != nil {
		out = r.batch()
	} else {
		out = r.requests()
	}
	out.Busiest = r.busiest()
	return out
}

// stuck names servers that would wait for ever: work for a CPU, and no core.
func (r *run) stuck() []string {
	var out []string
	for _, s := range r.stations {
		if s.servers == 0 && r.computes(s) {
			out = append(out, s.name+": no core")
		}
	}
	return out
}

// computes tells whether a CPU has anything to do.
func (r *run) computes(cpu *station) bool {
	for _, p := range r.pools {
		for _, inst := range p.instances {
			if inst.host.cpu == cpu {
				return true
			}
		}
	}
	for at, units := range r.remote {
		d := r.in.App.Datasets[at.dataset]
		for _, u := range units {
			if u.host.cpu == cpu && d.CPUPerOp+d.CPUPerUnit > 0 {
				return true
			}
		}
	}
	return false
}

// Length of a run: executions of the rarest task, and how much of it warms up.
const (
	enoughExecutions = 2000
	warmUp           = 0.2
	mostExecutions   = 400_000
)

// requests offers Poisson arrivals and counts what comes back, step by step:
// a task is sustained as far as the step that comes back least.
func (r *run) requests() Result {
	rarest, all := math.Inf(1), 0.0
	for _, s := range r.in.SLA.Rates {
		rarest, all = min(rarest, s.PerSecond), all+s.PerSecond
	}
	end := min(enoughExecutions/rarest, mostExecutions/all)
	r.warm = warmUp * end
	for _, s := range r.in.SLA.Rates {
		r.arrivals(s.PerSecond*Offered, end, func() { r.execute(s.Task, 0, func() {}) })
	}
	r.run(func() bool { return r.now > end })
	out := Result{Share: 1}
	for _, s := range r.in.SLA.Rates {
		share := r.sustained(s.Task, end-r.warm)
		out.Tasks = append(out.Tasks, TaskResult{r.in.App.Tasks[s.Task].Name, s.PerSecond, share * s.PerSecond})
		out.Share = min(out.Share, share)
	}
	return out
}

// sustained is the least share of what is wanted that any step of a task, or
// of those it calls, got done.
func (r *run) sustained(task int, seconds float64) float64 {
	share := Offered
	for i, op := range r.in.App.Tasks[task].Path {
		if m := r.meters[task][i]; m.want > 0 {
			share = min(share, m.got/(m.want*seconds))
		}
		if op.Call != nil {
			share = min(share, r.sustained(op.Call.Task, seconds))
		}
	}
	return share
}

// arrivals are a Poisson process, given that each tenth of the run has as many
// as it should: chance decides when they come, not how many.
func (r *run) arrivals(rate, end float64, arrive func()) {
	const parts = 10
	part, left := -1, 0
	due := 0.0
	var next func()
	next = func() {
		for left == 0 {
			if part++; part == parts {
				return
			}
			due += rate * end / parts
			left = int(due)
			due -= float64(left)
		}
		upto := end * float64(part+1) / parts
		from := max(r.now, end*float64(part)/parts)
		at := from + (upto-from)*(1-math.Pow(r.rng.Float64(), 1/float64(left)))
		left--
		r.after(at-r.now, func() {
			arrive()
			next()
		})
	}
	next()
}

// batch runs the phases one after the other. A job of very many executions is
// run in part, and its time scaled up.
func (r *run) batch() Result {
	job := *r.in.SLA.Job
	out := Result{}
	for _, phase := range r.in.App.Phases() {
		most, left := 0.0, 0
		executions := map[int]float64{}
		for _, t := range r.in.App.Starts() {
			if r.in.App.Tasks[t].Phase == phase {
				executions[t] = (job.Bytes + job.Records) / r.in.App.Intake(t, job.Records > 0)
				most = max(most, executions[t])
			}
		}
		scale := max(1, most/20000)
		start := r.now
		for _, t := range r.in.App.Starts() {
			for range int(math.Round(executions[t] / scale)) {
				left++
				r.execute(t, 0, func() { left-- })
			}
		}
		r.run(func() bool { return false }) // until nothing is under way
		out.Seconds += (r.now - start) * scale
	}
	out.Share = min(1, job.Time/out.Seconds)
	return out
}

func (r *run) busiest() []Busy {
	var out []Busy
	for _, s := range r.stations {
		if s.servers > 0 && s.worked > 0 {
			out = append(out, Busy{s.name, s.worked / (r.now * float64(s.servers))})
		}
	}
	slices.SortStableFunc(out, func(a, b Busy) int {
		switch {
		case a.Share > b.Share:
			return -1
		case a.Share < b.Share:
			return 1
		}
		return 0
	})
	return out[:min(5, len(out))]
}
