package pack

import (
	"fmt"
	"math"
	"slices"
)

// slack is the relative amount by which sums of demands may exceed a resource:
// decimal fractions do not add up exactly.
const slack = 1e-9

// A shape is the small mixed integer program of filling a type of server. Its
// components are amounts of loads and then whole numbers of purchases; a filling is a
// vector of them that exceeds no resource.
type shape struct {
	server int
	cost   float64     // of the bare server
	loads  int         // components before this are loads, the others purchases
	use    [][]float64 // use[component][resource]; negative gives
	price  []float64   // of one of a component: nothing for loads
	room   []float64   // of the bare server
	tol    []float64
	most   []float64 // no useful filling holds more of a component

	pairs  []pair    // by load
	own    []int     // by purchase component: the load whose pair it is; -1: none
	rows   []int     // resources that are rows of the search: those of pairs are not
	sizes  []float64 // the scale of each resource
	bare   []bool    // by resource: it is not a row of the search
	moves  [][]int   // by component: the resources it takes or gives
	wanted []bool    // by load: part of lp
	lp     *box
	// switches are purchases of which one suffices for all loads that need it, such
	// as the presence of a storage system: those loads, by component.
	switches map[int][]int
	at       []int // first column of a component in lp; of a pair, the one within what is bought
}

// A pair is a load and a purchase that only gives room to it, such as a dataset's
// load and its disks.
type pair struct {
	purchase int     // component; -1: none
	row      int     // the resource that only these two use
	each     float64 // load that one of the purchase has room for
}

// A filling is the content of a column of the master program.
type filling struct {
	y []float64 // amounts of loads
	v []int     // purchases
}

func (s *shape) len() int { return len(s.use) }

