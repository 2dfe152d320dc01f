package referee

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// latencies gives goals to tasks of every fourth document, where they may have any: those
// that wait for local data may not.
func latencies(seed uint64, d *documents) {
	w := writer{Rand: rand.New(rand.NewPCG(seed, 13))}
	if !w.chance(0.25) {
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
}

// hurried is an input with the targets that its latency goals leave to an architecture.
// It reports whether there are any.
func hurried(in plan.Input, arch []choice) (plan.Input, bool) {
	r := reading{in: in, arch: arch}
	most := 1.0
	for _, rate := range in.SLA.Rates {
		if rate.Latency == 0 {
			continue
		}
		alone, e := r.alone(rate.Task), 1-rate.Percentile
		// In steps of a millionth, and then of a millionth of that: the first that is too much.
		tooMuch := func(u float64) bool {
			wait := alone * u / (1 - u) / e
			if u > e {
				wait = alone / (1 - u) * (1 + math.Log(u) - math.Log(e))
			}
			return !(alone+wait <= rate.Latency)
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

// alone is S of docs/plan.md.
func (r reading) alone(task int) float64 {
	whole := func(x float64) float64 { return math.Ceil(x * (1 - 1e-9)) }
	sum := 0.0
	for _, op := range r.in.App.Tasks[task].Path {
		switch {
		case op.Probability == 0:
		case op.IO != nil:
			sum += whole(op.IO.Records) * (r.late(*op.IO) + r.in.App.Datasets[op.IO.Dataset].CPUPerOp)
		case op.Call != nil && (op.Blocking || op.Call.Inline):
			sum += whole(op.Call.Invocations) * r.alone(op.Call.Task)
		case op.Call == nil:
			sum += op.Compute
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
