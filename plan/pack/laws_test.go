package pack_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gleaner/plan/pack"
	"gleaner/plan/pack/packtest"
)

// draw returns a problem that has a solution, and the cheapest one.
func draw(t *rapid.T) (pack.Problem, pack.Solution) {
	p := packtest.Random(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2)), 2, 3)
	s, err := pack.Solve(p, pack.Options{NodeLimit: 40})
	if err != nil {
		t.Skip(err)
	}
	return p, s
}

// needs nothing but the bounds: they hold whether or not the search ended.
func notDearer(t *rapid.T, less, more pack.Solution) {
	if less.LowerBound > more.Cost+1e-6 {
		t.Fatalf("costs at least %v, but %v was to be no cheaper", less.LowerBound, more.Cost)
	}
}

func TestTwiceTheLoadIsNoCheaper(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, once := draw(t)
		p.Loads = slices.Clone(p.Loads)
		for i := range p.Loads {
			p.Loads[i].Amount *= 2
		}
		twice, err := pack.Solve(p, pack.Options{NodeLimit: 50})
		if err != nil {
			t.Fatal(err)
		}
		notDearer(t, once, twice)
		if twice.LowerBound > 2*once.Cost+1e-6 {
			t.Fatalf("twice costs at least %v, but buying %v twice does it", twice.LowerBound, once.Cost)
		}
	})
}

func TestAnotherServerTypeIsNoDearer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, with := draw(t)
		p.Servers = p.Servers[:len(p.Servers)-1]
		if without, err := pack.Solve(p, pack.Options{}); err == nil {
			notDearer(t, with, without)
		}
	})
}

func TestOneMoreOptionIsNoDearer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, with := draw(t)
		if len(p.Choices) == 0 {
			t.Skip("no choices")
		}
		p.Choices = slices.Clone(p.Choices)
		p.Choices[0].Options = p.Choices[0].Options[:1]
		p.Loads = slices.Clone(p.Loads)
		p.Loads[p.Choices[0].Options[0].Loads[0]+1].Amount = 0 // the other one is of no option now
		if without, err := pack.Solve(p, pack.Options{NodeLimit: 40}); err == nil {
			notDearer(t, with, without)
		}
	})
}

func TestPricesScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, once := draw(t)
		p.Servers, p.Purchases = slices.Clone(p.Servers), slices.Clone(p.Purchases)
		for k := range p.Servers {
			p.Servers[k].Cost *= 3
		}
		for k := range p.Purchases {
			p.Purchases[k].Cost *= 3
		}
		thrice, err := pack.Solve(p, pack.Options{NodeLimit: 40})
		if err != nil {
			t.Fatal(err)
		}
		if thrice.LowerBound > 3*once.Cost+1e-6 || 3*once.LowerBound > thrice.Cost+1e-6 {
			t.Fatalf("%v to %v became %v to %v", once.LowerBound, once.Cost, thrice.LowerBound, thrice.Cost)
		}
	})
}

// TestOrderDoesNotMatter puts everything into another order.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, before := draw(t)
		q := pack.Problem{Servers: slices.Clone(p.Servers), Loads: slices.Clone(p.Loads), Purchases: slices.Clone(p.Purchases)}
		slices.Reverse(q.Servers)
		slices.Reverse(q.Loads)
		for _, c := range p.Choices {
			mirrored := pack.Choice{Name: c.Name}
			for _, o := range c.Options {
				mirrored.Options = append(mirrored.Options, pack.Option{Loads: []int{len(p.Loads) - 1 - o.Loads[0]}})
			}
			q.Choices = append(q.Choices, mirrored)
		}
		slices.Reverse(q.Purchases)
		turn := rapid.Permutation(indices(len(p.Resources))).Draw(t, "resources")
		shuffle := func(v []float64) []float64 {
			out := make([]float64, len(v))
			for k, r := range turn {
				out[k] = v[r]
			}
			return out
		}
		for _, r := range turn {
			q.Resources = append(q.Resources, p.Resources[r])
		}
		for k := range q.Servers {
			q.Servers[k].Capacity = shuffle(q.Servers[k].Capacity)
		}
		for k := range q.Loads {
			q.Loads[k].Demand = shuffle(q.Loads[k].Demand)
		}
		for k := range q.Purchases {
			q.Purchases[k].Change = shuffle(q.Purchases[k].Change)
		}
		after, err := pack.Solve(q, pack.Options{NodeLimit: 200})
		if err != nil {
			t.Fatal(err)
		}
		if before.Optimal && after.Optimal && math.Abs(before.Cost-after.Cost) > 1e-6 {
			t.Fatalf("%v became %v", before.Cost, after.Cost)
		}
		notDearer(t, before, after)
		notDearer(t, after, before)
	})
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func TestSameProblemSameSolution(t *testing.T) {
	p := packtest.Datacenter(0.08, packtest.Mixed)
	first, err := pack.Solve(p, pack.Options{NodeLimit: 20})
	if err != nil {
		t.Fatal(err)
	}
	again, err := pack.Solve(p, pack.Options{NodeLimit: 20})
	if err != nil || !reflect.DeepEqual(first, again) {
		t.Errorf("%+v became %+v, error %v", first, again, err)
	}
}

