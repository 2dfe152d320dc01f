package classify

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// predict is fold's dumb twin: it predicts every cell by averaging the same
// slot of all other cycles each time, and returns the variance explained.
func predict(cells []float64, slots int) float64 {
	mean, n := 0.0, 0.0
	for _, v := range cells {
		if v == v {
			mean, n = mean+v, n+1
		}
	}
	mean /= n
	explained := 0.0
	for i, v := range cells {
		if v != v {
			continue
		}
		sum, others := 0.0, 0.0
		for j, u := range cells {
			if j != i && j%slots == i%slots && u == u {
				sum, others = sum+u, others+1
			}
		}
		forecast := mean
		if others > 0 {
			forecast = sum / others
		}
		explained += (v-mean)*(v-mean) - (v-forecast)*(v-forecast)
	}
	return explained / n
}

func TestFoldAgainstItsTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(4, 48).Draw(t, "slots")
		cells := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(0, 1), rapid.Just(math.NaN())), 3*slots, 6*slots).Draw(t, "cells")
		cells[0] = 0.5
		var b bins
		b.reset(time.Hour)
		for _, v := range cells {
			b.add(v)
		}
		var r folder
		f := r.fold(&b, time.Duration(slots)*time.Hour)
		if want := predict(cells, slots); math.Abs(f.predicted-want) > 1e-9 {
			t.Fatalf("predicted %g, want %g", f.predicted, want)
		}
	})
}

// best is kmeans's dumb twin: it tries every way to put points into k groups.
func best(points []point, k int) float64 {
	of := make([]int, len(points))
	least := math.Inf(1)
	for {
		g := grouping{of: of}
		for range k {
			g.centre = append(g.centre, make(point, len(points[0])))
		}
		g.centres(points)
		sum := 0.0
		for i, p := range points {
			sum += distance(p, g.centre[of[i]])
		}
		least = min(least, sum)
		i := 0
		for ; i < len(of) && of[i] == k-1; i++ {
			of[i] = 0
		}
		if i == len(of) {
			return least
		}
		of[i]++
	}
}

// ends are the sums of squares at which Lloyd's algorithm can converge: it is
// run, in its simplest form, from every choice of k points.
func ends(points []point, k int) (out []float64) {
	var from func(centres []point)
	from = func(centres []point) {
		if len(centres) < k {
			for _, p := range points {
				from(append(slices.Clone(centres), p))
			}
			return
		}
		out = append(out, converge(points, centres))
	}
	from(nil)
	return out
}

// converge runs Lloyd's algorithm for longer than it can take to converge.
func converge(points, centres []point) (sum float64) {
	for range 50 {
		groups := make([][]point, len(centres))
		sum = 0
		for _, p := range points {
			nearest := 0
			for c := range centres {
				if distance(p, centres[c]) < distance(p, centres[nearest]) {
					nearest = c
				}
			}
			groups[nearest] = append(groups[nearest], p)
			sum += distance(p, centres[nearest])
		}
		for c, group := range groups {
			if len(group) > 0 {
				centres[c] = mean(group)
			}
		}
	}
	return sum
}

func mean(points []point) point {
	out := make(point, len(points[0]))
	for _, p := range points {
		for j := range p {
			out[j] += p[j]
		}
	}
	for j := range out {
		out[j] /= float64(len(points))
	}
	return out
}

func TestKMeansAgainstItsTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, k := rapid.IntRange(1, 7).Draw(t, "n"), rapid.IntRange(1, 3).Draw(t, "k")
		coordinate := rapid.SliceOfN(rapid.Float64Range(0, 1), 2, 2)
		points := make([]point, n)
		for i := range points {
			points[i] = coordinate.Draw(t, "point")
		}
		seed := rapid.Uint64().Draw(t, "seed")
		got, least, possible := math.Inf(1), best(points, k), ends(points, k)
		chance := rand.New(rand.NewPCG(seed, 0))
		for range 20 { // any one start may end in a local minimum
			g := kmeans(points, k, chance)
			if g.within < least-1e-9 {
				t.Fatalf("within %g, less than the least possible %g", g.within, least)
			}
			if !slices.ContainsFunc(possible, func(end float64) bool { return math.Abs(end-g.within) < 1e-9 }) {
				t.Fatalf("within %g, where Lloyd's algorithm cannot end: %g", g.within, possible)
			}
			got = min(got, g.within)
		}
		// Every start may end in the same local minimum, but not in a bad one:
		// a single start is within 8(ln k + 2) on average (Arthur & Vassilvitskii).
		if got > 1.5*least+1e-9 {
			t.Fatalf("best of many starts is %g, the best grouping %g", got, least)
		}
	})
}

func TestNumberOfGroupsComesFromTheData(t *testing.T) {
	chance := rand.New(rand.NewPCG(3, 3))
	for want := 1; want <= 6; want++ {
		var points []point
		for i := range 60 * want {
			level := 0.15 * float64(i%want)
			points = append(points, point{level + 0.01*chance.NormFloat64(), level + 0.01*chance.NormFloat64(), 0.01 * chance.NormFloat64()})
		}
		if got := len(group(points, 15, chance).centre); got != want {
			t.Errorf("%d groups, want %d", got, want)
		}
	}
	same := make([]point, 40)
	for i := range same {
		same[i] = point{0.3, 0.5}
	}
	if got := len(group(same, 15, chance).centre); got != 1 {
		t.Errorf("%d groups of equal points, want 1", got)
	}
}
