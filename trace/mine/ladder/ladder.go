// Package ladder finds how a number changes with scale.
//
// Counts are whole and exact, so Exact tries forms from the simplest up and keeps
// those that meet every point. A form with as many numbers as there are scales fits
// anything and is left out. Regression, as in PatternMiner §III-B2, turns min(10, n)
// into a line that is thousands of times too high; it is used (Smooth) only for
// times and for counts without a formula.
package ladder

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gleaner/trace/program"
)

// A Point is a number seen at a scale.
type Point struct{ N, V int }

// Exact returns every form that meets all points, simplest first; none if two points
// at one scale differ or no form fits. If a line meets three scales or more, it is
// the only form. At a single scale the forms are the number, and n if n is that
// number.
func Exact(points []Point) []program.Formula {
	points, ok := distinct(points)
	if !ok || len(points) == 0 {
		return nil
	}
	var out []program.Formula
	add := func(f program.Formula, found bool) {
		if found && meets(f, points) && !falls(f, points) && !slices.ContainsFunc(out, f.Equal) {
			out = append(out, f)
		}
	}
	if constant(points) {
		add(program.MustFormula("%d", points[0].V), true)
		add(program.MustFormula("n"), len(points) == 1 && points[0].N > 1)
		return out
	}
	if len(points) < 3 {
		return nil
	}
	if f, found := straight(points); found {
		return []program.Formula{f}
	}
	for _, l := range lines(points) {
		add(l.formula(), len(points) > 3 || l.spare())
	}
	add(bounded("min", points))
	add(bounded("max", points))
	if len(points) == 3 {
		add(lineAnd(program.MustFormula("floor(n/2)"), points))
		return out
	}
	if values(points) > 2 { // two fit a rest of a division by chance
		add(plane("n*n", "n", points))
		add(plane("n*(n-1)/2", "n", points))
		for d := 2; d <= 4; d++ {
			add(plane("n", fmt.Sprintf("floor(n/%d)", d), points))
		}
	}
	add(bent(points))
	add(stepped(points))
	return out
}

// falls reports whether a form falls below the last point as the scale grows. Only a
// line may. It looks at 4 and 16 times the largest scale: where a square turns, and
// how far formulas are compared (Separating).
func falls(f program.Formula, points []Point) bool {
	last := points[len(points)-1]
	return f.At(4*last.N) < last.V || f.At(16*last.N) < last.V
}

// lines are the forms of all bases that may meet the points, those with the fewest
// numbers first. Two values fit a step of any form.
func lines(points []Point) []form {
	var out []form
	if values(points) < 3 {
		return nil
	}
	for _, b := range bases() {
		if l, found := line(b, points); found {
			out = append(out, l)
		}
	}
	slices.SortStableFunc(out, func(a, b form) int { return cmp.Compare(a.numbers(), b.numbers()) })
	return out
}

// lineAnd is a line in n plus another formula.
func lineAnd(f program.Formula, points []Point) (program.Formula, bool) {
	rest := slices.Clone(points)
	for i := range rest {
		rest[i].V -= f.At(rest[i].N)
	}
	l, ok := straight(rest)
	if !ok {
		return program.Formula{}, false
	}
	return program.MustFormula("%s+%s", f, l), true
}

// distinct sorts points by scale and keeps one for each; not ok if two differ.
func distinct(points []Point) ([]Point, bool) {
	points = slices.Clone(points)
	slices.SortFunc(points, func(a, b Point) int { return a.N - b.N })
	out := points[:0]
	for _, p := range points {
		if len(out) > 0 && out[len(out)-1].N == p.N {
			if out[len(out)-1].V != p.V {
				return nil, false
			}
			continue
		}
		out = append(out, p)
	}
	return out, true
}

// values is how many different values there are.
func values(points []Point) int {
	seen := map[int]bool{}
	for _, p := range points {
		seen[p.V] = true
	}
	return len(seen)
}

func constant(points []Point) bool {
	return !slices.ContainsFunc(points, func(p Point) bool { return p.V != points[0].V })
}

func meets(f program.Formula, points []Point) bool {
	for _, p := range points {
		if math.Abs(f.Eval(program.Vars{program.N: float64(p.N)})-float64(p.V)) > rounding {
			return false
		}
	}
	return true
}

// rounding is how far the result of whole numbers in floating point may be from a
// whole number. Any number far above 1e-12 and below 1 would do.
const rounding = 1e-6