// TestStoppedEarly asks for less than a proof, in each of the three ways.
func TestStoppedEarly(t *testing.T) {
	p := packtest.Datacenter(0.2, packtest.Mixed)
	best, err := pack.Solve(p, pack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	polls := 0
	for name, o := range map[string]pack.Options{
		"gap":       {Gap: 0.1},
		"nodes":     {NodeLimit: 1},
		"interrupt": {Interrupt: func() bool { polls++; return polls > 3 }},
		"at once":   {Interrupt: func() bool { return true }},
	} {
		s, err := pack.Solve(p, o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s.LowerBound > best.Cost+1e-6 || s.Cost < best.LowerBound-1e-6 || s.Gap < 0 || s.Gap > 1 {
			t.Errorf("%s: cost %v, bound %v, gap %v; the best is between %v and %v", name, s.Cost, s.LowerBound, s.Gap, best.LowerBound, best.Cost)
		}
		if name == "gap" && s.Gap > 0.1 {
			t.Errorf("asked for a gap of 0.1, got %v", s.Gap)
		}
	}
}

// FuzzSolve looks for problems that break the solver: it checks its own solutions, so
// that a failure is a panic, an endless search or an error.
func FuzzSolve(f *testing.F) {
	f.Add(uint64(1), 3, 5, 0.0)
	f.Add(uint64(7), 5, 40, 0.37)
	f.Fuzz(func(t *testing.T, seed uint64, kinds, count int, odd float64) {
		r := rand.New(rand.NewPCG(seed, 3))
		p := packtest.Random(r, 1+abs(kinds)%4, float64(1+abs(count)%60))
		if odd > -1e6 && odd < 1e6 { // demands and prices that are no quarters
			for i := range p.Loads {
				p.Loads[i].Demand[r.IntN(len(p.Resources))] += math.Abs(odd)
			}
			p.Servers[0].Cost += math.Abs(odd)
			p.Purchases[0].Change[r.IntN(len(p.Resources))] += odd
		}
		s, err := pack.Solve(p, pack.Options{NodeLimit: 20})
		if err == nil && (s.Cost < s.LowerBound || s.Gap < 0 || math.IsNaN(s.Gap)) {
			t.Errorf("cost %v, bound %v, gap %v", s.Cost, s.LowerBound, s.Gap)
		}
		if err == nil && s.Servers() == 0 {
			t.Error("no servers")
		}
	})
}

func abs(n int) int { return max(n, -(n + 1)) }

// TestWideOptions makes one option of a choice many orders of magnitude larger
// than all others: the solver must still find the others.
func TestWideOptions(t *testing.T) {
	compared := 0
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 5))
		p := packtest.Random(r, 3, 3)
		if len(p.Choices) == 0 {
			continue
		}
		huge := p.Choices[0].Options[0].Loads[0]
		p.Loads[huge].Amount *= math.Pow(10, 4+6*r.Float64())
		got, err := pack.Solve(p, pack.Options{NodeLimit: 100})
		q := p
		q.Choices = slices.Clone(p.Choices)
		q.Choices[0].Options = q.Choices[0].Options[1:]
		q.Loads = slices.Clone(p.Loads)
		q.Loads[huge].Amount = 0 // of no option now
		other, without := pack.Solve(q, pack.Options{NodeLimit: 100})
		if without != nil {
			continue
		}
		compared++
		if err != nil || got.LowerBound > other.Cost*(1+1e-9) {
			t.Errorf("seed %d: %v claimed to be no cheaper than %v, error %v; without the huge option it costs %v", seed, got.Cost, got.LowerBound, err, other.Cost)
		}
	}
	if compared < 30 {
		t.Errorf("only %d were compared", compared)
	}
}
