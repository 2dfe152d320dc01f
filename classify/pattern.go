package classify

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"gleaner/cluster"
)

// The constants of the decision; doc.go gives the reason for each.
const (
	maxBins      = 4464 // a series is averaged into
	minBinsCycle = 4    // bins a cycle must have
	shortBins    = 16   // bins of a cycle below which samples are used
	minSlots     = 48   // of a profile: half hours of a day
	maxSlots     = 168  // and the hours of a week
	sketchSlots  = 3    // times fewer while searching
	coarseBins   = 512  // for periods so long that few cycles fit

	minCycles   = 2.9 // that a period must show
	fewCycles   = 8.0 // below it every period is tried, above it the spectrum proposes
	topPeaks    = 5   // of the spectrum that are tried
	maxMultiple = 4   // of a peak's period that is tried as the true one

	allExplained = 0.97 // of the variance that is not noise: ends the search
	nearlyAsGood = 0.01 // of the variance: what a simpler period may leave unexplained
	chanceCycles = 10   // times the rest of one cycle: what a multiple must explain more
	clockCycles  = 2    // the same if the multiple is the day or the week
	stillThere   = 0.8  // of the swing: what a part of the period must keep to replace it
	weekTells    = 1.1  // times the daily swing: with it, the days of the week differ
	strongDay    = 0.25 // of a weekly swing: with it, a week is one of days

	minShare     = 0.6  // of all that is not white noise: what a period must explain
	minPredicted = 0.33 // of the swing: what one cycle must predict of another before the correction for noise
	minSteady    = 0.6  // slope on the forecast that every stretch must reach
	blankStretch = 0.1  // of the swing: what must be predicted in a stretch for its slope to count

	quietPoints = 0.015 // standard deviation around a level that counts as constant
	quietShare  = 0.05  // the same, of the level

	clearSigmas   = 8   // swing over what noise leaves in a profile
	chanceLines   = 7   // harmonic over what noise leaves in it
	lineOverFloor = 16  // frequency over the mean of the upper half
	echoSigmas    = 3.5 // covariance of neighbours over its error
	trendSigmas   = 5   // slope over its error
	outlierSigmas = 4.5 // distance above the median
	minOutliers   = 3   // that make bursts
)

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// quiet is the standard deviation below which movement around a mean
// utilisation does not matter.
func quiet(mean float64) float64 { return max(quietPoints, quietShare*mean) }

// analyst decides patterns for series over one window.
type analyst struct {
	window   cluster.Window
	spectrum *spectrum
	folder   folder
	fine     bins
	coarse   bins
	samples  bins // one each, for periods of few fine bins
}

func newAnalyst(w cluster.Window) *analyst {
	n := max(1, (w.Len+perBin(w)-1)/perBin(w))
	return &analyst{window: w, spectrum: newSpectrum(n)}
}

// decide returns the pattern of a series and the evidence for it.
func (a *analyst) decide(b *bins, s *summary, cpu []float32) (cluster.Pattern, Evidence) {
	a.spectrum.of(b)
	a.coarse.coarsen(b, coarseBins)
	drift := max(a.spectrum.lines(), s.echo, echo(b.value), trend(a.coarse.value))
	e := Evidence{Drift: math.Sqrt(drift), Noise: math.Sqrt(max(0, s.vari-s.echo))}
	limit := quiet(s.mean)
	var f folding
	if drift > limit*limit/10 { // less could not hide a swing beyond the limit
		var ok bool
		f, ok = a.period(b, drift, cpu, &e)
		if ok && f.swing > limit*limit {
			e.Bursts, e.Rule = math.Sqrt(s.outlying()), e.explains(f)
			return cluster.Periodic, e
		}
		if f.clear() { // then its means over many cycles are more precise
			drift = min(drift, f.swing+f.rest)
		}
	}
	e.Bursts = math.Sqrt(max(s.outlying(), a.coarse.outlying()))
	moved := math.Sqrt(drift)
	switch {
	case moved > limit:
		e.Rule = fmt.Sprintf("moves by %s points, over the %s that count, and %s", points(moved), points(limit), e.lacks(f, a.window))
	case e.Bursts > limit/2:
		e.Rule = fmt.Sprintf("bursts of %s points, over the %s that count", points(e.Bursts), points(limit/2))
	default:
		e.Rule = fmt.Sprintf("moves by %s points, under the %s that count", points(moved), points(limit))
		return cluster.Constant, e
	}
	return cluster.Unpredictable, e
}

// echo is the covariance of neighbours: the variance that is not white noise,
// or 0 if white noise could cause as much.
func echo(v []float64) float64 {
	var sum, squares, diff float64
	n, pairs, last := 0, 0, math.NaN()
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
	return beyondNoise(squares/float64(n)-mean*mean, diff/float64(pairs), pairs)
}

