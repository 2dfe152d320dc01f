package pack_test

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gleaner/plan/pack"
	"gleaner/plan/pack/packtest"
)

// A part is a filled server in bruteLimited: what it holds of the only load, its cost, and
// what it counts in each limit.
type part struct {
	holds, cost float64
	counts      []float64
}

// bruteLimited is the dumb twin of Solve for problems of one load with limits. It tries
// servers in every combination, those that hold nothing too.
func bruteLimited(p pack.Problem, load int) float64 {
	var parts []part
	for k, s := range p.Servers {
		counts := make([]float64, len(p.Limits))
		for i, l := range p.Limits {
			counts[i] = l.Servers[k]
		}
		parts = append(parts, bruteParts(p, load, s.Capacity, 0, part{cost: s.Cost, counts: counts})...)
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.cost*b.holds, b.cost*a.holds) }) // good ones first
	best, amount := math.Inf(1), p.Loads[load].Amount
	var add func(from, servers int, left, cost float64, counts []float64)
	add = func(from, servers int, left, cost float64, counts []float64) {
		if cost >= best {
			return
		}
		done := left <= 1e-9
		for i, l := range p.Limits {
			if !l.Least && counts[i] > l.Bound+1e-9 {
				return
			}
			done = done && !(l.Least && counts[i] < l.Bound-1e-9)
		}
		if done {
			best = cost
			return
		}
		for k := from; k < len(parts); k++ {
			if parts[k].holds <= 0 && servers >= packtest.MostLeast {
				continue // no limit asks for more
			}
			next := slices.Clone(counts)
			for i, x := range parts[k].counts {
				next[i] += x
			}
			add(k, servers+1, left-parts[k].holds, cost+parts[k].cost, next)
		}
	}
	add(0, 0, amount, 0, make([]float64, len(p.Limits)))
	return best
}

// bruteParts tries 0 to 4 units of each purchase, and leaves out what is worse in all.
func bruteParts(p pack.Problem, load int, room []float64, from int, at part) []part {
	if from == len(p.Purchases) {
		at.holds = p.Loads[load].Amount
		for r, x := range room {
			if x < -1e-9 {
				return nil
			}
			if d := p.Loads[load].Demand[r]; d > 0 {
				at.holds = min(at.holds, x/d)
			}
		}
		return []part{at}
	}
	var out []part
	for n := range 5 {
		after, next := slices.Clone(room), at
		next.cost += float64(n) * p.Purchases[from].Cost
		next.counts = slices.Clone(at.counts)
		for r, x := range p.Purchases[from].Change {
			after[r] += float64(n) * x
		}
		for i, l := range p.Limits {
			next.counts[i] += float64(n) * l.Purchases[from]
		}
		for _, q := range bruteParts(p, load, after, from+1, next) {
			worse := func(a, b part) bool {
				for i := range a.counts {
					if a.counts[i] < b.counts[i] {
						return false
					}
				}
				return a.holds <= b.holds && a.cost >= b.cost
			}
			if !slices.ContainsFunc(out, func(o part) bool { return worse(q, o) }) {
				out = append(slices.DeleteFunc(out, func(o part) bool { return worse(o, q) }), q)
			}
		}
	}
	return out
}

func TestLimitsEqualBruteForce(t *testing.T) {
	compared, refused, unknown := 0, 0, 0
	for seed := range uint64(500) {
		p := single(seed)
		packtest.Limit(rand.New(rand.NewPCG(seed, 5)), &p)
		if len(p.Limits) == 0 {
			continue
		}
		want := math.Inf(1)
		if len(p.Choices) == 0 {
			want = bruteLimited(p, 0)
		} else {
			for _, o := range p.Choices[0].Options {
				want = min(want, bruteLimited(p, o.Loads[0]))
			}
		}
		got, err := pack.Solve(p, pack.Options{})
		var unfit *pack.UnfitError
		switch {
		case errors.Is(err, pack.ErrStopped):
			unknown++
		case math.IsInf(want, 1):
			refused++
			if !errors.As(err, &unfit) {
				t.Errorf("seed %d: cost %v and error %v, but it cannot be hosted", seed, got.Cost, err)
			}
		case err != nil:
			t.Errorf("seed %d: %v; brute force hosts it for %v", seed, err, want)
		case math.Abs(got.Cost-want) > 1e-6 || got.LowerBound > want+1e-6:
			t.Errorf("seed %d: cost %v, bound %v, optimal %v; brute force %v", seed, got.Cost, got.LowerBound, got.Optimal, want)
		case !got.Optimal:
			unknown++
		default:
			compared++
		}
	}
	t.Logf("%d compared, %d refused, %d not proven", compared, refused, unknown)
	if unknown > 10 || compared < 200 || refused < 20 {
		t.Errorf("%d compared, %d refused, %d not proven: too few to tell", compared, refused, unknown)
	}
}

// Where there is nothing to host, a least number of servers is still bought: the cheapest bare ones, with
// what they need for themselves.
func TestNothingToHostOnALeastNumberOfServers(t *testing.T) {
	for _, tc := range []struct {
		name          string
		boot          []float64 // cores of each type
		stock         float64   // of the cheaper type
		number        float64
		cost, servers float64 // +Inf if there is no solution
	}{
		{"the cheaper ones", []float64{0, 0}, 10, 3, 270, 3},
		{"two of them, and another", []float64{0, 0}, 2, 3, 280, 3},
		{"a core of 20 each, or two", []float64{1, 2}, 10, 3, 360, 3},
		{"none", []float64{0, 0}, 10, 0, 0, 0},
		{"more than there are", []float64{0, 7}, 10, 30, math.Inf(1), 0},
	} {
		p := pack.Problem{Resources: []string{"cores", "sockets"},
			Servers:   []pack.Server{{Name: "dear", Cost: 100, Capacity: []float64{-tc.boot[0], 4}}, {Name: "cheap", Cost: 90, Capacity: []float64{-tc.boot[1], 4}}},
			Purchases: []pack.Purchase{{Name: "CPU", Cost: 20, Change: []float64{1, -1}}},
			Limits: []pack.Limit{{Name: "servers", Servers: []float64{1, 1}, Purchases: []float64{0}, Bound: tc.number, Least: true},
				{Name: "cheap", Servers: []float64{0, 1}, Purchases: []float64{0}, Bound: tc.stock},
				{Name: "dear", Servers: []float64{1, 0}, Purchases: []float64{0}, Bound: 10}}}
		got, err := pack.Solve(p, pack.Options{})
		var unfit *pack.UnfitError
		switch none := math.IsInf(tc.cost, 1); {
		case none && !errors.As(err, &unfit):
			t.Errorf("%s: %+v, %v", tc.name, got, err)
		case !none && (err != nil || !got.Optimal || math.Abs(got.Cost-tc.cost) > 1e-9 || float64(got.Servers()) != tc.servers):
			t.Errorf("%s: %d servers for %v (%v), want %v for %v", tc.name, got.Servers(), got.Cost, err, tc.servers, tc.cost)
		}
	}
}
