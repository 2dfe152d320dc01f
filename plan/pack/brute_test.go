package pack

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// brute is the dumb twin of Solve: it tries every content of a server with
// every number of purchases, and every way to part the items into contents.
func brute(p Problem) float64 {
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

func bruteHost(p Problem, v []int) float64 {
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
func bruteBuy(p Problem, left []float64, from int) float64 {
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

// small draws a problem that brute can enumerate: cores and memory are bought
// into sockets and slots, a storage system may need its share once a server.
func small(r *rand.Rand) Problem {
	p := Problem{Resources: []string{"slots", "bus", "net", "cores", "sockets", "memory", "dimms", "host"}}
	q := func(lo, hi int) float64 { return float64(4*lo+r.IntN(4*(hi-lo)+1)) / 4 }
	for k := range 1 + r.IntN(3) {
		p.Servers = append(p.Servers, Server{Name: string(rune('S' + k)), Cost: float64(100 * (1 + r.IntN(20))),
			Capacity: []float64{float64(1 + r.IntN(6)), q(2, 8), q(2, 8), 0, float64(1 + r.IntN(6)), -q(0, 1), float64(1 + r.IntN(8)), 0}})
	}
	p.Purchases = []Purchase{
		{"cpu", float64(50 + r.IntN(200)), []float64{0, 0, 0, 1, -1, 0, 0, 0}},
		{"dimm", float64(10 + r.IntN(90)), []float64{0, 0, 0, 0, 0, 1, -1, 0}},
	}
	if r.IntN(2) == 0 {
		p.Purchases = append(p.Purchases, Purchase{"system", 0, []float64{0, 0, 0, -0.25, 0, -1, 0, 1000}})
	}
	if r.IntN(3) == 0 {
		p.Purchases = append(p.Purchases, Purchase{"big cpu", float64(100 + r.IntN(300)), []float64{0, 0, -0.5, 2, -1, 0, 0, 0}})
	}
	groups := [][]string{{""}, {"a", "b"}, {"", "a", "b"}}[r.IntN(3)]
	states := 1
	for i := range 1 + r.IntN(4) {
		it := Item{Name: string(rune('a' + i)), Count: 1 + r.IntN(7), Cost: float64(r.IntN(100)), Group: groups[r.IntN(len(groups))]}
		if states*(it.Count+1) > 400 {
			break
		}
		states *= it.Count + 1
		it.Demand = []float64{float64(r.IntN(3)), q(0, 2), q(0, 2), q(0, 2), 0, q(0, 2), 0, 0}
		if len(p.Purchases) > 2 && p.Purchases[2].Name == "system" && r.IntN(2) == 0 {
			it.Demand[7] = 1
		}
		p.Items = append(p.Items, it)
	}
	return p
}

func TestCostEqualsBruteForce(t *testing.T) {
	unfit := 0
	for seed := range uint64(500) {
		p := small(rand.New(rand.NewPCG(seed, 0)))
		want := brute(p)
		got, err := Solve(p, Options{})
		if math.IsInf(want, 1) {
			unfit++
			if err == nil {
				t.Errorf("seed %d: cost %v, but it cannot be hosted", seed, got.Cost)
			}
			continue
		}
		if err != nil {
			t.Errorf("seed %d: %v; brute force hosts it for %v", seed, err, want)
			continue
		}
		if math.Abs(got.Cost-want) > 1e-6 || !got.Optimal || math.Abs(got.LowerBound-want) > 1e-6 {
			t.Errorf("seed %d: cost %v, bound %v, optimal %v; brute force %v, nodes %d", seed, got.Cost, got.LowerBound, got.Optimal, want, got.Nodes)
		}
	}
	t.Logf("%d of 500 fit no server", unfit)
}
