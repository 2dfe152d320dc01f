package ladder

import (
	"fmt"
	"math"
	"testing"

	"gleaner/trace/program"
)

func at(scales []int, f func(n int) int) []Point {
	var out []Point
	for _, n := range scales {
		out = append(out, Point{n, f(n)})
	}
	return out
}

// TestKnownTruths learns each form at small scales and asks for it at a large one.
func TestKnownTruths(t *testing.T) {
	scales := []int{3, 4, 6, 8, 12}
	for name, f := range map[string]func(int) int{
		"7":                  func(int) int { return 7 },
		"4*n+3":              func(n int) int { return 4*n + 3 },
		"min(10, n)":         func(n int) int { return min(10, n) },
		"ceil(n/4)":          func(n int) int { return (n + 3) / 4 },
		"floor(n/2)":         func(n int) int { return n / 2 },
		"n*(n-1)":            func(n int) int { return n * (n - 1) },
		"n*(n+1)/2":          func(n int) int { return n * (n + 1) / 2 },
		"n*(n-1)/2+3*n":      func(n int) int { return n*(n-1)/2 + 3*n }, // what is there is listed each time something is added
		"5*n+floor(n/2)+16":  func(n int) int { return 5*n + n/2 + 16 },
		"min(4*n+5, 2*n+12)": func(n int) int { return min(4*n+5, 2*n+12) },
		"a step":             func(n int) int { return 1 + min(1, max(0, n-5)) },
	} {
		got := Exact(at(scales, f))
		if len(got) == 0 {
			t.Errorf("%s: nothing fits", name)
			continue
		}
		if got[0].At(60000) != f(60000) {
			t.Errorf("%s: found %v, which is %d at 60000, not %d", name, got, got[0].At(60000), f(60000))
		}
	}
}

// TestAmbiguousIsNamed: at these scales sqrt, log2 and n/4 look the same; one
// more scale tells them apart.
func TestAmbiguousIsNamed(t *testing.T) {
	root := func(n int) int { return int(math.Ceil(math.Sqrt(float64(n)))) }
	logarithm := func(n int) int { return int(math.Ceil(math.Log2(float64(n)))) + 1 }
	for _, f := range []func(int) int{root, logarithm} {
		got := Exact(at([]int{3, 4, 6, 8, 12}, f))
		if len(got) < 2 || got[0].At(60000) == got[1].At(60000) {
			t.Fatalf("expected forms that differ, got %v", got)
		}
		next := Separating(got, 12, 60000)
		got = Exact(at([]int{3, 4, 6, 8, 12, next, 2 * next}, f))
		if len(got) == 0 || got[0].At(60000) != f(60000) {
			t.Errorf("with %d as well: %v, not %d at 60000", next, got, f(60000))
		}
	}
}

// TestFewScales: one scale gives the number, which may be the scale; three give a line,
// and forms with one number besides their basis.
func TestFewScales(t *testing.T) {
	if got := fmt.Sprint(Exact([]Point{{6, 6}})); got != "[6 n]" {
		t.Errorf("6 at n = 6 became %s", got)
	}
	for name, f := range map[string]func(int) int{
		"[5*n+2]":             func(n int) int { return 5*n + 2 },
		"[floor(n/2)]":        func(n int) int { return n / 2 },
		"[floor(n/2)+5*n+16]": func(n int) int { return 5*n + n/2 + 16 },
	} {
		if got := fmt.Sprint(Exact(at([]int{3, 4, 6}, f))); got != name {
			t.Errorf("%s became %s", name, got)
		}
	}
	if got := Exact([]Point{{3, 2}, {4, 2}, {6, 1}}); len(got) > 0 {
		t.Errorf("a count that falls became %v", got)
	}
}

// TestBoundBetweenTheSmallestScales: two replicas on two nodes, three on all
// others.
func TestBoundBetweenTheSmallestScales(t *testing.T) {
	if got := fmt.Sprint(Exact(at([]int{2, 3, 4, 6, 8}, func(n int) int { return min(3, n) }))); got != "[min(3, n)]" {
		t.Errorf("min(3, n) became %s", got)
	}
	if got := Exact([]Point{{2, 2}, {3, 4}, {4, 4}, {6, 4}, {8, 4}}); len(got) > 0 {
		t.Errorf("4 at n = 3 became %v", got)
	}
}

func TestBreak(t *testing.T) {
	scales := []int{3, 4, 6, 8, 12}
	if before, after, ok := Break(at(scales, func(n int) int { return max(0, 2*n-10) })); !ok || before != 4 || after != 6 {
		t.Errorf("between %d and %d (%v), want 4 and 6", before, after, ok)
	}
	if before, after, ok := Break(at(scales, func(n int) int { return 3*n + 1 })); ok {
		t.Errorf("a line has no break between %d and %d", before, after)
	}
}

// TestDisturbedTimes: long times vary more, so short ones count more.
func TestDisturbedTimes(t *testing.T) {
	f := Smooth([]float64{3, 4, 6, 6, 8, 12}, []float64{40, 50, 70, 71, 90, 200})
	if got := f.At(26); got > 350 {
		t.Errorf("%v gives %d at 26; five of six say 270", f, got)
	}
}

func TestNothingIsMadeUp(t *testing.T) {
	if got := Exact([]Point{{3, 5}, {4, 9}, {6, 2}, {8, 30}, {12, 7}}); len(got) > 0 {
		t.Errorf("random counts became %v", got)
	}
	if got := Exact([]Point{{3, 5}, {6, 10}, {6, 11}, {12, 20}}); len(got) > 0 {
		t.Errorf("two counts at one scale became %v", got)
	}
	for _, once := range [][4]int{{1, 1, 0, 0}, {0, 1, 1, 0}, {1, 0, 0, 1}, {0, 0, 1, 1}} { // a clock that struck in two of four runs
		if got := Exact([]Point{{3, once[0]}, {5, once[1]}, {8, once[2]}, {12, once[3]}}); len(got) > 0 {
			t.Errorf("calls in two runs of four became %v", got)
		}
	}
}

func TestSmoothFollowsALine(t *testing.T) {
	n := []float64{3, 4, 6, 6, 8, 12}
	var v []float64
	for _, x := range n {
		v = append(v, 20+3*x)
	}
	f := Smooth(n, v)
	if got := f.At(26); got != 98 {
		t.Errorf("%v gives %d at 26, not 98", f, got)
	}
}

// A line through times that grow faster than the scale would be negative for few nodes.
func TestSmoothIsNeverNegative(t *testing.T) {
	f := Smooth([]float64{6, 8, 12, 26}, []float64{20, 31, 60, 142})
	for n := 1.0; n < 6; n++ {
		if v := f.Eval(program.Vars{program.N: n}); v < 0 {
			t.Errorf("%s is %g at n = %g", f, v, n)
		}
	}
}

func TestSteepFormsNeedFiveScales(t *testing.T) {
	square := func(n ...float64) (program.Formula, float64) {
		v := make([]float64, len(n))
		for i := range n {
			v[i] = 3 * n[i] * n[i]
		}
		f := Smooth(n, v)
		return f, f.Eval(program.Vars{program.N: 100})
	}
	if f, v := square(4, 8, 12); v > 10_000 {
		t.Errorf("three scales: %s", f)
	}
	if f, v := square(3, 4, 6, 8, 12); math.Abs(v-30_000) > 300 {
		t.Errorf("five scales: %s", f)
	}
}