// shapes lists the shapes of a problem, one a server type.
func shapes(p *Problem) ([]*shape, error) {
	var out []*shape
	for k := range p.Servers {
		s, err := newShape(p, k)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func newShape(p *Problem, server int) (*shape, error) {
	s := &shape{server: server, cost: p.Servers[server].Cost, loads: len(p.Loads), room: slices.Clone(p.Servers[server].Capacity)}
	for _, l := range p.Loads {
		s.use = append(s.use, slices.Clone(l.Demand))
		s.price = append(s.price, 0)
	}
	for _, u := range p.Purchases {
		takes := make([]float64, len(s.room))
		for r, x := range u.Change {
			takes[r] = -x
		}
		s.use = append(s.use, takes)
		s.price = append(s.price, u.Cost)
	}
	s.tolerate()
	if err := s.limit(p); err != nil {
		return nil, err
	}
	s.tighten()
	for r := range s.room {
		s.sizes = append(s.sizes, max(s.size(r), 1e-300))
	}
	for _, u := range s.use {
		var moves []int
		for r, x := range u {
			if x != 0 {
				moves = append(moves, r)
			}
		}
		s.moves = append(s.moves, moves)
	}
	s.toggle()
	s.pair()
	all := make([]bool, s.loads)
	for i := range all {
		all[i] = true
	}
	s.build(all)
	return s, nil
}

// tolerate sets how far each resource may be exceeded, relative to its scale.
func (s *shape) tolerate() {
	s.tol = make([]float64, len(s.room))
	for r := range s.tol {
		s.tol[r] = slack * s.size(r)
	}
}

// size is the scale of a resource.
func (s *shape) size(r int) float64 {
	size := math.Abs(s.room[r])
	for _, u := range s.use {
		size = max(size, math.Abs(u[r]))
	}
	return size
}

// limit finds the most of each component that fits or is useful: purchases are
// limited by what they take, and by the demand for what they give.
func (s *shape) limit(p *Problem) error {
	s.most = make([]float64, s.len())
	for c := range s.most {
		s.most[c] = math.Inf(1)
		if c < s.loads {
			s.most[c] = p.Loads[c].Amount
		}
	}
	for changed := true; changed; {
		changed = false
		for c := range s.most {
			m := min(s.most[c], s.fits(c))
			if c >= s.loads {
				m = min(math.Floor(m+integral), s.useful(c))
			}
			if m < s.most[c]*(1-1e-6) {
				s.most[c], changed = m, true
			}
		}
	}
	for c, m := range s.most {
		if m > 1<<30 && c >= s.loads {
			return fmt.Errorf("pack: nothing limits how many of purchase %q a server may have", p.Purchases[c-s.loads].Name)
		}
	}
	return nil
}

// fits is how many of component c fit if all that gives resources is there.
func (s *shape) fits(c int) float64 {
	m := math.Inf(1)
	for r, u := range s.use[c] {
		if u > 0 {
			m = min(m, (s.room[r]+s.sum(r, -1)+s.tol[r])/u)
		}
	}
	if m < 1e-7*min(1, s.most[c]) {
		return 0 // only the tolerance has room for it
	}
	return m
}

// useful is how many of purchase c are in demand.
func (s *shape) useful(c int) float64 {
	m := 0.0
	for r, u := range s.use[c] {
		if u < 0 {
			m = max(m, math.Ceil((s.sum(r, 1)-s.room[r]-s.tol[r])/-u*(1-slack)))
		}
	}
	return m
}

// sum is the most that all components can take of a resource (sign 1), or
// give (sign -1).
func (s *shape) sum(r int, sign float64) float64 {
	sum := 0.0
	for c, u := range s.use {
		if x := sign * u[r]; x > 0 {
			sum += x * s.most[c]
		}
	}
	return sum
}

// tighten lowers what one of a purchase gives to the demand for it: this is the same
// for whole numbers, and a better bound for fractions.
func (s *shape) tighten() {
	for r, room := range s.room {
		if room != 0 {
			continue
		}
		giver, wanted := -1, s.sum(r, 1)
		for c, u := range s.use {
			if u[r] < 0 {
				if giver >= 0 || c < s.loads {
					giver = -1
					break
				}
				giver = c
			}
		}
		if giver >= 0 && wanted > 0 && -s.use[giver][r] > wanted {
			s.use[giver][r] = -wanted
			s.tol[r] = slack * s.size(r)
		}
	}
}

// toggle finds the switches: their resources are not rows of the search.
func (s *shape) toggle() {
	s.switches = map[int][]int{}
	s.bare = make([]bool, len(s.room))
	for r, room := range s.room {
		giver, alone := -1, room == 0
		var takers []int
		for c, u := range s.use {
			switch {
			case u[r] == 0:
			case u[r] > 0 && c < s.loads:
				takers = append(takers, c)
			case u[r] < 0 && c >= s.loads && giver < 0:
				giver = c
			default:
				alone = false
			}
		}
		if alone && giver >= 0 && takers != nil && s.most[giver] <= 1 && s.price[giver] == 0 && -s.use[giver][r] >= s.sum(r, 1)*(1-slack) {
			s.bare[r] = true
			s.switches[giver] = append(s.switches[giver], takers...)
		}
	}
}

// pair finds the pairs.
func (s *shape) pair() {
	s.pairs = make([]pair, s.loads)
	s.own = make([]int, s.len())
	for c := range s.own {
		s.own[c] = -1
	}
	for c := range s.pairs {
		s.pairs[c].purchase = -1
	}
	for r, room := range s.room {
		if s.bare[r] {
			continue
		}
		load, purchase, alone := -1, -1, room == 0
		for c, u := range s.use {
			switch {
			case u[r] == 0:
			case u[r] > 0 && c < s.loads && load < 0:
				load = c
			case u[r] < 0 && c >= s.loads && purchase < 0:
				purchase = c
			default:
				alone = false
			}
		}
		if alone && load >= 0 && purchase >= 0 && s.pairs[load].purchase < 0 && s.own[purchase] < 0 && s.gives(purchase) == 1 {
			s.pairs[load] = pair{purchase, r, (-s.use[purchase][r] + s.tol[r]) / s.use[load][r]}
			s.own[purchase] = load
			continue
		}
		s.rows = append(s.rows, r)
	}
}

func (s *shape) gives(c int) int {
	n := 0
	for _, u := range s.use[c] {
		if u < 0 {
			n++
		}
	}
	return n
}

// build lays out the linear program of a search for the wanted loads. A load y that
// has a pair is two columns: one up to what the least number of its purchase has room
// for, and one beyond that, which includes the fraction of the purchase that it takes.
// So the row of the pair is not needed.
func (s *shape) build(wanted []bool) {
	s.wanted = slices.Clone(wanted)
	s.at = make([]int, s.len())
	n := 0
	for c := range s.use {
		s.at[c] = -1
		switch {
		case !s.live(c):
		case c < s.loads && s.pairs[c].purchase >= 0:
			s.at[c] = n
			n += 2
		case s.own[c] < 0:
			s.at[c] = n
			n++
		}
	}
	s.lp = newBox(len(s.rows), n)
	for k, r := range s.rows {
		scale := 1 / s.sizes[r]
		for c, u := range s.use {
			if s.at[c] < 0 {
				continue
			}
			s.lp.use[k*n+s.at[c]] = u[r] * scale
			if c < s.loads && s.pairs[c].purchase >= 0 {
				p := s.pairs[c]
				s.lp.use[k*n+s.at[c]+1] = (u[r] + s.use[p.purchase][r]/p.each) * scale
			}
		}
	}
	s.lp.begin()
}

// live reports whether a component is of use to the wanted loads.
func (s *shape) live(c int) bool {
	if c < s.loads {
		return s.wanted[c]
	}
	return s.own[c] < 0 || s.wanted[s.own[c]]
}

// focus leaves unwanted loads out of later searches.
func (s *shape) focus(wanted []bool) {
	if !slices.Equal(s.wanted, wanted) {
		s.build(wanted)
	}
}

// costOf is the price of the server with purchases v.
func (s *shape) costOf(v []int) float64 {
	sum := s.cost
	for k, n := range v {
		sum += s.price[s.loads+k] * float64(n)
	}
	return sum
}

// holds reports whether no resource of the server is exceeded, relative to its scale.
func (s *shape) holds(f filling) bool {
	taken, moved := make([]float64, len(s.room)), make([]float64, len(s.room))
	take := func(c int, amount float64) {
		for _, r := range s.moves[c] {
			taken[r] += s.use[c][r] * amount
			moved[r] += math.Abs(s.use[c][r] * amount)
		}
	}
	for c, y := range f.y {
		if y != 0 {
			take(c, y)
		}
	}
	for k, n := range f.v {
		if n != 0 {
			take(s.loads+k, float64(n))
		}
	}
	for r, room := range s.room {
		if taken[r] > room+8*max(s.tol[r], slack*moved[r]) {
			return false
		}
	}
	return true
}
