package referee

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"gleaner/plan"
)

// A cap is a limit of the whole cluster, as in the docs: so many of a type of server or unit, watts,
// rack units, or a least number of servers.
type cap struct {
	name   string
	of     func(server, cpus int, units []int) float64 // of one server with its units by kind
	number float64
	least  bool
	level  int // of the day; or always
}

// caps are those of an input: if servers come and go, at every hour.
func caps(in plan.Input) []cap {
	var out []cap
	for l := range levels(in) {
		for _, c := range capsAt(in) {
			if c.level = l; !comeAndGo(in) {
				c.level = always
			}
			out = append(out, c)
		}
		if !comeAndGo(in) {
			break
		}
	}
	return out
}

// there reports whether a server counts.
func (c cap) there(w when) bool { return w == nil || w[c.level] }

func capsAt(in plan.Input) []cap {
	var out []cap
	for i, s := range in.HW.Servers {
		if s.Stock > 0 {
			out = append(out, cap{"servers " + s.Name, func(server, _ int, _ []int) float64 { return float64(btoi(server == i)) }, math.Floor(float64(s.Stock) / zonesOf(in)), false, always})
		}
	}
	for i, u := range in.HW.Units {
		if u.Stock > 0 {
			out = append(out, cap{"units " + u.Name, func(_, _ int, units []int) float64 { return float64(units[i]) }, math.Floor(float64(u.Stock) / zonesOf(in)), false, always})
		}
	}
	if in.SLA.Budget.Power > 0 {
		out = append(out, cap{"watts", func(server, cpus int, units []int) float64 {
			sum := in.HW.Servers[server].Power
			if in.HW.Servers[server].Rent == 0 {
				sum += float64(cpus) * in.HW.CPU.Power
			}
			for i, n := range units {
				sum += float64(n) * in.HW.Units[i].Power
			}
			return sum
		}, in.SLA.Budget.Power / zonesOf(in), false, always})
	}
	if in.SLA.Budget.RackUnits > 0 {
		out = append(out, cap{"rack units", func(server, _ int, _ []int) float64 { return in.HW.Servers[server].RackUnits }, in.SLA.Budget.RackUnits / zonesOf(in), false, always})
	}
	if in.SLA.Least > 0 {
		out = append(out, cap{"servers", func(int, int, []int) float64 { return 1 }, math.Ceil(float64(in.SLA.Least) / zonesOf(in)), true, always})
	}
	return out
}

// broken reports whether a sum does not keep a limit.
func (c cap) broken(sum float64) bool {
	if c.least {
		return sum < c.number*(1-forgiven)
	}
	return sum > c.number*(1+forgiven)
}

// counted is what a filling counts in every limit.
func (s *stock) counted(f filling) []float64 {
	units := append([]int(nil), f.memory...)
	k := 0
	for _, l := range s.loads {
		for _, c := range l.copies {
			units[c.unit] += f.units[k]
			k++
		}
	}
	var out []float64
	for _, c := range s.caps {
		n := c.of(f.server, f.cpus, units)
		if !c.there(f.when) {
			n = 0
		}
		out = append(out, n)
	}
	return out
}

// fewest reports whether a filling counts no more than another in the limits from above, and no
// less in those from below.
func (s *stock) fewest(a, b filling) bool {
	for i, c := range s.caps {
		x, y := a.counts[i], b.counts[i]
		if c.least {
			x, y = y, x
		}
		if x > y {
			return false
		}
	}
	return true
}

// limitsOf are the limits of a cover.
func limitsOf(all []cap, fills []filling) []limit {
	var out []limit
	for i, c := range all {
		l := limit{least: c.least, number: c.number}
		for _, f := range fills {
			l.weights = append(l.weights, f.counts[i])
		}
		out = append(out, l)
	}
	return out
}

// kept reports whether a number of each filling keeps the limits of the cover.
func (c *cover) kept(count []float64) bool {
	for i, l := range c.always {
		if c.caps[i].broken(dot(l.weights, count)) {
			return false
		}
	}
	return true
}

// whole is one cover of all groups of loads, each with its own servers: limits count all of them.
func whole(in plan.Input, groups [][]load, memoryOf func(string) float64) *cover {
	var all []filling
	loads := 0
	for _, g := range groups {
		loads += len(g)
	}
	at := 0
	for _, g := range groups {
		if len(g) == 0 {
			continue
		}
		some, ok := fillings(in, memoryOf, g)
		if !ok {
			return largeCover()
		}
		for _, f := range some {
			wide := f
			wide.most, wide.instances = make([]float64, loads), make([]int, loads)
			copy(wide.most[at:], f.most)
			copy(wide.instances[at:], f.instances)
			wide.corners = nil
			for _, x := range f.corners {
				y := make([]float64, loads)
				copy(y[at:], x)
				wide.corners = append(wide.corners, y)
			}
			wide.units = nil // the loads of another group have other units
			all = append(all, wide)
		}
		at += len(g)
	}
	return newCover(all, loads, caps(in))
}

// limits gives documents stock, budgets and a least number of servers.
func limits(seed uint64, d documents) {
	w := writer{Rand: rand.New(rand.NewPCG(seed, 77))}
	if !w.chance(0.3) {
		return
	}
	for _, e := range d.hw.all("server") {
		if w.chance(0.5) {
			e.set("stock", strconv.Itoa(1+w.IntN(4)))
			if w.chance(0.3) {
				e.set("price", "0")
			}
		}
		if w.chance(0.7) {
			e.set("power", w.number(50, 300)+"W")
		}
		if w.chance(0.8) {
			e.set("rack_units", pick(w, "1", "2", "4", "0.5"))
		}
	}
	for _, e := range d.hw.all("storage_unit") {
		if w.chance(0.15) {
			e.set("stock", strconv.Itoa(1+w.IntN(5)))
		}
	}
	budget := el("budget")
	if w.chance(0.4) {
		budget.set("power", w.number(200, 2000)+"W")
	}
	if w.chance(0.3) {
		budget.set("rack_units", fmt.Sprint(2+w.IntN(12)))
	}
	if len(budget.attrs) > 0 {
		d.sla.add(budget)
	}
	if w.chance(0.2) {
		d.sla.add(el("least", "servers", strconv.Itoa(1+w.IntN(4))))
	}
}
