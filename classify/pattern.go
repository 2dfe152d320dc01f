package classify

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gleaner/cluster"
)

// The constants of the decision; doc.go gives the reason for each.
const (
	maxBins       = 4096
	maxSlots      = 48   // of a profile
	coarseBins    = 512  // for periods so long that few cycles fit
	minCycles     = 2.9  // that a period must show
	fewCycles     = 8.0  // below it every period is tried, above it the spectrum proposes
	topPeaks      = 5    // of the spectrum that are tried
	maxMultiple   = 4    // of a peak's period that is tried as the true one
	nearlyAsGood  = 0.03 // of the variance: what a shorter period may leave unexplained
	minShare      = 0.5  // of all that is not white noise: what a period must explain
	minSteady     = 0.5  // slope on the forecast that every stretch must reach
	strongDay     = 0.25 // of a weekly pattern's variance: with it, it is a day with a weekly modulation
	quietPoints   = 0.015
	quietShare    = 0.05
	outlierSigmas = 4
	clearSigmas   = 8
	lineOverFloor = 16
	minBinsCycle  = 4 // bins a cycle must have
)

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// Evidence is what a pattern was decided from. Standard deviations are in
// utilisation, 0 to 1.
type Evidence struct {
	Period  time.Duration // the best period found, also when it was not good enough; 0 if none
	Cycles  float64       // of it in the window
	Share   float64       // part of all that is not white noise which the period explains, each cycle foretold by the others
	Steady  float64       // 1: the pattern is there all the time; 0: some stretch of the window lacks it
	Weekend bool          // the days differ over the week
	Swing   float64       // standard deviation of the part that repeats
	Drift   float64       // of the part that neither repeats nor is white noise: drift, steps, long bursts
	Bursts  float64       // of samples too far from the median to be noise
	Noise   float64       // of white noise, from one sample to the next
}

// Why says in a line what the evidence amounts to.
func (e Evidence) Why() string {
	points := func(v float64) string { return fmt.Sprintf("%.1f", 100*v) }
	why := fmt.Sprintf("drift %s, bursts %s, noise %s points", points(e.Drift), points(e.Bursts), points(e.Noise))
	if e.Period == 0 {
		return "no period; " + why
	}
	modulated := ""
	if e.Weekend {
		modulated = ", weekends differ"
	}
	return fmt.Sprintf("%s over %.1f cycles explains %.0f%%, steady %.2f%s; swing %s, %s",
		e.Period.Round(time.Minute), e.Cycles, 100*e.Share, e.Steady, modulated, points(e.Swing), why)
}

// quiet is the standard deviation below which a movement around a level of
// mean utilisation is of no use or harm to anyone.
func quiet(mean float64) float64 { return max(quietPoints, quietShare*mean) }

// analyst decides patterns for series over one window.
type analyst struct {
	window   cluster.Window
	spectrum *spectrum
	folder   folder
	value    []float64
	coarse   []float64
}

func newAnalyst(w cluster.Window) *analyst {
	n := (w.Len + perBin(w) - 1) / perBin(w)
	return &analyst{window: w, spectrum: newSpectrum(n)}
}

// decide gives the pattern of a series with the evidence for it.
func (a *analyst) decide(b bins, s *summary) (cluster.Pattern, Evidence) {
	a.spectrum.of(b)
	drift := max(s.echo, echo(b.value))
	bursts := s.outlying()
	e := Evidence{
		Drift:  math.Sqrt(max(0, drift)),
		Bursts: math.Sqrt(bursts),
		Noise:  math.Sqrt(max(0, s.vari-max(s.echo, 0))),
	}
	limit := quiet(s.mean)
	structured := a.spectrum.stands() || s.echo > 5*s.vari/math.Sqrt(float64(max(s.pairs, 1)))
	if structured {
		if f, ok := a.period(b, &e); ok && f.swing > limit*limit {
			return cluster.Periodic, e
		}
	}
	if (!structured || drift <= limit*limit) && bursts <= limit*limit {
		return cluster.Constant, e
	}
	return cluster.Unpredictable, e
}

// echo is the covariance of neighbours, the variance that is not white noise.
func echo(v []float64) float64 {
	var sum, squares, diff, last float64
	n, pairs := 0, 0
	last = math.NaN()
	for _, x := range v {
		if x == x {
			sum += x
			squares += x * x
			n++
			if last == last {
				diff += (x - last) * (x - last)
				pairs++
			}
		}
		last = x
	}
	if pairs == 0 {
		return 0
	}
	mean := sum / float64(n)
	return squares/float64(n) - mean*mean - diff/float64(2*pairs)
}

// stands says whether any frequency stands out of the floor, as none does in
// white noise.
func (s *spectrum) stands() bool {
	half := len(s.power) / 2
	floor := 0.0
	for _, p := range s.power[half:] {
		floor += p
	}
	floor /= float64(len(s.power) - half)
	// Frequency 0 and what the taper spills from it hold the mean only.
	return slices.Max(s.power[1:]) > lineOverFloor*floor
}

// period looks for the period of b and says whether b may be called periodic by it.
func (a *analyst) period(b bins, e *Evidence) (folding, bool) {
	best, ok := a.search(b)
	if !ok {
		return best, false
	}
	best = a.refine(b, best)
	e.Weekend = false
	if near(best.period, week, 0.03) {
		if daily := a.folder.fold(b, day); daily.swing > strongDay*best.swing {
			best = a.folder.fold(b, week)
			e.Weekend = true
		}
	}
	best = a.folder.fold(b, best.period)
	steady := a.folder.steady(best, nil)
	pass := best.clear() && best.share() >= minShare && steady >= minSteady
	if near(best.period, day, 0.03) && !pass && b.length() >= week {
		if f, s, ok := a.weekends(b); ok {
			best, steady, pass, e.Weekend = f, s, true, true
		}
	}
	e.Period, e.Cycles, e.Share, e.Steady = best.period, best.cycles, best.share(), steady
	if e.Weekend {
		e.Period = day
		e.Cycles = float64(b.length()) / float64(day)
	}
	e.Swing, e.Drift = math.Sqrt(best.swing), math.Sqrt(best.rest)
	return best, pass
}

