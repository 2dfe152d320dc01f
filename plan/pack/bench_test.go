package pack

import (
	"fmt"
	"testing"
)

// datacenter is a mix of everything that the paper's applications host, on the
// servers of Table 1: 7 items, 3 server types, CPUs and DIMMs bought singly.
// At scale 1 it takes about 110 servers. The second price list makes two
// server types worth having.
func datacenter(scale float64, server2, server3 float64) Problem {
	n := func(count float64) int { return int(count*scale + 0.5) }
	return Problem{
		//        MB/s in all but slots, sockets, dimms (counts), cores, memory (GB)
		Resources: []string{"sas slots", "sas", "ddr", "network", "cores", "sockets", "memory", "dimms"},
		Servers: []Server{
			{"Server1", 1400, []float64{4, 750, 21300, 125, 0, 4, 0, 12}},
			{"Server2", server2, []float64{16, 3000, 64000, 1250, 0, 16, 0, 48}},
			{"Server3", server3, []float64{16, 3000, 64000, 1250, 0, 32, 0, 512}},
		},
		Purchases: []Purchase{
			{"cpu", 137, []float64{0, 0, 0, 0, 1, -1, 0, 0}},
			{"dimm", 35, []float64{0, 0, 0, 0, 0, 0, 1, -1}},
		},
		Items: []Item{
			{"15K disk", n(405), 296, []float64{1, 41, 0, 41, 0.35, 0, 0, 0}, ""},
			{"SSD", n(203), 456, []float64{1, 80, 0, 80, 0.8, 0, 0.05, 0}, ""},
			{"7.2K disk", n(611), 213, []float64{1, 24, 0, 24, 0.21, 0, 0, 0}, ""},
			{"DRAM", n(2111), 35, []float64{0, 0, 640, 11, 0.06, 0, 0, 1}, ""},
			{"web", n(307), 0, []float64{0, 0, 0, 17, 0.72, 0, 0.5, 0}, ""},
			{"worker", n(311), 456, []float64{1, 90, 0, 15, 0.41, 0, 1, 0}, ""},
			{"mapper", n(253), 54, []float64{0.25, 23, 0, 27, 1, 0, 1, 0}, ""},
		},
	}
}

func BenchmarkSolve(b *testing.B) {
	for _, tc := range []struct {
		name             string
		scale            float64
		server2, server3 float64
	}{
		{"A", 0.03, 1850, 11000}, {"A", 0.08, 1850, 11000}, {"A", 0.2, 1850, 11000},
		{"A", 1, 1850, 11000}, {"A", 10, 1850, 11000}, {"A", 100, 1850, 11000},
		{"B", 0.03, 4600, 9000}, {"B", 0.08, 4600, 9000}, {"B", 0.2, 4600, 9000},
		{"B", 1, 4600, 9000}, {"B", 10, 4600, 9000}, {"B", 100, 4600, 9000},
	} {
		p := datacenter(tc.scale, tc.server2, tc.server3)
		b.Run(fmt.Sprintf("%s-x%v", tc.name, tc.scale), func(b *testing.B) {
			var s Solution
			for b.Loop() {
				var err error
				if s, err = Solve(p, Options{NodeLimit: 200}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(s.Servers()), "servers")
			b.ReportMetric(100*s.Gap, "gap%")
			b.ReportMetric(float64(s.Nodes), "nodes")
			b.ReportMetric(float64(s.Columns), "columns")
			b.ReportMetric(s.Cost, "$")
		})
	}
}
