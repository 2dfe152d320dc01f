package pack

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

const (
	integral    = 1e-6 // how near to a whole number is whole
	diveTries   = 40   // relaxations that a dive may take
	workPerNode = 1000 // boxes of pricing that the average node may take
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

	leftover float64 // bound of nodes that could neither be parted nor closed
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
	t.push(&node{})
	for len(t.open) > 0 && !t.closed(t.open.bound()) && t.nodes < t.opt.NodeLimit && t.work < t.opt.NodeLimit*workPerNode && !t.stop() {
		t.expand(heap.Pop(&t.open).(*node))
	}
	bound := min(t.cost, t.open.bound(), t.leftover)
	if !t.closed(bound) {
		bound = max(bound, t.rootBound())
	}
	return bound
}

// rootBound proves the linear program's bound as well as the budget allows.
func (t *tree) rootBound() float64 {
	goal := math.Inf(1)
	for {
		rel := t.relax(nil, nil, goal)
		if rel.bound >= goal || rel.cost >= goal || t.stop() {
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
	t.leftover = math.Inf(1)
}

// closed says whether a bound leaves nothing to gain.
func (t *tree) closed(bound float64) bool {
	return t.cost-bound <= max(t.opt.Gap, 1e-9)*t.cost
}

// raise lifts a bound to the next cost there can be.
func (t *tree) raise(bound float64) float64 {
	if t.quantum > 0 {
		return t.quantum * math.Ceil(bound/t.quantum-1e-4)
	}
	return bound
}

func (t *tree) push(n *node) {
	t.seq++
	n.seq = t.seq
	heap.Push(&t.open, n)
}

// offer keeps a solution if it is the best so far.
func (t *tree) offer(loads []load) {
	loads = trim(t.shapes, loads, t.need)
	if c := costOf(loads); c < t.cost {
		t.best, t.cost = loads, c
		t.most = c / t.cheapest
	}
}

// goal is the least cost that is of no interest any more.
func (t *tree) goal() float64 {
	return min(t.cost*(1-max(t.opt.Gap, 1e-9)), t.cost-0.999*t.quantum)
}

// expand solves a node's relaxation, looks for solutions near it, and parts
// the node in two where the relaxation is not whole.
func (t *tree) expand(n *node) {
	t.nodes++
	for {
		rel := t.relax(n.rules, nil, t.goal())
		n.bound = max(n.bound, t.raise(rel.bound))
		switch {
		case t.closed(n.bound):
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
		before := t.cost
		t.offer(t.whole(rel.x))
		if t.cost == before || t.stop() { // no better, and not proved either
			t.leftover = min(t.leftover, n.bound)
			return
		}
	}
}

// part makes two nodes of one by a rule and its contrary.
func (t *tree) part(n *node, r rule, guess float64) {
	up := r
	up.least, up.k = true, r.k+1
	guess = t.raise(guess)
	t.push(&node{rules: with(n.rules, r), bound: n.bound, guess: guess})
	t.push(&node{rules: with(n.rules, up), bound: n.bound, guess: guess})
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

// split finds a sum that is not whole and gives the rule that it is at most
// its floor; there is none when the relaxation is whole. Sums that decide the
// cost come first: with the servers and purchases of each kind whole, so is
// the cost, but for what fillings there are.
func (t *tree) split(rules []rule, rel relaxation) (rule, bool) {
	for _, sums := range t.sums() {
		if r, ok := t.mostFractional(rules, rel, sums); ok {
			return r, true
		}
	}
	for k := range t.shapes {
		if r, ok := t.splitFillings(rel.x, k); ok {
			return r, true
		}
	}
	return rule{}, false
}

// sums lists what is linear in the contents of servers: first all servers,
// then servers and purchases by kind, then what each shape is used for.
func (t *tree) sums() [][]rule {
	all := []rule{{what: servers, server: -1, shape: -1, waste: t.cheapest}}
	var kinds, shapes []rule
	for k, s := range t.p.Servers {
		kinds = append(kinds, rule{what: servers, server: k, shape: -1, waste: s.Cost})
	}
	for b, u := range t.p.Purchases {
		kinds = append(kinds, rule{what: purchases, server: -1, shape: -1, index: b, waste: u.Cost})
	}
	for k, s := range t.shapes {
		shapes = append(shapes, rule{what: servers, server: -1, shape: k, waste: s.cost})
		for _, i := range s.items {
			shapes = append(shapes, rule{what: items, server: -1, shape: k, index: i, waste: math.NaN()})
		}
	}
	return [][]rule{all, kinds, shapes}
}

// mostFractional gives the sum whose fraction, in money, is largest.
func (t *tree) mostFractional(rules []rule, rel relaxation, sums []rule) (rule, bool) {
	var best rule
	most := 0.0
	for _, r := range sums {
		sum := t.sum(r, rel.x)
		for k, q := range rules {
			if r.least = q.least; q.least && r.same(q) {
				sum += rel.idle[k] // bought to stand idle
			}
		}
		r.least = false
		frac := math.Abs(sum - math.Round(sum))
		weight := frac
		if r.waste > 0 {
			weight *= r.waste
		}
		if frac > integral && weight > most {
			best, most = r, weight
			best.k = int(math.Floor(sum))
		}
	}
	return best, most > 0
}

func (t *tree) sum(r rule, x []float64) float64 {
	sum := 0.0
	for j, a := range x {
		if a > 0 {
			sum += a * r.of(t.shapes[t.cols[j].shape], t.cols[j])
		}
	}
	return sum
}

// splitFillings finds limits within which the fillings of a shape are not a
// whole number. Halving the fractional fillings at a value in which they
// differ ends at the latest with a single one, whose number is not whole.
func (t *tree) splitFillings(x []float64, shape int) (rule, bool) {
	r := rule{what: fillingsWithin, server: -1, shape: shape, waste: math.NaN()}
	var part [][]int
	for j, a := range x {
		if t.cols[j].shape == shape && math.Abs(a-math.Round(a)) > integral {
			part = append(part, t.cols[j].v)
		}
	}
	for len(part) > 0 {
		l, ok := halve(part)
		if !ok {
			break
		}
		inside := slices.DeleteFunc(slices.Clone(part), func(v []int) bool { return !l.holds(v) })
		if 2*len(inside) > len(part) {
			l.least = !l.least
			inside = slices.DeleteFunc(slices.Clone(part), func(v []int) bool { return !l.holds(v) })
		}
		r.limits = append(r.limits, l)
		part = inside
		if sum := t.sum(r, x); math.Abs(sum-math.Round(sum)) > integral {
			break
		}
	}
	r.k = int(math.Floor(t.sum(r, x)))
	return r, len(part) > 0
}

// halve finds the limit that parts different vectors most evenly; there is
// none for a single one.
func halve(part [][]int) (limit, bool) {
	var best limit
	most := 0
	for c := range part[0] {
		values := make([]int, len(part))
		for k, v := range part {
			values[k] = v[c]
		}
		slices.Sort(values)
		for k := 1; k < len(values); k++ {
			if even := min(k, len(values)-k); values[k] > values[k-1] && even > most {
				best, most = limit{c, true, values[k]}, even
			}
		}
	}
	return best, most > 0
}

// dives looks for a solution that costs no more than the relaxation, and if
// there is none in sight, for any that improves.
func (t *tree) dives(rules []rule, rel relaxation) {
	for _, most := range []float64{t.raise(rel.cost) * (1 + 1e-6), (t.raise(rel.cost) + t.cost) / 2, t.cost} {
		tries := diveTries
		t.dive(rules, rel, nil, most, &tries)
		if t.cost <= most {
			return
		}
	}
}

// dive looks for a solution that costs at most so much by deciding, again and
// again, what the relaxation uses whole servers of, and else one of the
// fillings that it uses most. Where that becomes too dear it turns back, as
// long as there are tries left.
func (t *tree) dive(rules []rule, rel relaxation, done []load, most float64, tries *int) {
	if rel.cost > most || rel.cost >= t.goal() || t.stop() {
		return
	}
	done = slices.Clip(done)
	next := [][]load{}
	for j, a := range rel.x {
		if n := int(a + integral); n > 0 {
			done = append(done, load{t.cols[j], n})
			next = [][]load{done}
		}
	}
	if len(next) == 0 {
		for _, j := range largest(rel.x, 3) {
			next = append(next, append(slices.Clip(done), load{t.cols[j], 1}))
		}
	}
	for _, loads := range next {
		if t.covered(loads) {
			t.offer(loads)
		} else if *tries > 0 {
			*tries--
			t.dive(rules, t.relax(rules, loads, math.Inf(1)), loads, most, tries)
		}
	}
}

// largest gives the places of the n largest values that are not zero.
func largest(x []float64, n int) []int {
	var out []int
	for j, a := range x {
		if a > integral {
			out = append(out, j)
		}
	}
	slices.SortStableFunc(out, func(i, j int) int { return -cmp.Compare(x[i], x[j]) })
	return out[:min(n, len(out))]
}

func (t *tree) covered(done []load) bool {
	for i, n := range t.need {
		for _, l := range done {
			n -= t.shapes[l.shape].count(l.v, i) * l.times
		}
		if n > 0 {
			return false
		}
	}
	return true
}
