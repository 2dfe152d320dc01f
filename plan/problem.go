package plan

import (
	"fmt"
	"maps"
	"slices"

	"gleaner/plan/pack"
	"gleaner/plan/spec"
)

// Units that keep numbers in a range that suits a solver.
const (
	mega = 1e6
	giga = 1e9
)

// forgive is the tolerance of rounding up: decimal fractions do not add up exactly.
const forgive = 1 - 1e-9

// Problem states the needs as a packing problem, without stock and budgets.
func (n Needs) Problem(in Input) pack.Problem { return n.builder(in, nil).build() }

func (n Needs) builder(in Input, apart [][]string) *builder {
	b := &builder{in: in, needs: n, apart: apart, of: map[Copy]int{}, systems: map[string][]string{}, parts: vector{}}
	for _, t := range n.Tiers {
		b.tier(t)
	}
	for _, r := range n.Roles {
		b.role(r)
	}
	b.choices()
	return b
}

// parts are needs that share no server.
func (n Needs) parts(colocate bool) []Needs {
	data, tasks, long := n, n, n
	data.Roles, tasks.Tiers, long.Tiers = nil, nil, nil
	tasks.Roles = slices.DeleteFunc(slices.Clone(n.Roles), func(r Role) bool { return r.Long })
	long.Roles = slices.DeleteFunc(slices.Clone(n.Roles), func(r Role) bool { return !r.Long })
	if colocate {
		data.Roles, tasks.Roles = tasks.Roles, nil
	}
	// Tasks first, because they are few: a time limit is for the data.
	return slices.DeleteFunc([]Needs{tasks, long, data}, func(n Needs) bool { return len(n.Roles)+len(n.Tiers) == 0 })
}

// A builder collects a problem; vectors are maps until all resources are known.
type builder struct {
	in        Input
	needs     Needs
	loads     []pack.Load
	demands   []vector
	of        map[Copy]int // load of a copy
	purchases []pack.Purchase
	changes   []vector
	options   []pack.Choice
	systems   map[string][]string // resources that a storage system gives
	parts     vector              // the most that a server may have of a load
	pieces    []piece             // of each purchase
	kinds     []int               // the type of each server of the problem
	levels    []int               // of the day, in which it is rented; standing if it is not
	apart     [][]string          // what servers are for, if they are not for everything
}

// A piece is what is bought with one of a purchase: so many units of a kind, or a CPU.
type piece struct {
	unit  int // noUnit for a CPU, or nothing
	count float64
	watts float64
}

const noUnit = -1

func (in Input) pieces(unit int, count float64) piece {
	return piece{unit, count, count * in.HW.Units[unit].Power}
}

type vector map[string]float64

// Names of resources. Those by phase end with the phase if there are several.
func slotsOf(bus string) string { return bus + " slots" }
func busMBps(bus string) string { return bus + " MB/s" }
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
	memory     = "memory GB"
)

// Names of purchases.
const cpuPurchase = "CPU"

func memoryPurchase(u spec.Unit) string  { return "memory on " + u.Name }
func presence(system string) string      { return "storage system " + system }
func instances(in Input, r Role) string  { return "instances of " + roleName(in, r) }
func (in Input) unitsName(c Copy) string { return "units of " + in.copyName(c) }

func (in Input) data(c Copy) spec.Dataset   { return in.App.Datasets[c.Dataset] }
func (in Input) system(c Copy) *spec.System { return in.App.SystemOf(in.data(c).System) }

// copyName spells a copy: "tags" on SSD, cache of "tags" on DRAM. Names that a
// user gives are quoted, so that none can be mistaken for another.
func (in Input) copyName(c Copy) string {
	on := fmt.Sprintf("%q on %q", in.data(c).Name, in.HW.Units[c.Unit].Name)
	switch {
	case c.Cache:
		return "cache of " + on
	case c.Behind:
		return "store of " + on
	}
	return on
}

func roleName(in Input, r Role) string {
	name := "task"
	for i, t := range r.Tasks {
		if i > 0 {
			name += " and"
		}
		name += fmt.Sprintf(" %q", in.App.Tasks[t].Name)
	}
	if r.Hours != "" {
		name += " in " + r.Hours
	}
	return name
}

// dust is a demand too small to matter: it is left out of the problem.
const dust = 1e-9

func (v vector) add(name string, x float64) {
	if x > dust {
		v[name] += x
	}
}

