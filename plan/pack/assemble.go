package pack

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Content is what is in a server: the index of the server type, and how much of each
// load and purchase, in the order of the problem.
type Content struct {
	Server int
	Count  int
	Loads  []float64
	Bought []int
}

// exact is the relative error allowed in the hosted amount of a load and in the use
// of a resource: solvers compute in floating point.
const exact = 1e-6

// Assemble makes a solution of the contents of servers, from any solver, the option
// that each choice takes, and a proven lower bound of the cost. It checks that every
// load is hosted, no resource exceeded and every limit kept.
func (p Problem) Assemble(contents []Content, taken []int, bound float64) (Solution, error) {
	s := Solution{Taken: taken}
	wanted := p.wanted(taken)
	for i, l := range p.Loads {
		hosted := 0.0
		for _, c := range contents {
			hosted += c.Loads[i] * float64(c.Count)
		}
		if wanted[i] && hosted < l.Amount*(1-exact) {
			return Solution{}, fmt.Errorf("pack: of %v %s, %v is hosted", l.Amount, l.Name, hosted)
		}
		scale := 0.0 // relative to the amount
		if wanted[i] && hosted > 0 {
			scale = l.Amount / hosted
		}
		if wanted[i] && scale < 1 && l.serves() {
			scale = 1 // what it gives may be needed
		}
		for k, c := range contents {
			contents[k].Loads = slices.Clone(c.Loads)
			contents[k].Loads[i] *= scale
		}
	}
	for _, c := range contents {
		f, err := p.fill(c)
		if err != nil {
			return Solution{}, err
		}
		s.Cost += f.Cost * float64(c.Count)
		s.add(f)
	}
	for _, l := range p.Limits {
		sum := 0.0
		for _, c := range contents {
			sum += float64(c.Count) * l.of(c.Server, c.Bought)
		}
		if !l.kept(sum) {
			return Solution{}, fmt.Errorf("pack: %s is %v, and the limit %v", l.Name, sum, l.Bound)
		}
	}
	s.finish(bound)
	return s, nil
}

// wanted says which loads are hosted if these options are taken.
func (p *Problem) wanted(taken []int) []bool {
	out := p.optional()
	for i := range out {
		out[i] = !out[i]
	}
	for k, c := range p.Choices {
		for _, i := range c.Options[taken[k]].Loads {
			out[i] = true
		}
	}
	return out
}

// add adds a filling, or increments its count if it is there already.
func (s *Solution) add(f Filling) {
	same := func(g Filling) bool {
		return g.Server == f.Server && slices.Equal(g.Loads, f.Loads) && slices.Equal(g.Bought, f.Bought)
	}
	if k := slices.IndexFunc(s.Fillings, same); k >= 0 {
		s.Fillings[k].Count += f.Count
		return
	}
	s.Fillings = append(s.Fillings, f)
}

// finish orders the fillings and computes the gap. A gap of 1e-9 or less is a
// floating-point error.
func (s *Solution) finish(bound float64) {
	slices.SortStableFunc(s.Fillings, func(a, b Filling) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), -slices.Compare(a.Loads, b.Loads), slices.Compare(a.Bought, b.Bought))
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

// fill computes the filling of one server, and checks that no resource is exceeded.
func (p *Problem) fill(c Content) (Filling, error) {
	server := p.Servers[c.Server]
	f := Filling{Server: server.Name, Count: c.Count, Cost: server.Cost, Loads: c.Loads, Bought: c.Bought,
		Used: make([]float64, len(p.Resources)), Capacity: slices.Clone(server.Capacity)}
	for i, y := range c.Loads {
		axpy(y, p.Loads[i].Demand, f.Used)
	}
	for b, n := range c.Bought {
		f.Cost += float64(n) * p.Purchases[b].Cost
		for r, x := range p.Purchases[b].Change {
			f.Capacity[r] += float64(n) * x
		}
	}
	for r, used := range f.Used {
		if size := max(used, math.Abs(server.Capacity[r]), p.largest(r)); used > f.Capacity[r]+exact*size {
			return f, fmt.Errorf("pack: %v of %s is used on a %s that has %v", used, p.Resources[r], server.Name, f.Capacity[r])
		}
	}
	f.Bottleneck = p.bottleneck(f, server.Capacity)
	return f, nil
}

// largest is the most that one of anything takes or gives of a resource.
func (p *Problem) largest(r int) float64 {
	most := 0.0
	for _, l := range p.Loads {
		most = max(most, math.Abs(l.Demand[r]))
	}
	for _, u := range p.Purchases {
		most = max(most, math.Abs(u.Change[r]))
	}
	return most
}

// bottleneck names the resource whose used part is the largest, by loads or by
// purchases.
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
