package plan

import (
	"slices"
	"testing"
)

// A cluster for more serves less, and what is proven for less holds for more.
func TestEven(t *testing.T) {
	var points []Point
	for i, p := range []struct{ cost, bound float64 }{{100, 90}, {140, 80}, {120, 110}, {120, 100}, {300, 0}} {
		points = append(points, Point{float64(1 + i), Plan{Cost: p.cost, LowerBound: p.bound, Packed: i}})
	}
	Even(points)
	var costs, bounds []float64
	var from []int
	for _, p := range points {
		costs, bounds, from = append(costs, p.Plan.Cost), append(bounds, p.Plan.LowerBound), append(from, p.Plan.Packed)
	}
	if !slices.Equal(costs, []float64{100, 120, 120, 120, 300}) || !slices.Equal(bounds, []float64{90, 90, 110, 110, 110}) || !slices.Equal(from, []int{0, 2, 2, 3, 4}) {
		t.Errorf("costs %v, at least %v, by the plans of %v", costs, bounds, from)
	}
	Even(nil)
}
