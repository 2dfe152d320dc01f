package learn

import (
	"math"
	"math/rand/v2"
	"time"
)

// The safety rule; doc.go has its reasons.
const (
	period     = 30 * time.Minute
	settle     = 10 * time.Minute // of a period do not count
	window     = 8                // periods of either kind that are compared
	oneIn      = 4                // periods is decided by the thresholds
	worse      = 0.02
	certainty  = 3 // standard errors: the question is asked every half hour, and chance answers too
	probation  = 24 * time.Hour
	longestGap = 2 * AfterRun // between polls; beyond it the agent was down
)

// A safety compares latency while learning decides with latency while the
// thresholds do.
type safety struct {
	Until     time.Time // the thresholds decide until then
	Began     time.Time // the present period
	Control   bool      // the thresholds decide in it
	Polled    time.Time
	Sum, Time float64   // of latency over seconds in the present period
	Learned   []float64 // mean latencies of periods, the last ones
	Controls  []float64
}

// thresholds takes note of a poll and reports whether the thresholds decide.
func (s *safety) thresholds(o Observation, rng *rand.Rand) bool {
	s.measure(o)
	if since := o.At.Sub(s.Began); since >= period || since < 0 {
		s.end()
		s.Began, s.Control = o.At, rng.IntN(oneIn) == 0
		if s.doesWorse() {
			s.Until, s.Learned, s.Controls = o.At.Add(probation), nil, nil
		}
	}
	return s.Control || o.At.Before(s.Until)
}

// measure adds the time since the last poll to the present period.
func (s *safety) measure(o Observation) {
	took := o.At.Sub(s.Polled)
	if finite(o.LatencyMS) && took > 0 && took <= longestGap && s.Polled.Sub(s.Began) >= settle {
		s.Sum += min(max(o.LatencyMS, -largest), largest) * took.Seconds()
		s.Time += took.Seconds()
	}
	s.Polled = o.At
}

// end puts the present period with its kind. On probation there is but one kind,
// and nothing to compare.
func (s *safety) end() {
	if s.Time > 0 && !s.Began.Before(s.Until) {
		to := &s.Learned
		if s.Control {
			to = &s.Controls
		}
		*to = append(*to, s.Sum/s.Time)
		*to = (*to)[max(0, len(*to)-window):]
	}
	s.Sum, s.Time = 0, 0
}

// doesWorse needs a full window of both kinds.
func (s *safety) doesWorse() bool {
	if len(s.Learned) < window || len(s.Controls) < window {
		return false
	}
	learned, learnedError := meanAndError(s.Learned)
	control, controlError := meanAndError(s.Controls)
	more := learned - control
	return more > worse*control && more > certainty*math.Hypot(learnedError, controlError)
}

// meanAndError are the mean and its standard error.
func meanAndError(values []float64) (mean, err float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	for _, v := range values {
		err += (v - mean) * (v - mean) / (n - 1) / n
	}
	return mean, math.Sqrt(err)
}
