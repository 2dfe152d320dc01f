package referee

import (
	"math"
	"slices"
)

// corners are the vertices of {0 <= x <= most, sum of use x <= free} that no
// other point of it beats. Since less of any load always fits, what a server can
// carry is what lies below a mixture of them.
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
	type half struct {
		a []float64
		b float64
	}
	var walls []half
	for i := range held { // scaled: a variable is the part of most
		axis := make([]float64, n)
		axis[i] = 1
		walls = append(walls, half{axis, 1})
	}
	for r := range free {
		a, sum := make([]float64, n), 0.0
		for i, j := range held {
			a[i] = use[j][r] * most[j]
			sum += a[i]
		}
		if sum > free[r]*(1+1e-12) {
			for i := range a {
				a[i] /= free[r]
			}
			walls = append(walls, half{a, 1})
		}
	}
	inside := func(x []float64) bool {
		for _, w := range walls {
			if dot(w.a, x) > w.b+1e-9 {
				return false
			}
		}
		return slices.Min(x) > -1e-12
	}
	zero := len(walls) // walls from here on are x >= 0
	for i := range held {
		axis := make([]float64, n)
		axis[i] = 1
		walls = append(walls, half{axis, 0})
	}
	all := walls
	walls = walls[:zero]
	var points [][]float64
	pick := make([]int, n)
	var choose func(at, from int)
	choose = func(at, from int) {
		if at == n {
			a, b := make([][]float64, n), make([]float64, n)
			for i, w := range pick {
				a[i], b[i] = slices.Clone(all[w].a), all[w].b
			}
			if x := solve(a, b); x != nil && inside(x) {
				points = append(points, x)
			}
			return
		}
		for w := from; w < len(all); w++ {
			pick[at] = w
			choose(at+1, w+1)
		}
	}
	choose(0, 0)
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

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// solve gives x of a x = b by elimination, or nil when there is no single one.
func solve(a [][]float64, b []float64) []float64 {
	n := len(b)
	for c := range n {
		p := c
		for r := c; r < n; r++ {
			if math.Abs(a[r][c]) > math.Abs(a[p][c]) {
				p = r
			}
		}
		if math.Abs(a[p][c]) < 1e-12 {
			return nil
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
	return b
}
