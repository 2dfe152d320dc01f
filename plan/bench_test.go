package plan_test

import (
	"testing"

	"gleaner/plan"
)

func benchmarkSolve(b *testing.B, in plan.Input, o plan.Options) {
	var p plan.Plan
	var err error
	for b.Loop() {
		if p, err = plan.Solve(in, o); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(p.Packing.Servers()), "servers")
	b.ReportMetric(100*p.Gap(), "%gap")
}

// One point of PhotoShare, proven to the last dollar, small and large; and ten
// thousand servers to a thousandth.
func BenchmarkSolve(b *testing.B) {
	scaled := func(scale float64) plan.Input {
		in := load(b, "photoshare", "server1", "photoshare")
		in.SLA = in.SLA.Scaled(scale)
		return in
	}
	b.Run("3servers", func(b *testing.B) { benchmarkSolve(b, scaled(1), plan.Options{}) })
	b.Run("3servers-colocated", func(b *testing.B) { benchmarkSolve(b, scaled(1), plan.Options{Colocate: true}) })
	b.Run("20servers", func(b *testing.B) { benchmarkSolve(b, scaled(10), plan.Options{}) })
	b.Run("200servers", func(b *testing.B) { benchmarkSolve(b, scaled(100), plan.Options{}) })
	b.Run("10000servers-gap0.1%", func(b *testing.B) { benchmarkSolve(b, scaled(5000), plan.Options{Gap: 0.001}) })
}

// Only photo views: a cache that takes all servers, and disks that fit anywhere.
func BenchmarkSolvePhotoView(b *testing.B) {
	in := load(b, "photoshare", "server1", "photoshare")
	in.SLA.Rates = in.SLA.Rates[:1]
	for _, c := range []struct {
		name string
		rate float64
	}{{"500servers", 1e5}, {"10000servers", 2e6}} {
		in.SLA.Rates[0].PerSecond = c.rate
		b.Run(c.name, func(b *testing.B) { benchmarkSolve(b, in, plan.Options{}) })
	}
}

// A curve of 100 points from 0.05 to 100 times the SLA, proven to the last dollar.
func BenchmarkCurve(b *testing.B) {
	in := load(b, "photoshare", "server1", "photoshare")
	b.Run("100points", func(b *testing.B) {
		for b.Loop() {
			for _, scale := range plan.Scales(0.05, 100, 100) {
				if _, err := plan.At(in, plan.Options{}, scale); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
