package pack

import (
	"math"
	"slices"
)

// A pool is the relaxation in which all servers share their resources, and only the
// totals of servers, purchases and options must be whole. It is small and quickly
// solved, however many options there are. Its bound is weaker than that of the master
// program, but it rules out most options before they reach the master.
//
// Columns are servers by type, purchases, loads that serve others, and options.
// A purchase that is the pair of a load has no column: as many are bought as the
// whole load takes, rounded up.
type pool struct {
	m      *master
	lp     *box
	price  []float64
	fixed  float64 // cost of the units of loads that are always hosted
	option int     // the first column of an option
	whole  []bool  // by column
	column []int   // by purchase; -1: it is in a pair
	work   int     // linear programs solved
}

// A poolNode is a part of the pool's solutions: columns within limits.
type poolNode struct {
	lo, hi []float64
	bound  float64
}

// Limits of the pool, in linear programs: to find its cheapest solutions, and to
// check whether one option is too dear.
const (
	poolBudget  = 400
	probeBudget = 25
	poolFinds   = 6   // solutions that are looked for
	poolMost    = 1e7 // servers, beyond which it is no help
)

// newPool is nil if nothing limits the number of servers, because some are free.
// Limits of the problem are rows beside those of the resources.
func newPool(m *master) *pool {
	if !(m.priced > 0) {
		return nil
	}
	p := &pool{m: m}
	pairs := p.pairs()
	rows := p.rows(pairs)
	var cols []poolColumn
	for _, s := range m.shapes {
		c := poolColumn{price: s.cost, use: make([]float64, len(s.room), p.width()), whole: true}
		for r, room := range s.room {
			c.use[r] = -room
		}
		for _, l := range m.p.Limits {
			c.use = append(c.use, l.sign()*l.Servers[s.server])
		}
		cols = append(cols, c)
	}
	p.column = make([]int, len(m.p.Purchases))
	for b, u := range m.p.Purchases {
		p.column[b] = -1
		if slices.ContainsFunc(pairs, func(q pair) bool { return q.purchase == b }) {
			continue
		}
		p.column[b] = len(cols)
		cols = append(cols, poolColumn{price: u.Cost, use: p.least(len(m.p.Loads) + b), whole: true})
	}
	right := make([]float64, len(m.p.Resources), p.width())
	for _, l := range m.p.Limits {
		right = append(right, l.sign()*l.Bound)
	}
	for i, l := range m.p.Loads {
		switch {
		case l.serves(): // as much as is needed of it
			c := p.hosted(i, pairs[i], 1, false)
			c.load = i + 1
			cols = append(cols, c)
		case m.always[i]:
			c := p.hosted(i, pairs[i], l.Amount, true)
			p.fixed += c.price
			axpy(-1, c.use, right)
		}
	}
	p.option = len(cols)
	for _, loads := range m.options {
		c := poolColumn{use: make([]float64, p.width()), whole: true}
		for _, i := range loads {
			if l := m.p.Loads[i]; !l.serves() {
				h := p.hosted(i, pairs[i], l.Amount, true)
				c.price += h.price
				axpy(1, h.use, c.use)
			}
		}
		cols = append(cols, c)
	}
	p.build(cols, rows, right)
	return p
}

// A poolColumn is a column of the pool in terms of the problem.
type poolColumn struct {
	price float64
	use   []float64
	whole bool
	load  int // one more than the index of the load that serves; 0: none
}

// pairs are the loads and purchases that are pairs in every type of server, with the
// most that one of the purchase has room for in any.
func (p *pool) pairs() []pair {
	out := slices.Clone(p.m.shapes[0].pairs)
	for i := range out {
		for _, s := range p.m.shapes {
			q := s.pairs[i]
			if q.purchase != out[i].purchase || q.row != out[i].row {
				out[i].purchase = -1
			}
			out[i].each = max(out[i].each, q.each)
		}
		if out[i].purchase >= 0 {
			out[i].purchase -= len(out) // by purchase, not by component
		}
	}
	return out
}

