package plan

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gleaner/plan/spec"
)

// Executions that wait at any number of stations, each as busy as a goal allows, meet it:
// the waits are drawn as those of M/M/1 queues.
func TestGoalsAreMetByQueues(t *testing.T) {
	const executions = 40_000
	rng := rand.New(rand.NewPCG(1, 1))
	for _, percentile := range []float64{0.5, 0.9, 0.99, 0.999} {
		for _, latency := range []float64{1.001, 1.2, 3, 10, 60} { // of executions that take a second alone
			busy := mostBusy(journey{1, map[float64]float64{1: 1}, 1}, spec.Rate{Latency: latency, Percentile: percentile})
			if busy <= 0 || busy >= 1 {
				t.Fatalf("within %g s at %g: stations may be busy for %g", latency, percentile, busy)
			}
			for _, stations := range []int{1, 2, 3, 10, 50} {
				took := make([]float64, executions)
				for i := range took {
					took[i] = 1
					for range stations {
						if rng.Float64() < busy {
							took[i] += rng.ExpFloat64() / float64(stations) / (1 - busy)
						}
					}
				}
				slices.Sort(took)
				at := took[int(math.Ceil(percentile*executions))-1]
				if at > latency*1.02 { // what is drawn is not quite what is expected
					t.Errorf("at %d stations that are busy for %.3f, %g take up to %.3g s, more than %g s", stations, busy, percentile, at, latency)
				}
			}
		}
	}
}

// What is busier leaves less: more time, or a lower percentile, allow more.
func TestMoreTimeAllowsMore(t *testing.T) {
	busy := func(latency, percentile float64) float64 {
		return mostBusy(journey{1, map[float64]float64{1: 1}, 1}, spec.Rate{Latency: latency, Percentile: percentile})
	}
	for latency := 1.0; latency < 1000; latency *= 1.3 {
		if busy(latency, 0.99) > busy(latency*1.3, 0.99) || busy(latency, 0.99) > busy(latency, 0.9) {
			t.Errorf("at %g s", latency)
		}
	}
	if late := busy(0.999, 0.5); late != 0 {
		t.Errorf("in less than an execution takes, stations may be busy for %g", late)
	}
}
