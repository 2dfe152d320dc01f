package pack

import (
	"fmt"
	"math"
	"slices"
)

// pricingBudget bounds one search for a filling, in steps. It is far beyond
// what a server's worth of items takes; a search that uses it up still bounds.
const pricingBudget = 2_000_000

// A master is the linear program over fillings of one problem, with the
// fillings found so far. It is shared by all nodes of the tree.
type master struct {
	shapes  []*shape
	need    []int // by item of the problem
	penalty float64
	scale   float64 // the dearest bare server: the measure of reduced costs
	cols    []column
	known   map[string]bool
	stop    func() bool
}

// A relaxation is an optimum of the master program at a node.
type relaxation struct {
	bound  float64   // no solution of the node costs less
	x      []float64 // by column of the master
	idle   []float64 // by rule: servers or purchases that are paid for and stand idle
	broken float64   // by how much rows are broken that must not be
}

func newMaster(p *Problem, stop func() bool) (*master, error) {
	ss, err := shapes(p)
	if err != nil {
		return nil, err
	}
	m := &master{shapes: ss, known: map[string]bool{}, stop: stop}
	for _, it := range p.Items {
		m.need = append(m.need, it.Count)
	}
	for _, s := range ss {
		m.scale = max(m.scale, s.cost)
	}
	return m, nil
}

// learn adds a column unless it is known.
func (m *master) learn(shape int, v []int) bool {
	key := fmt.Sprint(shape, v)
	if m.known[key] {
		return false
	}
	m.known[key] = true
	m.cols = append(m.cols, column{shape, slices.Clone(v), m.shapes[shape].costOf(v)})
	return true
}

// seed learns, for every shape and item, the server full of that item alone.
func (m *master) seed() {
	for k, s := range m.shapes {
		for c := range s.items {
			v := make([]int, s.len())
			for n := s.most[c]; n > 0; n-- {
				if v[c] = n; s.furnish(v) {
					m.learn(k, v)
					break
				}
			}
		}
	}
}

// relax solves the linear program of a node by column generation: rules hold,
// and done has been decided already. Each round prices out all shapes.
func (m *master) relax(rules []rule, done []load) relaxation {
	need, lp := m.program(rules, done)
	built := 0
	for {
		for ; built < len(m.cols); built++ {
			lp.add(m.cols[built].cost, m.row(m.cols[built], rules))
		}
		lp.minimise()
		excess := m.price(lp.dual, rules, need)
		if len(m.cols) > built && !m.stop() {
			continue
		}
		rel := relaxation{bound: costOf(done) + lp.objective() - excess*m.servers(need), x: lp.values()}
		short := lp.short()
		for r, y := range short {
			if lp.penalty[r] == m.penalty {
				rel.broken += y
			}
		}
		rel.idle = short[len(need):]
		return rel
	}
}

// servers is the most servers that a solution for need may use.
func (m *master) servers(need []int) float64 {
	n := 0.0
	for _, k := range need {
		n += float64(k)
	}
	return n
}

// program sets up the rows of a node: items to cover, then rules, the latter
// turned into covering rows.
func (m *master) program(rules []rule, done []load) ([]int, *simplex) {
	need := slices.Clone(m.need)
	var right, penalty []float64
	for i := range need {
		for _, l := range done {
			need[i] -= m.shapes[l.shape].count(l.v, i) * l.times
		}
		need[i] = max(0, need[i])
		right = append(right, float64(need[i]))
		penalty = append(penalty, m.penalty)
	}
	for _, r := range rules {
		k := float64(r.k)
		for _, l := range done {
			k -= r.of(m.shapes[l.shape], l.column) * float64(l.times)
		}
		right = append(right, r.sign()*k)
		penalty = append(penalty, r.penalty(m.penalty))
	}
	return need, newSimplex(right, penalty)
}

// row gives the coefficients of a column.
func (m *master) row(c column, rules []rule) []float64 {
	s := m.shapes[c.shape]
	out := make([]float64, len(m.need), len(m.need)+len(rules))
	for k, i := range s.items {
		out[i] = float64(c.v[k])
	}
	for _, r := range rules {
		out = append(out, r.sign()*r.of(s, c))
	}
	return out
}

// price looks for fillings that would improve the linear program at these
// duals, learns them, and bounds by how much any filling would improve it.
func (m *master) price(dual []float64, rules []rule, need []int) float64 {
	excess := 0.0
	for k, s := range m.shapes {
		eps := 1e-9 * (1 + m.scale)
		f := m.search(k, s, dual, rules, need)
		f.floor += eps
		f.budget = pricingBudget
		worth := f.run()
		excess = max(excess, worth-(f.floor-eps))
		for _, v := range f.finds[max(0, len(f.finds)-3):] {
			m.learn(k, v)
		}
	}
	return excess
}

func (m *master) search(k int, s *shape, dual []float64, rules []rule, need []int) *search {
	f := &search{shape: s, worth: make([]float64, s.len()), most: slices.Clone(s.most), floor: s.cost}
	for c, i := range s.items {
		f.worth[c] = dual[i]
		f.most[c] = min(f.most[c], need[i])
	}
	for c := len(s.items); c < s.len(); c++ {
		f.worth[c] = -s.price[c]
	}
	for j, r := range rules {
		if d := r.sign() * dual[len(need)+j]; math.Abs(d) > 0 {
			r.reward(f, k, d)
		}
	}
	return f
}