// bases are the forms besides n that a count may follow, times a whole number plus
// another. Divisors go to 10: a division by d shows only at scales above d, and few
// record more than tens of nodes. In the recorded systems divisors to 4 or to 20 give
// the same counts; with 4, forms that fit as well are not named (scenario ambiguous).
func bases() []basis {
	var out []basis
	add := func(offset bool, format string, args ...any) {
		out = append(out, basis{program.MustFormula(format, args...), offset})
	}
	parts := func(from, to int) {
		for d := from; d <= to; d++ {
			add(false, "floor(n/%d)", d)
			add(false, "ceil(n/%d)", d)
		}
	}
	parts(2, 4)
	add(false, "n*(n-1)")
	add(true, "n*n")
	add(true, "n*(n-1)/2")
	add(true, "n*(n+1)/2")
	for _, root := range []string{"log2", "sqrt"} {
		add(false, "ceil(%s(n))", root)
		add(false, "floor(%s(n))", root)
	}
	parts(5, 10)
	return out
}

// A basis is what a count may follow.
type basis struct {
	program.Formula
	offset bool // its forms count as having an offset: they come after others that fit
}

// A form is a*basis+b.
type form struct {
	basis
	a, b float64
}

func (l form) formula() program.Formula { return program.MustFormula("%s", l.text()) }

func (l form) text() string {
	s := l.basis.String()
	switch {
	case l.a == -1:
		s = "-" + s
	case l.a != 1:
		s = fmt.Sprintf("%.0f*%s", l.a, s)
	}
	if l.b != 0 {
		s += fmt.Sprintf("%+.0f", l.b)
	}
	return s
}

// spare reports whether a form has a factor or an offset, but not both: three scales
// prove no more.
func (l form) spare() bool { return l.a == 1 || l.b == 0 }

// numbers is how many numbers a form has besides its basis.
func (l form) numbers() int {
	n := 0
	if l.a != 1 {
		n++
	}
	if l.b != 0 || l.offset {
		n++
	}
	return n
}

// Separating is the smallest scale above largest, and not above limit, at which all
// formulas differ from each other, or else the smallest at which two differ; 0 for
// none. It looks no further than 16 times the largest scale, which is more
// than anyone would record next.
func Separating(formulas []program.Formula, largest, limit int) int {
	some := 0
	for n := range program.Scales(largest, min(limit, 16*largest)) {
		seen := map[int]bool{}
		for _, f := range formulas {
			seen[f.At(n)] = true
		}
		if len(seen) == len(formulas) {
			return n
		}
		if some == 0 && len(seen) > 1 {
			some = n
		}
	}
	return some
}

// line is the form of a basis through the first two points where that differs.
func line(of basis, points []Point) (form, bool) {
	at := func(p Point) float64 { return of.Eval(program.Vars{program.N: float64(p.N)}) }
	for i := 1; i < len(points); i++ {
		dx := at(points[i]) - at(points[0])
		if dx == 0 {
			continue
		}
		a := float64(points[i].V-points[0].V) / dx
		b := float64(points[0].V) - a*at(points[0])
		return form{of, a, b}, a != 0 && a == math.Trunc(a) && b == math.Trunc(b)
	}
	return form{}, false
}

// straight is the line in n through all points.
func straight(points []Point) (program.Formula, bool) {
	l, ok := line(basis{Formula: program.MustFormula("n")}, points)
	if !ok {
		return program.Formula{}, false
	}
	f := l.formula()
	return f, meets(f, points)
}

// bounded is a line with a bound. Three points must be on the line; two if the bound
// is seen at three scales; one if the line is n itself and the bound is an upper one.
func bounded(how string, points []Point) (program.Formula, bool) {
	last := points[len(points)-1].V
	cut := len(points)
	for cut > 0 && points[cut-1].V == last {
		cut--
	}
	if how == "max" { // the bound holds at small scales
		first := points[0].V
		cut = 0
		for cut < len(points) && points[cut].V == first {
			cut++
		}
		return bound(how, first, points[cut:], cut)
	}
	return bound(how, last, points[:cut], len(points)-cut)
}

func bound(how string, limit int, on []Point, off int) (program.Formula, bool) {
	if len(on) == 0 || len(on) < 3 && off < 3 || len(on) == 1 && how == "max" {
		return program.Formula{}, false
	}
	if len(on) == 1 {
		return program.MustFormula("min(%d, n)", limit), true
	}
	f, ok := straight(on)
	if !ok {
		return program.Formula{}, false
	}
	return program.MustFormula("%s(%d, %s)", how, limit, f), true
}

