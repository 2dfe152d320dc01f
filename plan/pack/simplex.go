package pack

import (
	"math"
	"slices"
)

// A simplex minimises cost·x + short·y + over·z where A·x + y - z = right and
// all of x, y, z >= 0: each row must be covered, and what falls short of it (y) or
// goes beyond it (z) has a price. So there is always a solution to start from,
// columns may be added and costs changed between calls, and the dual of a row stays
// between -over and short.
//
// It is a revised primal simplex with an explicit inverse, meant for a few
// dozen rows. The entering column is the steepest; after a run of pivots
// without progress it is the first (Bland's rule), which ends every cycle.
type simplex struct {
	m                  int
	right, short, over []float64
	cost               []float64
	cols               []sparse

	basis    []int     // by row: z is 0..m-1, y is m..2m-1, x from 2m on
	inverse  []float64 // m by m
	level    []float64 // of the basic columns, by row
	dual     []float64
	dir      []float64 // the entering column in terms of the basis
	age      int       // pivots since the inverse was recomputed
	refactor int       // pivots until it is recomputed
}

// A sparse vector has the entries that are not zero.
type sparse struct {
	rows   []int
	values []float64
}

// squeeze makes a vector sparse.
func squeeze(v []float64) sparse {
	var out sparse
	for r, x := range v {
		if x != 0 {
			out.rows, out.values = append(out.rows, r), append(out.values, x)
		}
	}
	return out
}

// dot multiplies with a vector that is not sparse.
func (s sparse) dot(v []float64) float64 {
	sum := 0.0
	for k, r := range s.rows {
		sum += s.values[k] * v[r]
	}
	return sum
}

const (
	pivotTol   = 1e-9
	refactor   = 60  // pivots
	patience   = 40  // pivots without progress before Bland's rule
	mostPivots = 500 // and as many more for each row: more than that is a cycle due to rounding errors
	rowPivots  = 30
)

func newSimplex(right, short, over []float64) *simplex {
	m := len(right)
	lp := &simplex{m: m, right: right, short: short, over: over, basis: make([]int, m), inverse: make([]float64, m*m),
		level: make([]float64, m), dual: make([]float64, m), dir: make([]float64, m)}
	lp.reset()
	return lp
}

// reset makes the columns y and z the basis.
func (lp *simplex) reset() {
	clear(lp.inverse)
	for r, b := range lp.right {
		lp.basis[r], lp.inverse[r*lp.m+r] = r, -1
		if b > 0 {
			lp.basis[r], lp.inverse[r*lp.m+r] = lp.m+r, 1
		}
		lp.level[r] = math.Abs(b)
	}
	lp.age = 0
}

// sound reports whether the basis is still a solution, despite rounding errors.
func (lp *simplex) sound() bool {
	left := slices.Clone(lp.right)
	for r, j := range lp.basis {
		x := lp.level[r]
		if !(x > -1e-6*(1+math.Abs(lp.right[r]))) {
			return false
		}
		switch {
		case j < lp.m:
			left[j] += x
		case j < 2*lp.m:
			left[j-lp.m] -= x
		default:
			col := lp.cols[j-2*lp.m]
			for k, r := range col.rows {
				left[r] -= x * col.values[k]
			}
		}
	}
	for r, x := range left {
		if !(math.Abs(x) <= 1e-6*(1+math.Abs(lp.right[r]))) {
			return false
		}
	}
	return true
}

// add adds a column to the linear program.
func (lp *simplex) add(cost float64, col []float64) {
	lp.cost = append(lp.cost, cost)
	lp.cols = append(lp.cols, squeeze(col))
}

// minimise finds an optimum. If rounding errors have spoilt the basis it restarts,
// and recomputes the inverse more often.
func (lp *simplex) minimise() {
	for _, often := range []int{refactor, refactor / 6, 1} {
		lp.refactor = often
		if lp.descend(); lp.sound() {
			break
		}
		lp.reset()
	}
}

// descend pivots to an optimum; it ends early for a program without one.
func (lp *simplex) descend() {
	stalled := 0
	lp.price()
	for range mostPivots + rowPivots*lp.m {
		enter, reduced := lp.entering(stalled > patience)
		if enter < 0 {
			return
		}
		lp.express(enter)
		leave := lp.leaving(stalled > patience)
		if leave < 0 {
			return
		}
		if lp.level[leave] > 1e-12 {
			stalled = 0
		} else {
			stalled++
		}
		lp.pivot(enter, leave, reduced)
	}
}

// prices are the duals within their limits, shrunk.
func (lp *simplex) prices(shrink float64) []float64 {
	out := make([]float64, lp.m)
	for r, d := range lp.dual {
		out[r] = min(max(0, d), lp.short[r]) / shrink
	}
	return out
}

// objective is the least cost found.
func (lp *simplex) objective() float64 {
	sum := 0.0
	for r, j := range lp.basis {
		sum += lp.level[r] * lp.costOf(j)
	}
	return sum
}

// values returns the amount of each column.
func (lp *simplex) values() []float64 {
	x := make([]float64, len(lp.cost))
	for r, j := range lp.basis {
		if j >= 2*lp.m {
			x[j-2*lp.m] = max(0, lp.level[r])
		}
	}
	return x
}

