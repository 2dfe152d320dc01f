package plan_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// many generates an application with many datasets and hardware with many kinds of
// storage units, all different: disks, flash and memory on the buses of Table 1's
// servers, where a faster one costs more per byte.
func many(t testing.TB, seed uint64, datasets, kinds, servers int, rate float64) plan.Input {
	in := load(t, "photoshare", "table1", "photoshare")
	r := rand.New(rand.NewPCG(seed, 20))
	about := func(x, spread float64) float64 { return x * math.Pow(spread, 2*r.Float64()-1) }
	in.HW.Servers = in.HW.Servers[:servers]
	base := in.HW.Units
	in.HW.Units = nil
	for k := range kinds {
		u := base[k%len(base)]
		u.Name = fmt.Sprintf("%s-%d", u.Name, k)
		u.Capacity *= float64(int(1) << r.IntN(4))
		speed := about(1, 2)
		u.RateR, u.RateW = u.RateR*speed, u.RateW*speed
		u.GapR, u.GapW = u.GapR/speed, u.GapW/speed
		u.Price.Price = math.Round(u.Price.Price * math.Pow(u.Capacity/base[k%len(base)].Capacity, 0.7) * about(math.Sqrt(speed), 1.3))
		in.HW.Units = append(in.HW.Units, u)
	}
	in.App.Datasets = nil
	for d := range datasets {
		in.App.Datasets = append(in.App.Datasets, spec.Dataset{Name: fmt.Sprint("data", d), Size: math.Round(about(30e9, 10)), HitRate: 1, Remote: true,
			Persistent: true, System: "kv", CPUPerOp: about(0.5e-3, 3)})
	}
	in.App.Tasks, in.SLA.Rates = nil, nil
	for k := range 3 {
		task := spec.Task{Name: fmt.Sprint("task", k), Phase: "exec", Memory: 0.5e9, Path: []spec.Op{{Probability: 1, Blocking: true, Compute: about(5e-3, 3)}}}
		for d := k; d < datasets; d += 1 + r.IntN(3) {
			task.Path = append(task.Path, spec.Op{Probability: 1, Blocking: true,
				IO: &spec.IO{Dataset: d, Write: r.IntN(3) == 0, Records: float64(1 + r.IntN(5)), RecordSize: about(10e3, 8)}})
		}
		in.App.Tasks = append(in.App.Tasks, task)
		in.SLA.Rates = append(in.SLA.Rates, spec.Rate{Task: k, PerSecond: rate / 3})
	}
	return in
}

// Eight datasets on twenty kinds of units are planned to within 2%.
func TestManyKinds(t *testing.T) {
	for seed := range uint64(3) {
		in := many(t, seed, 8, 20, 1+int(seed), 300)
		p, err := plan.Solve(in, plan.Options{Gap: 0.02})
		if err != nil {
			t.Fatal(err)
		}
		if p.Gap() > 0.02 {
			t.Errorf("seed %d: %v >= %v: gap %.3f", seed, p.Cost, p.LowerBound, p.Gap())
		}
		checkPlan(t, in, p)
	}
}

// BenchmarkMany reports the gap that is left after ten seconds, or how long a proof
// took.
func BenchmarkMany(b *testing.B) {
	for _, c := range []struct {
		datasets, kinds, servers int
		rate                     float64
	}{{8, 20, 1, 300}, {8, 20, 3, 300}, {8, 20, 1, 30}, {8, 20, 3, 10_000}, {6, 40, 3, 1_000_000}, {8, 40, 1, 3000}} {
		for seed := range uint64(2) {
			b.Run(fmt.Sprintf("%dx%d-%dservers-%grps-seed%d", c.datasets, c.kinds, c.servers, c.rate, seed), func(b *testing.B) {
				in := many(b, seed+10, c.datasets, c.kinds, c.servers, c.rate)
				var p plan.Plan
				for b.Loop() {
					end := time.Now().Add(10 * time.Second)
					var err error
					if p, err = plan.Solve(in, plan.Options{Stop: func() bool { return time.Now().After(end) }}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(p.Packing.Servers()), "servers")
				b.ReportMetric(100*p.Gap(), "%gap")
			})
		}
	}
}

// However many choices there are, a search that is to stop ends soon.
func TestManyChoicesStop(t *testing.T) {
	in := many(t, 1, 95, 65, 3, 300)
	polls := 0
	_, err := plan.Solve(in, plan.Options{Stop: func() bool { polls++; return true }})
	if !errors.Is(err, plan.ErrStopped) || polls > 1000 {
		t.Errorf("after %d polls: %v", polls, err)
	}
}
