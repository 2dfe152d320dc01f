package pack

import "math"

// A rule narrows a node: a sum over the used fillings is at least k, or at most k.
// The sums are linear in the purchases of a filling, except those of limits, which
// count the fillings within them. Either kind changes only what a filling's parts are
// worth in the next search.
type rule struct {
	what   what
	shape  int // only fillings of this shape count; -1: of any
	index  int // of the purchase that is counted
	limits []limit
	limit  *Limit  // of the problem, that is the rule
	unit   float64 // in which the limit is counted
	least  bool
	k      int
	waste  float64 // price of one that is idle; NaN: it cannot be
}

// what a rule sums over fillings.
type what uint8

const (
	servers what = iota
	purchases
	fillingsWithin
	limited
)

// same reports whether two rules limit the same sum from the same side.
func (r rule) same(q rule) bool {
	return r.limits == nil && q.limits == nil && r.what == q.what && r.shape == q.shape && r.index == q.index && r.least == q.least
}

// contrary is the rule that holds if r, an upper limit, does not.
func (r rule) contrary() rule {
	r.least, r.k = true, r.k+1
	return r
}

// bound is what the sum is compared with.
func (r rule) bound() float64 {
	if r.limit != nil {
		return r.limit.Bound / r.unit
	}
	return float64(r.k)
}

// sign turns the rule into a covering row.
func (r rule) sign() float64 {
	if r.least {
		return 1
	}
	return -1
}

// penalty is the price of falling short of the rule by one. A missing server or
// purchase can be bought at its price and left idle: that keeps the reward of a rule
// below the cost.
func (r rule) penalty(most float64) float64 {
	if r.least && !math.IsNaN(r.waste) {
		return r.waste
	}
	return most
}

func (r rule) counts(shape int) bool { return r.shape < 0 || r.shape == shape }

// of is the part of a column in the sum.
func (r rule) of(c column) float64 {
	if !r.counts(c.shape) {
		return 0
	}
	switch r.what {
	case purchases:
		return float64(c.v[r.index])
	case fillingsWithin:
		if !within(r.limits, c.v) {
			return 0
		}
	case limited:
		return r.limit.of(c.shape, c.v) / r.unit
	}
	return 1
}

// reward adds to a search of a shape what the rule pays for each one that it counts.
func (r rule) reward(f *search, shape int, pay float64) {
	if !r.counts(shape) {
		return
	}
	switch r.what {
	case servers:
		f.floor -= pay
	case purchases:
		f.worth[f.loads+r.index] += pay
	case fillingsWithin:
		f.bonus = append(f.bonus, bonus{r.limits, pay})
	case limited:
		f.floor -= pay * r.limit.Servers[shape] / r.unit
		for b, x := range r.limit.Purchases {
			f.worth[f.loads+b] += pay * x / r.unit
		}
	}
}
