package plan

import (
	"math"
	"slices"
)

// Bound is a lower bound of the cost of a cluster for these needs: units, cores and
// memory are rounded up over the whole cluster instead of by server, and servers are
// counted for the scarcest of their limits. It is fast to compute, so that most
// architectures need not be packed.
func (n Needs) Bound(in Input, colocate bool) float64 {
	data, tasks := newTotals(in, n), newTotals(in, n)
	if colocate {
		tasks = data
	}
	for _, t := range n.Tiers {
		data.tier(t)
	}
	for _, r := range n.Roles {
		tasks.role(r)
	}
	if colocate {
		data.system = 0 // tasks may be on servers of their own
		return data.cost()
	}
	return data.cost() + tasks.cost()
}

// totals are what a group of items needs together.
type totals struct {
	in     Input
	money  float64            // of units
	slots  map[string]float64 // units by bus
	cpu    []float64
	memory []float64 // in units
	net    []float64
	system float64 // least memory a server of the group has for its storage system
	spread int     // servers that the items of one kind alone take
	any    bool
}

func newTotals(in Input, n Needs) *totals {
	p := len(n.Phases)
	return &totals{in: in, slots: map[string]float64{}, cpu: make([]float64, p), memory: make([]float64, p), net: make([]float64, p), system: math.Inf(1)}
}

func (t *totals) units(unit int, count float64) {
	u := t.in.HW.Units[unit]
	t.money += count * u.Cost()
	t.slots[u.Bus] += count
}

func (t *totals) tier(tier Tier) {
	t.any = true
	t.units(tier.Unit, float64(tier.Units))
	for p := range t.cpu {
		t.cpu[p] += tier.CPU[p] + t.in.data(tier.Copy).CPUPerUnit*float64(tier.Units)
		t.net[p] += tier.Net[p]
	}
	system := 0.0
	if s := t.in.App.SystemOf(t.in.App.Datasets[tier.Dataset].System); s != nil {
		system = s.MemoryPerServer
	}
	t.system = min(t.system, system)
	t.spread = max(t.spread, t.spreads(tier.CPU, tier.Net))
}

func (t *totals) role(r Role) {
	t.any = true
	for p := range t.cpu {
		t.cpu[p] += r.CPU[p]
		t.net[p] += r.Net[p]
		if m := t.in.HW.Memory(); m >= 0 {
			t.memory[p] += (r.Memory[p] + r.Held[p]*r.Instances) / t.in.HW.Units[m].Capacity
		}
	}
	servers := t.spreads(r.CPU, r.Net)
	t.spread = max(t.spread, servers)
	for _, l := range r.Locals {
		units := l.Each * ceil(r.Instances)
		if l.Each == 0 { // every server of the role has some
			units = max(servers, ceil(l.units()))
		}
		t.units(l.Unit, float64(units))
	}
}

// spreads is how few servers have the cores and the network for a load.
func (t *totals) spreads(cpu, net []float64) int {
	cpus, bw := 1.0, 0.0
	for _, s := range t.in.HW.Servers {
		cpus, bw = max(cpus, float64(s.CPUs)), max(bw, s.BW)
	}
	return max(1, ceil(max(slices.Max(cpu)/cpus, slices.Max(net)/bw)))
}

// atLeast rounds a sum up, ignoring the rounding errors that packing ignores.
func atLeast(x float64) float64 { return float64(ceil(x - 1e-6)) }

func (t *totals) cost() float64 {
	if !t.any {
		return 0
	}
	cpus := atLeast(slices.Max(t.cpu))
	memory := atLeast(slices.Max(t.memory))
	m := t.in.HW.Memory()
	if m >= 0 {
		t.slots[t.in.HW.Units[m].Bus] += memory
	}
	money, servers := t.servers(cpus)
	money += t.money + cpus*t.in.HW.CPU.Cost()
	if m >= 0 {
		unit := t.in.HW.Units[m]
		if !math.IsInf(t.system, 0) {
			memory = max(memory, servers*float64(ceil(t.system/unit.Capacity)))
		}
		money += memory * unit.Cost()
	}
	return money
}

// servers is the least that bare servers can cost, and the least number of them.
func (t *totals) servers(cpus float64) (money, count float64) {
	cheapest := math.Inf(1)
	for _, s := range t.in.HW.Servers {
		cheapest = min(cheapest, s.Cost())
	}
	count = float64(max(1, t.spread))
	limit := func(need float64, capacity func(int) float64) {
		if need <= 0 {
			return
		}
		least, most := math.Inf(1), 0.0
		for i, s := range t.in.HW.Servers {
			if c := capacity(i); c > 0 {
				least, most = min(least, s.Cost()/c), max(most, c)
			}
		}
		if most > 0 {
			money = max(money, need*least)
			count = max(count, float64(ceil(need/most)))
		}
	}
	limit(cpus, func(i int) float64 { return float64(t.in.HW.Servers[i].CPUs) })
	limit(slices.Max(t.net), func(i int) float64 { return t.in.HW.Servers[i].BW })
	for bus, units := range t.slots {
		limit(units, func(i int) float64 {
			for _, b := range t.in.HW.Servers[i].Buses {
				if b.Name == bus {
					return float64(b.Slots)
				}
			}
			return 0
		})
	}
	return max(money, count*cheapest), count
}
