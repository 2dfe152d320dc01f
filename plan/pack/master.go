package pack

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// Budgets of a search for a filling, in boxes: to find one that improves, after a
// while any of them; and to prove that there is none. If a node can be split instead,
// the latter begins lower and grows with success.
const (
	findBudget  = 300
	findHaste   = 30
	leastBudget = 3_000
	firstBudget = 25_000
	proveBudget = 100_000
)

// Limits of the fillings that a node begins with.
const (
	usefulAtLeast = 100
	usefulByRow   = 10
)

// A column is a filling in the master program.
type column struct {
	shape int
	filling
	cost float64 // server and purchases
}

// A stock is a number of servers filled alike.
type stock struct {
	column
	times int
}

func costOf(stocks []stock) float64 {
	sum := 0.0
	for _, s := range stocks {
		sum += s.cost * float64(s.times)
	}
	return sum
}

// The terms of a node are its rules and the options that are ruled out. Of the
// fillings found before some time it uses only the useful ones.
type terms struct {
	rules  []rule
	banned []bool // by option, counted through all choices
	useful []int  // columns of the master, of those before
	before int
}

// A master is the linear program over fillings of one problem, with the
// fillings found so far. It is shared by all nodes of the tree.
type master struct {
	p        *Problem
	shapes   []*shape
	options  [][]int   // loads of each option, counted through all choices
	first    []int     // option of each choice, and the end
	always   []bool    // by load: hosted with any options
	sign     []float64 // by load: 1 if at least its amount must be hosted, -1 if at most (see serves)
	dear     []float64 // by load: more than the cost of an amount of 1
	fine     float64   // cost of breaking a rule by one, times the penalty
	penalty  float64   // factor on the cost of all violations; it grows if there are any
	scale    float64   // cost of the dearest bare server: the scale of reduced costs
	cheapest float64   // bare server
	stock    []float64 // by shape: how many there can be; infinite if no limit says
	free     float64   // servers in stock that cost nothing
	priced   float64   // the cheapest of the other bare servers
	most     float64   // no solution of interest has more of those
	cols     []column
	known    map[string]int // columns by what they hold
	work     int            // boxes solved
	stop     func() bool
}

// A relaxation is an optimum of the master program at a node.
type relaxation struct {
	cost   float64   // with the fillings found
	bound  float64   // no solution of the node costs less
	x      []float64 // by column of the master
	takes  []float64 // by option
	dual   []float64 // by row: those that give the bound
	part   float64   // share by which the bound rises if covering costs more at the duals
	idle   []float64 // by rule: servers or purchases that are paid for but idle
	broken float64   // by how much rows are violated
	tried  bool      // whether a proof was tried
}

func newMaster(p *Problem) (*master, error) {
	ss, err := shapes(p)
	if err != nil {
		return nil, err
	}
	m := &master{p: p, shapes: ss, known: map[string]int{}, cheapest: math.Inf(1), priced: math.Inf(1), most: maxServers, stock: p.Stocks()}
	for k, s := range ss {
		m.scale = max(m.scale, s.cost)
		m.cheapest = min(m.cheapest, s.cost)
		if m.isFree(k) {
			m.free += m.stock[k]
		} else {
			m.priced = min(m.priced, s.cost)
		}
	}
	for _, c := range p.Choices {
		m.first = append(m.first, len(m.options))
		for _, o := range c.Options {
			m.options = append(m.options, o.Loads)
		}
	}
	m.first = append(m.first, len(m.options))
	for _, optional := range p.optional() {
		m.always = append(m.always, !optional)
	}
	for i, l := range p.Loads {
		m.sign = append(m.sign, 1)
		if !m.always[i] && l.serves() {
			m.sign[i] = -1
		}
	}
	return m, nil
}

// isFree reports whether servers of a shape cost nothing, and there are only so many.
func (m *master) isFree(shape int) bool {
	return m.shapes[shape].cost == 0 && !math.IsInf(m.stock[shape], 1)
}

// maxServers is more than any solution has.
const maxServers = 1e9