// trend is the variance of the straight line through v, or 0 if white noise
// could cause as much.
func trend(v []float64) float64 {
	var n, sx, sy, sxx, sxy, syy float64
	for i, y := range v {
		if y == y {
			x := float64(i)
			n, sx, sy, sxx, sxy, syy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y, syy+y*y
		}
	}
	vx, vy, cov := sxx/n-sx/n*sx/n, syy/n-sy/n*sy/n, sxy/n-sx/n*sy/n
	line := cov * cov / vx
	if n < 3 || line < trendSigmas*trendSigmas*(vy-line)/n {
		return 0
	}
	return line
}

// beyondNoise computes the covariance of neighbours from the variance and the
// mean square difference of that many pairs; 0 if it is not significant.
func beyondNoise(variance, diff float64, pairs int) float64 {
	echo := variance - diff/2
	if echo < echoSigmas*variance/math.Sqrt(float64(pairs)) {
		return 0
	}
	return echo
}

// period looks for the period of b, whose structured variance is given, and
// reports whether b is periodic by it.
func (a *analyst) period(b *bins, structured float64, cpu []float32, e *Evidence) (folding, bool) {
	best, ok := a.search(b, structured)
	if !ok {
		return best, false
	}
	if best.period != day || !best.explainsAll(structured) {
		best = a.multiple(b, a.refine(b, best))
	}
	best = a.fundamental(b, best, minBinsCycle)
	if best.period < shortBins*b.step && b.step > a.window.Step {
		b = &a.samples
		b.copy(a.window.Step, cpu)
		best = a.fundamental(b, best, minBinsCycle/2)
	}
	best.period, e.Weekend = a.weekly(b, best)
	best = a.folder.fold(b, best.period)
	if !best.convincing() { // noise may hide a fine profile where it cannot hide a coarse one
		best = a.folder.sketch(b, best.period)
	}
	steady := a.folder.steady(best, nil)
	pass := best.convincing() && steady >= minSteady && best.period >= minBinsCycle*a.window.Step
	if !pass && (divides(best.period, day) || divides(day, best.period)) && b.length() >= week {
		if f, s, ok := a.weekends(b); ok {
			best, steady, pass, e.Weekend = f, s, true, true
		}
	}
	e.Period, e.Cycles, e.Share, e.Steady = best.period, best.cycles, best.share(), steady
	if e.Weekend {
		e.Period, e.Cycles = day, float64(b.length())/float64(day)
	}
	e.Swing, e.Drift = math.Sqrt(best.swing), math.Sqrt(best.rest)
	return best, pass
}

// weekly returns the period by which to judge a day or a week, and whether it is
// a week of days that differ.
func (a *analyst) weekly(b *bins, f folding) (period time.Duration, days bool) {
	weeks := float64(b.length()) / float64(week)
	if !near(f.period, week, 0.03) && (!near(f.period, day, 0.03) || weeks < minCycles) {
		return f.period, false
	}
	daily, weekly := a.folder.foldIn(b, day, maxSlots/7), a.folder.foldIn(b, week, maxSlots)
	switch {
	case daily.swing < strongDay*weekly.swing:
		return f.period, false
	case weekly.swing > weekTells*daily.swing:
		return week, true
	}
	return day, false
}

// divides reports whether whole is a whole number of periods.
func divides(period, whole time.Duration) bool {
	times := float64(whole) / float64(period)
	return times > 0.97 && math.Abs(times-math.Round(times)) < 0.03*times
}

func near(a, b time.Duration, tolerance float64) bool {
	return math.Abs(float64(a-b)) <= tolerance*float64(b)
}

// search tries the candidates and returns the period that predicts most, or the
// first that leaves nothing of the structured variance to explain.
func (a *analyst) search(b *bins, structured float64) (folding, bool) {
	var best folding
	for p := range a.candidates(b) {
		f := a.folder.sketch(b, p)
		if f.predicted > best.predicted {
			best = f
		}
		if f.explainsAll(structured) {
			break
		}
	}
	return best, best.predicted > 0
}

// multiple lengthens the period to a small multiple of it, or to the day, as
// long as the longer profile does not merely repeat itself: the spectrum may
// have suggested a harmonic, and a high one if the peak is short.
func (a *analyst) multiple(b *bins, f folding) folding {
	times := []int{2, 3, 4}
	if divides(f.period, day) {
		times = append(times, int(math.Round(float64(day)/float64(f.period))))
	}
	for _, m := range times {
		if m < 2 || f.cycles/float64(m) < minCycles {
			continue
		}
		g := a.folder.whole(b, f.period*time.Duration(m), m*slots(f.period))
		if g.outdoes(f) && !slices.Contains(a.folder.repeats(g, m), m) {
			return a.multiple(b, g)
		}
	}
	return f
}

