package learn

import (
	"math"
	"math/rand/v2"
	"time"

	"gleaner/input"
)

// A Recorded is one poll of a run in which the thresholds decided.
type Recorded struct {
	At        time.Time
	State     []float64
	LatencyMS float64 // mean since the poll before
	Ran       bool    // the task was started
}

// Pre-training (§4.3.3): a fifth of the transitions is kept for the test, the rest
// is cut into folds to choose the settings.
const (
	testShare = 0.2
	folds     = 3
	fewest    = 30     // transitions to learn from
	passes    = 10     // over the transitions, or more to have
	updates   = 50_000 // in all, for values of the future to spread
)

// A Fit is how well the features predict the reward. Errors are mean squares, in
// variances of the reward.
//
// The settings are chosen by these errors too, and not by how far values are off
// their targets: the targets are the model's own, and a model that values all states
// alike has the calmest ones.
type Fit struct {
	Transitions int     // in all runs
	Rate, Decay float64 // chosen for the recorded runs
	Train, Test float64 // errors
	Constant    float64 // error in the test of a model that knows no features
}

// A transition is a step, its reward and the state after it.
type transition struct {
	step
	reward float64
	next   []float64
}

// Pretrain returns an agent that has learned from recorded runs, each in order of time.
func Pretrain(cfg Config, runs [][]Recorded, rng *rand.Rand) (*Agent, Fit, error) {
	a, err := New(cfg, rng)
	if err != nil {
		return nil, Fit{}, err
	}
	all, err := transitions(cfg, runs)
	if err != nil {
		return nil, Fit{}, err
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	kept := int(testShare * float64(len(all)))
	test, train := all[:kept], all[kept:]

	chosen := choose(cfg, train, rng)
	a.model = fit(chosen, train, rng)
	a.model.rate, a.model.decay = cfg.Rate, cfg.Decay

	now := rewardsOnly(chosen)
	predicted, constant := fit(now, train, rng), fit(blind(now), withoutFeatures(train), rng)
	return a, Fit{len(all), now.Rate, now.Decay, predicted.miss(train), predicted.miss(test), constant.miss(withoutFeatures(test))}, nil
}

// transitions are the pairs of polls that follow each other in a run.
func transitions(cfg Config, runs [][]Recorded) ([]transition, error) {
	var out []transition
	ran := 0
	for r, run := range runs {
		for i, poll := range run {
			if len(poll.State) != len(cfg.Features) {
				return nil, input.Errorf("recorded runs", "poll %d of run %d has %d features, not %d", i+1, r+1, len(poll.State), len(cfg.Features))
			}
			if i == 0 || !finite(poll.LatencyMS) {
				continue
			}
			before := run[i-1]
			out = append(out, transition{step{cfg.features(before.At, before.State), before.Ran}, -poll.LatencyMS, cfg.features(poll.At, poll.State)})
			if before.Ran {
				ran++
			}
		}
	}
	if len(out) < fewest {
		return nil, input.Errorf("recorded runs", "%d transitions are too few to learn from; at least %d are needed", len(out), fewest)
	}
	if ran == 0 || ran == len(out) {
		return nil, input.Errorf("recorded runs", "the task ran in %d of %d transitions; both actions are needed", ran, len(out))
	}
	return out, nil
}

// choose tries all settings, each on every fold with a model fitted to the others.
func choose(cfg Config, train []transition, rng *rand.Rand) Config {
	best, least := cfg, math.Inf(1)
	for _, rate := range []float64{0.01, 0.03, 0.1, 0.3} {
		for _, decay := range []float64{1e-5, 1e-4, 1e-3, 1e-2} {
			cfg.Rate, cfg.Decay = rate, decay
			if miss := crossValidate(rewardsOnly(cfg), train, rng); miss < least {
				best, least = cfg, miss
			}
		}
	}
	return best
}

func rewardsOnly(cfg Config) Config {
	cfg.Gamma = 0
	return cfg
}

func crossValidate(cfg Config, train []transition, rng *rand.Rand) float64 {
	sum := 0.0
	for k := range folds {
		from, to := k*len(train)/folds, (k+1)*len(train)/folds
		rest := append(append([]transition{}, train[:from]...), train[to:]...)
		m := fit(cfg, rest, rng)
		sum += m.miss(train[from:to]) / folds
	}
	return sum
}

// fit learns the scales first, then the weights.
func fit(cfg Config, train []transition, rng *rand.Rand) model {
	m := newModel(cfg)
	for _, t := range train {
		m.observe(t.features)
		m.reward.add(t.reward)
	}
	for range max(passes, updates/len(train)) {
		for _, i := range rng.Perm(len(train)) {
			t := &train[i]
			m.update(&t.step, t.reward, t.next, cfg.Gamma)
		}
	}
	return m
}

// miss is the mean square by which rewards were predicted wrongly.
func (m *model) miss(over []transition) float64 {
	sum := 0.0
	for i := range over {
		t := &over[i]
		off := m.off(&t.step, t.reward, t.next, 0)
		sum += off * off / float64(len(over))
	}
	return sum
}

// blind is a config without features.
func blind(cfg Config) Config {
	cfg.Features, cfg.TimeOfDay = nil, false
	return cfg
}

func withoutFeatures(all []transition) []transition {
	out := make([]transition, len(all))
	for i, t := range all {
		out[i] = transition{step{nil, t.ran}, t.reward, nil}
	}
	return out
}
