package pack

import (
	"cmp"
	"math"
	"slices"
)

// split finds a sum that is not whole and gives the rule that it is at most
// its floor; there is none when the relaxation is whole. Sums that make up the
// cost come first: they lift the bound.
func (t *tree) split(rules []rule, rel relaxation) (rule, bool) {
	if r, ok := t.dearest(rules, t.fractional(rules, rel, t.costly())); ok {
		return r, true
	}
	if sums := t.fractional(rules, rel, t.itemsByShape()); len(sums) > 0 {
		return sums[0], true
	}
	for k := range t.shapes {
		if r, ok := t.splitFillings(rel.x, k); ok {
			return r, true
		}
	}
	return rule{}, false
}

// costly lists the sums that cost: servers, all and by type and by shape, and
// purchases.
func (t *tree) costly() []rule {
	out := []rule{{what: servers, server: -1, shape: -1, waste: t.cheapest}}
	for k, s := range t.p.Servers {
		out = append(out, rule{what: servers, server: k, shape: -1, waste: s.Cost})
	}
	for b, u := range t.p.Purchases {
		out = append(out, rule{what: purchases, server: -1, shape: -1, index: b, waste: u.Cost})
	}
	for k, s := range t.shapes {
		out = append(out, rule{what: servers, server: -1, shape: k, waste: s.cost})
	}
	return out
}

// itemsByShape lists how many of each item are hosted by each shape.
func (t *tree) itemsByShape() []rule {
	var out []rule
	for k, s := range t.shapes {
		for _, i := range s.items {
			out = append(out, rule{what: items, server: -1, shape: k, index: i, waste: math.NaN()})
		}
	}
	return out
}

// fractional gives those of the sums that are not whole, with their floor for
// a limit, those first whose fraction is the most money.
func (t *tree) fractional(rules []rule, rel relaxation, sums []rule) []rule {
	type candidate struct {
		rule
		weight float64
	}
	var found []candidate
	for _, r := range sums {
		sum := t.sum(r, rel.x)
		for k, q := range rules {
			if r.least = q.least; q.least && r.same(q) {
				sum += rel.idle[k] // bought to stand idle
			}
		}
		r.least, r.k = false, int(math.Floor(sum))
		frac := math.Abs(sum - math.Round(sum))
		if frac <= integral {
			continue
		}
		if !math.IsNaN(r.waste) {
			frac *= 1 + r.waste
		}
		found = append(found, candidate{r, frac})
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return -cmp.Compare(a.weight, b.weight) })
	out := make([]rule, len(found))
	for k, c := range found {
		out[k] = c.rule
	}
	return out
}

func (t *tree) sum(r rule, x []float64) float64 {
	sum := 0.0
	for j, a := range x {
		if a > 0 {
			sum += a * r.of(t.shapes[t.cols[j].shape], t.cols[j])
		}
	}
	return sum
}

// dearest tries the rules and gives the one whose cheaper half costs most,
// with the fillings known; false says that there are none.
func (t *tree) dearest(rules, try []rule) (rule, bool) {
	if len(try) == 1 {
		return try[0], true
	}
	var best rule
	most := -1.0
	for _, r := range try[:min(len(try), branchTries)] {
		down, up := t.estimate(with(rules, r)), t.estimate(with(rules, r.contrary()))
		if c := min(down, up) + 1e-3*min(max(down, up), t.cost); c > most*(1+1e-9) {
			best, most = r, c
		}
	}
	return best, len(try) > 0
}

// splitFillings finds limits within which the fillings of a shape are not a
// whole number. Halving the fractional fillings at a value in which they
// differ ends at the latest with a single one, whose number is not whole.
func (t *tree) splitFillings(x []float64, shape int) (rule, bool) {
	r := rule{what: fillingsWithin, server: -1, shape: shape, waste: math.NaN()}
	var part [][]int
	for j, a := range x {
		if t.cols[j].shape == shape && math.Abs(a-math.Round(a)) > integral {
			part = append(part, t.cols[j].v)
		}
	}
	for len(part) > 0 {
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
	r.k = int(math.Floor(t.sum(r, x)))
	return r, len(part) > 0
}

// halve finds the limit that parts different vectors most evenly; there is
// none for a single one.
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
