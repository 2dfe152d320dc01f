// Package packtest makes packing problems to test solvers with: random ones of
// any size, and the mix of a data center at any scale.
package packtest

import (
	"fmt"
	"math/rand/v2"

	"gleaner/plan/pack"
)

// Random draws a problem of at most so many kinds of items, each wanted at
// most so many times. Cores and memory are bought into sockets and slots, a
// bigger CPU may be on offer, a storage system may need its share once a
// server. Demands are quarters: sums of them are exact.
func Random(r *rand.Rand, kinds, count int) pack.Problem {
	p := pack.Problem{Resources: []string{"slots", "bus", "net", "cores", "sockets", "memory", "dimms", "system"}}
	for k := range 1 + r.IntN(3) {
		p.Servers = append(p.Servers, pack.Server{Name: fmt.Sprintf("server%d", k+1), Cost: float64(100 * (1 + r.IntN(20))),
			Capacity: []float64{float64(1 + r.IntN(6)), quarters(r, 2, 8), quarters(r, 2, 8), 0, float64(1 + r.IntN(6)), -quarters(r, 0, 1), float64(1 + r.IntN(8)), 0}})
	}
	p.Purchases = []pack.Purchase{
		{Name: "cpu", Cost: float64(50 + r.IntN(200)), Change: []float64{0, 0, 0, 1, -1, 0, 0, 0}},
		{Name: "dimm", Cost: float64(10 + r.IntN(90)), Change: []float64{0, 0, 0, 0, 0, 1, -1, 0}},
	}
	system := r.IntN(2) == 0
	if system {
		p.Purchases = append(p.Purchases, pack.Purchase{Name: "system", Change: []float64{0, 0, 0, -0.25, 0, -1, 0, 1000}})
	}
	if r.IntN(3) == 0 {
		p.Purchases = append(p.Purchases, pack.Purchase{Name: "big cpu", Cost: float64(100 + r.IntN(300)), Change: []float64{0, 0, -0.5, 2, -1, 0, 0, 0}})
	}
	groups := [][]string{{""}, {"a", "b"}, {"", "a", "b"}}[r.IntN(3)]
	for i := range 1 + r.IntN(kinds) {
		it := pack.Item{Name: fmt.Sprintf("item%d", i+1), Count: 1 + r.IntN(count), Cost: float64(r.IntN(100)), Group: groups[r.IntN(len(groups))],
			Demand: []float64{float64(r.IntN(3)), quarters(r, 0, 2), quarters(r, 0, 2), quarters(r, 0, 2), 0, quarters(r, 0, 2), 0, 0}}
		if system && r.IntN(2) == 0 {
			it.Demand[7] = 1
		}
		p.Items = append(p.Items, it)
	}
	return p
}

func quarters(r *rand.Rand, lo, hi int) float64 { return float64(4*lo+r.IntN(4*(hi-lo)+1)) / 4 }

// Prices of the servers of Datacenter: the paper's Table 1, with which one
// type of server does it all, and a list that makes several worth having.
var (
	TableOne = [3]float64{1400, 1850, 11000}
	Mixed    = [3]float64{1400, 4600, 9000}
)

// Datacenter is a mix of everything that the paper's applications host, on the
// servers of Table 1 (FAST'12): 7 items, 3 server types, CPUs and DIMMs bought
// one by one. At scale 1 it takes 100 servers at the prices of Table 1.
func Datacenter(scale float64, prices [3]float64) pack.Problem {
	n := func(count float64) int { return int(count*scale + 0.5) }
	return pack.Problem{
		// bandwidths in MB/s, memory in GB
		Resources: []string{"sas slots", "sas", "ddr", "network", "cores", "sockets", "memory", "dimms"},
		Servers: []pack.Server{
			{Name: "Server1", Cost: prices[0], Capacity: []float64{4, 750, 21300, 125, 0, 4, 0, 12}},
			{Name: "Server2", Cost: prices[1], Capacity: []float64{16, 3000, 64000, 1250, 0, 16, 0, 48}},
			{Name: "Server3", Cost: prices[2], Capacity: []float64{16, 3000, 64000, 1250, 0, 32, 0, 512}},
		},
		Purchases: []pack.Purchase{
			{Name: "cpu", Cost: 137, Change: []float64{0, 0, 0, 0, 1, -1, 0, 0}},
			{Name: "dimm", Cost: 35, Change: []float64{0, 0, 0, 0, 0, 0, 1, -1}},
		},
		Items: []pack.Item{
			{Name: "15K disk", Count: n(405), Cost: 296, Demand: []float64{1, 41, 0, 41, 0.35, 0, 0, 0}},
			{Name: "SSD", Count: n(203), Cost: 456, Demand: []float64{1, 80, 0, 80, 0.8, 0, 0.05, 0}},
			{Name: "7.2K disk", Count: n(611), Cost: 213, Demand: []float64{1, 24, 0, 24, 0.21, 0, 0, 0}},
			{Name: "DRAM", Count: n(2111), Cost: 35, Demand: []float64{0, 0, 640, 11, 0.06, 0, 0, 1}},
			{Name: "web", Count: n(307), Demand: []float64{0, 0, 0, 17, 0.72, 0, 0.5, 0}},
			{Name: "worker", Count: n(311), Cost: 456, Demand: []float64{1, 90, 0, 15, 0.41, 0, 1, 0}},
			{Name: "mapper", Count: n(253), Cost: 54, Demand: []float64{0.25, 23, 0, 27, 1, 0, 1, 0}},
		},
	}
}
