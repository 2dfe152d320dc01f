package learn

import (
	"math"
	"math/rand/v2"
	"testing"
)

// One absurd measurement of the features and of latency costs no more right decisions than one that is like the others.
func TestOneAbsurdMeasurementDoesNotBlind(t *testing.T) {
	after := func(state, latency float64) float64 {
		a, err := New(Default([]string{"ssd", "iops"}), rand.New(rand.NewPCG(1, 0)))
		if err != nil {
			t.Fatal(err)
		}
		live(t, a, loaded, 3000, 1)
		a.Poll(Observation{At: midnight, State: []float64{state, state}, LatencyMS: latency})
		return live(t, a, loaded, 1000, 2)
	}
	normal := after(50, 11)
	for _, absurd := range []float64{1e6, 1e12, -1e9, math.MaxFloat64} {
		if right := after(absurd, math.Abs(absurd)); normal < 0.9 || right < normal-0.02 {
			t.Errorf("%g: %.2f of the decisions are right, else %.2f", absurd, right, normal)
		}
	}
}

// A scale follows a quantity that changes for good within the hour, also one that was constant.
func TestAScaleFollowsAChange(t *testing.T) {
	for _, noise := range []float64{0, 1} {
		rng := rand.New(rand.NewPCG(1, 0))
		var s scale
		for range 1000 {
			s.add(10 + noise*rng.NormFloat64())
		}
		for range 100 {
			s.add(5000 + 100*rng.NormFloat64())
		}
		if z := s.standard(5000); z <= 0 || z >= outlier {
			t.Errorf("noise %g: 5000 is %.2f standard deviations from the mean: %+v", noise, z, s)
		}
	}
}
