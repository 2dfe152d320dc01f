package pack_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gleaner/plan/pack"
	"gleaner/plan/pack/packtest"
)

// A way is a filled server in brute: how much of the only load it holds, and its
// cost.
type way struct{ holds, cost float64 }

// brute is the dumb twin of Solve for problems of one load, or of one choice
// between single loads: it tries every number of every purchase in a server,
// and every combination of servers.
func brute(p pack.Problem) float64 {
	if len(p.Choices) == 0 {
		return bruteCover(bruteWays(p, 0), p.Loads[0].Amount)
	}
	best := math.Inf(1)
	for _, o := range p.Choices[0].Options {
		best = min(best, bruteCover(bruteWays(p, o.Loads[0]), p.Loads[o.Loads[0]].Amount))
	}
	return best
}

// bruteWays lists what servers can hold of a load, without those that hold no
// more than a cheaper one.
func bruteWays(p pack.Problem, load int) []way {
	var all []way
	for _, s := range p.Servers {
		bruteBuy(p, load, append([]float64(nil), s.Capacity...), 0, s.Cost, &all)
	}
	var out []way
	for i, w := range all {
		worse := false
		for j, v := range all {
			worse = worse || v.holds >= w.holds && v.cost <= w.cost && (v != w || j < i)
		}
		if !worse {
			out = append(out, w)
		}
	}
	return out
}

// bruteBuy tries 0 to 4 units of each purchase: no server has more places.
func bruteBuy(p pack.Problem, load int, room []float64, from int, cost float64, all *[]way) {
	if from == len(p.Purchases) {
		holds := p.Loads[load].Amount
		for r, x := range room {
			if d := p.Loads[load].Demand[r]; d > 0 {
				holds = min(holds, x/d)
			} else if x < 0 {
				return
			}
		}
		if holds > 0 {
			*all = append(*all, way{holds, cost})
		}
		return
	}
	after := append([]float64(nil), room...)
	for n := range 5 {
		bruteBuy(p, load, after, from+1, cost+float64(n)*p.Purchases[from].Cost, all)
		for r, x := range p.Purchases[from].Change {
			after[r] += x
		}
	}
}

// bruteCover is the least cost of servers that hold an amount together.
func bruteCover(ways []way, amount float64) float64 {
	best := math.Inf(1)
	var add func(from int, left, cost float64)
	add = func(from int, left, cost float64) {
		if cost >= best {
			return
		}
		if left <= 1e-9 {
			best = cost
			return
		}
		for k := from; k < len(ways); k++ {
			add(k, left-ways[k].holds, cost+ways[k].cost)
		}
	}
	add(0, amount, 0)
	return best
}

// single draws a problem that brute can enumerate.
func single(seed uint64) pack.Problem {
	return packtest.Random(rand.New(rand.NewPCG(seed, 0)), 1, 3)
}

func TestCostEqualsBruteForce(t *testing.T) {
	unfit := 0
	for seed := range uint64(400) {
		p := single(seed)
		want := brute(p)
		got, err := pack.Solve(p, pack.Options{})
		switch {
		case math.IsInf(want, 1):
			unfit++
			var e *pack.UnfitError
			if !errors.As(err, &e) {
				t.Errorf("seed %d: cost %v and error %v, but it cannot be hosted", seed, got.Cost, err)
			}
		case err != nil:
			t.Errorf("seed %d: %v; brute force hosts it for %v", seed, err, want)
		case math.Abs(got.Cost-want) > 1e-6 || math.Abs(got.LowerBound-want) > 1e-6 || !got.Optimal:
			t.Errorf("seed %d: cost %v, bound %v, optimal %v; brute force %v", seed, got.Cost, got.LowerBound, got.Optimal, want)
		}
	}
	if unfit > 200 {
		t.Errorf("%d of 400 fit no server: fewer than half were compared", unfit)
	}
}

// TestGapIsNoMoreThanClaimed asks for less than the optimum: the claimed bound must
// still hold.
func TestGapIsNoMoreThanClaimed(t *testing.T) {
	for seed := range uint64(200) {
		p := single(seed)
		got, err := pack.Solve(p, pack.Options{Gap: 0.05})
		if err != nil {
			continue // fits no server, see above
		}
		if want := brute(p); got.LowerBound > want+1e-6 || got.Gap > 0.05 {
			t.Errorf("seed %d: cost %v, claimed to be above %v by %v at most; brute force %v", seed, got.Cost, got.LowerBound, got.Gap, want)
		}
	}
}
