package referee

import (
	"math"
	"slices"
)

// corners are the vertices of {0 <= x <= most, sum of use x <= free} that no other
// point of it dominates. Since less of any load always fits, a server can carry what
// is at most a convex combination of them.
func corners(use [][]float64, most, free []float64) [][]float64 {
	var held []int // loads the server has
	for j, m := range most {
		if m > 0 {
			held = append(held, j)
		}
	}
	n := len(held)
	if n == 0 {
		return nil
	}
	walls := make([][]float64, 0, n+len(free)) // a of a x <= 1, where x is the part of most
	for i := range held {
		axis := make([]float64, n)
		axis[i] = 1
		walls = append(walls, axis)
	}
	for r := range free {
		a, sum := make([]float64, n), 0.0
		for i, j := range held {
			a[i] = use[j][r] * most[j]
			sum += a[i]
		}
		if sum <= free[r]*(1+1e-12) {
			continue
		}
		for i := range a {
			a[i] /= free[r]
		}
		if !slices.ContainsFunc(walls, func(w []float64) bool { return covers(w, a) }) {
			walls = append(walls, a)
		}
	}
	points := vertices(walls, n)
	var out [][]float64
	for i, x := range points {
		beaten := false
		for k, y := range points {
			same := covers(x, y)
			if k != i && covers(y, x) && (!same || k < i) {
				beaten = true
			}
		}
		if beaten {
			continue
		}
		whole := make([]float64, len(most))
		for i, j := range held {
			whole[j] = max(0, x[i]) * most[j]
		}
		out = append(out, whole)
	}
	return out
}

// vertices are the points of {x >= 0, every wall x <= 1} where n of the limits hold exactly.
func vertices(walls [][]float64, n int) [][]float64 {
	inside := func(x []float64) bool {
		for _, w := range walls {
			if dot(w, x) > 1+1e-9 {
				return false
			}
		}
		return slices.Min(x) > -1e-12
	}
	var points [][]float64
	picked := make([]int, 0, n) // walls; from len(walls) on, the axes where x is 0
	a, b := make([][]float64, n), make([]float64, n)
	for i := range a {
		a[i] = make([]float64, n)
	}
	var choose func(from int)
	choose = func(from int) {
		if len(picked) < n {
			for w := from; w < len(walls)+n; w++ {
				picked = append(picked, w)
				choose(w + 1)
				picked = picked[:len(picked)-1]
			}
			return
		}
		for i, w := range picked {
			if w < len(walls) {
				copy(a[i], walls[w])
				b[i] = 1
			} else {
				clear(a[i])
				a[i][w-len(walls)], b[i] = 1, 0
			}
		}
		if solve(a, b) && inside(b) {
			points = append(points, slices.Clone(b))
		}
	}
	choose(0)
	return points
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// solve puts x of a x = b into b by elimination; false when there is no single one.
func solve(a [][]float64, b []float64) bool {
	n := len(b)
	for c := range n {
		p := c
		for r := c; r < n; r++ {
			if math.Abs(a[r][c]) > math.Abs(a[p][c]) {
				p = r
			}
		}
		if math.Abs(a[p][c]) < 1e-12 {
			return false
		}
		a[c], a[p], b[c], b[p] = a[p], a[c], b[p], b[c]
		for r := range n {
			if r == c || a[r][c] == 0 {
				continue
			}
			f := a[r][c] / a[c][c]
			for k := c; k < n; k++ {
				a[r][k] -= f * a[c][k]
			}
			b[r] -= f * b[c]
		}
	}
	for c := range n {
		b[c] /= a[c][c]
	}
	return true
}
