package referee

import (
	"container/heap"
	"math"
	"slices"
)

// A cover buys whole servers, each one of fills, that carry all loads at least
// cost. Its linear program combines corners of fillings; branches force sums of what
// is bought (servers, CPUs, units, then the fillings themselves) to whole numbers.
type cover struct {
	fills  []filling
	loads  int
	cost   []float64
	rows   [][]float64 // corners of the shares, negative: at least 1 of each
	owner  []int       // the filling of each column
	caps   []cap
	always []limit     // of caps, in every node
	counts [][]float64 // sums that are whole in every cluster, by filling
	best   float64
	chosen []float64 // how many of each filling
	bound  float64   // of the relaxation
	solved bool
	large  bool // what is on offer is not listed
	work   int
}

// largeCover is one that cannot be solved.
func largeCover() *cover { return &cover{large: true} }

// tooMuch is the work after which a problem counts as too large for the model: rows
// times columns of all linear programs.
const tooMuch = 20_000_000

// solve finds the cheapest cluster, or reports that it cannot. One that costs cutoff
// or more is not searched for: best is then cutoff.
func (c *cover) solve(cutoff float64) bool {
	if c.large {
		return false
	}
	if c.chosen != nil && c.solved {
		return true
	}
	c.best, c.work, c.chosen = cutoff, 0, nil
	nodes := &frontier{}
	c.visit(nodes, node{})
	for nodes.Len() > 0 && c.work < tooMuch {
		next := heap.Pop(nodes).(node)
		if next.bound >= c.enough() {
			break
		}
		for _, child := range next.children() {
			c.visit(nodes, child)
		}
	}
	c.solved = c.work < tooMuch
	return c.solved
}

// add puts a filling on offer.
func (c *cover) add(f filling) {
	for _, x := range f.corners {
		c.owner = append(c.owner, len(c.fills))
		c.cost = append(c.cost, f.cost)
		for j := range c.rows {
			c.rows[j] = append(c.rows[j], -x[j])
		}
	}
	c.fills = append(c.fills, f)
}

func newCover(fills []filling, loads int, all []cap) *cover {
	c := &cover{loads: loads, rows: make([][]float64, loads), caps: all, always: limitsOf(all, fills)}
	for _, f := range fills {
		c.add(f)
	}
	var ok bool
	if _, c.bound, ok = c.relax(nil); !ok {
		c.bound = math.Inf(1)
		return c
	}
	c.countAll()
	return c
}

// countAll lists the sums to branch on, the most effective first.
func (c *cover) countAll() {
	first := c.fills[0]
	of := []func(f filling) int{func(f filling) int { return f.cpus }}
	for j := range c.loads {
		of = append(of, func(f filling) int { return btoi(f.most[j] > 0) }, func(f filling) int { return f.instances[j] })
	}
	for u := range first.units {
		of = append(of, func(f filling) int { return f.units[u] })
	}
	for m := range first.memory {
		of = append(of, func(f filling) int { return f.memory[m] })
	}
	servers := slices.MaxFunc(c.fills, func(a, b filling) int { return a.server - b.server }).server + 1
	c.count(func(filling) int { return 1 })
	for s := range servers {
		c.count(func(f filling) int { return btoi(f.server == s) })
	}
	for _, n := range of {
		c.count(n)
	}
	for s := range servers { // servers of a type with more than so much of something
		for _, n := range of {
			for at := range n(slices.MaxFunc(c.fills, func(a, b filling) int { return n(a) - n(b) })) {
				c.count(func(f filling) int { return btoi(f.server == s && n(f) > at) })
			}
		}
	}
}

// count adds a sum, unless it is always 0.
func (c *cover) count(of func(f filling) int) {
	weights := make([]float64, len(c.fills))
	for i, f := range c.fills {
		weights[i] = float64(of(f))
	}
	if slices.Max(weights) > 0 {
		c.counts = append(c.counts, weights)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (c *cover) enough() float64 { return c.best - 1e-8*math.Abs(c.best) }

// A limit bounds a sum of what is bought, from above or from below.
type limit struct {
	weights []float64 // by filling
	least   bool
	number  float64
}

// A node is a part of the tree, and where to branch next.
type node struct {
	limits   []limit
	bound    float64
	branch   []float64
	fraction float64
}

func (n node) children() []node {
	at := math.Floor(n.fraction)
	low := append(slices.Clone(n.limits), limit{n.branch, false, at})
	high := append(slices.Clone(n.limits), limit{n.branch, true, at + 1})
	return []node{{limits: low}, {limits: high}}
}

// visit relaxes a node; what cannot be whole yet goes to the frontier.
func (c *cover) visit(nodes *frontier, n node) {
	c.work += (c.loads + len(n.limits)) * len(c.owner)
	count, value, ok := c.relax(n.limits)
	if !ok || value >= c.enough() {
		return
	}
	rounded, total := make([]float64, len(count)), 0.0
	for i, y := range count {
		rounded[i] = math.Ceil(y - 1e-7)
		total += rounded[i] * c.fills[i].cost
	}
	if total < c.best && c.kept(rounded) {
		c.best, c.chosen = total, rounded
	}
	n.bound = value
	if n.branch, n.fraction = c.fractional(count); n.branch != nil {
		heap.Push(nodes, n)
	}
}

func (c *cover) relax(limits []limit) (count []float64, value float64, ok bool) {
	rows, bounds := slices.Clone(c.rows), make([]float64, c.loads)
	for j := range bounds {
		bounds[j] = -(1 - forgiven)
	}
	for _, l := range slices.Concat(c.always, limits) {
		sign := 1.0
		if l.least {
			sign = -1
		}
		row := make([]float64, len(c.owner))
		for k, i := range c.owner {
			row[k] = sign * l.weights[i]
		}
		rows, bounds = append(rows, row), append(bounds, sign*l.number)
	}
	x, value, ok := least(c.cost, rows, bounds)
	if !ok {
		return nil, 0, false
	}
	for i, row := range rows { // a large tableau may have lost its way
		if dot(row, x) > bounds[i]+1e-6*max(1, math.Abs(bounds[i])) {
			c.work = tooMuch
			return nil, 0, false
		}
	}
	count = make([]float64, len(c.fills))
	for k, i := range c.owner {
		count[i] += x[k]
	}
	return count, value, true
}

// fractional is the first sum that is not whole, or the filling furthest from it.
func (c *cover) fractional(count []float64) ([]float64, float64) {
	whole := func(v float64) bool { return math.Abs(v-math.Round(v)) < 1e-7 }
	for _, w := range c.counts {
		if v := dot(w, count); !whole(v) {
			return w, v
		}
	}
	at, far := -1, 0.0
	for i, v := range count {
		if d := math.Abs(v - math.Round(v)); !whole(v) && d > far {
			at, far = i, d
		}
	}
	if at < 0 {
		return nil, 0
	}
	w := make([]float64, len(count))
	w[at] = 1
	return w, count[at]
}

// A frontier is the open nodes, the least bound first.
type frontier []node

func (f frontier) Len() int           { return len(f) }
func (f frontier) Less(i, j int) bool { return f[i].bound < f[j].bound }
func (f frontier) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *frontier) Push(x any)        { *f = append(*f, x.(node)) }
func (f *frontier) Pop() any {
	old := *f
	last := old[len(old)-1]
	*f = old[:len(old)-1]
	return last
}
