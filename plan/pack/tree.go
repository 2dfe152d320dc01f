package pack

import (
	"container/heap"
	"math"
	"slices"
)

const (
	integral    = 1e-6 // distance from a whole number that counts as whole
	branchTries = 6    // sums that are tried before a node is split
	diveTries   = 40   // relaxations that a dive may take
	workPerNode = 250  // average boxes of pricing for each node, the root included
)

// A tree is the branch and price search of one problem.
type tree struct {
	*master
	opt     Options
	pool    *pool   // nil: it does not help
	quantum float64 // all costs are multiples of it; 0 if there is none
	best    []stock
	taken   []int   // options of best, counted through all choices
	cost    float64 // of best
	open    nodes
	nodes   int
	seq     int

	budget   int     // of a proof, in boxes
	leftover float64 // least bound of the nodes that were left without a split
}

// A node is a part of the solutions: those that obey its terms.
type node struct {
	terms
	bound float64 // proven
	guess float64 // its likely bound, if it were proved
	seq   int
}

type nodes []*node

func (q nodes) Len() int { return len(q) }
func (q nodes) Less(i, j int) bool {
	if q[i].guess != q[j].guess {
		return q[i].guess < q[j].guess
	}
	return q[i].seq > q[j].seq // of equals the younger, which is deeper
}
func (q nodes) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *nodes) Push(x any)   { *q = append(*q, x.(*node)) }
func (q *nodes) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

// bound is the least bound of the nodes.
func (q nodes) bound() float64 {
	least := math.Inf(1)
	for _, n := range q {
		least = min(least, n.bound)
	}
	return least
}

// grow searches until the gap is closed or a limit is reached, and returns the
// proven lower bound.
func (t *tree) grow() float64 {
	root, bound := t.weed(terms{banned: t.unfit(), rules: t.limitRules()})
	if !t.closed(bound) && !t.stop() {
		narrowed, better := t.rootBound(root)
		root, bound = narrowed, max(bound, better)
	}
	t.push(&node{terms: root, bound: bound})
	for len(t.open) > 0 && !t.closed(t.open.bound()) && t.nodes < t.opt.NodeLimit && !t.stop() {
		t.expand(heap.Pop(&t.open).(*node))
	}
	return min(t.cost, t.open.bound(), t.leftover)
}

// weed finds good solutions by the options that the pool takes, and rules out the
// options that are too dear for any better one. It returns the pool's bound.
func (t *tree) weed(at terms) (terms, float64) {
	bound := 0.0
	if t.pool = newPool(t.master); t.pool == nil {
		return at, bound
	}
	for {
		before := t.cost
		root := t.pool.root(at, t.cost)
		if root == nil {
			return at, bound
		}
		least, found := t.pool.search(root, t.goal(), poolBudget, poolFinds)
		bound = max(bound, t.raise(least))
		for _, taken := range found {
			few := t.only(at, taken)
			t.dives(few, t.relax(few, nil, t.goal(), 0))
		}
		if t.closed(bound) || t.stop() {
			return at, bound
		}
		at = t.probe(at)
		if t.cost == before || t.cost > before*(1-1e-3) {
			return at, bound
		}
	}
}

// only rules out all options except these.
func (t *tree) only(at terms, taken []int) terms {
	var out []int
	for o := range t.options {
		if !slices.Contains(taken, o) {
			out = append(out, o)
		}
	}
	return at.without(out...)
}

// probe rules out the options with which the pool has no better solution.
func (t *tree) probe(at terms) terms {
	for k := range t.p.Choices {
		var open []int
		for o := t.first[k]; o < t.first[k+1]; o++ {
			if !at.banned[o] {
				open = append(open, o)
			}
		}
		for _, o := range open {
			others := slices.DeleteFunc(slices.Clone(open), func(q int) bool { return q == o })
			if bound := t.pooled(at.without(others...)); len(open) > 1 && bound >= t.goal() {
				at = at.without(o)
				t.leftover = min(t.leftover, t.raise(bound))
			}
		}
	}
	return at
}

