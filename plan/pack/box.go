package pack

import "math"

// A box maximises worth·z where no row of use·z exceeds its room and every z
// stays within [lo, hi], all of them finite. It is a dual simplex on a dense
// tableau with few rows and many columns. A column that is not in the basis is at the
// limit that is better for its worth, so it can start from any basis, whatever
// limits, rooms and worths have changed since the last call.
type box struct {
	m, n   int       // rows and columns; column n+r is the slack of row r
	use    []float64 // m by n, as given
	room   []float64
	worth  []float64
	lo, hi []float64 // of n+m columns

	table []float64 // m by n+m: the inverse of the basis times all columns
	basis []int     // by row
	row   []int     // by column; -1: not in the basis
	upper []bool    // by column outside the basis: it is at hi
	level []float64 // of basic columns, by row
	gain  []float64 // what one more of a column gains
	dual  []float64
	age   int // pivots since the tableau was recomputed
}

const (
	boxTol      = 1e-9
	boxRenew    = 150
	boxPatience = 300 // pivots before it restarts
	boxPivots   = 2000
)

// newBox expects rows that are scaled so that rooms and uses are about 1.
func newBox(m, n int) *box {
	b := &box{m: m, n: n, use: make([]float64, m*n), room: make([]float64, m), worth: make([]float64, n),
		lo: make([]float64, n+m), hi: make([]float64, n+m), table: make([]float64, m*(n+m)), basis: make([]int, m),
		row: make([]int, n+m), upper: make([]bool, n+m), level: make([]float64, m), gain: make([]float64, n+m), dual: make([]float64, m)}
	for r := range m {
		b.basis[r] = n + r
	}
	return b
}

// begin makes the slacks the basis; use must have been set.
func (b *box) begin() {
	w := b.n + b.m
	for j := range b.row {
		b.row[j] = -1
	}
	for r := range b.m {
		copy(b.table[r*w:], b.use[r*b.n:(r+1)*b.n])
		clear(b.table[r*w+b.n : (r+1)*w])
		b.table[r*w+b.n+r] = 1
		b.basis[r], b.row[b.n+r] = b.n+r, r
	}
	b.age = 0
}

// renew recomputes the tableau of the basis, against rounding errors.
func (b *box) renew() {
	basis := append([]int(nil), b.basis...)
	b.begin()
	w := b.n + b.m
	for _, j := range basis {
		if b.row[j] >= 0 {
			continue
		}
		best, at := 1e-7, -1
		for r := range b.m {
			if k := b.basis[r]; k >= b.n && !contains(basis, k) {
				if x := math.Abs(b.table[r*w+j]); x > best {
					best, at = x, r
				}
			}
		}
		if at >= 0 { // else the slack stays: the basis had become singular
			b.turn(at, j)
		}
	}
	b.age = 0
}

func contains(basis []int, j int) bool {
	for _, k := range basis {
		if k == j {
			return true
		}
	}
	return false
}

// turn pivots: it makes column j basic in row r.
func (b *box) turn(r, j int) {
	w := b.n + b.m
	own := b.table[r*w : (r+1)*w]
	p := 1 / own[j]
	for k := range own {
		own[k] *= p
	}
	own[j] = 1
	for i := range b.m {
		if i == r {
			continue
		}
		row := b.table[i*w : (i+1)*w]
		if f := row[j]; f != 0 {
			axpy(-f, own, row)
			row[j] = 0
		}
	}
	b.row[b.basis[r]] = -1
	b.basis[r], b.row[j] = j, r
	b.age++
}

// solve finds an optimum and reports whether there is any solution. It reports none
// only if the original rows prove that: the tableau is kept from call to call and
// may have rounding errors.
func (b *box) solve() bool {
	for range 2 {
		if b.age > boxRenew {
			b.renew()
		}
		row := b.run()
		if b.sound() && (row < 0 || b.impossible(row)) {
			b.duals()
			return row < 0
		}
		b.begin()
	}
	b.price()
	b.computeLevels()
	clear(b.dual) // the bound holds for any duals
	return true
}

// run pivots to an optimum, and returns the row that cannot be satisfied; -1 if
// there is none. If it cycles because of ties, it restarts and takes the first of
// equals.
func (b *box) run() int {
	b.slacks()
	b.price()
	b.computeLevels()
	for k := range boxPivots {
		if k == boxPatience {
			b.begin()
		}
		if k >= boxPatience && (k-boxPatience)%boxRenew == 0 {
			b.renew()
			b.price()
			b.computeLevels()
		}
		r, up := b.leaving(k >= boxPatience)
		if r < 0 {
			return -1
		}
		j := b.entering(r, up)
		if j < 0 {
			return r
		}
		b.pivot(r, j, up)
	}
	return -1 // the bound holds for any duals
}

// sound reports whether all numbers are numbers.
func (b *box) sound() bool {
	sum := 0.0
	for _, x := range b.level {
		sum += x
	}
	for _, x := range b.gain {
		sum += x
	}
	return sum-sum == 0
}