// fundamental shortens a period that is a multiple of the true one: its
// profile repeats itself, or differs from doing so by no more than cycles of
// varying height do by chance. It keeps at least least bins.
func (a *analyst) fundamental(b *bins, f folding, least int) folding {
	f = a.folder.whole(b, f.period, slots(f.period))
	most := int(f.period / (time.Duration(least) * b.step))
	repeats := a.folder.repeats(f, most)
	for m := most; m > 1; m-- {
		sure := slices.Contains(repeats, m)
		if !sure && (m > maxMultiple || f.rest < nearlyAsGood*f.swing || f.share() < minShare) {
			continue // too short, nothing varies, or not periodic anyway
		}
		g := a.folder.foldIn(b, f.period/time.Duration(m), max(f.slots/m, least))
		if g.swing >= stillThere*f.swing && (sure || !f.outdoes(g)) {
			return a.fundamental(b, g, least)
		}
	}
	return f
}

// candidates are the day and the week, the strongest frequencies with
// multiples of their periods, since a harmonic can be stronger than the
// fundamental, and the periods of few cycles that fold better than their neighbours.
func (a *analyst) candidates(b *bins) iter.Seq[time.Duration] {
	length := float64(b.length())
	longest := time.Duration(length / minCycles)
	shortest := minBinsCycle * b.step
	var tried []float64 // in cycles
	return func(yield func(time.Duration) bool) {
		try := func(p time.Duration) bool {
			cycles := length / float64(p)
			if p < shortest || p > longest || slices.ContainsFunc(tried, func(c float64) bool { return math.Abs(c-cycles) < 0.2 }) {
				return true
			}
			tried = append(tried, cycles)
			return yield(p)
		}
		if !try(day) || !try(week) {
			return
		}
		for _, f := range a.spectrum.peaks((fewCycles-2)*float64(b.step)/length, topPeaks) {
			for m := 1.0; m <= maxMultiple; m++ {
				if !try(time.Duration(float64(b.step) * m / f)) {
					return
				}
			}
		}
		for _, p := range a.fewCycled(longest) {
			if !try(p) {
				return
			}
		}
	}
}

// fewCycled returns the best three periods of which few cycles fit into the
// window, each better than its neighbours. Lines of the spectrum are too broad
// for these.
func (a *analyst) fewCycled(longest time.Duration) []time.Duration {
	b := &a.coarse
	length := float64(b.length())
	var tried []folding
	for k := minCycles; k <= fewCycles; k += 0.2 {
		p := min(time.Duration(length/k), longest)
		if p < minBinsCycle*b.step {
			break
		}
		tried = append(tried, a.folder.sketch(b, p))
	}
	var tops []folding
	for i, f := range tried {
		rises := i == 0 || f.predicted >= tried[i-1].predicted
		falls := i+1 == len(tried) || f.predicted > tried[i+1].predicted
		if rises && falls && f.predicted > 0 {
			tops = append(tops, f)
		}
	}
	slices.SortStableFunc(tops, func(x, y folding) int { return cmp.Compare(y.predicted, x.predicted) })
	var out []time.Duration
	for _, f := range tops[:min(3, len(tops))] {
		out = append(out, f.period)
	}
	return out
}

// refine moves the period to where the fold predicts most, within what the
// window can resolve, and to a part of the day or to the week if these are as
// good: people keep to the clock.
func (a *analyst) refine(b *bins, f folding) folding {
	length := float64(b.length())
	best := a.folder.sketch(b, f.period)
	for _, d := range []float64{-0.3, -0.2, -0.1, -0.05, 0.05, 0.1, 0.2, 0.3} {
		p := time.Duration(length / (f.cycles + d))
		if g := a.folder.sketch(b, p); g.predicted > best.predicted && g.cycles >= minCycles {
			best = g
		}
	}
	part := day / max(1, time.Duration(math.Round(float64(day)/float64(best.period))))
	for _, p := range []time.Duration{part, week} {
		if math.Abs(length/float64(p)-best.cycles) > 0.6 || length/float64(p) < minCycles {
			continue
		}
		if g := a.folder.sketch(b, p); g.swing >= (1-nearlyAsGood)*best.swing {
			best = g
		}
	}
	return a.folder.fold(b, best.period)
}

// weekends judges b as days of two kinds, where two days of every seven are of
// the second kind. It is for windows too short to show three whole weeks.
func (a *analyst) weekends(b *bins) (folding, float64, bool) {
	r := &a.folder
	r.cut(b, day, 24)
	start := r.weekend()
	r.slots = 2 * 24
	off := func(cell int) bool { return ((cell-start)%168+168)%168 < 48 }
	for i := range r.slot {
		if off(i) {
			r.slot[i] += 24
		}
	}
	f := r.judge(b, day)
	f.cycles /= 2 // there are two profiles
	steady := r.steady(f, off)
	return f, steady, f.convincing() && steady >= minSteady
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
