package plan

import (
	"fmt"

	"gleaner/plan/pack"
	"gleaner/plan/spec"
)

// mega keeps bandwidths in a range that suits the arithmetic of a solver.
const mega = 1e6

// groups of items that share no server, as the paper's clusters have it.
const (
	groupTasks = "tasks"
	groupData  = "data"
)

// Problem is what the needs ask of servers, as a packing problem: Tiers come
// first among its items, then Roles.
func (n Needs) Problem(in Input, colocate bool) pack.Problem {
	b := &builder{in: in, colocate: colocate, at: map[string]int{}}
	for _, t := range n.Tiers {
		b.tier(t)
	}
	for _, r := range n.Roles {
		b.role(r)
	}
	return b.build(n)
}

// A builder collects a problem; vectors are maps until all resources are known.
type builder struct {
	in        Input
	colocate  bool
	names     []string
	at        map[string]int // resource -> index
	items     []pack.Item
	demands   []vector
	purchases []pack.Purchase
	changes   []vector
}

type vector map[string]float64

func (b *builder) resource(name string) {
	if _, ok := b.at[name]; !ok {
		b.at[name] = len(b.names)
		b.names = append(b.names, name)
	}
}

// Names of resources. Those by phase carry it behind them when there are several.
func slotsOf(bus string) string { return bus + " slots" }
func byPhase(what string, phase int) string {
	if phase == 0 {
		return what
	}
	return fmt.Sprintf("%s (phase %d)", what, phase+1)
}

const (
	cpuSockets = "CPU sockets"
	cores      = "CPU cores"
	network    = "network MB/s"
	memory     = "memory units"
)

// Names of purchases. Those of partitioned data and of storage systems are
// spelt so that no name a user gives can be mistaken for another.
const (
	cpuPurchase    = "CPU"
	memoryPurchase = "memory"
)

func partitionName(in Input, l Local) string { return "units of " + localName(in, l) }
func presence(system string) string          { return "storage system " + system }

func busMBps(bus string) string { return bus + " MB/s" }

func (b *builder) item(name, group string, count int, cost float64, v vector) {
	if b.colocate {
		group = ""
	}
	b.items = append(b.items, pack.Item{Name: name, Count: count, Cost: cost, Group: group})
	b.demands = append(b.demands, v)
}

// dust is a demand too small to buy anything for: a solver has no use for it.
const dust = 1e-8

func (v vector) add(name string, x float64) {
	if x > dust {
		v[name] += x
	}
}

// tier adds the units of a remote dataset.
func (b *builder) tier(t Tier) {
	unit, d := b.in.HW.Units[t.Unit], b.in.App.Datasets[t.Dataset]
	share := 1 / float64(t.Units)
	v := vector{slotsOf(unit.Bus): 1}
	for p := range t.Net {
		v.add(byPhase(network, p), t.Net[p]*share/mega)
		v.add(byPhase(busMBps(unit.Bus), p), t.Net[p]*share/mega)
		v.add(byPhase(cores, p), t.CPU[p]*share)
	}
	if s := b.in.App.SystemOf(d.System); s != nil && s.MemoryPerServer > 0 {
		v[presence(s.Name)] = 1
	}
	b.item(tierName(b.in, t), groupData, t.Units, unit.Cost(), v)
}

func tierName(in Input, t Tier) string {
	if t.Cache {
		return in.App.Datasets[t.Dataset].Name + " cache"
	}
	return in.App.Datasets[t.Dataset].Name
}

// role adds the instances of tasks with their local data. Units of private
// data go with the instance; units of partitioned data are bought by server.
func (b *builder) role(r Role) {
	share := 1 / float64(r.Instances)
	v := vector{}
	cost := 0.0
	for p := range r.CPU {
		v.add(byPhase(cores, p), r.CPU[p]*share)
		v.add(byPhase(network, p), r.Net[p]*share/mega)
		if m := b.in.HW.Memory(); m >= 0 {
			v.add(byPhase(memory, p), r.Memory[p]*share/b.in.HW.Units[m].Capacity)
		}
	}
	for _, l := range r.Locals {
		unit := b.in.HW.Units[l.Unit]
		for p, bytes := range l.Traffic {
			v.add(byPhase(busMBps(unit.Bus), p), bytes*share/mega)
		}
		if l.PerInstance > 0 {
			v.add(slotsOf(unit.Bus), float64(l.PerInstance))
			cost += float64(l.PerInstance) * unit.Cost()
			continue
		}
		b.partitioned(l, share, v)
	}
	b.item(roleName(b.in, r), groupTasks, r.Instances, cost, v)
}

func roleName(in Input, r Role) string {
	name := ""
	for i, t := range r.Tasks {
		if i > 0 {
			name += " + "
		}
		name += in.App.Tasks[t].Name
	}
	return name
}

