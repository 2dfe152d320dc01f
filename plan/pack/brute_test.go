package pack_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gleaner/plan/pack"
	"gleaner/plan/pack/packtest"
)

// brute is the dumb twin of Solve: it tries every content of a server with
// every number of purchases, and every way to part the items into contents.
func brute(p pack.Problem) float64 {
	var counts []int
	total, states := 0.0, 1
	for _, it := range p.Items {
		counts = append(counts, it.Count)
		total += it.Cost * float64(it.Count)
		states *= it.Count + 1
	}
	decode := func(code int) []int {
		v := make([]int, len(counts))
		for i, n := range counts {
			v[i] = code % (n + 1)
			code /= n + 1
		}
		return v
	}
	host := make([]float64, states) // cheapest server with exactly this content
	for code := 1; code < states; code++ {
		host[code] = bruteHost(p, decode(code))
	}
	least := make([]float64, states) // cheapest servers for exactly these items
	for code := 1; code < states; code++ {
		least[code] = math.Inf(1)
		v := decode(code)
		for first := 1; first <= code; first++ {
			if math.IsInf(host[first], 1) || !below(decode(first), v) {
				continue
			}
			least[code] = min(least[code], host[first]+least[code-first])
		}
	}
	return total + least[states-1]
}

func below(a, b []int) bool {
	for i := range a {
		if a[i] > b[i] {
			return false
		}
	}
	return true
}

func bruteHost(p pack.Problem, v []int) float64 {
	group := ""
	for i, it := range p.Items {
		if v[i] == 0 || it.Group == "" {
			continue
		}
		if group != "" && it.Group != group {
			return math.Inf(1)
		}
		group = it.Group
	}
	best := math.Inf(1)
	for _, s := range p.Servers {
		left := make([]float64, len(p.Resources))
		for r := range left {
			left[r] = s.Capacity[r]
			for i, n := range v {
				left[r] -= float64(n) * p.Items[i].Demand[r]
			}
		}
		best = min(best, s.Cost+bruteBuy(p, left, 0))
	}
	return best
}

// bruteBuy tries 0 to 8 units of each purchase: no server has more places.
func bruteBuy(p pack.Problem, left []float64, from int) float64 {
	if from == len(p.Purchases) {
		for _, x := range left {
			if x < -1e-7 {
				return math.Inf(1)
			}
		}
		return 0
	}
	best := math.Inf(1)
	buy := p.Purchases[from]
	after := slices.Clone(left)
	for n := range 9 {
		best = min(best, float64(n)*buy.Cost+bruteBuy(p, after, from+1))
		for r, x := range buy.Change {
			after[r] += x
		}
	}
	return best
}

// small draws a problem that brute can enumerate.
func small(seed uint64) pack.Problem {
	r := rand.New(rand.NewPCG(seed, 0))
	for {
		p := packtest.Random(r, 4, 7)
		states := 1
		for _, it := range p.Items {
			states *= it.Count + 1
		}
		if states <= 400 {
			return p
		}
	}
}

func TestCostEqualsBruteForce(t *testing.T) {
	unfit := 0
	for seed := range uint64(620) {
		p := small(seed)
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
	if unfit > 120 {
		t.Errorf("%d of 620 fit no server: fewer than 500 were compared", unfit)
	}
}

// TestGapIsNoMoreThanClaimed asks for less than the optimum: what is claimed
// to be proven must hold all the same.
func TestGapIsNoMoreThanClaimed(t *testing.T) {
	for seed := range uint64(300) {
		p := small(seed)
		got, err := pack.Solve(p, pack.Options{Gap: 0.05})
		if err != nil {
			continue // fits no server, see above
		}
		if want := brute(p); got.LowerBound > want+1e-6 || got.Gap > 0.05 {
			t.Errorf("seed %d: cost %v, claimed to be above %v by %v at most; brute force %v", seed, got.Cost, got.LowerBound, got.Gap, want)
		}
	}
}
