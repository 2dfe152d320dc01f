package pack

import (
	"cmp"
	"math"
	"slices"
)

// A search finds the filling of a shape that is worth most, by depth first
// over its components with a Lagrangian bound: with multipliers m >= 0 on the
// resources, no filling is worth more than the room at those prices plus what
// each component is worth beyond the resources it takes. It proves what it
// does not find, which is what makes the lower bound of the master program a
// bound.
type search struct {
	*shape
	worth  []float64 // of one of a component; purchases are worth less than nothing
	most   []int
	bonus  []bonus
	floor  float64 // only fillings worth more than this are of interest
	budget int     // steps; when they are used up the answer is only bounded

	order  []int       // component decided at each depth
	net    []float64   // by depth: worth beyond the resources at their multipliers
	tail   []float64   // by depth: the most that this and deeper ones can add to the bound
	later  [][]float64 // by depth: the most that this and deeper ones can give, by resource
	free   [][]float64 // by depth: what is left of each resource
	v      []int
	best   float64
	finds  [][]int // each worth more than the one before
	dodged float64 // bound of the dearest part not looked at for want of budget
}

// A bonus is worth something to every filling within its limits (see rule).
type bonus struct {
	limits []limit
	worth  float64
}

// A limit bounds one component of a filling, from below or from above.
type limit struct {
	component int
	least     bool // at least k; otherwise less than k
	k         int
}

func (l limit) holds(v []int) bool { return (v[l.component] >= l.k) == l.least }

func within(limits []limit, v []int) bool {
	for _, l := range limits {
		if !l.holds(v) {
			return false
		}
	}
	return true
}

// run searches, and gives an upper bound of the worth of all fillings: no
// more than floor, the worth of the last find, or what the budget left open.
func (s *search) run() float64 {
	mult := s.multipliers()
	s.arrange(mult)
	bound := 0.0
	for r, m := range mult {
		bound += m * s.room[r]
	}
	s.best, s.dodged = s.floor, math.Inf(-1)
	copy(s.free[0], s.room)
	s.descend(0, 0, bound)
	return max(s.best, s.dodged)
}

// multipliers solves the dual of the shape's linear relaxation.
func (s *search) multipliers() []float64 {
	n := s.len()
	beyond := make([]float64, n) // what a component is worth beyond the resources, paid at most so often
	for c := range n {
		beyond[c] = float64(s.most[c])
	}
	lp := newSimplex(s.worth, beyond)
	for r := range s.room {
		col := make([]float64, n)
		for c := range n {
			col[c] = s.use[c][r]
		}
		lp.add(s.room[r], col)
	}
	lp.minimise()
	return lp.values()
}

// arrange prepares the tables by depth: items first, the largest at the given
// prices of resources first, then purchases in the order they feed each other.
func (s *search) arrange(mult []float64) {
	n := s.len()
	size := make([]float64, n)
	s.order = make([]int, n)
	for c := range n {
		for r, m := range mult {
			size[c] += m * s.use[c][r]
		}
		s.order[c] = c
	}
	slices.SortStableFunc(s.order[:len(s.items)], func(a, b int) int { return -cmp.Compare(size[a], size[b]) })

	s.v = make([]int, n)
	s.net, s.tail = make([]float64, n), make([]float64, n+1)
	s.later, s.free = make([][]float64, n+1), make([][]float64, n+1)
	for d := n; d >= 0; d-- {
		s.free[d] = make([]float64, len(s.room))
		s.later[d] = make([]float64, len(s.room))
		if d == n {
			continue
		}
		c := s.order[d]
		s.net[d] = s.worth[c] - size[c]
		s.tail[d] = s.tail[d+1] + max(0, s.net[d])*float64(s.most[c])
		for r, u := range s.use[c] {
			s.later[d][r] = s.later[d+1][r] + max(0, -u)*float64(s.most[c])
		}
	}
}

// descend decides the component at depth d and all deeper ones. So far the
// decided ones are worth that much, and bound plus tail[d] bounds the whole.
func (s *search) descend(d int, worth, bound float64) {
	if d == len(s.order) {
		s.weigh(worth)
		return
	}
	lo, hi := s.span(d)
	if lo > hi {
		return
	}
	s.budget--
	from, to, step := hi, lo, -1
	if s.net[d] <= 0 {
		from, to, step = lo, hi, 1
	}
	c := s.order[d]
	for n := from; ; n += step {
		s.v[c] = n
		b := bound + s.net[d]*float64(n)
		open := b + s.tail[d+1] + s.hope()
		if open <= s.best {
			break // every further n is bounded lower still
		}
		if s.budget < 0 {
			s.dodged = max(s.dodged, open)
			break
		}
		for r, u := range s.use[c] {
			s.free[d+1][r] = s.free[d][r] - u*float64(n)
		}
		s.descend(d+1, worth+s.worth[c]*float64(n), b)
		if n == to {
			break
		}
	}
	s.v[c] = 0
}

// hope is the most that bonuses may add.
func (s *search) hope() float64 {
	sum := 0.0
	for _, b := range s.bonus {
		sum += max(0, b.worth)
	}
	return sum
}

// span is how few and how many of the component at depth d leave a chance
// that deeper ones keep every resource within what there is.
func (s *search) span(d int) (lo, hi int) {
	c := s.order[d]
	least, most := 0.0, float64(s.most[c])
	for r, u := range s.use[c] {
		left := s.free[d][r] + s.later[d+1][r]
		switch {
		case u > 0:
			most = min(most, math.Floor((left+s.tol[r])/u))
		case u < 0:
			least = max(least, math.Ceil((left+s.tol[r])/u))
		case left < -s.tol[r]:
			return 0, -1
		}
	}
	if most < least {
		return 0, -1
	}
	return int(least), int(most)
}

func (s *search) weigh(worth float64) {
	for r, f := range s.free[len(s.order)] {
		if f < -s.tol[r] {
			return
		}
	}
	for _, b := range s.bonus {
		if within(b.limits, s.v) {
			worth += b.worth
		}
	}
	if worth > s.best {
		s.best = worth
		s.finds = append(s.finds, slices.Clone(s.v))
	}
}

// furnish gives the items of v the cheapest purchases, in place, and says
// whether any will do.
func (s *shape) furnish(v []int) bool {
	f := &search{shape: s, worth: make([]float64, s.len()), most: s.most, floor: math.Inf(-1), budget: math.MaxInt}
	for c := range f.worth {
		f.worth[c] = -s.price[c]
	}
	f.arrange(make([]float64, len(s.room)))
	f.best = f.floor
	first := len(s.items)
	copy(f.free[first], s.room)
	for c := range s.items {
		for r, u := range s.use[c] {
			f.free[first][r] -= u * float64(v[c])
		}
	}
	f.descend(first, 0, 0)
	if f.finds == nil {
		return false
	}
	copy(v[first:], f.finds[len(f.finds)-1][first:])
	return true
}
