package learn

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// decide lives for some days in a place where thresholds would never run the task,
// and returns the share of time in which they decide, and the mean latency.
func decide(t *testing.T, p func(ran bool) float64, days int, safety bool, seed uint64, prepare func(*Agent)) (share, mean float64) {
	t.Helper()
	cfg := Default([]string{"iops"})
	cfg.Safety = safety
	a, err := New(cfg, rand.New(rand.NewPCG(seed, 0)))
	if err != nil {
		t.Fatal(err)
	}
	prepare(a)
	rng := rand.New(rand.NewPCG(seed, 1))
	at, latency := midnight, math.NaN()
	var by, all, sum float64
	for at.Before(midnight.AddDate(0, 0, days)) {
		d := a.Poll(Observation{At: at, State: []float64{1000 * rng.Float64()}, LatencyMS: latency})
		took := d.Next.Sub(at).Seconds()
		latency = p(d.Run) + rng.NormFloat64()
		all, sum = all+took, sum+latency*took
		if d.Why == Thresholds {
			by += took
		}
		at = d.Next
	}
	return by / all, sum / all
}

// stubborn makes an agent believe for good that running is better.
func stubborn(a *Agent) {
	a.model.run[1] = 10
	a.model.rate = 0
}

func TestSafetyFallsBackWhenLearningDoesWorse(t *testing.T) {
	harms := func(ran bool) float64 {
		if ran {
			return 15
		}
		return 10
	}
	share, guarded := decide(t, harms, 20, true, 1, stubborn)
	_, unguarded := decide(t, harms, 20, false, 1, stubborn)
	if share < 0.4 || guarded > unguarded-1 {
		t.Errorf("thresholds decide %.2f of the time, %.1f ms; %.1f ms without safety", share, guarded, unguarded)
	}
}

func TestSafetyLetsLearningBeWhenItDoesBetter(t *testing.T) {
	helps := func(ran bool) float64 {
		if ran {
			return 8
		}
		return 10
	}
	share, _ := decide(t, helps, 20, true, 1, func(*Agent) {})
	if share < 0.15 || share > 0.35 {
		t.Errorf("thresholds decide %.2f of the time, want a quarter", share)
	}
}

// If both do the same, it is rare that chance makes learning look worse.
func TestSafetyIsSeldomAlarmedByNoise(t *testing.T) {
	sum := 0.0
	for seed := range uint64(20) {
		share, _ := decide(t, func(bool) float64 { return 10 }, 30, true, seed, func(*Agent) {})
		sum += share / 20
	}
	t.Logf("thresholds decide %.3f of the time", sum)
	if sum > 0.35 {
		t.Errorf("thresholds decide %.2f of the time, want about a quarter", sum)
	}
}

func TestSafetyIgnoresTheTimeItWasDown(t *testing.T) {
	s := safety{}
	rng := rand.New(rand.NewPCG(1, 1))
	s.thresholds(Observation{At: midnight, LatencyMS: 10}, rng)
	s.thresholds(Observation{At: midnight.Add(15 * time.Minute), LatencyMS: 1000}, rng)
	if s.time != 0 {
		t.Errorf("%v s count, of which nobody knows what happened", s.time)
	}
}
