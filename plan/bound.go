package plan

import (
	"math"
	"slices"
)

// Bound is a cost that no cluster for these needs undercuts: units, cores and
// memory rounded up over the whole cluster instead of by server, and servers
// for the scarcest of their limits. It is cheap, so that most architectures
// need not be packed.
func (n Needs) Bound(in Input, colocate bool) float64 { return n.bound(in, colocate, false) }

// bound is Bound, or (least) one that also holds for needs with more instances
// than these: nothing is then made of how many instances a server has room for.
func (n Needs) bound(in Input, colocate, least bool) float64 {
	data, tasks := newTotals(in, n), newTotals(in, n)
	if colocate {
		tasks = data
	}
	for _, t := range n.Tiers {
		data.tier(t)
	}
	for _, r := range n.Roles {
		tasks.role(r, least)
	}
	if colocate {
		data.system = 0 // tasks may stand alone
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
		t.cpu[p] += tier.CPU[p]
		t.net[p] += tier.Net[p]
	}
	system := 0.0
	if s := t.in.App.SystemOf(t.in.App.Datasets[tier.Dataset].System); s != nil {
		system = s.MemoryPerServer
	}
	t.system = min(t.system, system)
	v := func(p int) (cpu, net float64) { return tier.CPU[p], tier.Net[p] }
	t.spread = max(t.spread, t.alone(tier.Units, map[string]float64{t.in.HW.Units[tier.Unit].Bus: 1}, v))
}

// alone is how few servers n items of one kind take when nothing else is
// there; slots are of one item, loads of all of them.
func (t *totals) alone(n int, slots map[string]float64, load func(phase int) (cpu, net float64)) int {
	most := 0.0
	for _, s := range t.in.HW.Servers {
		fit := float64(n)
		limit := func(need, have float64) {
			if need > 0 {
				fit = min(fit, math.Floor(have/need*(1+1e-9)))
			}
		}
		for _, b := range s.Buses {
			limit(slots[b.Name], float64(b.Slots))
		}
		for p := range t.cpu {
			cpu, net := load(p)
			limit(cpu/float64(n), float64(s.CPUs))
			limit(net/float64(n), s.BW)
		}
		most = max(most, fit)
	}
	if most == 0 {
		return 1 // fits nowhere, as packing will tell
	}
	return ceil(float64(n) / most)
}

func (t *totals) role(r Role, least bool) {
	t.any = true
	for p := range t.cpu {
		t.cpu[p] += r.CPU[p]
		t.net[p] += r.Net[p]
		if m := t.in.HW.Memory(); m >= 0 {
			t.memory[p] += r.Memory[p] / t.in.HW.Units[m].Capacity
		}
	}
	slots := map[string]float64{}
	for _, l := range r.Locals {
		slots[t.in.HW.Units[l.Unit].Bus] += float64(l.PerInstance)
	}
	v := func(p int) (cpu, net float64) { return r.CPU[p], r.Net[p] }
	servers := max(1, ceil(t.in.hosts("", slices.Max(r.CPU), slices.Max(r.Net), 0)-1e-6))
	if !least {
		servers = max(servers, t.alone(r.Instances, slots, v))
	}
	t.spread = max(t.spread, servers)
	for _, l := range r.Locals {
		units := l.PerInstance * r.Instances
		if l.PerInstance == 0 { // every server of the role has some
			units = max(servers, ceil(max(l.Capacity, slices.Max(l.IO))))
		}
		t.units(l.Unit, float64(units))
	}
}

// atLeast rounds a sum up, leaving out the dust that packing leaves out.
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

// servers is the least that bare servers can cost, and how few there can be.
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