func localName(in Input, l Local) string {
	if l.Cache {
		return in.App.Datasets[l.Dataset].Name + " cache"
	}
	return in.App.Datasets[l.Dataset].Name
}

func (b *builder) partitioned(l Local, share float64, v vector) {
	unit, name := b.in.HW.Units[l.Unit], "share of "+localName(b.in, l)
	gives := vector{slotsOf(unit.Bus): -1}
	rows := append([]float64{l.Capacity}, l.IO...)
	for i, row := range rows {
		what := name + " capacity"
		if i > 0 {
			what = byPhase(name+" I/O", i-1)
		}
		if row > 0 {
			v.add(what, row*share)
			gives[what] = 1
		}
	}
	b.purchase(partitionName(b.in, l), unit.Cost(), gives)
}

func (b *builder) purchase(name string, cost float64, gives vector) {
	b.purchases = append(b.purchases, pack.Purchase{Name: name, Cost: cost})
	b.changes = append(b.changes, gives)
}

// build adds what every server needs and lays the vectors out.
func (b *builder) build(n Needs) pack.Problem {
	used := map[string]bool{}
	for _, v := range b.demands {
		for name := range v {
			used[name] = true
		}
	}
	b.common(n, used)
	b.order(n, used)
	out := pack.Problem{Resources: b.names, Items: b.items, Purchases: b.purchases}
	for i := range out.Items {
		out.Items[i].Demand = b.lay(b.demands[i])
	}
	for i := range out.Purchases {
		out.Purchases[i].Change = b.lay(b.changes[i])
	}
	for _, s := range b.in.HW.Servers {
		out.Servers = append(out.Servers, pack.Server{Name: s.Name, Cost: s.Cost(), Capacity: b.lay(serverVector(s, len(n.Phases)))})
	}
	return out
}

// common adds CPUs, memory and storage systems to what can be bought.
func (b *builder) common(n Needs, used map[string]bool) {
	cpu := vector{cpuSockets: -1}
	dimm := vector{}
	for p := range n.Phases {
		cpu[byPhase(cores, p)] = 1
		dimm[byPhase(memory, p)] = 1
	}
	used[cpuSockets] = true
	b.purchase(cpuPurchase, b.in.HW.CPU.Cost(), cpu)
	m := b.in.HW.Memory()
	if m >= 0 {
		unit := b.in.HW.Units[m]
		dimm[slotsOf(unit.Bus)] = -1
		used[slotsOf(unit.Bus)] = true
		b.purchase(memoryPurchase, unit.Cost(), dimm)
	}
	for _, s := range b.in.App.Systems {
		if !used[presence(s.Name)] || m < 0 {
			continue
		}
		gives := vector{presence(s.Name): plenty}
		for p := range n.Phases {
			gives[byPhase(memory, p)] = -s.MemoryPerServer / b.in.HW.Units[m].Capacity
			used[byPhase(memory, p)] = true
		}
		b.purchase(presence(s.Name), 0, gives)
	}
	for _, c := range b.changes {
		for name, x := range c {
			if x < 0 {
				used[name] = true
			}
		}
	}
}

// plenty is more units than a server ever has slots.
const plenty = 1e6

// order fixes the order of the resources that matter: as servers have them,
// then whatever else is asked for, as items ask for it.
func (b *builder) order(n Needs, used map[string]bool) {
	add := func(name string) {
		if used[name] {
			b.resource(name)
		}
	}
	for _, s := range b.in.HW.Servers {
		for _, bus := range s.Buses {
			add(slotsOf(bus.Name))
		}
	}
	add(cpuSockets)
	for p := range n.Phases {
		add(byPhase(cores, p))
		add(byPhase(memory, p))
		add(byPhase(network, p))
		for _, s := range b.in.HW.Servers {
			for _, bus := range s.Buses {
				add(byPhase(busMBps(bus.Name), p))
			}
		}
	}
	for _, s := range b.in.App.Systems {
		add(presence(s.Name))
	}
	for _, r := range n.Roles {
		for _, l := range r.Locals {
			add("share of " + localName(b.in, l) + " capacity")
			for p := range n.Phases {
				add(byPhase("share of "+localName(b.in, l)+" I/O", p))
			}
		}
	}
}

func (b *builder) lay(v vector) []float64 {
	out := make([]float64, len(b.names))
	for i, name := range b.names {
		out[i] = v[name]
	}
	return out
}

// serverVector is what a bare server has: no cores and no memory, but room.
func serverVector(s spec.Server, phases int) vector {
	v := vector{cpuSockets: float64(s.CPUs)}
	for _, bus := range s.Buses {
		v[slotsOf(bus.Name)] = float64(bus.Slots)
		for p := range phases {
			v[byPhase(busMBps(bus.Name), p)] = bus.BW / mega
		}
	}
	for p := range phases {
		v[byPhase(network, p)] = s.BW / mega
	}
	return v
}