// rows are the resources that have rows: not those of pairs.
func (p *pool) rows(pairs []pair) []int {
	var out []int
	for r := range p.m.p.Resources {
		if !slices.ContainsFunc(pairs, func(q pair) bool { return q.purchase >= 0 && q.row == r }) {
			out = append(out, r)
		}
	}
	for k := range p.m.p.Limits {
		out = append(out, len(p.m.p.Resources)+k)
	}
	return out
}

// width is how many resources and limits there are.
func (p *pool) width() int { return len(p.m.p.Resources) + len(p.m.p.Limits) }

// least is the least that a component takes of each resource in any type of server, and
// what it counts in the limits.
func (p *pool) least(component int) []float64 {
	out := slices.Clone(p.m.shapes[0].use[component])
	for _, s := range p.m.shapes[1:] {
		for r, u := range s.use[component] {
			out[r] = min(out[r], u)
		}
	}
	for _, l := range p.m.p.Limits {
		count := 0.0
		if b := component - len(p.m.p.Loads); b >= 0 {
			count = l.sign() * l.Purchases[b]
		}
		out = append(out, count)
	}
	return out
}

// hosted is what an amount of a load takes, with the purchases of its pair: a whole
// number of them, if it is all of the load.
func (p *pool) hosted(i int, q pair, amount float64, all bool) poolColumn {
	c := poolColumn{use: make([]float64, p.width())}
	axpy(amount, p.least(i), c.use)
	if q.purchase < 0 || amount == 0 {
		return c
	}
	units := amount / q.each
	if all {
		units = math.Ceil(units - integral)
	}
	c.price = units * p.m.p.Purchases[q.purchase].Cost
	axpy(units, p.least(len(p.m.p.Loads)+q.purchase), c.use)
	return c
}

// build lays out the linear program: resources, choices, and loads that serve only
// if an option needs them.
func (p *pool) build(cols []poolColumn, resources []int, right []float64) {
	var serving []int
	for j, c := range cols {
		if c.load > 0 && !p.m.always[c.load-1] {
			serving = append(serving, j)
		}
	}
	n := len(cols)
	p.lp = newBox(len(resources)+len(p.m.p.Choices)+len(serving), n)
	at := 0
	row := func(use func(j int) float64, room float64) {
		size := math.Abs(room)
		for j := range cols {
			size = max(size, math.Abs(use(j)))
		}
		size = max(size, 1e-300)
		for j := range cols {
			p.lp.use[at*n+j] = use(j) / size
		}
		p.lp.room[at] = room/size + 1e-7
		at++
	}
	for _, r := range resources {
		row(func(j int) float64 { return cols[j].use[r] }, right[r])
	}
	for k := range p.m.p.Choices {
		lo, hi := p.option+p.m.first[k], p.option+p.m.first[k+1]
		row(func(j int) float64 {
			if j >= lo && j < hi {
				return -1
			}
			return 0
		}, -1)
	}
	for _, s := range serving {
		i := cols[s].load - 1
		row(func(j int) float64 {
			switch {
			case j == s:
				return 1
			case j >= p.option && slices.Contains(p.m.options[j-p.option], i):
				return -p.m.p.Loads[i].Amount
			}
			return 0
		}, 0)
	}
	for j, c := range cols {
		p.price = append(p.price, c.price)
		p.lp.worth[j] = -c.price
		p.whole = append(p.whole, c.whole)
	}
	p.lp.begin()
}

// root is the part of the pool that obeys terms and costs no more than most; nil if
// that is too large.
func (p *pool) root(t terms, most float64) *poolNode {
	n := &poolNode{lo: make([]float64, p.lp.n), hi: make([]float64, p.lp.n)}
	all := 0.0
	for k, s := range p.m.shapes {
		n.hi[k] = p.m.stock[k]
		if s.cost > 0 {
			n.hi[k] = min(n.hi[k], math.Floor(most/s.cost+integral))
		}
		all += n.hi[k]
	}
	if !(all < poolMost) {
		return nil
	}
	held := func(component int) float64 { // by all servers
		sum := 0.0
		for k, s := range p.m.shapes {
			sum += s.most[component] * n.hi[k]
		}
		return sum
	}
	for b, j := range p.column {
		if j >= 0 {
			n.hi[j] = held(len(p.m.p.Loads) + b)
		}
	}
	j := len(p.m.shapes) + len(p.m.p.Purchases) - p.paired()
	for i, l := range p.m.p.Loads {
		if l.serves() {
			n.hi[j] = held(i)
			if p.m.always[i] {
				n.lo[j] = min(l.Amount, n.hi[j])
			}
			j++
		}
	}
	for o := range p.m.options {
		if !p.m.banned(t, o) {
			n.hi[p.option+o] = 1
		}
	}
	p.obey(n, t.rules)
	return n
}

