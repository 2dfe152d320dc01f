package learn

import "math"

// memory is how many polls the scales remember: a day of them.
const memory = 2880

// Measurements beyond largest count as largest, and standardised ones beyond
// outlier as outlier: one odd measurement must not swing a linear model.
const (
	largest = 1e12
	outlier = 5
)

// A measurement that is new to a scale which has seen enough of them, further from its mean than outlier, counts as that far until several came in
// a row: one that is absurd must not set the scale for weeks, but a cluster may change.
const (
	enough  = 30
	several = 10
)

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// A scale is the running mean and variance of a quantity.
type scale struct {
	Mean     float64 `json:"mean"`
	Variance float64 `json:"variance"`
	Seen     int     `json:"seen"` // at most memory

	odd int // measurements in a row that were new to it
}

func (s *scale) add(v float64) {
	if !finite(v) {
		return
	}
	v = s.plausible(min(max(v, -largest), largest))
	s.Seen = min(s.Seen+1, memory)
	off := v - s.Mean
	s.Mean += off / float64(s.Seen)
	s.Variance += (off*(v-s.Mean) - s.Variance) / float64(s.Seen)
}

// plausible is what a measurement counts as.
func (s *scale) plausible(v float64) float64 {
	reach := outlier * math.Sqrt(s.Variance)
	if s.Seen < enough || math.Abs(v-s.Mean) <= reach {
		s.odd = 0
		return v
	}
	if s.odd++; s.odd > several {
		return v
	}
	return min(max(v, s.Mean-reach), s.Mean+reach)
}

// standard is v in standard deviations from the mean; 0 if nothing is known.
func (s *scale) standard(v float64) float64 {
	// Rounding alone makes the variance of a constant this large.
	if !finite(v) || s.Variance <= 1e-20*s.Mean*s.Mean {
		return 0
	}
	v = min(max(v, -largest), largest)
	return min(max((v-s.Mean)/math.Sqrt(s.Variance), -outlier), outlier)
}

// A model has the scales and the weights of both actions. The last weight of each
// is its constant.
type model struct {
	rate, decay float64
	features    []scale
	reward      scale
	wait, run   []float64

	before, after []float64 // room for two states
}

func newModel(cfg Config) model {
	n := len(cfg.Features)
	if cfg.TimeOfDay {
		n += 2
	}
	weights := func() []float64 { return make([]float64, n+1) }
	return model{rate: cfg.Rate, decay: cfg.Decay, features: make([]scale, n), wait: weights(), run: weights(), before: weights(), after: weights()}
}

func (m *model) observe(x []float64) {
	for i, v := range x {
		m.features[i].add(v)
	}
}

// standard puts a state into z, standardised and with a 1 for the constant.
func (m *model) standard(x, z []float64) []float64 {
	for i, v := range x {
		z[i] = m.features[i].standard(v)
	}
	z[len(x)] = 1
	return z
}

func value(w, z []float64) float64 {
	sum := 0.0
	for i, v := range z {
		sum += w[i] * v
	}
	return sum
}

func (m *model) values(x []float64) (wait, run float64) {
	z := m.standard(x, m.after)
	return value(m.wait, z), value(m.run, z)
}

func (m *model) weights(ran bool) []float64 {
	if ran {
		return m.run
	}
	return m.wait
}

// off is by how much the value of a step is off what it should have been, which is
// cut to what rewards can add up to.
func (m *model) off(s *step, reward float64, next []float64, gamma float64) float64 {
	wait, run := m.values(next)
	most := outlier / (1 - gamma)
	target := min(max(m.reward.standard(reward)+gamma*max(wait, run), -most), most)
	return target - value(m.weights(s.ran), m.standard(s.features, m.before))
}

// update moves the model of the step's action towards its target.
func (m *model) update(s *step, reward float64, next []float64, gamma float64) {
	w, off, z := m.weights(s.ran), m.off(s, reward, next, gamma), m.before
	length := value(z, z)
	for i := range w {
		w[i] += m.rate * (off*z[i]/length - m.decay*w[i])
	}
}
