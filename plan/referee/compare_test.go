package referee

import (
	"errors"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"gleaner/input"
	"gleaner/plan"
)

// seeds are those of a test: a few, many with GLEANER_LONG=1, or the one of
// REFEREE_SEED.
func seeds(t testing.TB, few, many uint64) (from, to uint64) {
	if s := os.Getenv("REFEREE_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n, n
	}
	if os.Getenv("GLEANER_LONG") != "" {
		return 1, many
	}
	return 1, few
}

// The planner and the model agree on what the cheapest cluster costs.
func TestAgainstModel(t *testing.T) {
	from, to := seeds(t, 50, 2000)
	differ, large, infeasible, stopped := 0, 0, 0, 0
	for seed := from; seed <= to; seed++ {
		d := documentsOf(seed, 1)
		in, err := parse(d.files())
		if err != nil {
			keep(t, seed, d.files(), d.colocate)
			t.Fatalf("seed %d: %v", seed, err)
		}
		began := time.Now()
		p, err := plan.Solve(in, plan.Options{Colocate: d.colocate, Stop: func() bool { return time.Since(began) > 5*time.Second }})
		took := time.Since(began)
		if errors.Is(err, plan.ErrStopped) {
			stopped++
			continue
		}
		if err != nil && !input.Is(err) {
			t.Errorf("seed %d: %v", seed, err)
			continue
		}
		seconds := p.Needs.Seconds
		if in.SLA.Job != nil && seconds == nil {
			seconds = []float64{in.SLA.Job.Time}
			if n := len(in.App.Phases()); n > 1 {
				seconds = make([]float64, n)
				for i := range seconds {
					seconds[i] = in.SLA.Job.Time / float64(n)
				}
			}
		}
		began = time.Now()
		m := model(in, d.colocate, seconds)
		t.Logf("seed %d: %v planner %.2f (%v) model %.2f (%v) %v archs %d visited %v", seed, err, p.Cost, took, m.cost, time.Since(began), m.exact, len(architectures(in)), m.visited())
		if !m.exact {
			large++
			continue
		}
		if math.IsInf(m.cost, 1) {
			infeasible++
		}
		if (err != nil) != math.IsInf(m.cost, 1) || err == nil && math.Abs(p.Cost-m.cost) > 1e-6*m.cost {
			differ++
			t.Errorf("seed %d: differ", seed)
		}
	}
	t.Logf("%d differ, %d too large, %d infeasible, %d stopped", differ, large, infeasible, stopped)
}

func (a answer) visited() int {
	n := 0
	for _, c := range a.parts {
		n += c.visited
	}
	return n
}
