package check

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gleaner/plan"
)

// Offered is the load of a cluster, as a multiple of the SLA's rates: somewhat more,
// so that the sustained rate is distinct from the requested one.
const Offered = 1.1

// Enough is the share of the SLA that counts as met; the rest is an effect of the
// start and the end of the simulation.
const Enough = 0.998

// A Result is how a cluster did.
type Result struct {
	Share     float64      // of the SLA that the worst task meets; 1 for all of it
	Tasks     []TaskResult // of request rates
	Seconds   float64      // of a batch job
	Busiest   []Busy       // the five busiest stations
	Shortages []string     // what is missing at any load
	Over      []string     // which stations are busier than the SLA's targets
	Lost      []string     // which servers may not fail, though the SLA says so
	Failures  Failures     // what was taken away to find out
	Latencies []Latency    // of the tasks that have a goal
	Slow      []string     // which of them are too long
}

// A TaskResult is the requested rate and the sustained one.
type TaskResult struct {
	Task                string
	Required, Sustained float64
}

// Busy is how much of the time a station served.
type Busy struct {
	Station string
	Share   float64
}

// Meets reports whether the SLA is met.
func (r Result) Meets() bool {
	return r.Share >= Enough && len(r.Shortages) == 0 && len(r.Over) == 0 && len(r.Lost) == 0 && len(r.Slow) == 0
}

// Run simulates a configuration, unless it lacks something at any load.
func Run(in plan.Input, c Config, rng *rand.Rand) Result {
	if len(in.SLA.Day) > 0 {
		return overTheDay(in, c, rng)
	}
	if short := Shortages(in, c); len(short) > 0 {
		return Result{Shortages: short}
	}
	out := simulate(in, c, rng)
	if out.Share >= Enough {
		out.Lost, out.Failures = lost(in, c, rng)
		out.Latencies = latencies(in, c, rng)
		out.Slow = slow(out.Latencies)
	}
	return out
}

func newSimulation(in plan.Input, c Config, rng *rand.Rand) *simulation {
	e := &engine{}
	sim := &simulation{engine: e, cluster: newCluster(e, in, c), rng: rng, seconds: c.seconds(in), left: c.left}
	sim.newMeters()
	return sim
}

func simulate(in plan.Input, c Config, rng *rand.Rand) Result {
	sim := newSimulation(in, c, rng)
	if stuck := sim.stuck(); len(stuck) > 0 {
		return Result{Shortages: stuck}
	}
	var out Result
	if in.SLA.Job != nil {
		out = sim.batch()
	} else {
		out = sim.requests()
	}
	out.Busiest = sim.busiest()
	return out
}

// stuck names servers that would wait forever: they have work for a CPU, and no core.
func (sim *simulation) stuck() []string {
	var out []string
	for _, s := range sim.stations {
		if s.servers == 0 && sim.computes(s) {
			out = append(out, s.name+": no core")
		}
	}
	return out
}

// computes reports whether a CPU has anything to do.
func (sim *simulation) computes(cpu *station) bool {
	for _, p := range sim.pools {
		for _, inst := range p.instances {
			if inst.host.cpu == cpu {
				return true
			}
		}
	}
	for at, units := range sim.remote {
		d := sim.in.App.Datasets[at.dataset]
		for _, u := range units {
			if u.host.cpu == cpu && d.CPUPerOp > 0 {
				return true
			}
		}
	}
	return false
}

// Length of a simulation: executions of the rarest task, and the share for warm-up.
const (
	enoughExecutions = 2000
	warmUp           = 0.2
	mostExecutions   = 400_000
)

// offer simulates Poisson arrivals at a multiple of the SLA's rates, and returns when
// they end. It tells took how long the executions of each task took.
func (sim *simulation) offer(multiple float64, took func(task int, seconds float64)) (end float64) {
	rarest, all := math.Inf(1), 0.0
	for _, s := range sim.in.SLA.Rates {
		rarest, all = min(rarest, s.PerSecond), all+s.PerSecond
	}
	end = min(enoughExecutions/rarest, mostExecutions/all)
	sim.warm = warmUp * end
	for _, s := range sim.in.SLA.Rates {
		sim.arrivals(s.PerSecond*multiple, end, func() {
			came := sim.now
			sim.execute(s.Task, 0, func() {
				if came >= sim.warm {
					took(s.Task, sim.now-came)
				}
			})
		})
	}
	sim.run(func() bool { return sim.now > end })
	return end
}

