package plan_test

import (
	"math"
	"testing"

	"gleaner/plan"
)

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.0001234567: "0.0001235", 1.5: "1.5", 999.9: "999.9", 999.96: "1,000", 1000: "1,000",
		12345: "12,345", 4202.5: "4,203", 5.6e7: "56,000,000", -12345: "-12,345", -123: "-123", math.Inf(1): "+Inf"} {
		if got := plan.Figure(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}
