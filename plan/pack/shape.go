package pack

import (
	"fmt"
	"math"
	"slices"
)

// slack is the part of a resource by which sums of demands may exceed it:
// decimal fractions do not add up exactly.
const slack = 1e-9

// A shape is a type of server as one group of items may fill it, or as items
// that share with any group may fill it alone: a small integer program. Its components are whole numbers of items and then of
// purchases; a filling is a vector of them within every resource.
type shape struct {
	server int
	cost   float64     // of the bare server
	items  []int       // component c < len(items) counts this item
	buys   []int       // component len(items)+c counts this purchase
	use    [][]float64 // use[component][resource]; negative gives
	price  []float64   // of one of a component: nothing for items
	room   []float64   // of the bare server
	tol    []float64
	most   []int // no filling worth having holds more of a component
}

// A column is a filling as the master program sees it.
type column struct {
	shape int
	v     []int
	cost  float64 // server and purchases; items cost the same everywhere
}

func (s *shape) len() int { return len(s.use) }

// shapes lists the shapes of a problem, one a server type and group.
func shapes(p *Problem) ([]*shape, error) {
	var out []*shape
	groups := groupsOf(p)
	buys := buyingOrder(p.Purchases)
	for k := range p.Servers {
		for _, g := range groups {
			s, err := newShape(p, k, g, buys)
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// groupsOf lists the groups that are wanted, in order of appearance.
func groupsOf(p *Problem) []string {
	var out []string
	for _, it := range p.Items {
		if it.Count > 0 && !slices.Contains(out, it.Group) {
			out = append(out, it.Group)
		}
	}
	return out
}

// buyingOrder puts a purchase before those that give what it takes, so that a
// search that decides in this order knows what it needs of each.
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
		next := 0 // in a circle any will do
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

func newShape(p *Problem, server int, group string, buys []int) (*shape, error) {
	s := &shape{server: server, cost: p.Servers[server].Cost, buys: buys}
	s.room = append(slices.Clone(p.Servers[server].Capacity), 0)
	member := len(p.Resources) // one more resource, which the group's own items give
	if group != "" {
		s.room[member] = -1 // without one of them it is a filling of shared items
	}
	for i, it := range p.Items {
		if it.Count > 0 && (it.Group == "" || it.Group == group) {
			s.items = append(s.items, i)
			s.use = append(s.use, append(slices.Clone(it.Demand), 0))
			s.price = append(s.price, 0)
			if group != "" && it.Group == group {
				s.use[len(s.use)-1][member] = -1
			}
		}
	}
	for _, b := range buys {
		takes := make([]float64, len(s.room))
		for r, x := range p.Purchases[b].Change {
			takes[r] = -x
		}
		s.use = append(s.use, takes)
		s.price = append(s.price, p.Purchases[b].Cost)
	}
	s.tolerate()
	return s, s.limit(p)
}

// tolerate sets how far each resource may be exceeded, in the measure of what
// moves there.
func (s *shape) tolerate() {
	s.tol = make([]float64, len(s.room))
	for r := range s.tol {
		size := math.Abs(s.room[r])
		for _, u := range s.use {
			size = max(size, math.Abs(u[r]))
		}
		s.tol[r] = slack * size
	}
}

// limit finds the most of each component that fits, or is of any use: what
// purchases take limits them, and so does what there is to give it to.
func (s *shape) limit(p *Problem) error {
	most := make([]float64, s.len())
	for c := range most {
		most[c] = math.Inf(1)
	}
	for c, i := range s.items {
		most[c] = float64(p.Items[i].Count)
	}
	for changed := true; changed; {
		changed = false
		for c := range most {
			m := min(most[c], s.fits(c, most))
			if c >= len(s.items) {
				m = min(m, s.useful(c, most))
			}
			if m < most[c] {
				most[c], changed = m, true
			}
		}
	}
	for c, m := range most {
		if m > 1<<30 {
			return fmt.Errorf("pack: nothing limits how many of purchase %q a server may have", p.Purchases[s.buys[c-len(s.items)]].Name)
		}
		s.most = append(s.most, int(m))
	}
	return nil
}

// fits is how many of component c fit when all purchases are made.
func (s *shape) fits(c int, most []float64) float64 {
	m := math.Inf(1)
	for r, u := range s.use[c] {
		if u > 0 {
			m = min(m, math.Floor((s.room[r]+s.given(r, most)+s.tol[r])/u))
		}
	}
	return max(m, 0)
}

// useful is how many of purchase c there is a demand for.
func (s *shape) useful(c int, most []float64) float64 {
	m := 0.0
	for r, u := range s.use[c] {
		if u < 0 {
			m = max(m, math.Ceil((s.wanted(r, most)-s.room[r]-s.tol[r])/-u))
		}
	}
	return m
}

func (s *shape) given(r int, most []float64) float64 {
	sum := 0.0
	for c := len(s.items); c < s.len(); c++ {
		if g := -s.use[c][r]; g > 0 {
			sum += g * most[c]
		}
	}
	return sum
}

func (s *shape) wanted(r int, most []float64) float64 {
	sum := 0.0
	for c, u := range s.use {
		if u[r] > 0 {
			sum += u[r] * most[c]
		}
	}
	return sum
}

// costOf is the price of the server with the purchases of v.
func (s *shape) costOf(v []int) float64 {
	sum := s.cost
	for c := len(s.items); c < s.len(); c++ {
		sum += s.price[c] * float64(v[c])
	}
	return sum
}

// count says how often column v of this shape holds item i.
func (s *shape) count(v []int, i int) int {
	if c, ok := slices.BinarySearch(s.items, i); ok {
		return v[c]
	}
	return 0
}

// bought says how often column v of this shape holds purchase b.
func (s *shape) bought(v []int, b int) int {
	return v[len(s.items)+slices.Index(s.buys, b)]
}
