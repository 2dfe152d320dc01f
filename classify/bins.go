package classify

import (
	"math"
	"time"

	"gleaner/cluster"
)

// levels is how finely utilisations are counted: a tenth of a point.
const levels = 1000

// summary is the result of one pass over a tenant's samples.
type summary struct {
	filled int     // slots with a sample
	mean   float64 // of the samples
	vari   float64 // variance of the samples
	echo   float64 // covariance of neighbouring samples: 0 for white noise
	pairs  int     // of neighbours that echo was computed from
	counts [levels + 1]int32
}

func level(v float64) int { return int(v*levels + 0.5) }

// quantile returns the utilisation below which a share q of the samples lies.
func (s *summary) quantile(q float64) float64 {
	rank, seen := int32(q*float64(s.filled)), int32(0)
	for i, n := range s.counts {
		if seen += n; seen > rank {
			return float64(i) / levels
		}
	}
	return 1
}

// spread returns the median, and the standard deviation a normal distribution
// would have with the same median distance from it. Bursts that fill less than
// half of the time do not change either.
func (s *summary) spread() (median, sd float64) {
	median = s.quantile(0.5)
	at, seen := int(math.Round(median*levels)), int32(0)
	for d := 0; d <= levels; d++ {
		if d == 0 {
			seen += s.counts[at]
		} else {
			if at-d >= 0 {
				seen += s.counts[at-d]
			}
			if at+d <= levels {
				seen += s.counts[at+d]
			}
		}
		if 2*int(seen) > s.filled {
			return median, 1.4826 * float64(d) / levels
		}
	}
	return median, 0
}

// outlying returns the part of the variance around the median that comes from
// samples too far above it to be ordinary noise. Bursts of one sample each have
// a white spectrum, so only their height separates them from noise. Samples far
// below are not bursts: falling load does no harm, and the noise of a busy
// server can only go down.
func (s *summary) outlying() float64 {
	median, sd := s.spread()
	sum, far := 0.0, int32(0)
	for i, n := range s.counts {
		if d := float64(i)/levels - median; n > 0 && d > outlierSigmas*sd {
			sum += float64(n) * d * d
			far += n
		}
	}
	if far < minOutliers {
		return 0
	}
	return sum / float64(s.filled)
}

// bins is a series averaged into at most maxBins even bins; NaN where no
// sample fell into one.
type bins struct {
	step  time.Duration // of one bin
	value []float64
	sum   []float64 // sum[i]: of the values before i, so that any stretch is summed in one step
	count []int32   // count[i]: values before i that are not missing
}

func (b *bins) length() time.Duration { return time.Duration(len(b.value)) * b.step }

// perBin is how many slots of w make one bin.
func perBin(w cluster.Window) int { return max(1, (w.Len+maxBins-1)/maxBins) }

// read fills b from cpu and summarises cpu, in one pass. Samples outside 0
// to 1 count as 0 or 1.
func (b *bins) read(w cluster.Window, cpu []float32) summary {
	var s summary
	every := perBin(w)
	b.reset(time.Duration(every) * w.Step)
	var sum, squares, differences, last float64
	hadLast := false
	for from := 0; from < len(cpu); from += every {
		binSum, n := 0.0, 0
		for _, f := range cpu[from:min(from+every, len(cpu))] {
			if !(f >= 0 && f <= 1) {
				if f != f {
					hadLast = false
					continue
				}
				f = min(max(f, 0), 1)
			}
			v := float64(f)
			binSum += v
			n++
			squares += v * v
			if hadLast {
				differences += (v - last) * (v - last)
				s.pairs++
			}
			last, hadLast = v, true
			s.counts[level(v)]++
		}
		sum += binSum
		s.filled += n
		b.add(meanOf(binSum, n, every))
	}
	s.mean = sum / float64(max(s.filled, 1))
	s.vari = max(0, squares/float64(max(s.filled, 1))-s.mean*s.mean)
	if s.pairs > 0 {
		s.echo = beyondNoise(s.vari, differences/float64(s.pairs), s.pairs)
	}
	return s
}

// copy makes a bin of every sample.
func (b *bins) copy(step time.Duration, cpu []float32) {
	b.reset(step)
	for _, v := range cpu {
		b.add(min(max(float64(v), 0), 1))
	}
}

// reset empties b and keeps its memory.
func (b *bins) reset(step time.Duration) {
	b.step, b.value = step, b.value[:0]
	b.sum, b.count = append(b.sum[:0], 0), append(b.count[:0], 0)
}

func (b *bins) add(v float64) {
	sum, count := b.sum[len(b.value)], b.count[len(b.value)]
	if v == v {
		sum, count = sum+v, count+1
	}
	b.value, b.sum, b.count = append(b.value, v), append(b.sum, sum), append(b.count, count)
}

// between returns the sum and the number of the values from..to.
func (b *bins) between(from, to int) (sum float64, n int) {
	return b.sum[to] - b.sum[from], int(b.count[to] - b.count[from])
}

// outlying is the same as summary.outlying, of bins: bursts that are hidden in
// the noise of samples may stand out from the noise of bins.
func (b *bins) outlying() float64 {
	var s summary
	for _, v := range b.value {
		if v == v {
			s.counts[level(v)]++
			s.filled++
		}
	}
	return s.outlying()
}

// coarsen fills b with the bins of fine, averaged in groups so that at most n remain.
func (b *bins) coarsen(fine *bins, n int) {
	group := max(1, (len(fine.value)+n-1)/n)
	b.reset(time.Duration(group) * fine.step)
	for from := 0; from < len(fine.value); from += group {
		sum, count := fine.between(from, min(from+group, len(fine.value)))
		b.add(meanOf(sum, count, group))
	}
}

// meanOf is the mean of n values out of a possible of, or NaN if fewer than
// half are present: a mean of few is noisier than its neighbours and would pass
// for a burst.
func meanOf(sum float64, n, of int) float64 {
	if 2*n < of || n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
}
