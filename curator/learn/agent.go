package learn

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gleaner/input"
)

// Poll is how often to ask, and AfterRun how long to wait after a run (§4.3, appendix E).
const (
	Poll     = 30 * time.Second
	AfterRun = 5 * time.Minute
)

// Tiering are the features of the paper's primary case (§4.3.1): percentages of CPU,
// memory and SSD in use, and operations a second, all, read and write.
func Tiering() []string { return []string{"cpu", "mem", "ssd", "iops", "riops", "wiops"} }

// A Config is how to learn.
type Config struct {
	Features  []string // of a state, in order
	TimeOfDay bool     // is a feature too
	Gamma     float64  // how much the next state's value counts, 0 to below 1
	Epsilon   float64  // probability of a random action
	Even      bool     // tries random actions as often in an hour of waiting as in one of runs
	HalfLife  float64  // decisions after which Epsilon has halved; 0: never
	Rate      float64  // of learning from a poll, above 0 to 1
	Decay     float64  // of weights in a step, relative to Rate
	Safety    bool     // falls back to the thresholds while it does worse
}

// Default is the paper's configuration, but for Even (doc.go has the reason). Rate and
// Decay are ours.
func Default(features []string) Config {
	return Config{Features: features, Gamma: 0.9, Epsilon: 0.2, Even: true, Rate: 0.1, Decay: 1e-4}
}

// Bounds of a Config. Without any decay weights could grow forever.
const (
	maxFeatures = 64
	maxGamma    = 0.999
	minRate     = 1e-6
	minDecay    = 1e-6
)

// Check reports a setting that is out of range.
func (c Config) Check() error {
	for _, f := range []struct {
		name           string
		v, least, most float64
	}{
		{"gamma", c.Gamma, 0, maxGamma}, {"epsilon", c.Epsilon, 0, 1}, {"half-life", c.HalfLife, 0, math.MaxFloat64},
		{"rate", c.Rate, minRate, 1}, {"decay", c.Decay, minDecay, 1},
	} {
		if !(f.v >= f.least && f.v <= f.most) {
			return input.Fieldf(f.name, "%g is not from %g to %g", f.v, f.least, f.most)
		}
	}
	if len(c.Features) == 0 || len(c.Features) > maxFeatures {
		return input.Fieldf("features", "%d features are not from 1 to %d", len(c.Features), maxFeatures)
	}
	for i, name := range c.Features {
		if name == "" || slices.Contains(c.Features[:i], name) {
			return input.Fieldf("features", "%q is empty or named twice", name)
		}
	}
	return nil
}

// An Observation is what a poll sees.
type Observation struct {
	At time.Time // of a wall clock; its zone is that of the time of day
	// State has the features in the config's order. One that is NaN was not
	// measured and counts as its mean.
	State     []float64
	LatencyMS float64 // mean since the last poll; NaN if nothing was served
	Due       bool    // the thresholds would run the task now
	Blocked   bool    // the task cannot run now, as when its target is full
}

// A Reason says on what ground a decision was made.
type Reason string

// The reasons.
const (
	Greedy     Reason = "greedy"     // the action of higher value
	Explored   Reason = "explored"   // an action drawn at random
	Thresholds Reason = "thresholds" // as the thresholds say, by the safety rule
	Blocked    Reason = "blocked"    // the task cannot run
)

// A Decision is whether to run the task now, and when to poll again.
type Decision struct {
	Run  bool
	Why  Reason
	Next time.Time
}

// An Agent learns when to run one task.
type Agent struct {
	cfg       Config
	rng       *rand.Rand
	model     model
	decisions int
	safety    safety
	last      *step // nil before the first poll
}

// A step is a state and what was done in it.
type step struct {
	features []float64
	ran      bool
}

// New returns an agent that knows nothing yet.
func New(cfg Config, rng *rand.Rand) (*Agent, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	cfg.Features = slices.Clone(cfg.Features)
	return &Agent{cfg: cfg, rng: rng, model: newModel(cfg)}, nil
}

// Poll learns from what became of the last decision and makes the next one.
func (a *Agent) Poll(o Observation) Decision {
	x := a.cfg.features(o.At, o.State)
	a.model.observe(x)
	if a.last != nil && finite(o.LatencyMS) {
		a.model.reward.add(-o.LatencyMS)
		a.model.update(a.last, -o.LatencyMS, x, a.cfg.Gamma)
	}
	d := a.decide(o, x)
	d.Next = o.At.Add(Poll)
	if d.Run {
		d.Next = o.At.Add(AfterRun)
	}
	a.last = &step{x, d.Run}
	a.decisions++
	return d
}

func (a *Agent) decide(o Observation, x []float64) Decision {
	thresholds := a.cfg.Safety && a.safety.thresholds(o, a.rng)
	wait, run := a.model.values(x)
	explore := a.rng.Float64() < a.epsilon(run > wait)
	coin := a.rng.IntN(2) == 0
	switch {
	case o.Blocked:
		return Decision{Why: Blocked}
	case thresholds:
		return Decision{Run: o.Due, Why: Thresholds}
	case explore:
		return Decision{Run: coin, Why: Explored}
	}
	return Decision{Run: run > wait, Why: Greedy}
}

// epsilon is the probability of a random action where the better one is to run, or
// not to.
func (a *Agent) epsilon(run bool) float64 {
	e := a.cfg.Epsilon
	if a.cfg.Even && !run {
		e *= float64(Poll) / float64(AfterRun)
	}
	if a.cfg.HalfLife > 0 {
		e *= math.Exp2(-float64(a.decisions) / a.cfg.HalfLife)
	}
	return e
}

// Decisions is how many decisions the agent has made, also before it was read.
func (a *Agent) Decisions() int { return a.decisions }

// Values are the learned values of waiting and of running in a state, in standard
// deviations of the reward. They show why a greedy decision was made.
func (a *Agent) Values(at time.Time, state []float64) (wait, run float64) {
	return a.model.values(a.cfg.features(at, state))
}

// features are a state as the models see it, before it is standardised.
func (c Config) features(at time.Time, state []float64) []float64 {
	if len(state) != len(c.Features) {
		panic("learn: a state has other features than the config")
	}
	x := slices.Clone(state)
	if c.TimeOfDay {
		sin, cos := math.Sincos(2 * math.Pi * float64(at.Hour()*3600+at.Minute()*60+at.Second()) / (24 * 3600))
		x = append(x, sin, cos)
	}
	return x
}
