package plan_test

import (
	"testing"

	"gleaner/plan"
)

func benchmarkSolve(b *testing.B, scale float64, o plan.Options) {
	in := load(b, "photoshare", "server1", "photoshare")
	in.SLA = in.SLA.Scaled(scale)
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
	b.Run("3servers", func(b *testing.B) { benchmarkSolve(b, 1, plan.Options{}) })
	b.Run("3servers-colocated", func(b *testing.B) { benchmarkSolve(b, 1, plan.Options{Colocate: true}) })
	b.Run("20servers", func(b *testing.B) { benchmarkSolve(b, 10, plan.Options{}) })
	b.Run("200servers", func(b *testing.B) { benchmarkSolve(b, 100, plan.Options{}) })
	b.Run("10000servers-gap0.1%", func(b *testing.B) { benchmarkSolve(b, 5000, plan.Options{Gap: 0.001}) })
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
