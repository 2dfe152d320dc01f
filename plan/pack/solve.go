package pack

import (
	"errors"
	"math"
	"slices"
)

// Solve hosts every load at least cost. A load of which no part fits any server is an
// *UnfitError; other errors are about a malformed problem. If a limit or an interrupt
// ends the search, the best solution is returned without an error: its gap says how
// good it is.
func Solve(p Problem, o Options) (Solution, error) {
	if err := p.check(); err != nil {
		return Solution{}, err
	}
	if len(p.Loads) == 0 && !slices.ContainsFunc(p.Limits, func(l Limit) bool { return l.Least && l.Bound > 0 }) {
		return Solution{Taken: make([]int, len(p.Choices)), Optimal: true}, nil
	}
	if o.NodeLimit == 0 {
		o.NodeLimit = DefaultNodes
	}
	t, err := newTree(&p, o)
	if err != nil {
		return Solution{}, err
	}
	bound := t.grow()
	if t.best == nil {
		return Solution{}, t.stuck()
	}
	t.balance()
	out, err := p.Assemble(t.contents(), t.choice(), bound)
	out.Nodes, out.Columns = t.nodes, len(t.cols)
	return out, err
}

func newTree(p *Problem, o Options) (*tree, error) {
	m, err := newMaster(p)
	if err != nil {
		return nil, err
	}
	m.stop = func() bool {
		return m.work > workPerNode*o.NodeLimit || o.Interrupt != nil && o.Interrupt()
	}
	t := &tree{master: m, opt: o, quantum: quantum(p), cost: math.Inf(1), leftover: math.Inf(1), budget: firstBudget}
	t.penalty = 2
	return t, t.begin()
}

// soonBegun is the size of problems whose first solution is soon made: an interrupt waits for it.
const soonBegun = 1 << 20

// begin learns, for every type of server and load, the server full of that load
// alone. They make a first solution, and set the price of leaving out a load.
func (t *tree) begin() error {
	t.dear = make([]float64, len(t.p.Loads))
	any := make([]bool, len(t.p.Loads))
	for i := range any {
		any[i] = true
	}
	for i, l := range t.p.Loads {
		if len(t.p.Loads)*len(t.p.Resources) > soonBegun && t.stop() {
			return ErrStopped
		}
		_, t.dear[i] = t.full(i, any)
		if math.IsInf(t.dear[i], 1) && t.stop() {
			return ErrStopped // it is not known whether it fits
		}
		if math.IsInf(t.dear[i], 1) && t.always[i] && l.Amount > 0 {
			return unfit(t.p, t.shapes, i)
		}
	}
	return t.start()
}

// full is the server that hosts load i, and of the other wanted loads only those that
// serve it, at the lowest cost per amount, and the cost of an amount of 1: infinite if
// it fits nowhere.
func (t *tree) full(i int, wanted []bool) (stock, float64) {
	var best stock
	least := math.Inf(1)
	for k, s := range t.shapes {
		if !math.IsInf(least, 1) && t.stop() {
			break // any suffices
		}
		f, ok := s.fill(i, wanted, t.stop)
		if !ok {
			continue
		}
		t.learn(k, f)
		cost := s.costOf(f.v)
		if each := max(cost, 1e-6) / f.y[i]; each < least {
			least = each
			best = stock{column{k, f, cost}, int(math.Ceil(t.p.Loads[i].Amount/f.y[i] - integral))}
		}
	}
	return best, least
}

// start makes the first solution: every load by itself, each choice by the
// option that is then the cheapest.
func (t *tree) start() error {
	var taken []int
	for k := range t.p.Choices {
		best, least := -1, math.Inf(1)
		for o := t.first[k]; o < t.first[k+1]; o++ {
			if c := t.alone(o); c < least {
				best, least = o, c
			}
		}
		if best < 0 {
			return t.unfitChoice(k)
		}
		taken = append(taken, best)
	}
	t.fine = 1
	for i, d := range t.dear {
		if !math.IsInf(d, 1) {
			t.fine += d * t.p.Loads[i].Amount
		}
	}
	wanted := t.hosts(taken)
	var stocks []stock
	possible := true
	for i, w := range wanted {
		if !w || t.p.Loads[i].Amount == 0 || t.sign[i] < 0 {
			continue
		}
		s, each := t.full(i, wanted)
		possible = possible && !math.IsInf(each, 1)
		stocks = append(stocks, s)
	}
	if possible {
		t.offer(stocks, taken)
	}
	return nil
}

// hosts says which loads are hosted if these options are taken.
func (t *tree) hosts(taken []int) []bool {
	out := slices.Clone(t.always)
	for _, o := range taken {
		for _, i := range t.options[o] {
			out[i] = true
		}
	}
	return out
}

// unfit says which options are ruled out because one of their loads fits no server.
func (t *tree) unfit() []bool {
	out := make([]bool, len(t.options))
	for o, loads := range t.options {
		for _, i := range loads {
			out[o] = out[o] || math.IsInf(t.dear[i], 1) && t.p.Loads[i].Amount > 0
		}
	}
	return out
}

