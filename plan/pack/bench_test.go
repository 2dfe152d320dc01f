package pack_test

import (
	"fmt"
	"testing"

	"gleaner/plan/pack"
	"gleaner/plan/pack/packtest"
)

// BenchmarkSolve packs to a gap of zero. Beside the time it tells how many
// servers it took and the gap that was left.
func BenchmarkSolve(b *testing.B) {
	for _, list := range []struct {
		name   string
		prices [3]float64
	}{{"table1", packtest.TableOne}, {"mixed", packtest.Mixed}} {
		for _, scale := range []float64{0.03, 0.05, 0.08, 0.2, 1, 10, 100} {
			p := packtest.Datacenter(scale, list.prices)
			items := 0
			for _, it := range p.Items {
				items += it.Count
			}
			b.Run(fmt.Sprintf("%s/%ditems", list.name, items), func(b *testing.B) {
				var s pack.Solution
				for b.Loop() {
					var err error
					if s, err = pack.Solve(p, pack.Options{}); err != nil {
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
