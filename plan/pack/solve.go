package pack

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Solve hosts every item at least cost. An item that fits no server even
// alone is an *UnfitError; other errors are about a problem that makes no
// sense. A solution found when a limit or an interrupt ends the search is no
// error: its gap says how good it is.
func Solve(p Problem, o Options) (Solution, error) {
	if err := p.check(); err != nil {
		return Solution{}, err
	}
	if o.NodeLimit == 0 {
		o.NodeLimit = DefaultNodes
	}
	var out Solution
	for _, part := range parts(&p) {
		t, err := newTree(part, o)
		if err != nil {
			return Solution{}, err
		}
		bound := t.grow()
		out.Cost += t.cost
		out.LowerBound += bound
		out.Nodes += t.nodes
		out.Columns += len(t.cols)
		out.Fillings = append(out.Fillings, t.fillings()...)
	}
	for _, it := range p.Items {
		out.Cost += it.Cost * float64(it.Count)
		out.LowerBound += it.Cost * float64(it.Count)
	}
	out.finish()
	return out, nil
}

// finish orders the fillings and states the gap.
func (s *Solution) finish() {
	slices.SortStableFunc(s.Fillings, func(a, b Filling) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), -slices.Compare(a.Items, b.Items), slices.Compare(a.Bought, b.Bought))
	})
	if s.Cost-s.LowerBound <= 1e-9*s.Cost {
		s.LowerBound = s.Cost
	}
	if s.Cost > 0 {
		s.Gap = (s.Cost - s.LowerBound) / s.Cost
	}
	s.Optimal = s.Gap == 0
}

// parts are problems that have nothing to do with each other: where every item
// has a group, each group is on servers of its own. Items keep their places.
func parts(p *Problem) []*Problem {
	if slices.ContainsFunc(p.Items, func(it Item) bool { return it.Group == "" && it.Count > 0 }) {
		return []*Problem{p}
	}
	var out []*Problem
	for _, g := range groupsOf(p) {
		part := *p
		part.Items = slices.Clone(p.Items)
		for i := range part.Items {
			if part.Items[i].Group != g {
				part.Items[i].Count = 0
			}
		}
		out = append(out, &part)
	}
	return out
}

func newTree(p *Problem, o Options) (*tree, error) {
	stop := o.Interrupt
	if stop == nil {
		stop = func() bool { return false }
	}
	m, err := newMaster(p, stop)
	if err != nil {
		return nil, err
	}
	for i, it := range p.Items {
		one := make([]int, len(p.Items))
		one[i] = 1
		if _, ok := cheapest(m.shapes, one); !ok && it.Count > 0 {
			return nil, unfit(p, m.shapes, i)
		}
	}
	return &tree{master: m, p: p, opt: o, quantum: quantum(p)}, nil
}

// quantum is the largest amount of money of which all prices are multiples.
func quantum(p *Problem) float64 {
	var prices []float64
	for _, s := range p.Servers {
		prices = append(prices, s.Cost)
	}
	for _, u := range p.Purchases {
		prices = append(prices, u.Cost)
	}
	for scale := 1.0; scale <= 1e4; scale *= 10 {
		whole := 0
		for _, c := range prices {
			n := math.Round(c * scale)
			if math.Abs(c*scale-n) > 1e-6 || n > 1<<40 {
				whole = -1
				break
			}
			whole = gcd(whole, int(n))
		}
		if whole > 0 {
			return float64(whole) / scale
		}
	}
	return 0
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// fillings tells the best solution in the terms of the problem.
func (t *tree) fillings() []Filling {
	var out []Filling
	for _, l := range t.best {
		f := t.filling(l)
		same := func(g Filling) bool {
			return g.Server == f.Server && slices.Equal(g.Items, f.Items) && slices.Equal(g.Bought, f.Bought)
		}
		if k := slices.IndexFunc(out, same); k >= 0 {
			out[k].Count += f.Count
			continue
		}
		out = append(out, f)
	}
	return out
}

func (t *tree) filling(l load) Filling {
	s := t.shapes[l.shape]
	f := Filling{Server: t.p.Servers[s.server].Name, Count: l.times, Cost: l.cost,
		Items: s.counts(l.v, len(t.p.Items)), Bought: make([]int, len(t.p.Purchases)),
		Used: make([]float64, len(s.room)), Capacity: slices.Clone(s.room)}
	for i, n := range f.Items {
		f.Cost += float64(n) * t.p.Items[i].Cost
		for r, d := range t.p.Items[i].Demand {
			f.Used[r] += float64(n) * d
		}
	}
	for c, b := range s.buys {
		n := l.v[len(s.items)+c]
		f.Bought[b] = n
		for r, x := range t.p.Purchases[b].Change {
			f.Capacity[r] += float64(n) * x
		}
	}
	f.Bottleneck = t.p.bottleneck(f, s.room)
	return f
}

// bottleneck names the resource that is used to the largest part, by items or
// by purchases.
func (p *Problem) bottleneck(f Filling, room []float64) string {
	name, most := "", math.Inf(-1)
	for r, used := range f.Used {
		there := f.Capacity[r]
		if taken := room[r] - there; taken > 0 { // purchases took some
			used, there = used+taken, room[r]
		}
		if part := used / there; there > 0 && part > most {
			name, most = p.Resources[r], part
		}
	}
	return name
}

// unfit explains why item i fits nowhere, by the server that comes closest.
func unfit(p *Problem, shapes []*shape, i int) error {
	var best *UnfitError
	for _, s := range shapes {
		e := &UnfitError{Item: p.Items[i].Name, Server: p.Servers[s.server].Name}
		if slices.Contains(s.items, i) && s.short(p, i, e) && (best == nil || e.Need*best.Have < best.Need*e.Have) {
			best = e
		}
	}
	if best == nil {
		return fmt.Errorf("pack: %s has no server to be hosted on", p.Items[i].Name)
	}
	return best
}

// short finds the resource that is shortest when item i is in the server,
// with all purchases that it makes necessary.
func (s *shape) short(p *Problem, i int, e *UnfitError) bool {
	need := slices.Clone(p.Items[i].Demand)
	have := slices.Clone(s.room)
	for c := len(s.items); c < s.len(); c++ {
		n := 0.0
		for r, u := range s.use[c] {
			if u < 0 {
				n = max(n, math.Ceil((need[r]-have[r]-s.tol[r])/-u))
			}
		}
		for r, u := range s.use[c] {
			if u < 0 {
				have[r] -= u * n
			} else {
				need[r] += u * n
			}
		}
	}
	worst := 0.0
	for r := range need {
		over := need[r] - have[r]
		if part := over / math.Max(math.Abs(need[r]), 1e-300); over > s.tol[r] && part > worst {
			worst = part
			e.Resource, e.Need, e.Have = p.Resources[r], need[r], have[r]
		}
	}
	return worst > 0
}