// pooled is a bound of the better solutions that obey terms.
func (t *tree) pooled(at terms) float64 {
	if t.pool == nil {
		return 0
	}
	root := t.pool.root(at, t.cost)
	if root == nil {
		return 0
	}
	bound, _ := t.pool.search(root, t.goal(), probeBudget, 1)
	return bound
}

// rootBound finds the fillings that matter to the linear program without any
// rules, proves its bound as well as the budget allows, and rules out the
// options that are too dear.
func (t *tree) rootBound(root terms) (terms, float64) {
	best := 0.0
	for goal := math.Inf(1); ; {
		rel := t.relax(root, nil, goal, firstBudget)
		best = max(best, t.raise(rel.bound))
		root = t.narrow(root, rel)
		if rel.cost >= goal || t.stop() { // proved or given up
			return root, best
		}
		goal = rel.cost * (1 - 1e-6)
	}
}

// closed reports whether a bound leaves no room for a better solution. It is infinite if there
// is none at all.
func (t *tree) closed(bound float64) bool {
	return math.IsInf(bound, 1) || !math.IsInf(t.cost, 1) && t.cost-bound <= max(t.opt.Gap, 1e-9)*t.cost
}

// raise raises a bound to the next possible cost.
func (t *tree) raise(bound float64) float64 {
	if t.quantum > 0 {
		bound = t.quantum * math.Ceil(bound/t.quantum-1e-4)
	}
	return max(0, bound)
}

func (t *tree) push(n *node) {
	t.seq++
	n.seq = t.seq
	heap.Push(&t.open, n)
}

// offer keeps a solution if it is the best so far, and reports whether it is.
func (t *tree) offer(stocks []stock, taken []int) bool {
	c := costOf(stocks)
	if c >= t.cost*(1-1e-12) || !t.covers(stocks, taken) || !t.within(stocks) {
		return false
	}
	t.best, t.taken, t.cost = stocks, taken, c
	if t.priced > 0 {
		t.most = c / t.priced
	}
	return true
}

// covers reports whether a solution hosts all loads of the options it takes, and is one without the loads of other
// options: after rounding, a relaxation may host those, and others may be there only because of them.
func (t *tree) covers(stocks []stock, taken []int) bool {
	wanted := t.hosts(taken)
	for i, w := range wanted {
		if w && t.rest(i, stocks) > exact/10*t.p.Loads[i].Amount {
			return false
		}
	}
	return len(taken) == len(t.p.Choices) && !slices.ContainsFunc(stocks, func(s stock) bool { return !t.holdsOnly(s, wanted) })
}

// holdsOnly reports whether a server holds its wanted loads without the others.
func (t *tree) holdsOnly(s stock, wanted []bool) bool {
	only := filling{y: slices.Clone(s.y), v: s.v}
	for i, w := range wanted {
		if !w {
			only.y[i] = 0
		}
	}
	return slices.Equal(only.y, s.y) || t.shapes[s.shape].holds(only)
}

// goal is the least cost that is no improvement.
func (t *tree) goal() float64 {
	return min(t.cost*(1-max(t.opt.Gap, 1e-9)), t.cost-0.999*t.quantum)
}

// expand solves a node's relaxation, looks for solutions near it, and splits the node
// in two if the relaxation is not integral.
func (t *tree) expand(n *node) {
	if t.closed(n.bound) {
		t.leave(n)
		return
	}
	t.nodes++
	if n.bound = max(n.bound, t.raise(t.pooled(n.terms))); t.closed(n.bound) {
		t.leave(n)
		return
	}
	for budget := t.budget; ; {
		rel := t.relax(n.terms, nil, t.goal(), budget)
		n.bound = max(n.bound, t.raise(rel.bound))
		if rel.tried {
			t.judge(t.closed(n.bound))
		}
		switch {
		case t.closed(n.bound):
			t.leave(n)
			return
		case rel.broken > integral && t.penalty < 1e6:
			t.penalty *= 10 // breaking a rule must not pay
			continue
		case rel.broken > integral: // it has no solution
			t.giveUp(n, rel)
			return
		}
		n.terms = t.filter(t.narrow(n.terms, rel), rel, t.goal())
		if t.nodes == 1 || t.nodes%8 == 0 {
			t.dives(n.terms, rel)
		}
		if t.parted(n, rel) {
			return
		}
		if t.offer(t.whole(rel)) {
			continue
		}
		if budget == proveBudget || t.stop() { // neither better nor proved
			t.leave(n)
			return
		}
		budget = proveBudget
	}
}

