package pack

import (
	"cmp"
	"math"
	"slices"
)

// dives looks for a solution that costs no more than the relaxation, and if it finds
// none, for any better than the best so far.
func (t *tree) dives(at terms, rel relaxation) {
	at, rel = t.decide(at, rel)
	var taken []int
	for o, x := range rel.takes {
		if x > 0.5 {
			taken = append(taken, o)
		}
	}
	for _, most := range []float64{t.raise(rel.cost) * (1 + 1e-6), (t.raise(rel.cost) + t.cost) / 2, t.cost} {
		tries := diveTries
		t.dive(at, rel, nil, taken, most, &tries)
		if t.cost <= most {
			return
		}
	}
}

// decide takes, choice by choice, the option that the relaxation takes most, and at
// once all options that it takes nearly whole.
func (t *tree) decide(at terms, rel relaxation) (terms, relaxation) {
	for range t.p.Choices { // each round decides one; what is still open then is fractional because servers are missing
		cuts := t.undecided(at, rel)
		if len(cuts) == 0 || t.stop() {
			break
		}
		slices.SortStableFunc(cuts, func(a, b cut) int { return cmp.Compare(b.whole, a.whole) })
		for k, c := range cuts {
			if k == 0 || c.whole > 0.8 {
				at = at.without(c.others...)
			}
		}
		rel = t.relax(at, nil, math.Inf(1), 0)
	}
	return at, rel
}

// dive looks for a solution that costs at most most. It repeatedly fixes the fillings
// that the relaxation uses a whole number of, or else one of those that it uses most;
// or it hosts all the rest on one server. If that becomes too expensive it
// backtracks, as long as there are tries left.
func (t *tree) dive(at terms, rel relaxation, done []stock, taken []int, most float64, tries *int) {
	if rel.cost > most || rel.cost >= t.goal() || t.stop() {
		return
	}
	done = slices.Clip(done)
	groups := t.alike(rel.x)
	next := [][]stock{}
	for _, g := range groups {
		if n := int(g.sum + integral); n > 0 {
			done = append(done, stock{t.mean(g, rel.x), n})
			next = [][]stock{done}
		}
	}
	if last, ok := t.host(done, taken); ok {
		t.offer(append(slices.Clip(done), last...), taken)
	}
	if len(next) == 0 {
		slices.SortStableFunc(groups, func(a, b alike) int { return -cmp.Compare(a.sum, b.sum) })
		for _, g := range groups[:min(3, len(groups))] {
			next = append(next, append(slices.Clip(done), stock{t.mean(g, rel.x), 1}))
		}
	}
	for _, stocks := range next {
		if *tries > 0 {
			*tries--
			t.dive(at, t.relax(at, stocks, math.Inf(1), 0), stocks, taken, most, tries)
		}
	}
}

// hostBudget is the number of boxes to host the rest on one server.
const hostBudget = 500

// host finds the cheapest server for all that is left, and reports whether there is
// one; if nothing is left, none is needed.
func (t *tree) host(done []stock, taken []int) ([]stock, bool) {
	wanted := t.hosts(taken)
	rest := make([]float64, len(wanted))
	nothing := true
	for i, w := range wanted {
		if w && t.sign[i] > 0 { // a load that serves others is hosted as these need it
			rest[i] = max(0, t.rest(i, done))
			nothing = nothing && rest[i] <= slack*t.p.Loads[i].Amount
		}
	}
	if nothing {
		return nil, true
	}
	var best []stock
	limit := t.cost - costOf(done)
	for k, s := range t.shapes {
		s.focus(wanted)
		f := s.newSearch()
		f.floor = s.cost - limit // its worth is its cost, negative
		f.budget, f.haste, f.stop = hostBudget, hostBudget/2, t.stop
		possible := s.cost < limit
		for i, y := range rest {
			possible = possible && y <= s.most[i]*(1+slack)
			f.lo[i] = min(y, s.most[i])
			if !wanted[i] || s.gives(i) == 0 {
				f.hi[i] = f.lo[i]
			}
		}
		if !possible {
			continue
		}
		f.run()
		if n := len(f.finds); n > 0 {
			c := column{k, f.finds[n-1], s.costOf(f.finds[n-1].v)}
			if one := (stock{c, 1}); t.room(append(slices.Clip(done), one)) {
				limit = c.cost
				best = []stock{one}
			}
		}
	}
	return best, best != nil
}