// learn adds a column unless it is known, and returns its index.
func (m *master) learn(shape int, f filling) int {
	key := []byte{byte(shape), byte(shape >> 8)}
	for _, n := range f.v {
		key = binary.AppendVarint(key, int64(n))
	}
	for _, y := range f.y {
		key = binary.LittleEndian.AppendUint64(key, math.Float64bits(y))
	}
	k, known := m.known[string(key)]
	if !known {
		k = len(m.cols)
		m.known[string(key)] = k
		m.cols = append(m.cols, column{shape, f, m.shapes[shape].costOf(f.v)})
	}
	return k
}

// relax solves the linear program of a node by column generation, under its terms and
// with done already decided. It searches for fillings on a small budget until it
// finds none. It proves that there is none only if the cost has not fallen below the
// goal, and only as far as needed for a bound at the goal: a node below the goal is
// split in any case.
//
// The duals of a program with few fillings vary widely, so they are first mixed with
// those of the best bound so far, which are near the final ones.
func (m *master) relax(t terms, done []stock, goal float64, budget int) relaxation {
	lp := m.program(t, done)
	spent := costOf(done)
	rel := relaxation{bound: math.Inf(-1)}
	lp.extend()
	fresh := false // improving fillings were found
	try := func(dual []float64, budget int) {
		bound, part, found := m.prove(lp, dual, t, done, budget)
		if rel.dual == nil || spent+bound > rel.bound {
			rel.bound, rel.dual, rel.part = spent+bound, dual, part
		}
		for _, k := range found {
			fresh = lp.take(k) || fresh
		}
	}
	for ; ; fresh = false {
		lp.minimise()
		rel.cost = spent + lp.objective()
		loss := m.eps() * (m.free + min(m.most, rel.cost/max(m.priced, 1e-300)))
		dual := lp.duals(1)
		if rel.dual != nil {
			mixed := make([]float64, len(dual))
			axpy(1-mix, dual, mixed)
			axpy(mix, rel.dual, mixed)
			try(mixed, findBudget)
		}
		if !fresh {
			try(dual, findBudget)
		}
		if rel.bound >= goal || m.stop() {
			break
		}
		if fresh {
			continue
		}
		if rel.cost < goal+loss {
			break
		}
		try(lp.duals((rel.cost-spent)/(goal+loss-spent)), budget)
		if !fresh || m.stop() {
			rel.tried = true
			break
		}
	}
	m.read(lp, &rel)
	return rel
}

// mix is the weight of the best duals so far in those that are tried first.
const mix = 0.6

// read copies the amounts from the linear program.
func (m *master) read(lp *program, rel *relaxation) {
	rel.takes, rel.x = make([]float64, len(m.options)), make([]float64, len(m.cols))
	for k, x := range lp.values() {
		if k < len(lp.options) {
			rel.takes[lp.options[k]] = x
		} else {
			rel.x[lp.cols[k-len(lp.options)]] = x
		}
	}
	lacking := lp.lacking()
	rows := len(lp.loads) + len(m.p.Choices)
	for r, y := range lacking {
		if r < rows {
			rel.broken = max(rel.broken, y/(1+math.Abs(lp.right[r])))
		} else if lp.short[r] == m.penalty*m.fine {
			rel.broken = max(rel.broken, y)
		}
	}
	rel.idle = lacking[rows:]
}

// estimate is the cost of the linear program over the known fillings.
func (m *master) estimate(t terms) float64 {
	lp := m.program(t, nil)
	lp.extend()
	lp.minimise()
	return lp.objective()
}

// eps is the gain below which a filling does not improve.
func (m *master) eps() float64 { return 1e-9 * (1 + m.scale) }

// rest is how much of a hosted load is left.
func (m *master) rest(i int, done []stock) float64 {
	left := m.p.Loads[i].Amount
	for _, s := range done {
		left -= s.y[i] * float64(s.times)
	}
	return left
}

// A program is the linear program of a node. Its rows are the wanted loads, all
// choices, and the rules, turned into covering rows. Its columns are the open options
// and the master's fillings that hold only wanted loads.
type program struct {
	*simplex
	m       *master
	terms   terms
	wanted  []bool
	loads   []int // of the first rows
	options []int // of the first columns
	cols    []int // of the others
	has     map[int]bool
}

