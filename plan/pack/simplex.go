package pack

import "math"

// A simplex minimises cost·x + penalty·y where A·x + y - z = right and all of
// x, y, z >= 0: each row is to be covered, what falls short of it (y) is paid
// for, what goes beyond (z) is free. So it always has a solution to start
// from, columns may be added as they are found, and duals stay between zero
// and the penalties.
//
// It is a revised primal simplex with an explicit inverse, meant for a few
// dozen rows. The entering column is the steepest; after a run of pivots
// without progress it is the first (Bland's rule), which ends every cycle.
type simplex struct {
	right, penalty []float64
	cost           []float64
	cols           [][]float64

	basis   []int // by row: z is 0..m-1, y is m..2m-1, x from 2m on
	inverse [][]float64
	level   []float64 // of the basic columns, by row
	dual    []float64
	age     int // pivots since the inverse was computed afresh
}

const (
	pivotTol  = 1e-9
	refactor  = 50 // pivots
	patience  = 40 // pivots without progress before Bland's rule
	maxPivots = 20000
)

func newSimplex(right, penalty []float64) *simplex {
	m := len(right)
	lp := &simplex{right: right, penalty: penalty, basis: make([]int, m), inverse: make([][]float64, m),
		level: make([]float64, m), dual: make([]float64, m)}
	for r, b := range right {
		lp.inverse[r] = make([]float64, m)
		lp.basis[r], lp.inverse[r][r] = r, -1
		if b > 0 {
			lp.basis[r], lp.inverse[r][r] = m+r, 1
		}
		lp.level[r] = math.Abs(b)
	}
	return lp
}

// add gives the linear program another column.
func (lp *simplex) add(cost float64, col []float64) {
	lp.cost = append(lp.cost, cost)
	lp.cols = append(lp.cols, col)
}

// minimise pivots to an optimum and says whether there is one: it is false
// for a program without a lower bound.
func (lp *simplex) minimise() bool {
	stalled := 0
	for range maxPivots {
		lp.price()
		enter := lp.entering(stalled > patience)
		if enter < 0 {
			return true
		}
		dir := lp.column(enter)
		leave := lp.leaving(dir, stalled > patience)
		if leave < 0 {
			return false
		}
		if lp.level[leave]/dir[leave] > 1e-12 {
			stalled = 0
		} else {
			stalled++
		}
		lp.pivot(enter, leave, dir)
	}
	return true
}

// objective is the least cost found.
func (lp *simplex) objective() float64 {
	sum := 0.0
	for r, j := range lp.basis {
		sum += lp.level[r] * lp.costOf(j)
	}
	return sum
}

// short gives by how much each row falls short.
func (lp *simplex) short() []float64 {
	m := len(lp.right)
	y := make([]float64, m)
	for r, j := range lp.basis {
		if j >= m && j < 2*m {
			y[j-m] = max(0, lp.level[r])
		}
	}
	return y
}

// values gives each column its amount.
func (lp *simplex) values() []float64 {
	x, m := make([]float64, len(lp.cols)), len(lp.right)
	for r, j := range lp.basis {
		if j >= 2*m {
			x[j-2*m] = max(0, lp.level[r])
		}
	}
	return x
}

func (lp *simplex) costOf(j int) float64 {
	switch m := len(lp.right); {
	case j < m:
		return 0
	case j < 2*m:
		return lp.penalty[j-m]
	default:
		return lp.cost[j-2*m]
	}
}

// price computes the duals of the basis.
func (lp *simplex) price() {
	clear(lp.dual)
	for r, j := range lp.basis {
		if c := lp.costOf(j); c != 0 {
			for k, x := range lp.inverse[r] {
				lp.dual[k] += c * x
			}
		}
	}
}

// entering finds a column that improves, the steepest or the first; -1 is none.
func (lp *simplex) entering(first bool) int {
	enter, best := -1, 0.0
	consider := func(j int, reduced, size float64) bool {
		if reduced < -pivotTol*(1+size) && reduced < best {
			enter, best = j, reduced
			return first
		}
		return false
	}
	m := len(lp.right)
	for r, d := range lp.dual {
		if consider(r, d, math.Abs(d)) || consider(m+r, lp.penalty[r]-d, lp.penalty[r]) {
			return enter
		}
	}
	for j, col := range lp.cols {
		reduced := lp.cost[j]
		for r, d := range lp.dual {
			reduced -= d * col[r]
		}
		if consider(2*m+j, reduced, math.Abs(lp.cost[j])) {
			return enter
		}
	}
	return enter
}

// column expresses column j in the basis.
func (lp *simplex) column(j int) []float64 {
	m := len(lp.right)
	out := make([]float64, m)
	for r, row := range lp.inverse {
		switch {
		case j < m:
			out[r] = -row[j]
		case j < 2*m:
			out[r] = row[j-m]
		default:
			for k, x := range lp.cols[j-2*m] {
				out[r] += row[k] * x
			}
		}
	}
	return out
}

// leaving finds the row whose basic column falls to zero first; -1 is none.
// Among equals it is the largest pivot, or the lowest column by Bland's rule.
func (lp *simplex) leaving(dir []float64, bland bool) int {
	leave, least := -1, math.Inf(1)
	for r, d := range dir {
		if d <= pivotTol {
			continue
		}
		ratio := max(0, lp.level[r]) / d
		switch {
		case leave < 0 || ratio < least-1e-12*(1+least):
			leave, least = r, ratio
		case ratio > least+1e-12*(1+least):
		case bland && lp.basis[r] < lp.basis[leave], !bland && d > dir[leave]:
			leave, least = r, min(ratio, least)
		}
	}
	return leave
}

func (lp *simplex) pivot(enter, leave int, dir []float64) {
	lp.basis[leave] = enter
	if lp.age++; lp.age >= refactor && lp.invert() {
		return
	}
	eliminate(lp.inverse, lp.level, leave, dir)
}

// eliminate makes dir the unit vector of row leave.
func eliminate(rows [][]float64, level []float64, leave int, dir []float64) {
	own, p := rows[leave], dir[leave]
	for k := range own {
		own[k] /= p
	}
	level[leave] /= p
	for r, d := range dir {
		if r == leave || d == 0 {
			continue
		}
		for k, x := range own {
			rows[r][k] -= d * x
		}
		level[r] -= d * level[leave]
	}
}

// invert computes the inverse of the basis afresh, against the growth of
// rounding errors. It says false, and changes nothing, for a basis that has
// become singular in floating point.
func (lp *simplex) invert() bool {
	m := len(lp.right)
	inverse := make([][]float64, m)
	for r := range inverse {
		inverse[r] = make([]float64, m)
		inverse[r][r] = 1
	}
	fresh := &simplex{right: lp.right, penalty: lp.penalty, cols: lp.cols, inverse: inverse, level: append([]float64(nil), lp.right...)}
	taken := make([]bool, m)
	basis := make([]int, m)
	for _, j := range lp.basis {
		dir := fresh.column(j)
		row := -1
		for r, d := range dir {
			if !taken[r] && (row < 0 || math.Abs(d) > math.Abs(dir[row])) {
				row = r
			}
		}
		if math.Abs(dir[row]) < 1e-11 {
			return false
		}
		taken[row], basis[row] = true, j
		eliminate(inverse, fresh.level, row, dir)
	}
	for r, x := range fresh.level {
		if x < 0 && x > -1e-7 {
			fresh.level[r] = 0
		}
	}
	lp.basis, lp.inverse, lp.level, lp.age = basis, inverse, fresh.level, 0
	return true
}
