package learn

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

var midnight = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// A place is an environment of which the best policy is known.
type place struct {
	// next is the latency until the next poll, after a decision at a load of 0 to 1.
	next func(at time.Time, load float64, ran bool) float64
	// best is the better decision; sure says that the other costs something.
	best func(at time.Time, load float64) (run, sure bool)
}

// always, never and so on are the places. Latency is about 10 ms; to run changes it
// by up to 4 ms.
var (
	always   = place{effect(func(time.Time, float64) float64 { return -2 }), func(time.Time, float64) (bool, bool) { return true, true }}
	never    = place{effect(func(time.Time, float64) float64 { return +2 }), func(time.Time, float64) (bool, bool) { return false, true }}
	loaded   = place{effect(func(_ time.Time, load float64) float64 { return 4 * (0.5 - load) }), func(_ time.Time, load float64) (bool, bool) { return load > 0.5, math.Abs(load-0.5) > 0.1 }}
	mornings = place{effect(func(at time.Time, _ float64) float64 {
		if at.Hour() < 12 {
			return -2
		}
		return +2
	}), func(at time.Time, _ float64) (bool, bool) {
		return at.Hour() < 12, at.Hour()%12 > 0 && at.Hour()%12 < 11
	}}
)

func effect(of func(time.Time, float64) float64) func(time.Time, float64, bool) float64 {
	return func(at time.Time, load float64, ran bool) float64 {
		ms := 10 + 3*load
		if ran {
			ms += of(at, load)
		}
		return ms
	}
}

// live polls an agent in a place and returns which share of its greedy decisions
// in the last tenth was the best, of those that matter.
func live(t *testing.T, a *Agent, p place, polls int, seed uint64) float64 {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	at, latency := midnight, math.NaN()
	right, all := 0, 0
	for i := range polls {
		load := rng.Float64()
		d := a.Poll(Observation{At: at, State: []float64{100 * rng.Float64(), 5000 * load}, LatencyMS: latency})
		if run, sure := p.best(at, load); i > polls*9/10 && d.Why == Greedy && sure {
			all++
			if d.Run == run {
				right++
			}
		}
		latency = p.next(at, load, d.Run) + rng.NormFloat64()
		at = d.Next
	}
	if all < polls/100 {
		t.Fatalf("%d greedy decisions that matter are too few to judge", all)
	}
	return float64(right) / float64(all)
}

func agent(t *testing.T, timeOfDay bool, seed uint64) *Agent {
	t.Helper()
	cfg := Default([]string{"mem", "iops"})
	cfg.TimeOfDay = timeOfDay
	a, err := New(cfg, rand.New(rand.NewPCG(seed, 0)))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestLearnsTheBestPolicy(t *testing.T) {
	for _, tc := range []struct {
		name      string
		place     place
		timeOfDay bool
		least     float64
	}{
		{"running always helps", always, false, 0.99},
		{"running never helps", never, false, 0.99},
		{"running helps under load", loaded, false, 0.95},
		{"running helps before noon", mornings, true, 0.95},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for seed := range uint64(5) {
				if share := live(t, agent(t, tc.timeOfDay, seed), tc.place, 20_000, seed); share < tc.least {
					t.Errorf("seed %d: %.3f of the decisions are the best, want %.2f", seed, share, tc.least)
				}
			}
		})
	}
}

// Without the time of day nothing tells a morning from an evening.
func TestTimeOfDayIsWhatTellsMornings(t *testing.T) {
	if share := live(t, agent(t, false, 1), mornings, 20_000, 1); share > 0.9 {
		t.Errorf("%.3f of the decisions are the best without the time of day", share)
	}
}