func (p *pool) paired() int {
	n := 0
	for _, j := range p.column {
		if j < 0 {
			n++
		}
	}
	return n
}

// obey narrows a node by the rules about a column.
func (p *pool) obey(n *poolNode, rules []rule) {
	for _, r := range rules {
		j := -1
		switch {
		case r.what == servers && (r.shape >= 0 || len(p.m.shapes) == 1):
			j = max(0, r.shape)
		case r.what == purchases:
			j = p.column[r.index]
		}
		switch {
		case j < 0:
		case r.least:
			n.lo[j] = max(n.lo[j], float64(r.k))
		default:
			n.hi[j] = min(n.hi[j], float64(r.k))
		}
	}
}

// solve bounds a node, and reports whether it has any solution.
func (p *pool) solve(n *poolNode) bool {
	for j := range n.lo {
		if n.lo[j] > n.hi[j] {
			return false
		}
	}
	copy(p.lp.lo, n.lo)
	copy(p.lp.hi, n.hi)
	p.work++
	if !p.lp.solve() {
		return false
	}
	n.bound = max(n.bound, p.fixed-p.lp.bound())
	return true
}

// search looks for solutions below the goal, the cheapest first, and returns a lower
// bound of their cost and the options of the best, at most finds of them.
func (p *pool) search(root *poolNode, goal float64, budget, finds int) (bound float64, found [][]int) {
	bound = goal
	if !p.solve(root) {
		return bound, nil
	}
	open := []*poolNode{root}
	budget += p.work
	for len(open) > 0 {
		k := 0
		for i, n := range open {
			if n.bound <= open[k].bound { // of equals the youngest, which is deepest
				k = i
			}
		}
		n := open[k]
		open = slices.Delete(open, k, k+1)
		if n.bound >= goal || p.work > budget || len(found) >= finds || p.m.stop() {
			return min(bound, n.bound), found
		}
		p.solve(n) // again, for its amounts
		j, at := p.fractional()
		if j < 0 {
			bound = min(bound, n.bound)
			if taken := p.taken(); !slices.ContainsFunc(found, func(f []int) bool { return slices.Equal(f, taken) }) {
				found = append(found, taken)
			}
			continue
		}
		for _, half := range n.halves(j, at) {
			if p.solve(half) && half.bound < goal {
				open = append(open, half)
			}
		}
	}
	return bound, found
}

// fractional finds the column that is least whole, in money; -1 is none.
func (p *pool) fractional() (j int, at float64) {
	j, most := -1, 0.0
	for c, whole := range p.whole {
		if !whole {
			continue
		}
		x := p.lp.value(c)
		frac := math.Abs(x - math.Round(x))
		if weight := frac * (1 + p.price[c]); frac > integral && weight > most {
			j, at, most = c, x, weight
		}
	}
	return j, at
}

// halves split a node at a fraction of column j.
func (n *poolNode) halves(j int, at float64) [2]*poolNode {
	below := &poolNode{lo: n.lo, hi: slices.Clone(n.hi), bound: n.bound}
	above := &poolNode{lo: slices.Clone(n.lo), hi: n.hi, bound: n.bound}
	below.hi[j] = math.Floor(at)
	above.lo[j] = math.Floor(at) + 1
	return [2]*poolNode{below, above}
}

// taken are the options of the present solution.
func (p *pool) taken() []int {
	var out []int
	for k := range p.m.p.Choices {
		lo, hi := p.m.first[k], p.m.first[k+1]
		best := lo
		for o := lo; o < hi; o++ {
			if p.lp.value(p.option+o) > p.lp.value(p.option+best) {
				best = o
			}
		}
		out = append(out, best)
	}
	return out
}
