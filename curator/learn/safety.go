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
	until     time.Time // the thresholds decide until then
	began     time.Time // of the present period
	control   bool      // the thresholds decide in it
	polled    time.Time // last
	sum, time float64   // of latency over seconds in the present period, and these seconds
	learned   []float64 // mean latencies of the last periods
	controls  []float64 // the same of periods of the thresholds
}

// thresholds takes note of a poll and reports whether the thresholds decide.
func (s *safety) thresholds(o Observation, rng *rand.Rand) bool {
	s.measure(o)
	if since := o.At.Sub(s.began); since >= period || since < 0 {
		s.end()
		s.began, s.control = o.At, rng.IntN(oneIn) == 0
		if s.doesWorse() {
			s.until, s.learned, s.controls = o.At.Add(probation), nil, nil
		}
	}
	return s.control || o.At.Before(s.until)
}

// measure adds the time since the last poll to the present period.
func (s *safety) measure(o Observation) {
	took := o.At.Sub(s.polled)
	if finite(o.LatencyMS) && took > 0 && took <= longestGap && s.polled.Sub(s.began) >= settle {
		s.sum += min(max(o.LatencyMS, -largest), largest) * took.Seconds()
		s.time += took.Seconds()
	}
	s.polled = o.At
}

// end puts the present period with its kind. On probation there is but one kind,
// and nothing to compare.
func (s *safety) end() {
	if s.time > 0 && !s.began.Before(s.until) {
		to := &s.learned
		if s.control {
			to = &s.controls
		}
		*to = append(*to, s.sum/s.time)
		*to = (*to)[max(0, len(*to)-window):]
	}
	s.sum, s.time = 0, 0
}

// doesWorse needs a full window of both kinds.
func (s *safety) doesWorse() bool {
	if len(s.learned) < window || len(s.controls) < window {
		return false
	}
	learned, learnedError := meanAndError(s.learned)
	control, controlError := meanAndError(s.controls)
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
