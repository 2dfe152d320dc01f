package pack

import (
	"math"
	"slices"
)

// A load is a column used a number of times.
type load struct {
	column
	times int
}

func costOf(loads []load) float64 {
	sum := 0.0
	for _, l := range loads {
		sum += l.cost * float64(l.times)
	}
	return sum
}

// cheapest hosts the given numbers of items in the cheapest server that can,
// and says whether there is one. To host nothing costs nothing.
func cheapest(shapes []*shape, items []int) (column, bool) {
	if !slices.ContainsFunc(items, positive) {
		return column{v: make([]int, shapes[0].len())}, true
	}
	best := column{cost: math.Inf(1)}
	for k, s := range shapes {
		if s.cost >= best.cost {
			continue
		}
		v, ok := s.vector(items)
		if ok && s.furnish(v) && s.costOf(v) < best.cost {
			best = column{shape: k, v: v, cost: s.costOf(v)}
		}
	}
	return best, best.v != nil
}

// vector places counts of the problem's items among the components of s, and
// says whether they all have one.
func (s *shape) vector(items []int) ([]int, bool) {
	v := make([]int, s.len())
	placed, all := 0, 0
	for c, i := range s.items {
		v[c] = items[i]
		placed += items[i]
	}
	for _, n := range items {
		all += n
	}
	return v, placed == all
}

// counts is the reverse of vector.
func (s *shape) counts(v []int, items int) []int {
	out := make([]int, items)
	for c, i := range s.items {
		out[i] = v[c]
	}
	return out
}

// trim takes away what the loads hold beyond need, where that saves most, and
// hosts what is left in each server in the cheapest one that can.
func trim(shapes []*shape, loads []load, need []int) []load {
	loads = slices.Clone(loads)
	for i, n := range need {
		for _, l := range loads {
			n -= shapes[l.shape].count(l.v, i) * l.times
		}
		for surplus := -n; surplus > 0; {
			surplus -= lighten(shapes, &loads, i, surplus, len(need))
		}
	}
	return slices.DeleteFunc(loads, func(l load) bool {
		return l.times == 0 || !slices.ContainsFunc(l.v[:len(shapes[l.shape].items)], positive)
	})
}

func positive(n int) bool { return n > 0 }

// lighten takes at most surplus of item i out of one load and says how many it
// took. It lightens all servers of the load alike that it can: what is best
// for one is best for the next, and a load may be 10,000 servers.
func lighten(shapes []*shape, loads *[]load, i, surplus, items int) int {
	var best column
	from, took, saved := -1, 0, math.Inf(-1)
	for k, l := range *loads {
		s := shapes[l.shape]
		have := s.count(l.v, i)
		if have == 0 || l.times == 0 {
			continue
		}
		less := s.counts(l.v, items)
		less[i] -= min(have, surplus)
		col, ok := cheapest(shapes, less)
		if ok && l.cost-col.cost > saved {
			best, from, took, saved = col, k, min(have, surplus), l.cost-col.cost
		}
	}
	times := min((*loads)[from].times, surplus/took)
	(*loads)[from].times -= times
	*loads = append(*loads, load{best, times})
	return times * took
}