// fill is the server that holds as much of load i as possible, and whether it holds
// any.
func (s *shape) fill(i int, wanted []bool, stop func() bool) (filling, bool) {
	if s.most[i] <= 0 {
		return filling{}, false
	}
	alone := make([]bool, s.loads) // others only if they serve it
	for c := range alone {
		alone[c] = c == i || s.gives(c) > 0 && wanted[c]
	}
	s.focus(alone)
	f := s.newSearch()
	dearest := 1.0
	for c, p := range s.price {
		dearest += p * s.most[c]
	}
	f.worth[i] = 1e4 * dearest / s.most[i] // far more than all that it may need
	f.budget, f.haste, f.stop = proveBudget, proveBudget-findHaste, stop
	f.run()
	if n := len(f.finds); n > 0 {
		return f.finds[n-1], true
	}
	return filling{}, false
}

// quantum is the greatest common divisor of all prices.
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

// ErrStopped is returned when an interrupt comes before a solution was found.
var ErrStopped = errors.New("pack: stopped before a solution was found")

// stuck is the error if no server can hold what must be on one server, or the limits leave too few. Each load
// fits by itself, so that the error names no resource.
func (t *tree) stuck() error {
	if t.stop() || len(t.p.Limits) > 0 && min(t.open.bound(), t.leftover) < t.hopeless() {
		return ErrStopped
	}
	for i, always := range t.always {
		if always {
			return &UnfitError{Load: t.p.Loads[i].Name}
		}
	}
	if len(t.p.Loads) == 0 {
		return &UnfitError{Load: "nothing"} // there are too few servers for the least number
	}
	return &UnfitError{Load: t.p.Loads[0].Name}
}

// hopeless is a bound that only breaking a rule reaches.
func (t *tree) hopeless() float64 { return 1e3 * t.fine }

// contents is the best solution in terms of the problem.
func (t *tree) contents() []Content {
	var out []Content
	for _, s := range t.best {
		out = append(out, Content{Server: t.shapes[s.shape].server, Count: s.times, Loads: s.y, Bought: s.v})
	}
	return out
}

// choice is the option of each choice that the best solution takes.
func (t *tree) choice() []int {
	out := make([]int, len(t.p.Choices))
	for k := range out {
		for _, o := range t.taken {
			if o >= t.first[k] && o < t.first[k+1] {
				out[k] = o - t.first[k]
			}
		}
	}
	return out
}

// unfitChoice explains why no option of a choice fits, by the one that comes
// closest.
func (t *tree) unfitChoice(k int) error {
	var best error
	for o := t.first[k]; o < t.first[k+1]; o++ {
		for _, i := range t.options[o] {
			if !math.IsInf(t.dear[i], 1) {
				continue
			}
			err := unfit(t.p, t.shapes, i)
			e, ok := err.(*UnfitError)
			b, had := best.(*UnfitError)
			if best == nil || ok && (!had || e.Need*b.Have < b.Need*e.Have) {
				best = err
			}
		}
	}
	return best
}

// unfit explains why load i fits nowhere, by the server that comes closest.
func unfit(p *Problem, shapes []*shape, i int) error {
	var best *UnfitError
	for _, s := range shapes {
		e := &UnfitError{Load: p.Loads[i].Name, Server: p.Servers[s.server].Name}
		if s.short(p, i, e) && (best == nil || e.Need*best.Have < best.Need*e.Have) {
			best = e
		}
	}
	if best == nil { // no single resource is short
		return &UnfitError{Load: p.Loads[i].Name}
	}
	return best
}

// short finds the resource that is shortest if a little of load i is on the server,
// with all purchases that it needs.
func (s *shape) short(p *Problem, i int, e *UnfitError) bool {
	need := make([]float64, len(s.room))
	for r, d := range p.Loads[i].Demand {
		need[r] = 1e-3 * d * min(1, p.Loads[i].Amount)
	}
	have := slices.Clone(p.Servers[s.server].Capacity)
	for _, b := range buyingOrder(p.Purchases) {
		n := 0.0
		for r, x := range p.Purchases[b].Change {
			if x > 0 {
				n = max(n, math.Ceil((need[r]-have[r]-s.tol[r])/x))
			}
		}
		for r, x := range p.Purchases[b].Change {
			if x > 0 {
				have[r] += x * n
			} else {
				need[r] -= x * n
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

// buyingOrder puts a purchase before those that give what it takes, so that the
// demand for each is known when its turn comes.
func buyingOrder(ps []Purchase) []int {
	feeds := func(a, b int) bool { // a takes what b gives
		for r, x := range ps[a].Change {
			if x < 0 && ps[b].Change[r] > 0 {
				return true
			}
		}
		return false
	}
	var out []int
	left := make([]int, len(ps))
	for i := range left {
		left[i] = i
	}
	for len(left) > 0 {
		next := 0 // in a cycle, any
		for i, b := range left {
			if !slices.ContainsFunc(left, func(a int) bool { return a != b && feeds(a, b) }) {
				next = i
				break
			}
		}
		out = append(out, left[next])
		left = slices.Delete(left, next, next+1)
	}
	return out
}
