package pack

import (
	"cmp"
	"math"
	"slices"
)

// dives looks for a solution that costs no more than the relaxation, and if
// there is none in sight, for any that improves.
func (t *tree) dives(rules []rule, rel relaxation) {
	for _, most := range []float64{t.raise(rel.cost) * (1 + 1e-6), (t.raise(rel.cost) + t.cost) / 2, t.cost} {
		tries := diveTries
		t.dive(rules, rel, nil, most, &tries)
		if t.cost <= most {
			return
		}
	}
}

// dive looks for a solution that costs at most so much by deciding, again and
// again, what the relaxation uses whole servers of, and else one of the
// fillings that it uses most. Where that becomes too dear it turns back, as
// long as there are tries left.
func (t *tree) dive(rules []rule, rel relaxation, done []load, most float64, tries *int) {
	if rel.cost > most || rel.cost >= t.goal() || t.stop() {
		return
	}
	done = slices.Clip(done)
	next := [][]load{}
	for j, a := range rel.x {
		if n := int(a + integral); n > 0 {
			done = append(done, load{t.cols[j], n})
			next = [][]load{done}
		}
	}
	if len(next) == 0 {
		for _, j := range largest(rel.x, 3) {
			next = append(next, append(slices.Clip(done), load{t.cols[j], 1}))
		}
	}
	for _, loads := range next {
		if t.covered(loads) {
			t.offer(loads)
		} else if *tries > 0 {
			*tries--
			t.dive(rules, t.relax(rules, loads, math.Inf(1), 0), loads, most, tries)
		}
	}
}

// largest gives the places of the n largest values that are not zero.
func largest(x []float64, n int) []int {
	var out []int
	for j, a := range x {
		if a > integral {
			out = append(out, j)
		}
	}
	slices.SortStableFunc(out, func(i, j int) int { return -cmp.Compare(x[i], x[j]) })
	return out[:min(n, len(out))]
}

func (t *tree) covered(done []load) bool {
	for i, n := range t.need {
		for _, l := range done {
			n -= t.shapes[l.shape].count(l.v, i) * l.times
		}
		if n > 0 {
			return false
		}
	}
	return true
}
