package pack

import (
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
	var contents []Content
	bound, nodes, columns := p.itemCost(), 0, 0
	for _, part := range p.Parts() {
		t, err := newTree(&part, o)
		if err != nil {
			return Solution{}, err
		}
		bound += t.grow()
		nodes += t.nodes
		columns += len(t.cols)
		contents = append(contents, t.contents()...)
	}
	out, err := p.Assemble(contents, bound)
	out.Nodes, out.Columns = nodes, columns
	return out, err
}

// itemCost is what the items cost wherever they are hosted.
func (p *Problem) itemCost() float64 {
	sum := 0.0
	for _, it := range p.Items {
		sum += it.Cost * float64(it.Count)
	}
	return sum
}

// Parts are problems that have nothing to do with each other: where every item
// has a group, each group is on servers of its own. Items keep their places;
// those of other parts are wanted no times.
func (p Problem) Parts() []Problem {
	if slices.ContainsFunc(p.Items, func(it Item) bool { return it.Group == "" && it.Count > 0 }) {
		return []Problem{p}
	}
	var out []Problem
	for _, g := range groupsOf(&p) {
		part := p
		part.Items = slices.Clone(p.Items)
		for i := range part.Items {
			if part.Items[i].Group != g {
				part.Items[i].Count = 0
			}
		}
		out = append(out, part)
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

// contents tells the best solution in the terms of the problem.
func (t *tree) contents() []Content {
	var out []Content
	for _, l := range t.best {
		s := t.shapes[l.shape]
		c := Content{Server: s.server, Count: l.times, Items: s.counts(l.v, len(t.p.Items)), Bought: make([]int, len(t.p.Purchases))}
		for k, b := range s.buys {
			c.Bought[b] = l.v[len(s.items)+k]
		}
		out = append(out, c)
	}
	return out
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
	have := slices.Clone(s.room[:len(need)])
	for c := len(s.items); c < s.len(); c++ {
		n := 0.0
		for r := range need {
			if u := s.use[c][r]; u < 0 {
				n = max(n, math.Ceil((need[r]-have[r]-s.tol[r])/-u))
			}
		}
		for r := range need {
			if u := s.use[c][r]; u < 0 {
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