// load adds a load, given what all of it demands and how many servers share it at
// least. Its amount is about the number of servers it takes, so that one holds about 1
// of it.
func (b *builder) load(servers int, name string, amount float64, whole vector) int {
	v := vector{}
	for r, x := range whole {
		v[r] = x / amount
	}
	if servers > 1 {
		part := "part of " + name
		v[part], b.parts[part] = 1, amount/float64(servers)
	}
	b.loads = append(b.loads, pack.Load{Name: name, Amount: amount})
	b.demands = append(b.demands, v)
	return len(b.loads) - 1
}

// servers is how many servers a load takes at least, with each limit of the server
// that has most of it.
func (b *builder) servers(cpu, net []float64) float64 {
	cpus, bw := 1.0, 0.0
	for _, s := range b.in.HW.Servers {
		cpus, bw = max(cpus, float64(s.CPUs)), max(bw, s.BW)
	}
	if bw == 0 {
		return max(slices.Max(cpu)/cpus, 1) // it fits nowhere, as packing will report
	}
	return max(slices.Max(cpu)/cpus, slices.Max(net)/bw)
}

func (b *builder) purchase(name string, cost float64, gives vector, what piece) {
	b.purchases = append(b.purchases, pack.Purchase{Name: name, Cost: cost})
	b.pieces = append(b.pieces, what)
	b.changes = append(b.changes, gives)
}

// tier adds a copy of a remote dataset, with its units.
func (b *builder) tier(t Tier) {
	v := vector{}
	unit := b.in.HW.Units[t.Unit]
	for p := range t.Net {
		v.add(byPhase(network, p), t.Net[p]/mega)
		v.add(byPhase(busMBps(unit.Bus), p), t.Traffic[p]/mega)
		v.add(byPhase(cores, p), t.CPU[p])
	}
	b.units(t.Copy, t.Least, v, 0)
	b.present(t.Copy, v)
	b.ties(v, "")
	b.asks(v, forData)
	b.of[t.Copy] = b.load(t.Servers, b.in.copyName(t.Copy), max(1, t.Least, b.servers(t.CPU, t.Net)), v)
}

// units adds the purchase of units for a copy: least for all of a load, or each for
// every instance.
func (b *builder) units(c Copy, least float64, v vector, each int) {
	unit, per := b.in.HW.Units[c.Unit], b.in.data(c).CPUPerUnit/b.needs.Targets.CPU
	n := float64(max(1, each))
	gives := vector{slotsOf(unit.Bus): -n}
	for p := range b.needs.Phases {
		if per > 0 {
			gives[byPhase(cores, p)] = -n * per
		}
	}
	room := "room for " + b.in.copyName(c)
	gives[room] = 1
	v[room] = max(1, least) * forgive // a server with some of it has a whole unit
	b.purchase(b.in.unitsName(c), n*unit.Cost(), gives, b.in.pieces(c.Unit, n))
}

// present adds the need for the storage system of a copy on every server that has
// some of the copy.
func (b *builder) present(c Copy, v vector) {
	if s := b.in.system(c); s != nil && s.MemoryPerServer > 0 {
		beside := presence(s.Name) + " beside " + b.in.copyName(c)
		v[beside] = 1
		b.systems[s.Name] = append(b.systems[s.Name], beside)
	}
}

// role adds tasks that run side by side, with their local data.
func (b *builder) role(r Role) {
	v := vector{}
	held := 0.0
	for p := range r.CPU {
		v.add(byPhase(cores, p), r.CPU[p])
		v.add(byPhase(network, p), r.Net[p]/mega)
		v.add(byPhase(memory, p), r.Memory[p]/giga)
		held = max(held, r.Held[p])
	}
	if held > 0 {
		gives := vector{instances(b.in, r): 1}
		for p, x := range r.Held {
			gives[byPhase(memory, p)] = -x / giga
		}
		v[instances(b.in, r)] = max(1, r.Instances) * forgive
		b.purchase(instances(b.in, r), 0, gives, piece{unit: noUnit})
	}
	amount := max(1, b.servers(r.CPU, r.Net))
	for _, l := range r.Locals {
		if len(b.needs.Open[l.Dataset]) == 1 {
			b.local(r, l, v)
			continue
		}
		z := vector{}
		b.local(r, l, z)
		b.ties(z, "")
		beside, cache := "beside "+b.in.data(l.Copy).Name, "cached "+b.in.data(l.Copy).Name
		switch {
		case l.Cache:
			z[cache] = -1
		case l.Behind:
			z[cache], z[beside] = 1, -1
		default:
			z[beside] = -1
		}
		v[beside] = 1
		b.of[l.Copy] = b.load(1, b.in.copyName(l.Copy), amount, z)
	}
	b.asks(v, r.side())
	b.ties(v, r.Hours)
	b.load(r.Servers, roleName(b.in, r), amount, v)
}

