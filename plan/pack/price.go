package pack

import (
	"math"
	"slices"
)

// A search finds the filling of a shape that is worth most, by branch and bound over
// boxes of purchases. It proves that there is no better one, which makes the lower
// bound of the master program valid.
type search struct {
	*shape
	worth  []float64 // of one of a component; negative for purchases
	lo, hi []float64 // the box; whole numbers of purchases
	bonus  []bonus
	floor  float64 // only fillings worth more than this matter
	budget int     // boxes; when they are used up, the result is only a bound
	haste  int     // boxes left when any find suffices
	stop   func() bool

	constant float64 // worth of what every filling of the box has bought
	best     float64
	finds    []filling // each worth more than the one before
	also     []filling // some that are worth more than floor
	open     float64   // bound of the best box that was not solved
}

// mostAlso is how many good fillings are kept in addition to the best.
const mostAlso = 8

// A bonus is additional worth of every filling within its limits (see rule).
type bonus struct {
	limits []limit
	worth  float64
}

// A limit bounds one purchase of a filling, from below or from above.
type limit struct {
	purchase int
	least    bool // at least k; otherwise less than k
	k        int
}

func (l limit) holds(v []int) bool { return (v[l.purchase] >= l.k) == l.least }

func within(limits []limit, v []int) bool {
	for _, l := range limits {
		if !l.holds(v) {
			return false
		}
	}
	return true
}

// newSearch is a search over all fillings, whose purchases are worth minus their cost.
func (s *shape) newSearch() *search {
	f := &search{shape: s, worth: make([]float64, s.len()), lo: make([]float64, s.len()), hi: slices.Clone(s.most)}
	for c, p := range s.price {
		f.worth[c] = -p
	}
	return f
}

// run searches, and returns an upper bound of the worth of all fillings: the largest
// of floor, the worth of the last find, and what was left open.
func (s *search) run() float64 {
	s.best, s.open = s.floor, math.Inf(-1)
	s.descend()
	return max(s.best, s.open)
}

// load sets up the linear program of the box and reports whether it has a solution.
func (s *search) load() bool {
	lp := s.lp
	off := make([]bool, s.loads)
	for c, loads := range s.switches {
		if s.hi[c] == 0 {
			for _, i := range loads {
				off[i] = true
			}
		}
	}
	for k, r := range s.rows {
		lp.room[k] = s.room[r] + s.tol[r]
	}
	constant := 0.0
	for c := range s.use {
		if s.lo[c] > s.hi[c] {
			return false
		}
		j := s.at[c]
		switch {
		case !s.live(c):
			if s.lo[c] > 0 {
				return false
			}
		case s.own[c] >= 0: // the part that is bought in any case
			constant += s.worth[c] * s.lo[c]
			if s.lo[c] > 0 {
				for k, r := range s.rows {
					lp.room[k] -= s.use[c][r] * s.lo[c]
				}
			}
		case c < s.loads && off[c]:
			if s.lo[c] > 0 {
				return false
			}
			lp.lo[j], lp.hi[j], lp.worth[j] = 0, 0, 0
			if s.pairs[c].purchase >= 0 {
				lp.lo[j+1], lp.hi[j+1], lp.worth[j+1] = 0, 0, 0
			}
		case c < s.loads && s.pairs[c].purchase >= 0:
			p := s.pairs[c]
			there := p.each * s.lo[p.purchase]
			lp.lo[j], lp.hi[j] = min(s.lo[c], there), min(s.hi[c], there)
			lp.lo[j+1] = max(0, s.lo[c]-there)
			lp.hi[j+1] = max(0, min(s.hi[c]-there, p.each*(s.hi[p.purchase]-s.lo[p.purchase])))
			if lp.lo[j+1] > lp.hi[j+1] {
				if lp.lo[j+1] > lp.hi[j+1]+8*slack*s.lo[c] {
					return false
				}
				lp.lo[j+1] = lp.hi[j+1]
			}
			lp.worth[j] = s.worth[c]
			lp.worth[j+1] = s.worth[c] + s.worth[p.purchase]/p.each
		default:
			lp.lo[j], lp.hi[j], lp.worth[j] = s.lo[c], s.hi[c], s.worth[c]
		}
	}
	s.constant = constant
	for k, r := range s.rows {
		lp.room[k] /= s.sizes[r]
	}
	return lp.solve()
}

// amount is how much of component c the solution of the box has.
func (s *search) amount(c int) float64 {
	switch {
	case !s.live(c):
		return 0
	case s.own[c] >= 0:
		p := s.pairs[s.own[c]]
		return s.lo[c] + s.lp.value(s.at[s.own[c]]+1)/p.each
	case c < s.loads && s.pairs[c].purchase >= 0:
		return s.lp.value(s.at[c]) + s.lp.value(s.at[c]+1)
	}
	return s.lp.value(s.at[c])
}

