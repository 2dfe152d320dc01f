package pack_test

import (
	"fmt"
	"math/rand/v2"
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

// BenchmarkPhotoShare packs the cluster of FAST'12 §5.2 at multiples of its
// rates: what a planner asks for hundreds of times for one point of a curve.
func BenchmarkPhotoShare(b *testing.B) {
	for _, scale := range []int{1, 10, 100} {
		data := func(name string, count int, cost float64, demand ...float64) pack.Item {
			return pack.Item{Name: name, Count: count * scale, Cost: cost, Demand: demand, Group: "data"}
		}
		p := pack.Problem{
			Resources: []string{"slots", "sas", "network", "cores", "sockets", "memory", "dimms", "store"},
			Servers:   []pack.Server{{Name: "Server1", Cost: 1400, Capacity: []float64{4, 750, 125, 0, 4, 0, 12, 0}}},
			Purchases: []pack.Purchase{
				{Name: "cpu", Cost: 137, Change: []float64{0, 0, 0, 1, -1, 0, 0, 0}},
				{Name: "dimm", Cost: 35, Change: []float64{0, 0, 0, 0, 0, 1, -1, 0}},
				{Name: "store", Change: []float64{0, 0, 0, 0, 0, -1, 0, 1000}},
			},
			Items: []pack.Item{
				data("photos", 4, 296, 1, 20, 20, 0.44, 0, 0, 0, 1),
				data("thumbs", 1, 456, 1, 4.4, 4.4, 0.46, 0, 0, 0, 1),
				data("tags", 1, 213, 1, 0.2, 0.2, 0.42, 0, 0, 0, 1),
				data("cache", 1, 35, 0, 0, 0.5, 0.92, 0, 0, 1, 1),
				{Name: "web", Count: 4 * scale, Demand: []float64{0, 0, 0, 0.975, 0, 0.5, 0, 0}, Group: "tasks"},
			},
		}
		b.Run(fmt.Sprintf("%dx", scale), func(b *testing.B) {
			var s pack.Solution
			for b.Loop() {
				var err error
				if s, err = pack.Solve(p, pack.Options{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(s.Servers()), "servers")
			b.ReportMetric(100*s.Gap, "gap%")
		})
	}
}

// BenchmarkPhotoView packs the data of photo views alone: a cache that fills
// the servers, two to each, and three disks that fit in anywhere.
func BenchmarkPhotoView(b *testing.B) {
	for _, servers := range []int{220, 10_000, 1_000_000} {
		disk := []float64{1, 0, 0, 0, 0, 0, 1}
		p := pack.Problem{
			Resources: []string{"slots", "network", "cores", "sockets", "memory", "dimms", "store"},
			Servers:   []pack.Server{{Name: "Server1", Cost: 1400, Capacity: []float64{4, 125, 0, 4, 0, 12, 0}}},
			Purchases: []pack.Purchase{
				{Name: "cpu", Cost: 137, Change: []float64{0, 0, 1, -1, 0, 0, 0}},
				{Name: "dimm", Cost: 35, Change: []float64{0, 0, 0, 0, 1, -1, 0}},
				{Name: "store", Change: []float64{0, 0, 0, 0, -1, 0, 1000}},
			},
			Items: []pack.Item{
				{Name: "photos", Count: 1, Cost: 213, Demand: disk},
				{Name: "photos cache", Count: 2 * servers, Cost: 35, Demand: []float64{0, 45, 1, 0, 0, 1, 1}},
				{Name: "thumbs", Count: 1, Cost: 213, Demand: disk},
				{Name: "tags", Count: 1, Cost: 213, Demand: disk},
			},
		}
		b.Run(fmt.Sprintf("%dservers", servers), func(b *testing.B) {
			var s pack.Solution
			for b.Loop() {
				var err error
				if s, err = pack.Solve(p, pack.Options{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(s.Servers()), "servers")
			b.ReportMetric(100*s.Gap, "gap%")
		})
	}
}

// BenchmarkRandom packs a hundred random problems, and tells how many were not
// solved to the end and the widest gap among them.
func BenchmarkRandom(b *testing.B) {
	for _, count := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("100problems-upto-8x%ditems", count), func(b *testing.B) {
			open, widest := 0, 0.0
			for b.Loop() {
				open, widest = 0, 0
				for seed := range uint64(100) {
					p := packtest.Random(rand.New(rand.NewPCG(seed, 4)), 8, count)
					s, err := pack.Solve(p, pack.Options{NodeLimit: 300})
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