func near(a, b time.Duration, tolerance float64) bool {
	return math.Abs(float64(a-b)) <= tolerance*float64(b)
}

// search tries the periods that the data suggest and gives the shortest that
// foretells nearly as much as the best.
func (a *analyst) search(b bins) (folding, bool) {
	var tried []folding
	for _, p := range a.candidates(b) {
		tried = append(tried, a.folder.fold(b, p))
	}
	most := 0.0
	for _, f := range tried {
		most = max(most, f.foretold)
	}
	slices.SortFunc(tried, func(x, y folding) int { return int(x.period - y.period) })
	for _, f := range tried {
		if f.foretold > 0 && f.foretold >= (1-nearlyAsGood)*most {
			return f, true
		}
	}
	return folding{}, false
}

// candidates are the day and the week, every period of few cycles that folds
// better than its neighbours, and the strongest frequencies with multiples of
// their periods, since a harmonic can be stronger than the fundamental.
func (a *analyst) candidates(b bins) []time.Duration {
	length := float64(b.length())
	longest := time.Duration(length / minCycles)
	shortest := minBinsCycle * b.step
	var out []time.Duration
	add := func(p time.Duration) {
		if p < shortest || p > longest {
			return
		}
		for _, q := range out {
			if math.Abs(length/float64(p)-length/float64(q)) < 0.2 {
				return
			}
		}
		out = append(out, p)
	}
	add(day)
	add(week)
	for _, p := range a.fewCycled(b, longest) {
		add(p)
	}
	for _, f := range a.spectrum.peaks((fewCycles-2)*float64(b.step)/length, topPeaks) {
		for m := 1.0; m <= maxMultiple; m++ {
			add(time.Duration(float64(b.step) * m / f))
		}
	}
	return out
}

// fewCycled gives the best three of the periods of which few cycles fit, each
// better than its neighbours. Lines of the spectrum are too broad for these.
func (a *analyst) fewCycled(b bins, longest time.Duration) []time.Duration {
	c := b.coarser(coarseBins, a.coarse)
	a.coarse = c.value
	length := float64(b.length())
	var tried []folding
	for k := minCycles; k <= fewCycles; k += 0.2 {
		p := min(time.Duration(length/k), longest)
		if p < minBinsCycle*c.step {
			break
		}
		tried = append(tried, a.folder.fold(c, p))
	}
	var tops []folding
	for i, f := range tried {
		if (i == 0 || f.foretold >= tried[i-1].foretold) && (i+1 == len(tried) || f.foretold > tried[i+1].foretold) && f.foretold > 0 {
			tops = append(tops, f)
		}
	}
	slices.SortStableFunc(tops, func(x, y folding) int {
		if x.foretold > y.foretold {
			return -1
		}
		return 1
	})
	var out []time.Duration
	for _, f := range tops[:min(3, len(tops))] {
		out = append(out, f.period)
	}
	return out
}

// refine moves the period to where the fold foretells most, within what the
// window can resolve, and to the day or the week when these are as good.
func (a *analyst) refine(b bins, f folding) folding {
	length := float64(b.length())
	best := f
	for _, d := range []float64{-0.3, -0.2, -0.1, -0.05, 0.05, 0.1, 0.2, 0.3} {
		p := time.Duration(length / (f.cycles + d))
		if g := a.folder.fold(b, p); g.foretold > best.foretold && g.cycles >= minCycles {
			best = g
		}
	}
	for _, p := range []time.Duration{day, week} {
		if math.Abs(length/float64(p)-best.cycles) > 0.6 || length/float64(p) < minCycles {
			continue
		}
		if g := a.folder.fold(b, p); g.foretold >= (1-nearlyAsGood)*best.foretold {
			best = g
		}
	}
	return best
}

// weekends judges b as days of two kinds, where two days of every seven are of
// the second kind. It is for windows too short to show three whole weeks.
func (a *analyst) weekends(b bins) (folding, float64, bool) {
	r := &a.folder
	r.cut(b, day, 24)
	start := r.weekend()
	off := func(cell int) bool { return ((cell-start)%168+168)%168 < 48 }
	for i := range r.slot {
		if off(i) {
			r.slot[i] += 24
		}
	}
	f := r.judge(b, day)
	steady := r.steady(f, off)
	return f, steady, f.clear() && f.share() >= minShare && steady >= minSteady
}

// weekend finds the 48 hours of the week, by the first of its hours, that
// leave least unexplained when they have a daily profile of their own.
func (r *folder) weekend() int {
	var sum, squares, count [168]float64
	for i, v := range r.cell {
		if v == v {
			sum[i%168] += v
			squares[i%168] += v * v
			count[i%168]++
		}
	}
	best, least := 0, math.Inf(1)
	for start := range 168 {
		left := 0.0
		for hour := range 24 {
			var s, q, n [2]float64
			for h := hour; h < 168; h += 24 {
				kind := 0
				if (h-start+168)%168 < 48 {
					kind = 1
				}
				s[kind] += sum[h]
				q[kind] += squares[h]
				n[kind] += count[h]
			}
			for kind := range 2 {
				if n[kind] > 0 {
					left += q[kind] - s[kind]*s[kind]/n[kind]
				}
			}
		}
		if left < least {
			best, least = start, left
		}
	}
	return best
}
