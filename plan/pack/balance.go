package pack

import "slices"

// Limits of balancing: larger solutions have enough similar servers without it.
const (
	balanceRows   = 300
	balanceRounds = 6
)

// balance moves loads between the servers of a solution such that the highest
// utilisation of a resource becomes as low as possible, then the next highest, and so
// on. Cost and purchases stay as they are.
func (t *tree) balance() {
	groups := t.merged()
	if t.covers(groups, t.taken) {
		t.best = slices.Clone(groups)
	}
	b := newBalance(t, groups)
	if b == nil {
		return
	}
	for range balanceRounds {
		if !b.lp.solve() {
			return
		}
		for g := range groups {
			groups[g].y = b.loads(g)
			if !t.shapes[groups[g].shape].holds(groups[g].filling) {
				return
			}
		}
		if !t.covers(groups, t.taken) {
			return // rounding errors made it worse
		}
		t.best = slices.Clone(groups)
		if !b.freeze() {
			return
		}
	}
}

// merged are the servers of the best solution, those with the same purchases
// as one.
func (t *tree) merged() []stock {
	var out []stock
	for _, s := range t.best {
		k := slices.IndexFunc(out, func(o stock) bool { return o.shape == s.shape && slices.Equal(o.v, s.v) })
		if k < 0 {
			s.y = slices.Clone(s.y)
			out = append(out, s)
			continue
		}
		all := float64(out[k].times + s.times)
		for i := range s.y {
			out[k].y[i] = (out[k].y[i]*float64(out[k].times) + s.y[i]*float64(s.times)) / all
		}
		out[k].times += s.times
	}
	return out
}

// A balance is the linear program of one round: columns are the loads of each group
// of servers, and last the part of every resource that stays free.
type balance struct {
	lp   *box
	n    int // loads
	rows []int
}

func newBalance(t *tree, groups []stock) *balance {
	wanted := t.hosts(t.taken)
	n := len(t.p.Loads)
	rows := n
	for _, g := range groups {
		rows += len(t.shapes[g.shape].rows) + len(t.shapes[g.shape].pairs)
	}
	if len(groups) < 2 || rows > balanceRows {
		return nil
	}
	b := &balance{n: n}
	type row struct {
		use   map[int]float64
		room  float64
		share bool // a share of the room must stay free
	}
	var all []row
	free := len(groups) * n
	for k, g := range groups {
		s := t.shapes[g.shape]
		for r := range s.room {
			use, gives := map[int]float64{}, false
			for i := range n {
				if u := s.use[i][r]; u != 0 && wanted[i] {
					use[k*n+i] = u
					gives = gives || u < 0
				}
			}
			if len(use) == 0 {
				continue
			}
			room := s.room[r] + s.tol[r]
			for p, count := range g.v {
				room -= s.use[s.loads+p][r] * float64(count)
			}
			all = append(all, row{use, room, !gives && !s.bare[r] && room > s.tol[r]*8})
		}
	}
	for i, l := range t.p.Loads {
		if wanted[i] {
			use := map[int]float64{}
			for k, g := range groups {
				use[k*n+i] = -float64(g.times)
			}
			all = append(all, row{use, -l.Amount, false})
		}
	}
	b.lp = newBox(len(all), free+1)
	for k, r := range all {
		size := max(1e-300, r.room, -r.room)
		if r.room == 0 {
			size = 1
		}
		for j, u := range r.use {
			b.lp.use[k*(free+1)+j] = u / size
		}
		b.lp.room[k] = r.room / size
		if r.share {
			b.lp.use[k*(free+1)+free] = 1
			b.rows = append(b.rows, k)
		}
	}
	for k, g := range groups {
		for i, most := range t.shapes[g.shape].most[:n] {
			if wanted[i] {
				b.lp.hi[k*n+i] = most
			}
		}
	}
	b.lp.hi[free], b.lp.worth[free] = 1, 1
	b.lp.begin()
	return b
}

// loads are those of a server of group g.
func (b *balance) loads(g int) []float64 {
	out := make([]float64, b.n)
	for i := range out {
		j := g*b.n + i
		if out[i] = b.lp.value(j); out[i] < 1e-8*b.lp.hi[j] {
			out[i] = 0
		}
	}
	return out
}

// freeze fixes the resources that cannot be used less, and reports whether any
// others are left.
func (b *balance) freeze() bool {
	free := b.lp.n - 1
	level := b.lp.value(free)
	left := b.rows[:0]
	for _, k := range b.rows {
		if b.lp.dual[k] > boxTol {
			b.lp.room[k] -= level * (1 - boxTol)
			b.lp.use[k*b.lp.n+free] = 0
			continue
		}
		left = append(left, k)
	}
	changed := len(left) < len(b.rows)
	b.rows = left
	b.lp.begin()
	return changed && len(left) > 0
}
