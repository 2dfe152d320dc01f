package pack

import (
	"cmp"
	"math"
	"slices"
)

// A cut splits a node in two.
type cut struct {
	below, above terms
	weight       float64 // the fraction that is cut, in money
	others       []int   // of a choice: all options except the one that is taken most
	whole        float64 // how much that one is taken
}

// parted splits a node in two if the relaxation is not integral, and reports whether
// it did. Sums that make up the cost, and options, come first: they raise the bound.
func (t *tree) parted(n *node, rel relaxation) bool {
	cuts := append(t.fractional(n.terms, rel), t.undecided(n.terms, rel)...)
	slices.SortStableFunc(cuts, func(a, b cut) int { return -cmp.Compare(a.weight, b.weight) })
	c, ok := t.dearest(cuts)
	if !ok {
		if c, ok = t.splitFillings(n.terms, rel.x); !ok {
			return false
		}
	}
	guess := t.raise(rel.cost)
	t.push(&node{terms: c.below, bound: n.bound, guess: guess})
	t.push(&node{terms: c.above, bound: n.bound, guess: guess})
	return true
}

// costly lists the sums that cost: servers, all and by type, and purchases.
func (t *tree) costly() []rule {
	out := []rule{{what: servers, shape: -1, waste: t.cheapest}}
	for k, s := range t.shapes {
		out = append(out, rule{what: servers, shape: k, waste: s.cost})
	}
	for b, u := range t.p.Purchases {
		out = append(out, rule{what: purchases, shape: -1, index: b, waste: u.Cost})
	}
	return out
}

// fractional returns cuts for the sums that are not whole.
func (t *tree) fractional(at terms, rel relaxation) []cut {
	var out []cut
	for _, r := range t.costly() {
		sum := t.sum(r, rel.x)
		for k, q := range at.rules {
			if r.least = q.least; q.least && r.same(q) {
				sum += rel.idle[k] // bought but idle
			}
		}
		r.least, r.k = false, int(math.Floor(sum))
		if frac := math.Abs(sum - math.Round(sum)); frac > integral {
			out = append(out, cut{below: at.with(r), above: at.with(r.contrary()), weight: frac * (1 + r.waste)})
		}
	}
	return out
}

// undecided returns cuts for choices of which several options are taken in
// part: the one that is taken most, or any other.
func (t *tree) undecided(at terms, rel relaxation) []cut {
	var out []cut
	for k := range t.p.Choices {
		lo, hi := t.first[k], t.first[k+1]
		o := lo + largest(rel.takes[lo:hi])
		if rel.takes[o] > 1-integral {
			continue
		}
		var others []int
		for i := lo; i < hi; i++ {
			if i != o {
				others = append(others, i)
			}
		}
		frac := min(rel.takes[o], 1-rel.takes[o])
		out = append(out, cut{below: at.without(o), above: at.without(others...), weight: frac * (1 + math.Abs(t.optionCost(o, rel.dual))),
			others: others, whole: rel.takes[o]})
	}
	return out
}

func largest(x []float64) int {
	best := 0
	for k, a := range x {
		if a > x[best] {
			best = k
		}
	}
	return best
}

func (t *tree) sum(r rule, x []float64) float64 {
	sum := 0.0
	for j, a := range x {
		if a > 0 {
			sum += a * r.of(t.cols[j])
		}
	}
	return sum
}

// dearest tries the cuts and returns the one whose cheaper half costs most, with
// the known fillings; false if there are none.
func (t *tree) dearest(try []cut) (cut, bool) {
	if len(try) < 2 {
		return append(try, cut{})[0], len(try) > 0
	}
	best, most := try[0], -1.0 // the first, if estimates are NaN
	for _, c := range try[:min(len(try), branchTries)] {
		down, up := t.estimate(c.below), t.estimate(c.above)
		if x := min(down, up, t.cost) + 1e-3*min(max(down, up), t.cost); x > most*(1+1e-9) {
			best, most = c, x
		}
	}
	return best, true
}

// splitFillings finds limits such that the number of fillings of a shape within them
// is not whole. Halving the set of fractional fillings at a value in which they
// differ ends at the latest with a single one, whose number is not whole.
func (t *tree) splitFillings(at terms, x []float64) (cut, bool) {
	parts := map[int][][]int{}
	for _, g := range t.alike(x) {
		if math.Abs(g.sum-math.Round(g.sum)) > integral {
			c := t.cols[g.cols[0]]
			parts[c.shape] = append(parts[c.shape], c.v)
		}
	}
	for k := range t.shapes {
		part := parts[k]
		if len(part) == 0 {
			continue
		}
		r := rule{what: fillingsWithin, shape: k, waste: math.NaN()}
		for {
			l, ok := halve(part)
			if !ok {
				break
			}
			inside := slices.DeleteFunc(slices.Clone(part), func(v []int) bool { return !l.holds(v) })
			if 2*len(inside) > len(part) {
				l.least = !l.least
				inside = slices.DeleteFunc(slices.Clone(part), func(v []int) bool { return !l.holds(v) })
			}
			r.limits = append(r.limits, l)
			part = inside
			if sum := t.sum(r, x); math.Abs(sum-math.Round(sum)) > integral {
				break
			}
		}
		if r.limits == nil { // a single one: limits around it
			for c, n := range part[0] {
				r.limits = append(r.limits, limit{c, true, n}, limit{c, false, n + 1})
			}
		}
		sum := t.sum(r, x)
		r.k = int(math.Floor(sum))
		return cut{below: at.with(r), above: at.with(r.contrary())}, true
	}
	return cut{}, false
}

// halve finds the limit that splits different vectors most evenly; there is none for
// a single one.
func halve(part [][]int) (limit, bool) {
	var best limit
	most := 0
	for c := range part[0] {
		values := make([]int, len(part))
		for k, v := range part {
			values[k] = v[c]
		}
		slices.Sort(values)
		for k := 1; k < len(values); k++ {
			if even := min(k, len(values)-k); values[k] > values[k-1] && even > most {
				best, most = limit{c, true, values[k]}, even
			}
		}
	}
	return best, most > 0
}
