package classify

import (
	"math"
	"math/cmplx"
	"slices"
	"time"
)

// A folding is how well the cycles of one period predict each other when they
// are laid over each other.
type folding struct {
	period time.Duration
	cycles float64 // how many fit into the window

	predicted float64 // variance explained, each cycle by the mean of the others; negative if they mislead
	swing     float64 // variance of the repeating part, corrected for the noise in its estimate
	rest      float64 // variance of what remains and is not white noise: drift, steps, bursts
	noise     float64 // variance of white noise, at the width of a cell
	cells     int     // with data
	slots     int     // places in the cycle
}

// share is the repeating part of the variance that is not white noise.
func (f folding) share() float64 {
	if f.swing <= 0 {
		return 0
	}
	return f.swing / (f.swing + f.rest)
}

// needed is the share that the period must explain. A red series predicts
// itself by chance in inverse proportion to the cycles seen, so fewer cycles
// must explain more.
func (f folding) needed() float64 { return minShare + 1/f.cycles }

// convincing reports whether the period explains most of what is not noise.
func (f folding) convincing() bool {
	return f.clear() && f.predicted >= minPredicted*f.swing && f.share() >= f.needed()
}

// clear reports whether the repeating part stands out from the traces of white
// noise in a profile of that many slots and cycles.
func (f folding) clear() bool {
	chance := f.noise / f.cycles * math.Sqrt(2/float64(f.slots))
	return f.swing > clearSigmas*chance
}

// explainsAll reports whether no other period could explain much more of the
// structured variance.
func (f folding) explainsAll(structured float64) bool {
	return f.clear() && f.swing > allExplained*structured
}

// outdoes reports whether f, whose period is a multiple of g's, explains more
// than g by more than chance. Cycles of varying height always differ between,
// say, even and odd ones, in inverse proportion to their number. The day and the
// week need to explain less, because people keep to them.
func (f folding) outdoes(g folding) bool {
	asked := chanceCycles
	if near(f.period, day, 0.03) || near(f.period, week, 0.03) {
		asked = clockCycles
	}
	return f.swing > g.swing+float64(asked)*f.rest/f.cycles
}

// folder holds the buffers that folding needs, so that they are allocated once.
type folder struct {
	cell  []float64 // the series as means of cells, in order of time; NaN without data
	slot  []int     // the place of every cell in the cycle
	slots int       // how many places there are
	error []float64 // cell less the prediction of the other cycles; NaN without data
	sum   []float64 // of the cells of a slot
	count []float64
	mean  []float64 // of the cells of a slot
	scale []float64 // ratio of a cell's distance to the mean of the others, to its distance to that mean

	circle []complex128 // the slots' places on the unit circle
}

// fold cuts b into cells, a whole number to each cycle, and judges the period.
func (r *folder) fold(b *bins, period time.Duration) folding {
	return r.foldIn(b, period, slots(period))
}

// foldIn folds into the given number of slots: only folds with equally wide
// slots show as much of a short peak.
func (r *folder) foldIn(b *bins, period time.Duration, slots int) folding {
	r.cut(b, period, slots)
	return r.judge(b, period)
}

// slots is how many slots a cycle is divided into.
func slots(period time.Duration) int {
	return min(max(int(period/time.Hour), minSlots), maxSlots)
}

// sketch judges a period by a coarse profile, to rank it among others.
func (r *folder) sketch(b *bins, period time.Duration) folding {
	return r.foldIn(b, period, slots(period)/sketchSlots)
}

// whole folds, and more coarsely if the data are too sparse to fill every slot
// of a fine profile: harmonics need all slots.
func (r *folder) whole(b *bins, period time.Duration, slots int) folding {
	if f := r.foldIn(b, period, slots); f.slots == r.slots {
		return f
	}
	return r.sketch(b, period)
}

// cut averages b into cells of equal width, at most slots of them a cycle and
// none narrower than a bin.
func (r *folder) cut(b *bins, period time.Duration, slots int) {
	slots = max(1, min(slots, int(float64(period)/float64(b.step)+0.01)))
	perCell := float64(period) / float64(b.step) / float64(slots)
	cells := int(math.Ceil(float64(len(b.value)) / perCell))
	r.cell, r.slot = slices.Grow(r.cell[:0], cells)[:cells], slices.Grow(r.slot[:0], cells)[:cells]
	from, slot := 0, 0
	for i := range r.cell {
		// A bin belongs to the cell its middle lies in.
		to := min(max(int(float64(i+1)*perCell+0.5), from), len(b.value))
		r.cell[i] = math.NaN()
		if sum, n := b.between(from, to); n > 0 {
			r.cell[i] = sum / float64(n)
		}
		r.slot[i] = slot
		if slot++; slot == slots {
			slot = 0
		}
		from = to
	}
	r.slots = slots
}

// judge compares every cell with the mean of the same slot in the other cycles.
func (r *folder) judge(b *bins, period time.Duration) folding {
	f := folding{period: period, cycles: float64(b.length()) / float64(period)}
	mean := r.profile()
	r.predict(mean)
	var total, left, echo float64
	pairs, last := 0, math.NaN()
	r.error = slices.Grow(r.error[:0], len(r.cell))[:len(r.cell)]
	for i, v := range r.cell {
		if v != v {
			r.error[i], last = v, v
			continue
		}
		s := r.slot[i]
		e := (v - r.mean[s]) * r.scale[s]
		total += (v - mean) * (v - mean)
		left += e * e
		if last == last {
			echo += e * last
			pairs++
		}
		r.error[i], last = e, e
		f.cells++
	}
	n := float64(max(f.cells, 1))
	total, left = total/n, left/n
	for _, c := range r.count {
		if c > 0 {
			f.slots++
		}
	}
	f.rest = min(max(echo/float64(max(pairs, 1)), 0), left)
	again := max(n/float64(max(f.slots, 1)), 1) // how often a slot is seen
	f.noise = (left - f.rest) * (again - 1) / again
	f.predicted = total - left
	f.swing = max(0, total-left+(left-f.rest)/again)
	return f
}

