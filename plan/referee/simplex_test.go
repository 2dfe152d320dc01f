package referee

import "math"

// least minimizes cost x subject to rows x <= limit and x >= 0, with no cost
// below 0, by the dual simplex method on a dense tableau. It returns x and its cost;
// ok is false if no x satisfies the rows.
func least(cost []float64, rows [][]float64, limit []float64) (x []float64, value float64, ok bool) {
	n, m := len(cost), len(rows)
	z := append([]float64(nil), cost...)
	b := append([]float64(nil), limit...)
	t := make([][]float64, m)
	for i := range rows {
		t[i] = append([]float64(nil), rows[i]...)
	}
	outside, inside := make([]int, n), make([]int, m) // variables that are 0, and those of the rows; slacks from n on
	for j := range outside {
		outside[j] = j
	}
	for i := range inside {
		inside[i] = n + i
	}
	for step := 0; ; step++ {
		r := leaving(b, inside, step > 50*(m+1))
		if r < 0 {
			break
		}
		c := entering(z, t[r], outside)
		if c < 0 {
			return nil, 0, false
		}
		value += pivot(t, b, z, r, c)
		outside[c], inside[r] = inside[r], outside[c]
	}
	x = make([]float64, n)
	for i, v := range inside {
		if v < n {
			x[v] = b[i]
		}
	}
	return x, dot(cost, x), true
}

// leaving is the row that is violated most or, to avoid cycles, the violated one of
// the first variable.
func leaving(b []float64, inside []int, careful bool) int {
	r := -1
	for i := range b {
		if b[i] >= -1e-10 {
			continue
		}
		if r < 0 || (careful && inside[i] < inside[r]) || (!careful && b[i] < b[r]) {
			r = i
		}
	}
	return r
}

func entering(z, row []float64, outside []int) int {
	c, best := -1, math.Inf(1)
	for j, a := range row {
		if a > -1e-10 {
			continue
		}
		if ratio := z[j] / -a; ratio < best-1e-12 || (ratio < best+1e-12 && outside[j] < outside[c]) {
			c, best = j, min(best, ratio)
		}
	}
	return c
}

func pivot(t [][]float64, b, z []float64, r, c int) float64 {
	p := 1 / t[r][c]
	for j := range t[r] {
		t[r][j] *= p
	}
	b[r] *= p
	t[r][c] = p
	for i := range t {
		f := t[i][c]
		if i == r || f == 0 {
			continue
		}
		for j, v := range t[r] {
			t[i][j] -= f * v
		}
		t[i][c] = -f * p
		b[i] -= f * b[r]
	}
	f := z[c]
	for j, v := range t[r] {
		z[j] = max(0, z[j]-f*v)
	}
	z[c] = max(0, -f*p)
	return f * b[r]
}