// descend searches the box.
func (s *search) descend() {
	if !s.load() {
		return // the box has no filling
	}
	sure, hope, undecided := s.bonuses()
	bound := s.lp.bound() + s.constant + sure + hope
	if bound <= s.best {
		return
	}
	if s.stop != nil && s.budget%32 == 1 && s.stop() {
		s.budget = 0
	}
	if s.budget--; s.budget < 0 || s.budget < s.haste && s.finds != nil {
		s.open = max(s.open, bound)
		return
	}
	at := make([]float64, s.len())
	for c := range at {
		at[c] = s.amount(c)
	}
	for c, loads := range s.switches { // undecided, though a load needs it
		if s.lo[c] == 0 && s.hi[c] > 0 && slices.ContainsFunc(loads, func(i int) bool { return at[i] > 0 }) {
			at[c] = 0.5
		}
	}
	s.round(at)
	if bound <= s.best {
		return
	}
	s.branch(at, bound, hope, undecided)
}

// branch searches the parts of a box whose relaxation has the amounts at.
func (s *search) branch(at []float64, bound, hope float64, undecided *limit) {
	c := s.fractional(at, integral)
	if c >= 0 && !(undecided != nil && hope > 0) {
		s.halve(c, at[c])
		return
	}
	if c < 0 && s.tryWhole(at, bound-hope) {
		if undecided == nil {
			return
		}
	} else if c = s.fractional(at, 1e-11); c >= 0 && undecided == nil {
		s.halve(c, at[c]) // a fraction below the tolerance, but it matters
		return
	}
	if undecided == nil { // nothing is left to split the box by
		s.open = max(s.open, bound)
		return
	}
	s.halve(s.loads+undecided.purchase, float64(undecided.k)-0.5)
}

// tryWhole makes a filling of a relaxation whose purchases are whole, and
// reports whether it is worth as much as the relaxation.
func (s *search) tryWhole(at []float64, bound float64) bool {
	lo, hi := slices.Clone(s.lo), slices.Clone(s.hi)
	for c := s.loads; c < s.len(); c++ {
		n := math.Round(at[c])
		s.lo[c], s.hi[c] = n, n
	}
	worth := math.Inf(-1)
	if s.load() {
		f := filling{make([]float64, s.loads), make([]int, s.len()-s.loads)}
		for c := range s.use {
			if x := s.amount(c); c < s.loads {
				f.y[c] = s.dusted(c, x)
			} else {
				f.v[c-s.loads] = int(math.Round(x))
			}
		}
		worth = s.weigh(f)
	}
	s.lo, s.hi = lo, hi
	return worth >= bound-1e-9*(1+math.Abs(bound))
}

// halve splits the box at a fraction of component c and searches both halves, the
// nearer one first.
func (s *search) halve(c int, at float64) {
	k := math.Floor(at)
	lo, hi := s.lo[c], s.hi[c]
	up := func() { s.lo[c], s.hi[c] = k+1, hi; s.descend() }
	down := func() { s.lo[c], s.hi[c] = lo, k; s.descend() }
	if at-k > 0.5 {
		up()
		down()
	} else {
		down()
		up()
	}
	s.lo[c], s.hi[c] = lo, hi
}

// fractional finds the purchase whose fraction weighs most at the prices of
// resources; -1 if there is none.
func (s *search) fractional(at []float64, tol float64) int {
	best, most := -1, -1.0
	for c := s.loads; c < s.len(); c++ {
		frac := math.Abs(at[c] - math.Round(at[c]))
		if frac <= tol {
			continue
		}
		weight := math.Abs(s.worth[c]) + 1e-9
		for k, r := range s.rows {
			weight += s.lp.dual[k] * math.Abs(s.use[c][r]) / s.sizes[r]
		}
		if s.switches[c] != nil { // first, because loads depend on them
			weight *= 1e6
		}
		if frac*weight > most {
			best, most = c, frac*weight
		}
	}
	return best
}

// round makes a filling of the relaxation: its loads, and enough whole purchases for
// them.
func (s *search) round(at []float64) {
	f := filling{make([]float64, s.loads), make([]int, s.len()-s.loads)}
	for c := range f.y {
		f.y[c] = s.dusted(c, at[c])
	}
	for k := range f.v {
		f.v[k] = int(math.Ceil(at[s.loads+k] - integral))
	}
	s.weigh(f)
}

// dusted is an amount of a load; 0 if it is only a floating-point error.
func (s *search) dusted(c int, y float64) float64 {
	if y < 1e-8*s.most[c] {
		return 0
	}
	return y
}

// bonuses sums what bonuses are worth to all fillings of the box (sure) and at most
// to some (hope), and returns a limit that separates fillings of the box.
func (s *search) bonuses() (sure, hope float64, undecided *limit) {
	for _, b := range s.bonus {
		open, out := (*limit)(nil), false
		for k, l := range b.limits {
			c := s.loads + l.purchase
			low, high := s.lo[c] >= float64(l.k), s.hi[c] >= float64(l.k)
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

// weigh returns the worth of a filling, and keeps it if it is the best so far.
func (s *search) weigh(f filling) float64 {
	if !s.holds(f) {
		return math.Inf(-1)
	}
	worth := dot(s.worth[:s.loads], f.y)
	for k, n := range f.v {
		worth += s.worth[s.loads+k] * float64(n)
	}
	for _, b := range s.bonus {
		if within(b.limits, f.v) {
			worth += b.worth
		}
	}
	if worth > s.floor && len(s.also) < mostAlso {
		s.also = append(s.also, f)
	}
	if worth > s.best {
		s.best = worth
		s.finds = append(s.finds, f)
	}
	return worth
}
