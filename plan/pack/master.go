package pack

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// Budgets of a search for a filling, in boxes: to find one that improves, of
// which any will do after a while; and to prove that there is none. Where a
// node can be parted instead the latter begins lower and learns from success.
const (
	findBudget  = 300
	findHaste   = 30
	leastBudget = 3_000
	firstBudget = 25_000
	proveBudget = 100_000
)

// A master is the linear program over fillings of one problem, with the
// fillings found so far. It is shared by all nodes of the tree.
type master struct {
	shapes   []*shape
	need     []int // by item of the problem
	penalty  float64
	scale    float64 // the dearest bare server: the measure of reduced costs
	cheapest float64 // bare server
	most     float64 // no solution of interest has more servers
	cols     []column
	known    map[string]bool
	work     int // boxes looked into
	stop     func() bool
}

// A relaxation is an optimum of the master program at a node.
type relaxation struct {
	cost   float64   // with the fillings found
	bound  float64   // no solution of the node costs less
	x      []float64 // by column of the master
	idle   []float64 // by rule: servers or purchases that are paid for and stand idle
	broken float64   // by how much rows are broken that must not be
	tried  bool      // whether a proof was tried
}

func newMaster(p *Problem, stop func() bool) (*master, error) {
	ss, err := shapes(p)
	if err != nil {
		return nil, err
	}
	m := &master{shapes: ss, known: map[string]bool{}, cheapest: math.Inf(1), most: math.Inf(1), stop: stop}
	for _, it := range p.Items {
		m.need = append(m.need, it.Count)
	}
	for _, s := range ss {
		m.scale = max(m.scale, s.cost)
		m.cheapest = min(m.cheapest, s.cost)
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
			full := sort.Search(s.most[c], func(n int) bool { // one more does not fit
				v[c] = n + 1
				return !s.furnish(v)
			})
			if v[c] = full; full > 0 && s.furnish(v) {
				m.learn(k, v)
			}
		}
	}
}

// relax solves the linear program of a node by column generation: rules hold,
// and done has been decided already. Fillings are searched for in haste until
// none is found. That there is none is proved only when the cost has come down
// no further than the goal, and only as far as it takes to have a bound at the
// goal: a node below is parted all the same.
func (m *master) relax(rules []rule, done []load, goal float64, budget int) relaxation {
	need, lp := m.program(rules, done)
	spent := costOf(done)
	loss := m.eps() * m.servers(need)
	var rel relaxation
	for built := 0; ; {
		for ; built < len(m.cols); built++ {
			lp.add(m.cols[built].cost, m.row(m.cols[built], rules))
		}
		lp.minimise()
		rel.cost = spent + lp.objective()
		rel.bound = spent + m.prove(lp, 1, rules, need, findBudget)
		if len(m.cols) > built && !m.stop() {
			continue
		}
		if rel.bound >= goal || rel.cost < goal+loss {
			break
		}
		shrink := (rel.cost - spent) / (goal + loss - spent)
		rel.bound = max(rel.bound, spent+m.prove(lp, shrink, rules, need, budget))
		if len(m.cols) == built || m.stop() {
			rel.tried = true
			break
		}
	}
	rel.x = lp.values()
	lacking := lp.lacking()
	for r, y := range lacking {
		if lp.short[r] == m.penalty {
			rel.broken += y
		}
	}
	rel.idle = lacking[len(need):]
	return rel
}

// estimate is the cost of the linear program over the fillings known.
func (m *master) estimate(rules []rule) float64 {
	_, lp := m.program(rules, nil)
	for _, c := range m.cols {
		lp.add(c.cost, m.row(c, rules))
	}
	lp.minimise()
	return lp.objective()
}

// eps is the gain below which a filling does not improve.
func (m *master) eps() float64 { return 1e-9 * (1 + m.scale) }

// servers is the most servers that a solution for need may use.
func (m *master) servers(need []int) float64 {
	n := 0.0
	for _, k := range need {
		n += float64(k)
	}
	return min(n, m.most)
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
	return need, newSimplex(right, penalty, make([]float64, len(right)))
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

// prove gives a lower bound of the linear program over all fillings, known or
// not: its duals, shrunk, price what is to be covered, and no filling is worth
// much more than it costs at them. Fillings that are, it learns. The bound
// holds for any duals, even if rounding errors led the simplex astray.
func (m *master) prove(lp *simplex, shrink float64, rules []rule, need []int, budget int) float64 {
	dual, bound := make([]float64, lp.m), 0.0
	for r, d := range lp.dual {
		dual[r] = min(max(0, d), lp.short[r]) / shrink
		bound += dual[r] * lp.right[r]
	}
	excess := 0.0
	for k, s := range m.shapes {
		f := m.search(k, s, dual, rules, need)
		cost := f.floor
		f.floor += m.eps()
		f.budget, f.haste, f.stop = budget, budget-findHaste, m.stop
		excess = max(excess, f.run()-cost)
		m.work += budget - max(0, f.budget)
		for _, v := range f.finds[max(0, len(f.finds)-3):] {
			m.learn(k, v)
		}
	}
	return bound - excess*m.servers(need)
}

func (m *master) search(k int, s *shape, dual []float64, rules []rule, need []int) *search {
	f := &search{shape: s, worth: make([]float64, s.len()), lo: make([]int, s.len()), hi: slices.Clone(s.most), floor: s.cost}
	for c, i := range s.items {
		f.worth[c] = dual[i]
		f.hi[c] = min(f.hi[c], need[i])
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
