package learn

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gleaner/input"
)

// recorded are runs of thresholds that start the task above a load of 70%, and for
// other reasons one time in ten, in a place.
func recorded(p place, runs, polls int) [][]Recorded {
	rng := rand.New(rand.NewPCG(3, 3))
	out := make([][]Recorded, runs)
	for r := range out {
		at, latency := midnight, 10.0
		for range polls {
			load := rng.Float64()
			ran := load > 0.7 || rng.IntN(10) == 0
			out[r] = append(out[r], Recorded{At: at, State: []float64{100 * rng.Float64(), 5000 * load}, LatencyMS: latency, Ran: ran})
			latency = p.next(at, load, ran) + rng.NormFloat64()
			at = at.Add(Poll)
		}
	}
	return out
}

// An agent that was pre-trained knows what to do from the first poll on.
func TestPretrainedKnowsAtOnce(t *testing.T) {
	for name, p := range map[string]place{"always": always, "never": never, "loaded": loaded} {
		a, fit, err := Pretrain(Default([]string{"mem", "iops"}), recorded(p, 4, 1000), rand.New(rand.NewPCG(1, 0)))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %+v", name, fit)
		right, all := 0, 0
		for load := 0.005; load < 1; load += 0.01 {
			wait, run := a.Values(midnight, []float64{50, 5000 * load})
			if best, sure := p.best(midnight, load); sure {
				all++
				if (run > wait) == best {
					right++
				}
			}
		}
		if share := float64(right) / float64(all); share < 0.95 {
			t.Errorf("%s: %.2f of the decisions are the best", name, share)
		}
		if fit.Transitions != 4*999 || fit.Test > 1.2*fit.Train || fit.Test > 0.95*fit.Constant {
			t.Errorf("%s: the fit %+v", name, fit)
		}
	}
}

func TestPretrainSaysWhatItCannotLearnFrom(t *testing.T) {
	good := recorded(always, 1, 100)
	lazy := recorded(always, 1, 100)
	for i := range lazy[0] {
		lazy[0][i].Ran = false
	}
	short := recorded(always, 1, 10)
	odd := recorded(always, 1, 100)
	odd[0][41].State = []float64{1}
	dark := recorded(always, 1, 100)
	for i := range dark[0] {
		dark[0][i].LatencyMS = math.NaN()
	}
	for _, tc := range []struct {
		runs [][]Recorded
		want string
	}{
		{good, ""},
		{nil, "0 transitions are too few"},
		{short, "9 transitions are too few"},
		{dark, "0 transitions are too few"},
		{lazy, "the task ran in 0 of 99 transitions"},
		{odd, "poll 42 of run 1 has 1 features, not 2"},
	} {
		_, _, err := Pretrain(Default([]string{"mem", "iops"}), tc.runs, rand.New(rand.NewPCG(1, 0)))
		if (err == nil) != (tc.want == "") || err != nil && (!input.Is(err) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%v, want %q", err, tc.want)
		}
	}
}