// predict prepares the distance of every cell from the mean of the others in
// its slot. A slot seen once is predicted by the mean of all cells.
func (r *folder) predict(mean float64) {
	r.mean, r.scale = r.mean[:0], r.scale[:0]
	for s, n := range r.count {
		slot, scale := mean, 1.0
		if n > 1 {
			slot, scale = r.sum[s]/n, n/(n-1)
		}
		r.mean, r.scale = append(r.mean, slot), append(r.scale, scale)
	}
}

// profile sums the cells of every slot and returns the mean of all cells.
func (r *folder) profile() float64 {
	r.room(r.slots)
	sum, n := 0.0, 0
	for i, v := range r.cell {
		if v == v {
			r.sum[r.slot[i]] += v
			r.count[r.slot[i]]++
			sum += v
			n++
		}
	}
	return sum / float64(max(n, 1))
}

// room sets sum and count to that length and to 0.
func (r *folder) room(slots int) {
	r.sum, r.count = slices.Grow(r.sum[:0], slots)[:slots], slices.Grow(r.count[:0], slots)[:slots]
	clear(r.sum)
	clear(r.count)
}

// highest folds samples, perCycle to a cycle, and returns the highest mean of a
// place in the cycle that was seen more than once. Bins would flatten a short job.
func (r *folder) highest(cpu []float32, perCycle float64) float64 {
	r.room(int(math.Ceil(perCycle)))
	at := 0.0
	for _, v := range cpu {
		if v == v {
			r.sum[int(at)] += float64(v)
			r.count[int(at)]++
		}
		if at++; at >= perCycle {
			at -= perCycle
		}
	}
	most := 0.0
	for i, n := range r.count {
		if n > 1 {
			most = max(most, r.sum[i]/n)
		}
	}
	return min(most, 1)
}

// steady cuts the window into at most four stretches of whole cycles or more
// and returns the smallest slope of a stretch on the prediction of the other
// cycles: 1 if the pattern is there all the time, 0 if it is missing. Cells for
// which leave is true are left out.
func (r *folder) steady(f folding, leave func(cell int) bool) float64 {
	stretches := min(4, max(2, int(f.cycles+0.2)))
	least, judged := math.Inf(1), 0
	for k := range stretches {
		from, to := k*len(r.cell)/stretches, (k+1)*len(r.cell)/stretches
		slope, vari, cells := r.slope(from, to, leave)
		if 2*cells >= f.slots && vari > blankStretch*f.swing {
			least = min(least, slope)
			judged++
		}
	}
	if judged < 2 || f.swing <= 0 {
		return 0 // one stretch has nothing to be steady against
	}
	// Noise in the prediction flattens the slope; correct for that.
	again := float64(f.cells) / float64(f.slots)
	return least * (1 + f.noise/again/f.swing)
}

// slope regresses the cells from..to on their predictions and returns the
// variance of the predictions: a stretch whose prediction is flat decides nothing.
func (r *folder) slope(from, to int, leave func(cell int) bool) (slope, vari float64, cells int) {
	var n, sx, sy, sxx, sxy float64
	for i := from; i < to; i++ {
		v := r.cell[i]
		if v != v || leave != nil && leave(i) {
			continue
		}
		x := v - r.error[i]
		n++
		sx += x
		sy += v
		sxx += x * x
		sxy += x * v
	}
	vari = sxx/n - sx/n*sx/n
	return (sxy/n - sx/n*sy/n) / vari, vari, int(n)
}

// repeats returns how many times, at most most, the profile of f may repeat
// itself within its period, the largest number first: m times if it has only
// every m-th harmonic. Only low harmonics count: binning distorts the high ones
// of sharp edges.
func (r *folder) repeats(f folding, most int) []int {
	power := r.harmonics(f.slots)
	total := 0.0
	for _, p := range power {
		total += p
	}
	chance := 2 * f.noise / float64(max(f.cells, 1)) // what noise leaves in one harmonic
	var times []int
	for m := min(most, len(power)); m > 1; m-- {
		other := 0.0
		for h := 1; h < 2*m && h <= len(power); h++ {
			if h%m != 0 {
				other += max(0, power[h-1]-chanceLines*chance)
			}
		}
		if other <= nearlyAsGood*total {
			times = append(times, m)
		}
	}
	return times
}

// harmonics returns the variance of the profile at one, two, three… cycles a
// period, or nothing if a slot has no data.
func (r *folder) harmonics(slots int) []float64 {
	if len(r.sum) != slots {
		return nil
	}
	power := make([]float64, slots/2)
	for h := range power {
		re, im := r.harmonic(h+1, slots)
		power[h] = (re*re + im*im) / 2
	}
	return power
}

// harmonic returns the amplitudes of cosine and sine at h cycles a period.
func (r *folder) harmonic(h, slots int) (cosine, sine float64) {
	if len(r.circle) != slots { // one turn of the circle serves all harmonics
		r.circle = r.circle[:0]
		for s := range slots {
			r.circle = append(r.circle, cmplx.Rect(1, 2*math.Pi*float64(s)/float64(slots)))
		}
	}
	at := 0
	for s := range min(slots, len(r.sum)) {
		if r.count[s] > 0 {
			mean := r.sum[s] / r.count[s]
			cosine += mean * real(r.circle[at])
			sine += mean * imag(r.circle[at])
		}
		if at += h; at >= slots {
			at -= slots
		}
	}
	return 2 * cosine / float64(slots), 2 * sine / float64(slots)
}