// A run costs 3 ms now and brings the tier 20% down, and latency is a tenth of the
// tier's use. Only who counts the states to come will run at all.
func TestRunsForWhatComesLater(t *testing.T) {
	const cost, relief = 3, 20
	next := func(use int, ran bool) (int, float64) {
		ms := float64(use) / 10
		if ran {
			return max(use-relief, 0), ms + cost
		}
		return min(use+1, 100), ms
	}
	mean := func(polls int, decide func(use int, latency float64) bool) float64 {
		use, latency, sum := 50, math.NaN(), 0.0
		for i := range polls {
			ran := decide(use, latency)
			use, latency = next(use, ran)
			if i >= polls/2 {
				sum += latency / float64(polls-polls/2)
			}
		}
		return sum
	}
	learned := func(gamma float64) float64 {
		cfg := Default([]string{"ssd"})
		cfg.Gamma, cfg.HalfLife = gamma, 500
		a, err := New(cfg, rand.New(rand.NewPCG(1, 0)))
		if err != nil {
			t.Fatal(err)
		}
		at := midnight
		return mean(20_000, func(use int, latency float64) bool {
			d := a.Poll(Observation{At: at, State: []float64{float64(use)}, LatencyMS: latency})
			at = d.Next
			return d.Run
		})
	}

	value := [2][101]float64{} // by value iteration, which knows the place
	for range 500 {
		var better [2][101]float64
		for use := range 101 {
			for i, ran := range []bool{false, true} {
				to, ms := next(use, ran)
				better[i][use] = -ms + 0.9*max(value[0][to], value[1][to])
			}
		}
		value = better
	}
	best := mean(20_000, func(use int, _ float64) bool { return value[1][use] > value[0][use] })
	far, near := learned(0.9), learned(0)
	t.Logf("mean latency %.2f ms at best, %.2f learned, %.2f learned without the future", best, far, near)
	if far > 1.25*best || near < 9.9 {
		t.Errorf("mean latency %.2f ms learned, %.2f without the future; %.2f is possible", far, near, best)
	}
}

func TestPollsAsThePaper(t *testing.T) {
	a := agent(t, false, 1)
	a.cfg.Even = false
	seen := map[bool]int{}
	at := midnight
	for range 2000 {
		d := a.Poll(Observation{At: at, State: []float64{50, 1000}, LatencyMS: 10})
		if want := map[bool]time.Duration{false: 30 * time.Second, true: 5 * time.Minute}[d.Run]; d.Next.Sub(at) != want {
			t.Fatalf("run %v: next poll after %v, want %v", d.Run, d.Next.Sub(at), want)
		}
		if d.Why == Explored {
			seen[d.Run]++
		}
		at = d.Next
	}
	if n := seen[false] + seen[true]; n < 340 || n > 460 || seen[true] < n/3 || seen[false] < n/3 {
		t.Errorf("explored %v of 2000, want about 400 and as many of both", seen)
	}
}

// Where to run is of no use, an agent that tries evenly runs every 99 polls and five
// minutes; one that tries as the paper does, every 9 and five minutes.
func TestEvenTriesSeldomWhileItWaits(t *testing.T) {
	runs := func(even bool) (n int) {
		a := agent(t, false, 1)
		a.cfg.Even = even
		at := midnight
		for at.Before(midnight.Add(1000 * time.Hour)) {
			d := a.Poll(Observation{At: at, State: []float64{50, 1000}, LatencyMS: 10})
			if d.Run {
				n++
			}
			at = d.Next
		}
		return n
	}
	if even, paper := runs(true), runs(false); even < 1000 || even > 1200 || paper < 6100 || paper > 6500 {
		t.Errorf("%d runs in 1000 hours, %d as the paper tries; want about 1100 and 6300", even, paper)
	}
}

func TestEpsilonFalls(t *testing.T) {
	a := agent(t, false, 1)
	a.cfg.HalfLife = 100
	a.decisions = 200
	if run, wait := a.epsilon(true), a.epsilon(false); math.Abs(run-0.05) > 1e-12 || math.Abs(wait-0.005) > 1e-12 {
		t.Errorf("epsilon %g and %g after two half-lives, want 0.05 and 0.005", run, wait)
	}
}

func TestBlockedNeverRuns(t *testing.T) {
	a := agent(t, false, 1)
	for i := range 500 {
		d := a.Poll(Observation{At: midnight.Add(time.Duration(i) * Poll), State: []float64{1, 2}, LatencyMS: 10, Due: true, Blocked: true})
		if d.Run || d.Why != Blocked {
			t.Fatalf("poll %d: %+v", i, d)
		}
	}
}
