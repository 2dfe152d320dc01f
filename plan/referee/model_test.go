package referee

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gleaner/plan"
)

// An answer is the model's result for an input.
type answer struct {
	cost  float64 // +Inf when nothing meets the SLA
	arch  []choice
	exact bool
	parts []*cover
}

// model finds the cheapest cluster over all architectures for the course of a job (none
// for request rates). One that costs cutoff or more is not
// searched for.
func model(in plan.Input, colocate bool, how course, cutoff float64) answer {
	return among(in, architectures(in), colocate, how, cutoff)
}

// among is the same over some of the architectures.
func among(in plan.Input, some [][]choice, colocate bool, how course, cutoff float64) answer {
	best := answer{cost: math.Inf(1), exact: true}
	for _, fast := range bySpeed(in) {
		a := atSpeed(fast, some, colocate, how, min(cutoff, best.cost))
		exact := best.exact && a.exact
		if a.cost < best.cost {
			best = a
		}
		best.exact = exact
	}
	return best
}

// atSpeed is the same with the servers that there are, at the speed of the slowest of them.
func atSpeed(in plan.Input, some [][]choice, colocate bool, how course, cutoff float64) answer {
	var all []answer
	known := map[string]*cover{}
	for _, arch := range some {
		all = append(all, relaxed(in, arch, colocate, how, known))
	}
	slices.SortStableFunc(all, func(a, b answer) int { return cmp.Compare(a.cost, b.cost) })
	best := answer{cost: math.Inf(1), exact: true}
	for _, a := range all {
		least := min(cutoff, best.cost)
		if a.cost >= least*(1-1e-9) {
			break
		}
		a.solve(least)
		exact := best.exact && a.exact
		if a.cost < best.cost {
			best = a
		}
		best.exact = exact
	}
	return best
}

// bound is a lower bound of the cost over all architectures, and +Inf only if nothing
// meets the SLA: what servers carry in part, more of them carry whole. It is not known if
// an architecture is too large.
func bound(in plan.Input, colocate bool, how course) (_ float64, known bool) {
	least, known := math.Inf(1), true
	for _, fast := range bySpeed(in) {
		for _, arch := range architectures(in) {
			a := relaxed(fast, arch, colocate, how, map[string]*cover{})
			if slices.ContainsFunc(a.parts, func(c *cover) bool { return c.large }) {
				known = false
				continue
			}
			least = min(least, a.cost)
		}
	}
	return least, known
}

// relaxed is a lower bound for one architecture: its cost if servers need not be
// whole. Servers for tasks and for data are separate unless they are shared.
func relaxed(in plan.Input, arch []choice, colocate bool, how course, known map[string]*cover) answer {
	in, possible := hurried(in, arch, colocate)
	if !possible {
		return answer{cost: math.Inf(1), arch: arch, exact: true}
	}
	groups := make([][]load, 3) // tasks, data, and tasks that would disturb others
	for _, l := range demand(in, arch, how) {
		g := btoi(l.tasks == nil && !colocate)
		if disturbs(in, l.tasks, colocate) {
			g = 2
		}
		groups[g] = append(groups[g], l)
	}
	memoryOf := func(system string) float64 { return in.App.SystemOf(system).MemoryPerServer }
	out := answer{arch: arch, exact: true}
	if caps(in) != nil {
		c := whole(in, groups, memoryOf)
		out.cost, out.parts = c.bound, []*cover{c}
		return out
	}
	for _, group := range groups {
		if len(group) == 0 {
			continue
		}
		key := fmt.Sprint(in.SLA.Targets, group)
		c, ok := known[key]
		if !ok {
			if some, all := fillings(in, memoryOf, group); all {
				c = newCover(some, len(group), nil)
			} else {
				c = largeCover()
			}
			known[key] = c
		}
		out.cost += c.bound
		out.parts = append(out.parts, c)
	}
	return out
}

// solve makes servers whole. What costs cutoff or more is not searched for.
func (a *answer) solve(cutoff float64) {
	for _, c := range a.parts {
		a.cost -= c.bound
		if !c.solve(cutoff - a.cost) {
			a.exact = false
		}
		if c.chosen == nil {
			a.cost = math.Inf(1)
			return
		}
		a.cost += c.best
	}
}