// local adds a copy of local data to a load: the role's, or one of its own if there
// is a choice.
func (b *builder) local(r Role, l Local, v vector) {
	unit := b.in.HW.Units[l.Unit]
	for p := range l.Traffic {
		v.add(byPhase(busMBps(unit.Bus), p), l.Traffic[p]/mega)
		v.add(byPhase(cores, p), l.CPU[p])
	}
	b.present(l.Copy, v)
	busy := slices.Max(l.IO)
	switch {
	case l.Each == 0:
		b.units(l.Copy, l.units(), v, 0)
	case busy <= float64(l.Each)*r.Instances: // the copies do all the I/O
		b.units(l.Copy, r.Instances, v, l.Each)
	default:
		b.units(l.Copy, busy, v, 1)
		whole := "instances with " + b.in.copyName(l.Copy)
		b.changes[len(b.changes)-1][whole+" units"] = 1
		v[whole] = max(1, r.Instances) * forgive
		b.purchase(whole, 0, vector{whole: 1, whole + " units": -float64(l.Each)}, piece{unit: noUnit})
	}
}

// choices adds, for each dataset that has a choice, the loads of its options.
func (b *builder) choices() {
	for d, open := range b.needs.Open {
		var options []pack.Option
		for _, choice := range open {
			var o pack.Option
			for _, c := range choice.copies(d) {
				if load, ok := b.of[c]; ok {
					o.Loads = append(o.Loads, load)
				}
			}
			options = append(options, o)
		}
		if len(open) > 1 && len(options[0].Loads) > 0 { // else it belongs to another part
			b.options = append(b.options, pack.Choice{Name: b.in.App.Datasets[d].Name, Options: options})
		}
	}
}

// build adds what every server needs and lays the vectors out.
func (b *builder) build() pack.Problem {
	b.common()
	out := pack.Problem{Resources: b.order(), Loads: b.loads, Purchases: b.purchases, Choices: b.options}
	lay := func(v vector) []float64 {
		row := make([]float64, len(out.Resources))
		for i, name := range out.Resources {
			row[i] = v[name]
		}
		return row
	}
	for i := range out.Loads {
		out.Loads[i].Demand = lay(b.demands[i])
	}
	for i := range out.Purchases {
		out.Purchases[i].Change = lay(b.changes[i])
	}
	for i, s := range b.in.HW.Servers {
		if s.BootCPUs >= b.needs.Targets.CPU*float64(s.CPUs)*(1-dust) && s.BootCPUs > 0 {
			continue // nothing may be used of what is left
		}
		if s.Pace() < b.in.slowest {
			continue
		}
		add := func(name string, cost float64, v vector, level int) {
			maps.Copy(v, b.parts)
			out.Servers = append(out.Servers, pack.Server{Name: name, Cost: cost, Capacity: lay(v)})
			b.kinds, b.levels = append(b.kinds, i), append(b.levels, level)
		}
		if !b.replaced(s) {
			v := serverVector(s, len(b.needs.Phases))
			b.boot(s, v)
			b.stand(v)
			for _, side := range b.sides() {
				maps.Copy(v, side)
				add(s.Name, s.Cost(), v, standing)
			}
		}
		for l, level := range b.in.SLA.Day {
			if s.Rented() {
				v := b.hourly(s, l)
				for _, side := range b.sides() {
					if maps.Copy(v, side); b.apart == nil || v[forTasks]+v[forLong] > 0 { // it holds no data
						add(rentedName(s, level), s.RentFor(level.Hours), v, l)
					}
				}
			}
		}
	}
	return out
}

// boot takes from a server what it needs for itself.
func (b *builder) boot(s spec.Server, v vector) {
	for p := range b.needs.Phases {
		v[byPhase(cores, p)] -= s.BootCPUs / b.needs.Targets.CPU
		v[byPhase(memory, p)] -= s.BootMemory / b.needs.Targets.Memory / giga
	}
}

// boots reports whether any server needs some of what a function returns.
func (b *builder) boots(need func(spec.Server) float64) bool {
	return slices.ContainsFunc(b.in.HW.Servers, func(s spec.Server) bool { return need(s) > 0 })
}