// bent is the smaller or the larger of two lines: the count changes its course. Two
// points must be on each line, and five on both: two lines fit any four.
func bent(points []Point) (program.Formula, bool) {
	if len(points) < 5 {
		return program.Formula{}, false
	}
	for cut := 2; cut <= len(points)-2; cut++ {
		low, okLow := straight(points[:cut])
		high, okHigh := straight(points[cut:])
		if !okLow || !okHigh {
			continue
		}
		for _, how := range []string{"min", "max"} {
			f := program.MustFormula("%s(%s, %s)", how, low, high)
			if meets(f, points) {
				return f, true
			}
		}
	}
	return program.Formula{}, false
}

// stepped is one number up to some scale and a larger one above. The first must be
// seen at two scales, the second at three.
func stepped(points []Point) (program.Formula, bool) {
	low, high := points[0].V, points[len(points)-1].V
	cut := slices.IndexFunc(points, func(p Point) bool { return p.V != low })
	if low < 0 || high < low || cut < 2 || len(points)-cut < 3 || values(points) != 2 {
		return program.Formula{}, false
	}
	edge := basis{Formula: program.MustFormula("min(1, max(0, n-%d))", points[cut-1].N)}
	return form{edge, float64(high - low), float64(low)}.formula(), true
}

// Break gives the two scales between which a count with a bound or a bend last
// changed its course; not ok if it never did.
func Break(points []Point) (before, after int, ok bool) {
	points, ok = distinct(points)
	if !ok || len(points) < 3 {
		return 0, 0, false
	}
	slope := func(i int) float64 { // of the course that leads to a point
		return float64(points[i].V-points[i-1].V) / float64(points[i].N-points[i-1].N)
	}
	first := len(points) - 1
	for first > 1 && slope(first-1) == slope(len(points)-1) {
		first--
	}
	if first == 1 {
		return 0, 0, false
	}
	return points[first-2].N, points[first-1].N, true
}

// plane is a*x+b*y+c with whole numbers, computed from three points.
func plane(x, y string, points []Point) (program.Formula, bool) {
	fx, fy := basis{Formula: program.MustFormula("%s", x)}, basis{Formula: program.MustFormula("%s", y)}
	for i := 0; i+2 < len(points); i++ {
		var m [3][4]float64
		for r := range 3 {
			p := points[i+r]
			vars := program.Vars{program.N: float64(p.N)}
			m[r] = [4]float64{fx.Eval(vars), fy.Eval(vars), 1, float64(p.V)}
		}
		s, ok := solve(m)
		if !ok {
			continue
		}
		for j, v := range s {
			s[j] = math.Round(v)
			if math.Abs(v-s[j]) > rounding {
				return program.Formula{}, false
			}
		}
		if s[0] == 0 || s[1] == 0 {
			return program.Formula{}, false
		}
		return program.MustFormula("%s", signed(form{fx, s[0], 0}.text(), form{fy, s[1], s[2]}.text())), true
	}
	return program.Formula{}, false
}

func signed(a, b string) string {
	if b[0] == '-' {
		return a + b
	}
	return a + "+" + b
}

// solve is Gaussian elimination for three unknowns. A pivot below 1e-9 is rounding of
// zero: the three points have no unique solution.
func solve(m [3][4]float64) (out [3]float64, ok bool) {
	for c := range 3 {
		best := c
		for r := c; r < 3; r++ {
			if math.Abs(m[r][c]) > math.Abs(m[best][c]) {
				best = r
			}
		}
		m[c], m[best] = m[best], m[c]
		if math.Abs(m[c][c]) < 1e-9 {
			return out, false
		}
		for r := range 3 {
			if r != c {
				k := m[r][c] / m[c][c]
				for i := range 4 {
					m[r][i] -= k * m[c][i]
				}
			}
		}
	}
	for c := range 3 {
		out[c] = m[c][3] / m[c][c]
	}
	return out, true
}

