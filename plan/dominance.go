package plan

import (
	"cmp"
	"math"
	"slices"

	"gleaner/plan/pack"
)

// undominated leaves out choices that no cheapest plan of a region needs: those for
// which another one is as good in every way, and remote ones whose units alone cost
// more than another one does with servers of its own, if there are servers enough.
func (s *search) undominated(r region) [][]Choice {
	needs := needsOf(s.in, r.open, r.most)
	d := dominance{s: s, copies: map[Copy]sized{}, timed: len(needs.Answers) > 0 || slices.ContainsFunc(needs.Roles, Role.counts)}
	for _, t := range needs.Tiers {
		size := append([]float64{t.Capacity}, t.IO...)
		if s.in.HW.Units[t.Unit].Volatile {
			size = append(size, t.CPU...)
		} else {
			size = append(size, make([]float64, len(t.CPU))...)
		}
		if s.in.SLA.Job == nil { // there is no time to split
			size = []float64{t.Least}
		}
		d.copies[t.Copy] = sized{size, t.Least}
	}
	for _, role := range needs.Roles {
		for _, l := range role.Locals {
			d.copies[l.Copy] = sized{append([]float64{float64(l.Each), l.Capacity}, l.IO...), 0}
		}
	}
	out := make([][]Choice, len(r.open))
	for i, all := range r.open {
		asGood := d.compared(i)
		for k, c := range all {
			if s.stopped() {
				out[i] = append(out[i], all[k:]...)
				break
			}
			worse := false
			for j := 0; j < len(all) && !worse; j++ {
				worse = j != k && asGood(all[j], c) && (j < k || !asGood(c, all[j]))
			}
			if !worse {
				out[i] = append(out[i], c)
			}
		}
		if s.in.App.Datasets[i].Remote && s.in.SLA.Job == nil && !d.timed && !s.in.limited() {
			out[i] = d.affordable(needs, i, out[i])
		}
	}
	return out
}

// A dominance compares choices by what they need.
type dominance struct {
	s      *search
	copies map[Copy]sized
	timed  bool // it matters how long tasks wait for records
}

// sized is how many units a copy takes: by each cause, and the least over all
// servers.
type sized struct {
	asks  []float64
	least float64
}

// compared tells whether choice a does for a dataset all that b does. There are many choices, of
// few units: those are compared first.
func (d dominance) compared(dataset int) func(a, b Choice) bool {
	n := len(d.s.in.HW.Units)
	table := func(c Copy) []bool {
		out := make([]bool, n*n)
		for i := range out {
			a, b := c, c
			a.Unit, b.Unit = i/n, i%n
			out[i] = d.copyAsGood(a, b)
		}
		return out
	}
	alone := table(Copy{Dataset: dataset})
	behind := table(Copy{Dataset: dataset, Behind: true})
	cache := table(Copy{Dataset: dataset, Cache: true})
	return func(a, b Choice) bool {
		switch {
		case (a.Cache == NoCache) != (b.Cache == NoCache):
			return false
		case a.Cache == NoCache:
			return alone[a.Store*n+b.Store]
		}
		return behind[a.Store*n+b.Store] && cache[a.Cache*n+b.Cache]
	}
}

// copyAsGood reports whether copy a does all that b does.
func (d dominance) copyAsGood(a, b Copy) bool {
	in := d.s.in
	u, v := in.HW.Units[a.Unit], in.HW.Units[b.Unit]
	if u.Bus != v.Bus || u.Cost() > v.Cost() || !in.asPlenty(u, v) {
		return false
	}
	asks, asks2 := d.copies[a].asks, d.copies[b].asks
	if len(asks) != len(asks2) {
		return false // one of them is not open
	}
	for k, x := range asks {
		if x > asks2[k] {
			return false
		}
	}
	if !d.timed {
		return true
	}
	read, write := in.App.Through(in.data(a).System, u)
	read2, write2 := in.App.Through(in.data(b).System, v)
	return read.RateR >= read2.RateR && read.GapR <= read2.GapR && write.RateW >= write2.RateW && write.GapW <= write2.GapW
}

// affordable leaves out choices whose units cost more than another choice by itself,
// servers included: that one could replace them.
func (d dominance) affordable(needs Needs, dataset int, all []Choice) []Choice {
	units := func(c Choice) float64 {
		sum := 0.0
		for _, copy := range c.copies(dataset) {
			sum += float64(max(1, ceil(d.copies[copy].least))) * d.s.in.HW.Units[copy.Unit].Cost()
		}
		return sum
	}
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b Choice) int { return cmp.Compare(units(a), units(b)) })
	best := math.Inf(1)
	for _, c := range order {
		if d.s.stopped() {
			break
		}
		if units(c) < best {
			best = min(best, d.alone(needs, dataset, c))
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(c Choice) bool { return units(c) > best })
}

// alone is what the copies of a choice cost on servers of their own; infinite if
// they fit none.
func (d dominance) alone(needs Needs, dataset int, c Choice) float64 {
	sum := 0.0
	for _, t := range needs.Tiers {
		if !slices.Contains(c.copies(dataset), t.Copy) {
			continue
		}
		one := needs
		one.Tiers, one.Roles = []Tier{t}, nil
		one.Open = make([][]Choice, len(needs.Open))
		sol, err := d.s.o.Pack(one.Problem(d.s.in), pack.Options{NodeLimit: 1, Interrupt: d.s.o.Stop})
		if err != nil {
			return math.Inf(1)
		}
		sum += sol.Cost
	}
	return sum
}
