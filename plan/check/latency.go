package check

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// A Latency is how long executions of a task take at the percentile of its goal, at the
// SLA's rates.
type Latency struct {
	Task                string
	Percentile, Seconds float64
	Goal                float64
}

// latencies simulates request rates that have latency goals.
func latencies(in plan.Input, c Config, rng *rand.Rand) []Latency {
	goals := slices.DeleteFunc(slices.Clone(in.SLA.Rates), func(r spec.Rate) bool { return r.Latency == 0 })
	if len(goals) == 0 {
		return nil
	}
	sim := newSimulation(in, c, rng)
	sim.single = true
	took := make([][]float64, len(in.App.Tasks))
	sim.offer(1, func(task int, seconds float64) { took[task] = append(took[task], seconds) })
	sim.run(func() bool { return false }) // until those that still wait are done, too
	var out []Latency
	for _, r := range goals {
		l := Latency{in.App.Tasks[r.Task].Name, r.Percentile, 0, r.Latency}
		if all := took[r.Task]; len(all) > 0 {
			slices.Sort(all)
			l.Seconds = all[min(len(all)-1, int(r.Percentile*float64(len(all))))]
		}
		out = append(out, l)
	}
	return out
}

// slow names the goals that are not met.
func slow(all []Latency) []string {
	var out []string
	for _, l := range all {
		if l.Seconds > l.Goal {
			out = append(out, fmt.Sprintf("%.6g%% of %s take up to %ss, more than %ss", 100*l.Percentile, l.Task, plan.Figure(l.Seconds), plan.Figure(l.Goal)))
		}
	}
	return out
}
