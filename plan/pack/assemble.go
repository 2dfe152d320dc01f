package pack

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Content is what is in a server: the places of the server type, and of items
// and purchases how many, in the order of the problem.
type Content struct {
	Server int
	Count  int
	Items  []int
	Bought []int
}

// Assemble makes a solution of the contents of servers, whoever chose them,
// given the cost that it is proven no solution is below. It checks that every
// item is hosted and no resource exceeded.
func (p Problem) Assemble(contents []Content, bound float64) (Solution, error) {
	var s Solution
	left := make([]int, len(p.Items))
	for i, it := range p.Items {
		left[i] = it.Count
	}
	for _, c := range contents {
		f, err := p.fill(c)
		if err != nil {
			return Solution{}, err
		}
		for i, n := range c.Items {
			left[i] -= n * c.Count
		}
		s.Cost += f.Cost * float64(c.Count)
		s.add(f)
	}
	for i, n := range left {
		if n != 0 {
			return Solution{}, fmt.Errorf("pack: of %d %s, %d are hosted", p.Items[i].Count, p.Items[i].Name, p.Items[i].Count-n)
		}
	}
	s.finish(bound)
	return s, nil
}

// add counts a filling, once if it is there already.
func (s *Solution) add(f Filling) {
	same := func(g Filling) bool {
		return g.Server == f.Server && slices.Equal(g.Items, f.Items) && slices.Equal(g.Bought, f.Bought)
	}
	if k := slices.IndexFunc(s.Fillings, same); k >= 0 {
		s.Fillings[k].Count += f.Count
		return
	}
	s.Fillings = append(s.Fillings, f)
}

// finish orders the fillings and states the gap. A gap of a part in a thousand
// million is one of floating point numbers.
func (s *Solution) finish(bound float64) {
	slices.SortStableFunc(s.Fillings, func(a, b Filling) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), -slices.Compare(a.Items, b.Items), slices.Compare(a.Bought, b.Bought))
	})
	s.LowerBound = bound
	if s.Cost-bound <= 1e-9*s.Cost {
		s.LowerBound = s.Cost
	}
	if s.Cost > 0 {
		s.Gap = (s.Cost - s.LowerBound) / s.Cost
	}
	s.Optimal = s.Gap == 0
}

// fill works out one server, and checks that no resource is exceeded.
func (p *Problem) fill(c Content) (Filling, error) {
	server := p.Servers[c.Server]
	f := Filling{Server: server.Name, Count: c.Count, Cost: server.Cost, Items: c.Items, Bought: c.Bought,
		Used: make([]float64, len(p.Resources)), Capacity: slices.Clone(server.Capacity)}
	for i, n := range c.Items {
		f.Cost += float64(n) * p.Items[i].Cost
		for r, d := range p.Items[i].Demand {
			f.Used[r] += float64(n) * d
		}
	}
	for b, n := range c.Bought {
		f.Cost += float64(n) * p.Purchases[b].Cost
		for r, x := range p.Purchases[b].Change {
			f.Capacity[r] += float64(n) * x
		}
	}
	for r, used := range f.Used {
		if size := max(used, math.Abs(server.Capacity[r])); used > f.Capacity[r]+1e-6*size {
			return f, fmt.Errorf("pack: %v of %s is used on a %s that has %v", used, p.Resources[r], server.Name, f.Capacity[r])
		}
	}
	f.Bottleneck = p.bottleneck(f, server.Capacity)
	return f, nil
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
