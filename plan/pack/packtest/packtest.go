// Package packtest makes packing problems to test solvers with: random ones of
// any size, and the mix of a data center at any scale.
package packtest

import (
	"fmt"
	"math/rand/v2"

	"gleaner/plan/pack"
)

// Random draws a problem of at most kinds loads, each of at most that amount. Cores
// and memory are bought into sockets and slots, a bigger CPU may be on offer; loads
// have units of their own, some of which take memory; a storage system may need
// memory once a server; some loads may be hosted in either of two ways. Demands are
// quarters: sums of them are exact.
func Random(r *rand.Rand, kinds int, amount float64) pack.Problem {
	p := pack.Problem{Resources: []string{"slots", "bus", "net", "cores", "sockets", "memory", "dimms", "system"}}
	for k := range 1 + r.IntN(3) {
		p.Servers = append(p.Servers, pack.Server{Name: fmt.Sprintf("server%d", k+1), Cost: float64(100 * (1 + r.IntN(20))),
			Capacity: []float64{float64(1 + r.IntN(4)), quarters(r, 2, 8), quarters(r, 2, 8), 0, float64(1 + r.IntN(4)), -quarters(r, 0, 1), float64(1 + r.IntN(4)), 0}})
	}
	b := &builder{Problem: p, r: r}
	b.buy("cpu", 50+r.IntN(200), map[string]float64{"cores": 1, "sockets": -1})
	b.buy("dimm", 10+r.IntN(90), map[string]float64{"memory": 1, "dimms": -1})
	if r.IntN(3) == 0 {
		b.buy("big cpu", 100+r.IntN(300), map[string]float64{"cores": 2, "sockets": -1, "net": -0.5})
	}
	system := r.IntN(2) == 0
	if system {
		b.buy("system", 0, map[string]float64{"system": amount, "memory": -1, "cores": -0.25})
	}
	for i := range 1 + r.IntN(kinds) {
		if r.IntN(3) > 0 {
			b.load(fmt.Sprintf("load%d", i+1), amount, system)
			continue
		}
		c := pack.Choice{Name: fmt.Sprintf("choice%d", i+1)}
		for o := range 2 {
			c.Options = append(c.Options, pack.Option{Loads: []int{b.load(fmt.Sprintf("load%d.%d", i+1, o+1), amount, system)}})
		}
		b.Choices = append(b.Choices, c)
	}
	return b.Problem
}

// MostLeast is the highest least number of servers.
const MostLeast = 3

// Limit adds limits to a problem: stocks of some types, some of them free, a budget of watts and a
// least number of servers.
func Limit(r *rand.Rand, p *pack.Problem) {
	none := func() ([]float64, []float64) {
		return make([]float64, len(p.Servers)), make([]float64, len(p.Purchases))
	}
	for k := range p.Servers {
		if r.IntN(2) == 0 {
			s, b := none()
			s[k] = 1
			p.Limits = append(p.Limits, pack.Limit{Name: "stock of " + p.Servers[k].Name, Servers: s, Purchases: b, Bound: float64(1 + r.IntN(3))})
			if r.IntN(2) == 0 {
				p.Servers[k].Cost = 0
			}
		}
	}
	if r.IntN(2) == 0 {
		s, b := none()
		for k := range s {
			s[k] = float64(50 + r.IntN(100))
		}
		for k := range b {
			b[k] = float64(r.IntN(30))
		}
		p.Limits = append(p.Limits, pack.Limit{Name: "watts", Servers: s, Purchases: b, Bound: float64(100 * (1 + r.IntN(6)))})
	}
	if r.IntN(3) == 0 {
		s, b := none()
		for k := range s {
			s[k] = 1
		}
		p.Limits = append(p.Limits, pack.Limit{Name: "servers", Servers: s, Purchases: b, Bound: float64(1 + r.IntN(MostLeast)), Least: true})
	}
}

// A builder adds loads and purchases to a problem, with new resources.
type builder struct {
	pack.Problem
	r *rand.Rand
}

func (b *builder) vector(of map[string]float64) []float64 {
	out := make([]float64, len(b.Resources))
	for k, name := range b.Resources {
		out[k] = of[name]
	}
	return out
}

func (b *builder) buy(name string, cost int, change map[string]float64) {
	b.Purchases = append(b.Purchases, pack.Purchase{Name: name, Cost: float64(cost), Change: b.vector(change)})
}