// requests counts completed steps: the sustained rate of a task is that of its step with
// the fewest completions.
func (sim *simulation) requests() Result {
	end := sim.offer(Offered, func(int, float64) {})
	out := Result{Share: 1}
	for _, s := range sim.in.SLA.Rates {
		share := sim.sustained(s.Task, end-sim.warm)
		out.Tasks = append(out.Tasks, TaskResult{sim.in.App.Tasks[s.Task].Name, s.PerSecond, share * s.PerSecond})
		out.Share = min(out.Share, share)
	}
	out.Over = sim.over(nil, Offered*sim.now)
	return out
}

// nearly is how much busier than its target a station may be: the beginning and the
// end of a simulation are not like the rest.
const nearly = 0.01

// over names the stations that worked more in some seconds than their target allows.
func (sim *simulation) over(before []float64, seconds float64) []string {
	var out []string
	for i, s := range sim.stations {
		worked := s.worked
		if before != nil {
			worked -= before[i]
		}
		if busy := s.busy(worked, seconds); s.most < 1 && busy > s.most+nearly {
			out = append(out, fmt.Sprintf("%s is %.0f%% busy, more than %.4g%%", s.name, 100*busy, 100*s.most))
		}
	}
	return out
}

// sustained is the least share of its wanted rate that any step of a task, or of
// those it calls, completed.
func (sim *simulation) sustained(task int, seconds float64) float64 {
	share := Offered
	for i, op := range sim.in.App.Tasks[task].Path {
		if m := sim.meters[task][i]; m.want > 0 {
			share = min(share, m.got/(m.want*seconds))
		}
		if op.Call != nil {
			share = min(share, sim.sustained(op.Call.Task, seconds))
		}
	}
	return share
}

// arrivals are a Poisson process with a fixed number in each tenth of the
// simulation: only their times are random, not their number.
func (sim *simulation) arrivals(rate, end float64, arrive func()) {
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
		from := max(sim.now, end*float64(part)/parts)
		at := from + (upto-from)*(1-math.Pow(sim.rng.Float64(), 1/float64(left)))
		left--
		sim.after(at-sim.now, func() {
			arrive()
			next()
		})
	}
	next()
}

// batch runs the phases one after the other. A job of very many executions is
// run in part, and its time scaled up.
func (sim *simulation) batch() Result {
	job := *sim.in.SLA.Job
	out := Result{}
	for i, phase := range sim.in.App.Phases() {
		most, left := 0.0, 0
		before := make([]float64, len(sim.stations))
		for k, s := range sim.stations {
			before[k] = s.worked
		}
		executions := map[int]float64{}
		for _, t := range sim.in.App.Starts() {
			if sim.in.App.Tasks[t].Phase == phase {
				executions[t] = (job.Bytes + job.Records) / sim.in.App.Intake(t, job.Records > 0)
				most = max(most, executions[t])
			}
		}
		scale := max(1, most/20000)
		start := sim.now
		for _, t := range sim.in.App.Starts() {
			for range int(math.Round(executions[t] / scale)) {
				left++
				sim.execute(t, 0, func() { left-- })
			}
		}
		sim.run(func() bool { return false }) // until nothing is under way
		out.Seconds += (sim.now - start) * scale
		out.Over = append(out.Over, sim.over(before, sim.seconds[i]/scale)...)
	}
	out.Share = min(1, job.Time/out.Seconds)
	return out
}

func (sim *simulation) busiest() []Busy {
	var out []Busy
	for _, s := range sim.stations {
		if s.servers > 0 && s.worked > 0 {
			out = append(out, Busy{s.name, s.busy(s.worked, sim.now)})
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