func (m *master) program(t terms, done []stock) *program {
	out := &program{m: m, terms: t, wanted: m.wanted(t), has: map[int]bool{}}
	var right, short []float64
	for i, l := range m.p.Loads {
		if !out.wanted[i] {
			continue
		}
		left := m.rest(i, done)
		if m.always[i] {
			left = max(0, left)
		} else {
			left -= l.Amount // the option demands that
		}
		out.loads = append(out.loads, i)
		right = append(right, m.sign[i]*left)
		short = append(short, m.price(i)*m.penalty)
	}
	for range m.p.Choices {
		right = append(right, 1)
		short = append(short, m.choicePenalty())
	}
	for _, r := range t.rules {
		k := r.bound()
		for _, s := range done {
			k -= r.of(s.column) * float64(s.times)
		}
		right = append(right, r.sign()*k)
		short = append(short, r.penalty(m.penalty*m.fine))
	}
	out.simplex = newSimplex(right, short, make([]float64, len(right)))
	row := make([]int, len(m.p.Loads))
	for r, i := range out.loads {
		row[i] = r
	}
	for k := range m.p.Choices {
		for o := m.first[k]; o < m.first[k+1]; o++ {
			if m.banned(t, o) {
				continue
			}
			col := make([]float64, len(right))
			col[len(out.loads)+k] = 1
			for _, i := range m.options[o] {
				col[row[i]] = -m.sign[i] * m.p.Loads[i].Amount
			}
			out.options = append(out.options, o)
			out.add(0, col)
		}
	}
	return out
}

// extend adds the useful fillings, and those learned since.
func (g *program) extend() {
	for _, k := range g.terms.useful {
		g.take(k)
	}
	for k := g.terms.before; k < len(g.m.cols); k++ {
		g.take(k)
	}
}

// take adds a filling, unless it is there or holds an unwanted load.
func (g *program) take(k int) bool {
	c := g.m.cols[k]
	if g.has[k] || !g.m.holdsOnly(c, g.wanted) {
		return false
	}
	g.has[k] = true
	g.cols = append(g.cols, k)
	g.add(c.cost, g.row(c))
	return true
}

// filter leaves out the fillings that no solution below a cost uses, because each
// would add its reduced cost to the bound, and keeps the best of the others.
func (m *master) filter(t terms, rel relaxation, cost float64) terms {
	type candidate struct {
		col     int
		reduced float64
	}
	var all []candidate
	wanted := m.wanted(t)
	for k, c := range m.cols {
		if x := m.reduced(c, t, rel.dual); m.holdsOnly(c, wanted) && rel.bound+x < cost {
			all = append(all, candidate{k, x})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.reduced, b.reduced) })
	rows := len(wanted) + len(t.rules)
	t.useful, t.before = nil, len(m.cols)
	for _, c := range all[:min(len(all), usefulAtLeast+usefulByRow*rows)] {
		t.useful = append(t.useful, c.col)
	}
	return t
}

// reduced is the reduced cost of a filling: its cost less its worth at the duals.
func (m *master) reduced(c column, t terms, dual []float64) float64 {
	cost := c.cost
	for i, y := range c.y {
		if y != 0 {
			cost -= m.sign[i] * y * dual[i]
		}
	}
	for k, r := range t.rules {
		cost -= r.sign() * r.of(c) * dual[len(m.p.Loads)+len(m.p.Choices)+k]
	}
	return cost
}

// holdsOnly reports whether a filling holds only wanted loads.
func (m *master) holdsOnly(c column, wanted []bool) bool {
	for i, y := range c.y {
		if y > 0 && !wanted[i] {
			return false
		}
	}
	return true
}

// row returns the coefficients of a filling.
func (g *program) row(c column) []float64 {
	out := make([]float64, g.simplex.m)
	for r, i := range g.loads {
		out[r] = g.m.sign[i] * c.y[i]
	}
	first := len(g.loads) + len(g.m.p.Choices)
	for k, r := range g.terms.rules {
		out[first+k] = r.sign() * r.of(c)
	}
	return out
}

// duals are those of all loads, choices and rules, shrunk; those of unwanted loads
// are 0.
func (g *program) duals(shrink float64) []float64 {
	out := make([]float64, len(g.m.p.Loads))
	prices := g.prices(shrink)
	for r, i := range g.loads {
		out[i] = prices[r]
	}
	return append(out, prices[len(g.loads):]...)
}