// Smooth is the form c0+c1*n^i*log2(n)^j (Extra-P's) with the least error
// when each point is left out in turn.
func Smooth(n []float64, v []float64) program.Formula {
	scales := len(slices.Compact(slices.Sorted(slices.Values(n))))
	if scales == 2 {
		c0, c1 := leastSquares(n, v, func(x float64) float64 { return x }, -1)
		return smooth(c0, c1, 1, 0, slices.Max(v)) // two scales give a line and nothing else
	}
	best, bestErr := Constant(mean(v)), looErr(n, v, nil)
	for _, form := range smoothForms {
		if form.i > 1 && scales < 5 {
			break // Extra-P needs five scales for more than a line
		}
		basis := func(x float64) float64 { return math.Pow(x, form.i) * math.Pow(math.Log2(max(x, 1)), form.j) }
		err := looErr(n, v, basis)
		if err >= bestErr*form.earn {
			continue
		}
		c0, c1 := leastSquares(n, v, basis, -1)
		best, bestErr = smooth(c0, c1, form.i, form.j, slices.Max(v)), err
	}
	return best
}

// Constant is one number as a formula.
func Constant(v float64) program.Formula { return program.MustFormula("%s", number(v)) }

// smoothForms are n^i*log2(n)^j, with the factor by which the error must be smaller
// than that of the best form before. Steep forms need a much smaller error: at ten
// times the largest scale they are wrong by orders of magnitude. Without these factors
// Hadoop's 9,008 calls are predicted as 28,620, with half of them as 4,811; as they are,
// as 10,963.
var smoothForms = []struct{ i, j, earn float64 }{
	{1, 0, 0.95}, {0, 1, 0.85}, {0.5, 0, 0.85}, {0.5, 1, 0.85}, {1, 1, 0.6}, {1.5, 0, 0.3}, {1.5, 1, 0.3}, {2, 0, 0.3}, {2, 1, 0.3},
}

// smooth writes the form; a constant far below the values is rounding.
func smooth(c0, c1, i, j, top float64) program.Formula {
	first := number(c0)
	if math.Abs(c0) < 1e-6*top {
		first = "0"
	}
	return program.MustFormula("%s", strings.TrimPrefix(first+smoothTerm(c1, i, j), "0+"))
}

// number writes a coefficient with five significant digits, more than any time is
// measured to, and no exponent.
func number(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := max(0, 4-int(math.Floor(math.Log10(math.Abs(v)))))
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

func smoothTerm(c1, i, j float64) string {
	s := number(c1)
	if c1 >= 0 {
		s = "+" + s
	}
	switch i {
	case 0:
	case 1:
		s += "*n"
	default:
		s += fmt.Sprintf("*n^%g", i)
	}
	if j > 0 {
		s += "*log2(n)"
	}
	return s
}

func mean(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// looErr is the mean symmetric error of predicting each point from the others
// (leave one out); a nil basis predicts their mean.
func looErr(n, v []float64, basis func(float64) float64) float64 {
	if len(v) < 3 {
		if basis == nil {
			return 0
		}
		return math.Inf(1)
	}
	total := 0.0
	for i := range v {
		guess := (mean(v)*float64(len(v)) - v[i]) / float64(len(v)-1)
		if basis != nil {
			c0, c1 := leastSquares(n, v, basis, i)
			guess = c0 + c1*basis(n[i])
		}
		if sum := math.Abs(guess) + math.Abs(v[i]); sum > 0 {
			total += math.Abs(guess-v[i]) / sum
		}
	}
	return total / float64(len(v))
}

// leastSquares fits v = c0 + c1*basis(n), leaving out one point (-1: none). Long times
// vary more than short ones, so errors are relative if all values are above zero.
func leastSquares(n, v []float64, basis func(float64) float64, skip int) (c0, c1 float64) {
	var count, sx, sy, sxx, sxy float64
	weighted := slices.Min(v) > 0
	for i := range v {
		if i == skip {
			continue
		}
		w := 1.0
		if weighted {
			w = 1 / (v[i] * v[i])
		}
		x := basis(n[i])
		count += w
		sx, sy, sxx, sxy = sx+w*x, sy+w*v[i], sxx+w*x*x, sxy+w*x*v[i]
	}
	det := count*sxx - sx*sx
	if count == 0 {
		return 0, 0
	}
	if det < 1e-12*count*sxx {
		return sy / count, 0
	}
	c1 = (count*sxy - sx*sy) / det
	if c0 = (sy - c1*sx) / count; c0 < 0 && sxx > 0 {
		return 0, sxy / sxx // no time is negative, at no scale
	}
	return c0, c1
}
