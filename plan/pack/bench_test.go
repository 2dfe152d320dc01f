package pack_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gleaner/plan/pack"
	"gleaner/plan/pack/packtest"
)

// BenchmarkSolve packs to a gap of zero. It reports the time, the number of servers
// and the gap that was left.
func BenchmarkSolve(b *testing.B) {
	for _, list := range []struct {
		name   string
		prices [3]float64
	}{{"table1", packtest.TableOne}, {"mixed", packtest.Mixed}} {
		for _, scale := range []float64{0.03, 0.08, 0.2, 1, 100} {
			p := packtest.Datacenter(scale, list.prices)
			b.Run(fmt.Sprintf("%s/%gx", list.name, scale), func(b *testing.B) {
				var s pack.Solution
				for b.Loop() {
					var err error
					if s, err = pack.Solve(p, pack.Options{NodeLimit: 300}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(s.Servers()), "servers")
				b.ReportMetric(100*s.Gap, "gap%")
				b.ReportMetric(float64(s.Nodes), "nodes")
			})
		}
	}
}

// BenchmarkRandom packs a hundred random problems, and reports how many were not
// solved to the end and the widest gap among them.
func BenchmarkRandom(b *testing.B) {
	for _, amount := range []float64{3, 30} {
		b.Run(fmt.Sprintf("100problems-upto-6x%g", amount), func(b *testing.B) {
			open, widest := 0, 0.0
			for b.Loop() {
				open, widest = 0, 0
				for seed := range uint64(100) {
					p := packtest.Random(rand.New(rand.NewPCG(seed, 4)), 6, amount)
					s, err := pack.Solve(p, pack.Options{NodeLimit: 100})
					if err == nil && !s.Optimal {
						open++
						widest = max(widest, s.Gap)
					}
				}
			}
			b.ReportMetric(float64(open), "open")
			b.ReportMetric(100*widest, "widest-gap%")
		})
	}
}
