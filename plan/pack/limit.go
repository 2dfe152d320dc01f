package pack

import (
	"fmt"
	"math"
	"slices"
)

// A Limit bounds a sum over all servers of a solution: how many are used of a type,
// what they draw or the room they take.
type Limit struct {
	Name      string
	Servers   []float64 // what one of a type counts, in the order of the problem
	Purchases []float64 // what one of a purchase counts
	Bound     float64
	Least     bool // the sum is at least Bound, and counts servers only; otherwise at most
}

func (l Limit) check(p *Problem) error {
	if len(l.Servers) != len(p.Servers) || len(l.Purchases) != len(p.Purchases) {
		return fmt.Errorf("pack: limit %q counts %d servers and %d purchases of %d and %d", l.Name, len(l.Servers), len(l.Purchases), len(p.Servers), len(p.Purchases))
	}
	if l.Least && slices.ContainsFunc(l.Purchases, func(x float64) bool { return x > 0 }) {
		return fmt.Errorf("pack: limit %q asks for at least so many purchases", l.Name)
	}
	for _, x := range append(append([]float64{l.Bound}, l.Servers...), l.Purchases...) {
		if !(x >= 0) || math.IsInf(x, 0) {
			return fmt.Errorf("pack: limit %q has %v", l.Name, x)
		}
	}
	return nil
}

// of is what a server with its purchases counts.
func (l Limit) of(server int, bought []int) float64 {
	sum := l.Servers[server]
	for b, n := range bought {
		sum += l.Purchases[b] * float64(n)
	}
	return sum
}

// kept reports whether a sum is within the limit.
func (l Limit) kept(sum float64) bool {
	if l.Least {
		return sum >= l.Bound*(1-slack)
	}
	return sum <= l.Bound*(1+slack)
}

// Of is what a server with what is in it counts.
func (l Limit) Of(c Content) float64 { return l.of(c.Server, c.Bought) }

// sign turns the limit into a row that is at most its bound.
func (l Limit) sign() float64 {
	if l.Least {
		return -1
	}
	return 1
}

// scale is the most that one server or purchase counts: rules count in these, so that
// breaking any of them by one means about the same.
func (l Limit) scale() float64 {
	most := 0.0
	for _, x := range append(append([]float64{}, l.Servers...), l.Purchases...) {
		most = max(most, x)
	}
	if most == 0 {
		return 1
	}
	return most
}

// limitRules are the limits as rules, which every node has.
func (m *master) limitRules() []rule {
	var out []rule
	for i := range m.p.Limits {
		l := &m.p.Limits[i]
		out = append(out, rule{what: limited, shape: -1, index: i, limit: l, unit: l.scale(), least: l.Least, waste: math.NaN()})
	}
	return out
}

// Stocks is how many servers of each type there can be: infinite if no limit says.
func (p *Problem) Stocks() []float64 {
	out := make([]float64, len(p.Servers))
	for k := range out {
		out[k] = math.Inf(1)
		for _, l := range p.Limits {
			if !l.Least && l.Servers[k] > 0 {
				out[k] = min(out[k], math.Floor(l.Bound*(1+slack)/l.Servers[k]+integral))
			}
		}
	}
	return out
}

// within reports whether servers keep all limits.
func (t *tree) within(stocks []stock) bool {
	for _, l := range t.p.Limits {
		sum := 0.0
		for _, s := range stocks {
			sum += float64(s.times) * l.of(t.shapes[s.shape].server, s.v)
		}
		if !l.kept(sum) {
			return false
		}
	}
	return true
}

// room reports whether servers keep the limits to which more only adds.
func (t *tree) room(stocks []stock) bool {
	for _, l := range t.p.Limits {
		sum := 0.0
		for _, s := range stocks {
			sum += float64(s.times) * l.of(t.shapes[s.shape].server, s.v)
		}
		if !l.Least && !l.kept(sum) {
			return false
		}
	}
	return true
}