// common adds storage systems, memory and CPUs to what can be bought.
func (b *builder) common() {
	phases := len(b.needs.Phases)
	for _, s := range b.in.App.Systems {
		if b.systems[s.Name] == nil {
			continue
		}
		gives := vector{}
		for _, name := range b.systems[s.Name] {
			gives[name] = 1
		}
		for p := range phases {
			gives[byPhase(memory, p)] = -s.MemoryPerServer / b.needs.Targets.Memory / giga
		}
		b.purchase(presence(s.Name), 0, gives, piece{unit: noUnit})
	}
	if b.demanded(memory) || b.boots(func(s spec.Server) float64 { return s.BootMemory }) {
		for _, unit := range b.in.dimms() {
			u := b.in.HW.Units[unit]
			gives := vector{slotsOf(u.Bus): -1}
			for p := range phases {
				gives[byPhase(memory, p)] = u.Capacity / giga
			}
			b.purchase(memoryPurchase(u), u.Cost(), gives, b.in.pieces(unit, 1))
		}
	}
	if b.demanded(cores) || b.boots(func(s spec.Server) float64 { return s.BootCPUs }) {
		gives := vector{cpuSockets: -1}
		for p := range phases {
			gives[byPhase(cores, p)] = 1
		}
		b.purchase(cpuPurchase, b.in.HW.CPU.Cost(), gives, piece{noUnit, 1, b.in.HW.CPU.Power})
	}
}

// demanded reports whether anything demands a resource that is by phase.
func (b *builder) demanded(what string) bool {
	asks := func(v vector, sign float64) bool {
		for p := range b.needs.Phases {
			if sign*v[byPhase(what, p)] > 0 {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(b.demands, func(v vector) bool { return asks(v, 1) }) ||
		slices.ContainsFunc(b.changes, func(v vector) bool { return asks(v, -1) })
}

// dimms lists the units that memory is bought in: the volatile ones, except those for
// which another on the same bus is as large and no dearer.
func (in Input) dimms() []int {
	var out []int
	for i, u := range in.HW.Units {
		worse := slices.ContainsFunc(in.HW.Units[:i], func(w spec.Unit) bool { return in.asMemory(w, u) && in.asMemory(u, w) })
		for _, w := range in.HW.Units {
			worse = worse || in.asMemory(w, u) && !in.asMemory(u, w)
		}
		if u.Volatile && !worse {
			out = append(out, i)
		}
	}
	return out
}

// asMemory reports whether w is memory that does all that u does, at no higher price.
func (in Input) asMemory(w, u spec.Unit) bool {
	return w.Volatile && w.Bus == u.Bus && w.Capacity >= u.Capacity && w.Cost() <= u.Cost() && in.asPlenty(w, u)
}

// order lists the resources that matter: those of servers in their order, then the
// others in the order of loads and purchases.
func (b *builder) order() []string {
	used := vector{}
	for _, v := range append(slices.Clone(b.demands), b.changes...) {
		for name, x := range v {
			if x != 0 {
				used[name] = 1
			}
		}
	}
	if b.boots(func(s spec.Server) float64 { return s.BootMemory }) { // though no memory may be on sale
		for p := range b.needs.Phases {
			used[byPhase(memory, p)] = 1
		}
	}
	var out []string
	take := func(names ...string) {
		for _, name := range names {
			if used[name] != 0 {
				used[name] = 0
				out = append(out, name)
			}
		}
	}
	for _, s := range b.in.HW.Servers {
		for _, bus := range s.Buses {
			take(slotsOf(bus.Name))
		}
	}
	take(cpuSockets)
	for p := range b.needs.Phases {
		take(byPhase(cores, p), byPhase(memory, p), byPhase(network, p))
		for _, s := range b.in.HW.Servers {
			for _, bus := range s.Buses {
				take(byPhase(busMBps(bus.Name), p))
			}
		}
	}
	for _, v := range append(slices.Clone(b.demands), b.changes...) {
		take(slices.Sorted(maps.Keys(v))...)
	}
	return out
}

// serverVector is the resources of a bare server: no cores and no memory, but room
// for them. One that is rented comes with both.
func serverVector(s spec.Server, phases int) vector {
	v := vector{cpuSockets: float64(s.CPUs)}
	if s.Rented() {
		v = vector{}
		for p := range phases {
			v[byPhase(cores, p)], v[byPhase(memory, p)] = float64(s.CPUs), s.Memory/giga
		}
	}
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