// impossible reports whether a row of the tableau, which is a linear combination of
// the original rows, proves that there is no solution.
func (b *box) impossible(row int) bool {
	w := b.n + b.m
	weights := b.table[row*w+b.n : (row+1)*w]
	right := dot(weights, b.room)
	least, most, size := 0.0, 0.0, math.Abs(right)
	add := func(u, lo, hi float64) {
		least += min(u*lo, u*hi)
		most += max(u*lo, u*hi)
		size += math.Abs(u) * max(math.Abs(lo), math.Abs(hi))
	}
	for j := range b.n {
		sum := 0.0
		for r, x := range weights {
			sum += x * b.use[r*b.n+j]
		}
		add(sum, b.lo[j], b.hi[j])
	}
	for r, x := range weights {
		add(x, b.lo[b.n+r], b.hi[b.n+r])
	}
	return right < least-1e-13*size || right > most+1e-13*size
}

// slacks limits each slack by the most that its row can have left.
func (b *box) slacks() {
	for r := range b.m {
		least := 0.0
		for j, u := range b.use[r*b.n : (r+1)*b.n] {
			if u > 0 {
				least += u * b.lo[j]
			} else {
				least += u * b.hi[j]
			}
		}
		b.lo[b.n+r], b.hi[b.n+r] = 0, max(0, b.room[r]-least)+1
	}
}

// price computes what each column gains and at which limit it is.
func (b *box) price() {
	w := b.n + b.m
	copy(b.gain, b.worth)
	clear(b.gain[b.n:])
	for r, k := range b.basis {
		if k < b.n && b.worth[k] != 0 {
			axpy(-b.worth[k], b.table[r*w:(r+1)*w], b.gain)
		}
	}
	for j := range b.gain {
		if b.row[j] >= 0 {
			b.gain[j] = 0
		}
		b.upper[j] = b.gain[j] > 0
	}
}

func (b *box) sits(j int) float64 {
	if b.upper[j] {
		return b.hi[j]
	}
	return b.lo[j]
}

// computeLevels computes the levels of the basic columns.
func (b *box) computeLevels() {
	w := b.n + b.m
	for r := range b.m {
		row := b.table[r*w : (r+1)*w]
		sum := dot(b.room, row[b.n:])
		for j, t := range row {
			if t != 0 && b.row[j] < 0 {
				sum -= t * b.sits(j)
			}
		}
		b.level[r] = sum
	}
}

// leaving finds the basic column furthest beyond a limit, or the first beyond one;
// up says which limit.
func (b *box) leaving(first bool) (r int, up bool) {
	r, most := -1, 0.0
	for i, k := range b.basis {
		tol := boxTol * (1 + math.Abs(b.level[i]))
		if over := b.level[i] - b.hi[k]; over > tol && over > most {
			r, up, most = i, true, over
		}
		if under := b.lo[k] - b.level[i]; under > tol && under > most {
			r, up, most = i, false, under
		}
		if first && r >= 0 {
			break
		}
	}
	return r, up
}

// entering finds the column that brings row r within its limit at the least loss.
func (b *box) entering(r int, up bool) int {
	w := b.n + b.m
	best, least, size := -1, math.Inf(1), 0.0
	for j, t := range b.table[r*w : (r+1)*w] {
		if b.row[j] >= 0 || b.hi[j] <= b.lo[j] || math.Abs(t) <= boxTol {
			continue
		}
		if (t > 0) != (up != b.upper[j]) { // moving it would lead further away
			continue
		}
		ratio := math.Abs(b.gain[j] / t)
		if ratio < least-1e-12 || ratio <= least+1e-12 && math.Abs(t) > size {
			best, least, size = j, min(ratio, least), math.Abs(t)
		}
	}
	return best
}

func (b *box) pivot(r, j int, up bool) {
	w := b.n + b.m
	out := b.basis[r]
	limit := b.lo[out]
	if up {
		limit = b.hi[out]
	}
	t := b.table[r*w+j]
	step := (b.level[r] - limit) / t // by which j moves
	for i := range b.m {
		if i != r {
			b.level[i] -= b.table[i*w+j] * step
		}
	}
	enters := b.sits(j) + step
	g := b.gain[j]
	b.turn(r, j)
	b.level[r] = enters
	if g != 0 {
		axpy(-g, b.table[r*w:(r+1)*w], b.gain)
	}
	b.gain[j] = 0
	b.upper[out] = up
}

func (b *box) duals() {
	for r := range b.m {
		b.dual[r] = max(0, -b.gain[b.n+r])
	}
}

// bound is a worth that no solution exceeds: it holds for any duals.
func (b *box) bound() float64 {
	sum := dot(b.dual, b.room)
	for j := range b.n {
		g := b.worth[j]
		for r, d := range b.dual {
			if d != 0 {
				g -= d * b.use[r*b.n+j]
			}
		}
		if g > 0 {
			sum += g * b.hi[j]
		} else {
			sum += g * b.lo[j]
		}
	}
	return sum
}

// value is how much of column j the optimum has.
func (b *box) value(j int) float64 {
	x := b.sits(j)
	if r := b.row[j]; r >= 0 {
		x = b.level[r]
	}
	return min(max(x, b.lo[j]), b.hi[j])
}