// load adds a load with units of its own.
func (b *builder) load(name string, amount float64, system bool) int {
	room := "room of " + name
	b.Resources = append(b.Resources, room)
	for k := range b.Servers {
		b.Servers[k].Capacity = append(b.Servers[k].Capacity, 0)
	}
	for k := range b.Purchases {
		b.Purchases[k].Change = append(b.Purchases[k].Change, 0)
	}
	for k := range b.Loads {
		b.Loads[k].Demand = append(b.Loads[k].Demand, 0)
	}
	unit := map[string]float64{room: 1}
	if b.r.IntN(3) > 0 {
		unit["slots"] = -1
	} else {
		unit["memory"] = -quarters(b.r, 1, 2)
	}
	b.buy("unit of "+name, 10*b.r.IntN(30), unit)
	demand := map[string]float64{room: 1, "bus": quarters(b.r, 0, 2), "net": quarters(b.r, 0, 2), "cores": quarters(b.r, 0, 2), "memory": quarters(b.r, 0, 1)}
	if system && b.r.IntN(2) == 0 {
		demand["system"] = 1
	}
	b.Loads = append(b.Loads, pack.Load{Name: name, Amount: float64(1+b.r.IntN(int(4*amount))) / 4, Demand: b.vector(demand)})
	return len(b.Loads) - 1
}

func quarters(r *rand.Rand, lo, hi int) float64 { return float64(4*lo+r.IntN(4*(hi-lo)+1)) / 4 }

// Prices of the servers of Datacenter: the paper's Table 1, with which one type of
// server suffices, and a list that makes several worth having.
var (
	TableOne = [3]float64{1400, 1850, 11000}
	Mixed    = [3]float64{1400, 4600, 9000}
)

// Datacenter is a mix of everything that the paper's applications host, on the
// servers of Table 1 (FAST'12): 7 loads, 3 server types, CPUs, DIMMs and units
// bought one by one. At scale 1 it takes 100 servers at the prices of Table 1.
func Datacenter(scale float64, prices [3]float64) pack.Problem {
	b := &builder{Problem: pack.Problem{
		// bandwidths in MB/s, memory in GB
		Resources: []string{"sas slots", "sas", "ddr", "network", "cores", "sockets", "memory", "dimms"},
		Servers: []pack.Server{
			{Name: "Server1", Cost: prices[0], Capacity: []float64{4, 750, 21300, 125, 0, 4, 0, 12}},
			{Name: "Server2", Cost: prices[1], Capacity: []float64{16, 3000, 64000, 1250, 0, 16, 0, 48}},
			{Name: "Server3", Cost: prices[2], Capacity: []float64{16, 3000, 64000, 1250, 0, 32, 0, 512}},
		},
	}}
	b.buy("cpu", 137, map[string]float64{"cores": 1, "sockets": -1})
	b.buy("dimm", 35, map[string]float64{"memory": 1, "dimms": -1})
	add := func(name string, amount float64, cost int, slot string, demand map[string]float64) {
		if slot != "" {
			room := "room of " + name
			b.Resources = append(b.Resources, room)
			demand[room] = 1
			b.buy(name, cost, map[string]float64{slot: -1, room: 1})
		}
		b.Loads = append(b.Loads, pack.Load{Name: name, Amount: amount * scale, Demand: b.vector(demand)})
	}
	add("15K disk", 405, 296, "sas slots", map[string]float64{"sas": 41, "network": 41, "cores": 0.35})
	add("SSD", 203, 456, "sas slots", map[string]float64{"sas": 80, "network": 80, "cores": 0.8, "memory": 0.05})
	add("7.2K disk", 611, 213, "sas slots", map[string]float64{"sas": 24, "network": 24, "cores": 0.21})
	add("DRAM", 2111, 35, "dimms", map[string]float64{"ddr": 640, "network": 11, "cores": 0.06})
	add("web", 307, 0, "", map[string]float64{"network": 17, "cores": 0.72, "memory": 0.5})
	add("worker", 311, 456, "sas slots", map[string]float64{"sas": 90, "network": 15, "cores": 0.41, "memory": 1})
	add("mapper", 253, 213, "sas slots", map[string]float64{"sas": 23, "network": 27, "cores": 1, "memory": 1})
	return b.pad()
}

// pad gives every vector an entry for every resource.
func (b *builder) pad() pack.Problem {
	fill := func(v *[]float64) {
		for len(*v) < len(b.Resources) {
			*v = append(*v, 0)
		}
	}
	for k := range b.Servers {
		fill(&b.Servers[k].Capacity)
	}
	for k := range b.Purchases {
		fill(&b.Purchases[k].Change)
	}
	for k := range b.Loads {
		fill(&b.Loads[k].Demand)
	}
	return b.Problem
}
