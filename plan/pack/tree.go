package pack

import (
	"container/heap"
	"math"
	"slices"
)

const (
	integral    = 1e-6 // how near to a whole number is whole
	branchTries = 6    // sums that are tried before a node is parted
	diveTries   = 40   // relaxations that a dive may take
	workPerNode = 150  // boxes of pricing that the average node may take
)

// A tree is the branch and price search of one problem.
type tree struct {
	*master
	p       *Problem
	opt     Options
	quantum float64 // all costs are multiples of it; 0 when there is none
	best    []load
	cost    float64 // of best
	open    nodes
	nodes   int
	seq     int

	budget   int     // of a proof, in boxes
	leftover float64 // least bound of the nodes that were not parted
}

// A node is a part of the solutions: those that obey its rules.
type node struct {
	rules []rule
	bound float64 // proven
	guess float64 // where its bound would be, if it were proved
	seq   int
}

type nodes []*node

func (q nodes) Len() int { return len(q) }
func (q nodes) Less(i, j int) bool {
	if q[i].guess != q[j].guess {
		return q[i].guess < q[j].guess
	}
	return q[i].seq > q[j].seq // of equals the younger: it is deeper
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

// grow searches until the gap is closed or a limit reached, and gives the
// proven lower bound.
func (t *tree) grow() float64 {
	t.begin()
	t.push(&node{bound: t.rootBound()})
	for len(t.open) > 0 && !t.closed(t.open.bound()) && t.nodes < t.opt.NodeLimit && t.work < t.opt.NodeLimit*workPerNode && !t.stop() {
		t.expand(heap.Pop(&t.open).(*node))
	}
	return min(t.cost, t.open.bound(), t.leftover)
}

// rootBound finds the fillings that matter to the linear program without any
// rules, and proves its bound as well as the budget allows.
func (t *tree) rootBound() float64 {
	goal := math.Inf(1)
	for {
		rel := t.relax(nil, nil, goal, firstBudget)
		if rel.cost >= goal || t.stop() { // no further down: proved or given up
			return t.raise(rel.bound)
		}
		goal = rel.cost * (1 - 1e-6)
	}
}

// begin hosts each item by itself, as a first solution and to set the price
// of leaving something out.
func (t *tree) begin() {
	t.seed()
	var loads []load
	for i, n := range t.need {
		if n == 0 {
			continue
		}
		var best column
		most, each := 0, math.Inf(1)
		for _, c := range t.cols {
			if k := t.shapes[c.shape].count(c.v, i); k > 0 && c.cost/float64(k) < each {
				best, most, each = c, k, c.cost/float64(k)
			}
		}
		loads = append(loads, load{best, (n + most - 1) / most})
	}
	t.cost = math.Inf(1)
	t.offer(loads)
	t.penalty = 1 + costOf(loads)
	t.leftover, t.budget = math.Inf(1), firstBudget
}

// closed says whether a bound leaves nothing to gain.
func (t *tree) closed(bound float64) bool {
	return t.cost-bound <= max(t.opt.Gap, 1e-9)*t.cost
}

// raise lifts a bound to the next cost there can be.
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

// offer keeps a solution if it is the best so far, and says whether it is.
func (t *tree) offer(loads []load) bool {
	loads = trim(t.shapes, loads, t.need)
	c := costOf(loads)
	if c >= t.cost {
		return false
	}
	t.best, t.cost = loads, c
	if t.cheapest > 0 {
		t.most = c / t.cheapest
	}
	return true
}

// goal is the least cost that is of no interest any more.
func (t *tree) goal() float64 {
	return min(t.cost*(1-max(t.opt.Gap, 1e-9)), t.cost-0.999*t.quantum)
}

// expand solves a node's relaxation, looks for solutions near it, and parts
// the node in two where the relaxation is not whole.
func (t *tree) expand(n *node) {
	if t.closed(n.bound) {
		t.leave(n)
		return
	}
	t.nodes++
	for budget := t.budget; ; {
		rel := t.relax(n.rules, nil, t.goal(), budget)
		n.bound = max(n.bound, t.raise(rel.bound))
		if rel.tried {
			t.judge(t.closed(n.bound))
		}
		switch {
		case t.closed(n.bound):
			t.leave(n)
			return
		case rel.broken > integral && t.penalty < 1e4*t.cost:
			t.penalty *= 10 // breaking a rule must not pay
			continue
		case t.nodes == 1 || t.nodes%8 == 0:
			t.dives(n.rules, rel)
		}
		if r, ok := t.split(n.rules, rel); ok {
			t.part(n, r, rel.cost)
			return
		}
		if t.offer(t.whole(rel.x)) {
			continue
		}
		if budget == proveBudget || t.stop() { // neither better nor proved
			t.leave(n)
			return
		}
		budget = proveBudget
	}
}

// leave ends the search of a node. Its solutions may be cheaper than the best,
// if only by the gap that was asked for.
func (t *tree) leave(n *node) { t.leftover = min(t.leftover, n.bound) }

// judge spends more on proofs while they succeed, and less when they do not.
func (t *tree) judge(proved bool) {
	if proved {
		t.budget = min(2*t.budget, proveBudget)
	} else {
		t.budget = max(t.budget/2, leastBudget)
	}
}

// part makes two nodes of one by a rule and its contrary.
func (t *tree) part(n *node, r rule, guess float64) {
	guess = t.raise(guess)
	t.push(&node{rules: with(n.rules, r), bound: n.bound, guess: guess})
	t.push(&node{rules: with(n.rules, r.contrary()), bound: n.bound, guess: guess})
}

// with adds a rule, in place of a weaker one.
func with(rules []rule, r rule) []rule {
	out := slices.DeleteFunc(slices.Clone(rules), r.same)
	return append(out, r)
}

// whole reads a relaxation as a solution.
func (t *tree) whole(x []float64) []load {
	var out []load
	for j, a := range x {
		if n := int(math.Round(a)); n > 0 {
			out = append(out, load{t.cols[j], n})
		}
	}
	return out
}