// lacking returns by how much each row falls short.
func (lp *simplex) lacking() []float64 {
	y := make([]float64, lp.m)
	for r, j := range lp.basis {
		if j >= lp.m && j < 2*lp.m {
			y[j-lp.m] = max(0, lp.level[r])
		}
	}
	return y
}

func (lp *simplex) costOf(j int) float64 {
	switch {
	case j < lp.m:
		return lp.over[j]
	case j < 2*lp.m:
		return lp.short[j-lp.m]
	default:
		return lp.cost[j-2*lp.m]
	}
}

// price computes the duals of the basis.
func (lp *simplex) price() {
	clear(lp.dual)
	for r, j := range lp.basis {
		if c := lp.costOf(j); c != 0 {
			axpy(c, lp.inverse[r*lp.m:(r+1)*lp.m], lp.dual)
		}
	}
}

// axpy adds a times x to y.
func axpy(a float64, x, y []float64) {
	y = y[:len(x)]
	for k, v := range x {
		y[k] += a * v
	}
}

func dot(x, y []float64) float64 {
	sum := 0.0
	y = y[:len(x)]
	for k, v := range x {
		sum += v * y[k]
	}
	return sum
}

// entering finds a column that improves, the steepest or the first, and its
// reduced cost; -1 if there is none.
func (lp *simplex) entering(first bool) (int, float64) {
	m, enter, best := lp.m, -1, 0.0
	for r, d := range lp.dual {
		tol := -pivotTol * (1 + math.Abs(d))
		if red := lp.over[r] + d; red < tol && red < best {
			enter, best = r, red
		}
		if red := lp.short[r] - d; red < tol && red < best {
			enter, best = m+r, red
		}
		if first && enter >= 0 {
			return enter, best
		}
	}
	for j, c := range lp.cost {
		red := c - lp.cols[j].dot(lp.dual)
		if red < best && red < -pivotTol*(1+math.Abs(c)) {
			enter, best = 2*m+j, red
			if first {
				break
			}
		}
	}
	return enter, best
}

// express writes column j in terms of the basis.
func (lp *simplex) express(j int) {
	m := lp.m
	for r := range lp.dir {
		row := lp.inverse[r*m : (r+1)*m]
		switch {
		case j < m:
			lp.dir[r] = -row[j]
		case j < 2*m:
			lp.dir[r] = row[j-m]
		default:
			lp.dir[r] = lp.cols[j-2*m].dot(row)
		}
	}
}

// leaving finds the row whose basic column falls to zero first; -1 if there is none.
// Among equals it is the largest pivot, or the lowest column by Bland's rule.
func (lp *simplex) leaving(bland bool) int {
	leave, least := -1, math.Inf(1)
	for r, d := range lp.dir {
		if d <= pivotTol {
			continue
		}
		ratio := max(0, lp.level[r]) / d
		switch {
		case leave < 0 || ratio < least-1e-12*(1+least):
			leave, least = r, ratio
		case ratio > least+1e-12*(1+least):
		case bland && lp.basis[r] < lp.basis[leave], !bland && d > lp.dir[leave]:
			leave, least = r, min(ratio, least)
		}
	}
	return leave
}

// pivot takes a column of this reduced cost into the basis.
func (lp *simplex) pivot(enter, leave int, reduced float64) {
	lp.basis[leave] = enter
	if lp.age++; lp.age >= lp.refactor && lp.invert() {
		lp.price()
		return
	}
	eliminate(lp.inverse, lp.level, lp.dir, leave)
	axpy(reduced, lp.inverse[leave*lp.m:(leave+1)*lp.m], lp.dual)
}

// eliminate makes dir the unit vector of row leave.
func eliminate(rows, level, dir []float64, leave int) {
	m, p := len(level), 1/dir[leave]
	own := rows[leave*m : (leave+1)*m]
	for k := range own {
		own[k] *= p
	}
	level[leave] *= p
	for r, d := range dir {
		if r != leave && d != 0 {
			axpy(-d, own, rows[r*m:(r+1)*m])
			level[r] -= d * level[leave]
		}
	}
}

// invert recomputes the inverse of the basis, against the growth of rounding errors.
// It reports false, and changes nothing, if the basis has become singular in floating
// point.
func (lp *simplex) invert() bool {
	m := lp.m
	fresh := &simplex{m: m, cols: lp.cols, inverse: make([]float64, m*m), level: slices.Clone(lp.right),
		dir: make([]float64, m), basis: make([]int, m)}
	for r := range m {
		fresh.inverse[r*m+r] = 1
		fresh.basis[r] = -1
	}
	for _, j := range lp.basis {
		fresh.express(j)
		row := -1
		for r, d := range fresh.dir {
			if fresh.basis[r] < 0 && (row < 0 || math.Abs(d) > math.Abs(fresh.dir[row])) {
				row = r
			}
		}
		if math.Abs(fresh.dir[row]) < 1e-11 {
			return false
		}
		fresh.basis[row] = j
		eliminate(fresh.inverse, fresh.level, fresh.dir, row)
	}
	for r, x := range fresh.level {
		if x < 0 && x > -1e-7 {
			fresh.level[r] = 0
		}
	}
	lp.basis, lp.inverse, lp.level, lp.age = fresh.basis, fresh.inverse, fresh.level, 0
	return true
}
