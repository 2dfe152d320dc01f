package pack

import (
	"math"
	"slices"
)

// A search finds the filling of a shape that is worth most, by branch and
// bound over boxes of components. It proves what it does not find, which is
// what makes the lower bound of the master program a bound.
//
// The bound of a box is the linear relaxation, solved as its dual: there the
// limits of a box are costs, so that what was a solution for one box is one to
// start from for every other.
type search struct {
	*shape
	worth  []float64 // of one of a component; purchases are worth less than nothing
	lo, hi []int     // the box
	bonus  []bonus
	floor  float64 // only fillings worth more than this are of interest
	budget int     // boxes; when they are used up the answer is only bounded
	haste  int     // boxes left when any find will do
	stop   func() bool

	lp    *simplex
	best  float64
	finds [][]int // each worth more than the one before
	open  float64 // bound of the best box not looked into
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
// more than floor, the worth of the last find, or what was left open.
func (s *search) run() float64 {
	n := s.len()
	hi, lo := make([]float64, n), make([]float64, n)
	for c := range n {
		hi[c], lo[c] = float64(s.hi[c]), -float64(s.lo[c])
	}
	s.lp = newSimplex(s.worth, hi, lo)
	for r, room := range s.room {
		col := make([]float64, n)
		for c := range n {
			col[c] = s.use[c][r]
		}
		s.lp.add(room+s.tol[r], col)
	}
	s.best, s.open = s.floor, math.Inf(-1)
	s.descend()
	return max(s.best, s.open)
}

// descend looks into the box.
func (s *search) descend() {
	if !s.lp.minimise() {
		return // no filling is in the box
	}
	sure, hope, undecided := s.bonuses()
	bound := s.lp.objective() + sure + hope
	if bound <= s.best {
		return
	}
	if s.stop != nil && s.budget%1024 == 0 && s.stop() {
		s.budget = 0
	}
	if s.budget--; s.budget < 0 || s.budget < s.haste && s.finds != nil {
		s.open = max(s.open, bound)
		return
	}
	s.round()
	lo, hi := slices.Clone(s.lo), slices.Clone(s.hi)
	s.tighten(bound - s.best)
	s.branch(hope, undecided)
	for c := range lo {
		s.bound(c, lo[c], hi[c])
	}
}

// tighten leaves out of the box what is worse than its bound by more than gap:
// a component at its limit there cannot be far from it.
func (s *search) tighten(gap float64) {
	n := s.len()
	for r, j := range s.lp.basis {
		level := s.lp.level[r]
		if j >= 2*n || level <= 0 || gap/level > 1e6 {
			continue
		}
		far := int(gap/level + integral)
		if c := j % n; j >= n {
			s.bound(c, max(s.lo[c], s.hi[c]-far), s.hi[c])
		} else {
			s.bound(c, s.lo[c], min(s.hi[c], s.lo[c]+far))
		}
	}
}

// branch looks into the parts of a box.
func (s *search) branch(hope float64, undecided *limit) {
	c, at := s.fractional()
	switch {
	case undecided != nil && hope > 0:
		c, at = undecided.component, float64(undecided.k)-0.5
	case c < 0:
		v := make([]int, s.len())
		for c, x := range s.lp.dual {
			v[c] = int(math.Round(x))
		}
		s.weigh(v)
		if undecided == nil {
			return
		}
		c, at = undecided.component, float64(undecided.k)-0.5
	}
	s.halve(c, at)
}

// halve looks into both halves of the box parted at a fraction of component
// c, the nearer one first.
func (s *search) halve(c int, at float64) {
	k := int(math.Floor(at))
	lo, hi := s.lo[c], s.hi[c]
	up := func() { s.bound(c, k+1, hi); s.descend() }
	down := func() { s.bound(c, lo, k); s.descend() }
	if at-float64(k) > 0.5 {
		up()
		down()
	} else {
		down()
		up()
	}
	s.bound(c, lo, hi)
}

func (s *search) bound(c, lo, hi int) {
	s.lo[c], s.hi[c] = lo, hi
	s.lp.over[c], s.lp.short[c] = -float64(lo), float64(hi)
}

// fractional finds the component whose fraction weighs most at the prices of
// resources; -1 is none.
func (s *search) fractional() (int, float64) {
	prices := s.lp.values()
	best, at, most := -1, 0.0, -1.0
	for c, x := range s.lp.dual {
		frac := math.Abs(x - math.Round(x))
		if frac <= integral {
			continue
		}
		weight := 0.0
		for r, m := range prices {
			weight += m * math.Abs(s.use[c][r])
		}
		if c >= len(s.items) {
			weight *= 1e6
		}
		if frac*weight > most {
			best, at, most = c, x, frac*weight
		}
	}
	return best, at
}

// round makes a filling of the relaxation: whole items, and the purchases that
// they need.
func (s *search) round() {
	v := make([]int, s.len())
	for c, x := range s.lp.dual {
		if c < len(s.items) {
			v[c] = int(x + integral)
		}
	}
	for c := len(s.items); c < s.len(); c++ {
		for r, u := range s.use[c] {
			if u < 0 {
				v[c] = max(v[c], int(math.Ceil((s.taken(v, r)-s.room[r]-s.tol[r])/-u)))
			}
		}
	}
	s.weigh(v)
}

// bonuses sums what bonuses are worth to all fillings of the box, what they
// are worth at most to some, and gives a limit that not all are on one side of.
func (s *search) bonuses() (sure, hope float64, undecided *limit) {
	for _, b := range s.bonus {
		open, out := (*limit)(nil), false
		for k, l := range b.limits {
			low, high := s.lo[l.component] >= l.k, s.hi[l.component] >= l.k
			switch {
			case low != high:
				open = &b.limits[k]
			case low != l.least:
				out = true
			}
		}
		switch {
		case out:
		case open == nil:
			sure += b.worth
		default:
			hope += max(0, b.worth)
			undecided = open
		}
	}
	return sure, hope, undecided
}

// weigh keeps a filling that is the best so far.
func (s *search) weigh(v []int) {
	worth := 0.0
	for c, n := range v {
		worth += s.worth[c] * float64(n)
	}
	for _, b := range s.bonus {
		if within(b.limits, v) {
			worth += b.worth
		}
	}
	if worth > s.best && s.holds(v) {
		s.best = worth
		s.finds = append(s.finds, slices.Clone(v))
	}
}

// holds says whether no resource of the server is exceeded.
func (s *shape) holds(v []int) bool {
	for r, room := range s.room {
		if s.taken(v, r) > room+2*s.tol[r] {
			return false
		}
	}
	return true
}

// taken is what v takes of a resource, less what it gives.
func (s *shape) taken(v []int, r int) float64 {
	sum := 0.0
	for c, n := range v {
		if n != 0 {
			sum += s.use[c][r] * float64(n)
		}
	}
	return sum
}

// furnishBudget is far beyond what any real choice of purchases takes.
const furnishBudget = 2_000

// furnish gives the items of v the cheapest purchases, in place, and says
// whether any will do.
func (s *shape) furnish(v []int) bool {
	f := &search{shape: s, worth: make([]float64, s.len()), lo: make([]int, s.len()), hi: slices.Clone(s.most),
		floor: math.Inf(-1), budget: furnishBudget}
	for c := range f.worth {
		f.worth[c] = -s.price[c]
		if c < len(s.items) {
			f.lo[c], f.hi[c] = v[c], v[c]
		}
	}
	f.run()
	if f.finds == nil {
		return false
	}
	copy(v, f.finds[len(f.finds)-1])
	return true
}