// worth is the worth at the duals of all that must be covered, except choices.
func (g *program) worth(dual []float64) float64 {
	sum := 0.0
	for r, i := range g.loads {
		sum += dual[i] * g.right[r]
	}
	for k := range g.terms.rules {
		sum += dual[len(g.m.p.Loads)+len(g.m.p.Choices)+k] * g.right[len(g.loads)+len(g.m.p.Choices)+k]
	}
	return sum
}

func (m *master) banned(t terms, option int) bool { return t.banned != nil && t.banned[option] }

// choicePenalty is more than any option costs.
func (m *master) choicePenalty() float64 {
	most := 0.0
	for _, loads := range m.options {
		sum := 0.0
		for _, i := range loads {
			sum += m.price(i) * m.p.Loads[i].Amount
		}
		most = max(most, sum)
	}
	return (1 + most) * m.penalty
}

// price is more than an amount of 1 of a load costs by itself; 0 if it fits nowhere,
// because it is not hosted.
func (m *master) price(i int) float64 {
	if math.IsInf(m.dear[i], 1) {
		return 0
	}
	return m.dear[i]
}

// prove returns a lower bound of the linear program over all fillings, known or
// not: the duals price what must be covered, and no filling is worth much more than
// it costs at them. It returns the fillings that are. The bound holds for any duals,
// even with rounding errors in the simplex.
func (m *master) prove(lp *program, dual []float64, t terms, done []stock, budget int) (bound, part float64, found []int) {
	bound = lp.worth(dual)
	for k := range m.p.Choices {
		bound += m.cheapestOption(t, k, dual)
	}
	excess := 0.0
	for k, s := range m.shapes {
		f := m.search(k, s, dual, t, done)
		cost := f.floor
		f.floor += m.eps()
		f.budget, f.haste, f.stop = budget, budget-findHaste, m.stop
		if over := f.run() - cost; m.isFree(k) {
			bound -= m.stock[k] * max(0, over)
		} else {
			excess = max(excess, over)
		}
		m.work += budget - max(0, f.budget)
		for _, v := range append(f.finds[max(0, len(f.finds)-3):], f.also...) {
			found = append(found, m.learn(k, v))
		}
	}
	// A solution of n servers that are not free costs at least bound - n excess, and at
	// least n times the cheapest of them.
	part = 1 / (1 + excess/m.priced)
	if m.priced == 0 || bound-excess*m.most >= bound*part {
		return bound - excess*m.most, 1, found
	}
	return bound * part, part, found
}

// cheapestOption is the cost of the cheapest option of a choice at these duals.
func (m *master) cheapestOption(t terms, choice int, dual []float64) float64 {
	least := math.Inf(1)
	for o := m.first[choice]; o < m.first[choice+1]; o++ {
		if !m.banned(t, o) {
			least = min(least, m.optionCost(o, dual))
		}
	}
	return least
}

// alone is what an option costs if each of its loads is hosted by itself.
func (m *master) alone(option int) float64 {
	sum := 0.0
	for _, i := range m.options[option] {
		if m.p.Loads[i].Amount > 0 { // an amount of 0 need not be hosted, though it may fit nowhere
			sum += m.dear[i] * m.p.Loads[i].Amount
		}
	}
	return sum
}

// optionCost is the cost of the loads of an option at these duals.
func (m *master) optionCost(option int, dual []float64) float64 {
	sum := 0.0
	for _, i := range m.options[option] {
		sum += m.sign[i] * dual[i] * m.p.Loads[i].Amount
	}
	return sum
}

// wanted says of each load whether an option that is not ruled out needs it.
func (m *master) wanted(t terms) []bool {
	out := slices.Clone(m.always)
	for o, loads := range m.options {
		if !m.banned(t, o) {
			for _, i := range loads {
				out[i] = true
			}
		}
	}
	return out
}

// search looks for the filling of a shape that is worth most at these duals.
func (m *master) search(k int, s *shape, dual []float64, t terms, done []stock) *search {
	wanted := m.wanted(t)
	s.focus(wanted)
	f := s.newSearch()
	f.floor = s.cost
	for i, w := range wanted {
		if w {
			f.worth[i] = m.sign[i] * dual[i]
			f.hi[i] = min(f.hi[i], max(0, m.rest(i, done)))
		}
	}
	for j, r := range t.rules {
		if d := r.sign() * dual[len(m.p.Loads)+len(m.p.Choices)+j]; math.Abs(d) > 0 {
			r.reward(f, k, d)
		}
	}
	return f
}