// narrow rules out the options that are too dear for a better solution: each adds to
// the bound what it costs beyond the cheapest of its choice.
func (t *tree) narrow(at terms, rel relaxation) terms {
	var out []int
	for k := range t.p.Choices {
		least := t.cheapestOption(at, k, rel.dual)
		for o := t.first[k]; o < t.first[k+1]; o++ {
			if bound := rel.bound + rel.part*(t.optionCost(o, rel.dual)-least); !at.banned[o] && bound >= t.goal() {
				out = append(out, o)
				t.leftover = min(t.leftover, t.raise(bound))
			}
		}
	}
	if out == nil {
		return at
	}
	return at.without(out...)
}

// leave ends the search of a node. Its solutions may be cheaper than the best, at
// most by the allowed gap.
func (t *tree) leave(n *node) { t.leftover = min(t.leftover, n.bound) }

// giveUp ends the search of a node that seems to have no solution. As long as there is none at
// all, its bound must prove that: no solution costs nearly as much as breaking a rule.
func (t *tree) giveUp(n *node, rel relaxation) {
	if math.IsInf(t.cost, 1) {
		rel = t.relax(n.terms, nil, rel.cost/2, proveBudget)
		n.bound = max(n.bound, rel.bound)
	}
	t.leave(n)
}

// judge raises the budget of proofs while they succeed, and lowers it when they fail.
func (t *tree) judge(proved bool) {
	if proved {
		t.budget = min(2*t.budget, proveBudget)
	} else {
		t.budget = max(t.budget/2, leastBudget)
	}
}

// with adds a rule, in place of a weaker one.
func (t terms) with(r rule) terms {
	t.rules = append(slices.DeleteFunc(slices.Clone(t.rules), r.same), r)
	return t
}

// without rules out options.
func (t terms) without(options ...int) terms {
	t.banned = slices.Clone(t.banned)
	for _, o := range options {
		t.banned[o] = true
	}
	return t
}

// whole reads a relaxation as a solution: fillings with the same purchases become
// one that holds the mean of their loads.
func (t *tree) whole(rel relaxation) ([]stock, []int) {
	var out []stock
	for _, g := range t.alike(rel.x) {
		if n := math.Round(g.sum); n > 0 {
			out = append(out, stock{t.mean(g, rel.x), int(n)})
		}
	}
	var taken []int
	for o, x := range rel.takes {
		if x > 0.5 {
			taken = append(taken, o)
		}
	}
	return out, taken
}

// alike are columns of a shape with the same purchases, used sum times.
type alike struct {
	cols []int
	sum  float64
}

func (t *tree) alike(x []float64) []alike {
	var out []alike
	for j, a := range x {
		if a <= 0 {
			continue
		}
		k := slices.IndexFunc(out, func(g alike) bool {
			c := t.cols[g.cols[0]]
			return c.shape == t.cols[j].shape && slices.Equal(c.v, t.cols[j].v)
		})
		if k < 0 {
			k = len(out)
			out = append(out, alike{})
		}
		out[k].cols = append(out[k].cols, j)
		out[k].sum += a
	}
	return out
}

// mean is the column that replaces all of them.
func (t *tree) mean(g alike, x []float64) column {
	c := t.cols[g.cols[0]]
	if len(g.cols) == 1 {
		return c
	}
	c.y = make([]float64, len(c.y))
	for _, j := range g.cols {
		axpy(x[j]/g.sum, t.cols[j].y, c.y)
	}
	return c
}
