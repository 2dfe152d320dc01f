package classify

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/dsp/fourier"

	"gleaner/cluster"
)

// Spectrum returns the frequency domain of a series as in OSDI'16 Figure 1: the
// strength (amplitude, in utilisation) of each frequency, in cycles per
// window. A daily load over 31 days is strong at 31.
func Spectrum(w cluster.Window, cpu []float32) (cycles, strength []float64) {
	var b bins
	s := b.read(w, cpu)
	if s.filled == 0 {
		return nil, nil
	}
	n := len(b.value)
	x := make([]float64, n)
	present := float64(fill(x, b.value)) / float64(n)
	bin := fourier.NewFFT(n).Coefficients(nil, x)
	for k := 1; k < len(bin); k++ {
		cycles = append(cycles, float64(k)*float64(w.Len)/float64(n*perBin(w)))
		strength = append(strength, 2*math.Hypot(real(bin[k]), imag(bin[k]))/float64(n)/present)
	}
	return cycles, strength
}

// fill writes v less its mean into x, and 0, which adds no power, where v is missing.
func fill(x, v []float64) (present int) {
	sum := 0.0
	for _, y := range v {
		if y == y {
			sum += y
			present++
		}
	}
	mean := sum / float64(max(present, 1))
	for i, y := range v {
		x[i] = 0
		if y == y {
			x[i] = y - mean
		}
	}
	return present
}

// spectrum computes power spectra of bins of one length.
type spectrum struct {
	n     int // bins
	fft   *fourier.FFT
	taper []float64 // Hann's
	x     []float64
	coef  []complex128
	power []float64 // variance at frequency k/size cycles per bin
}

func newSpectrum(n int) *spectrum {
	size := smooth(n)
	s := &spectrum{n: n, fft: fourier.NewFFT(size), x: make([]float64, size), taper: make([]float64, n)}
	for i := range s.taper {
		s.taper[i] = 0.5 - 0.5*math.Cos(2*math.Pi*(float64(i)+0.5)/float64(n))
	}
	s.power = make([]float64, size/2+1)
	return s
}

// smooth returns the smallest size from n on without a prime factor above 5:
// for such sizes the FFT is fast.
func smooth(n int) int {
	for ; ; n++ {
		m := n
		for _, p := range []int{2, 3, 5} {
			for m%p == 0 {
				m /= p
			}
		}
		if m == 1 {
			return n
		}
	}
}

// of computes the power of b's frequencies. The taper keeps a strong line from
// spilling over its neighbours.
func (s *spectrum) of(b *bins) {
	present := fill(s.x, b.value)
	for i, t := range s.taper {
		s.x[i] *= t
	}
	clear(s.x[s.n:])
	s.coef = s.fft.Coefficients(s.coef, s.x)
	// A sine of variance V shows as a peak of height V; 0.375 is the mean square of the taper.
	scale := 8 / float64(s.n) / float64(max(present, 1))
	for k, c := range s.coef {
		s.power[k] = (real(c)*real(c) + imag(c)*imag(c)) * scale
	}
}

// lines returns the variance in frequencies that stand out from the floor more
// than any does in white noise.
func (s *spectrum) lines() float64 {
	half := len(s.power) / 2
	floor := 0.0
	for _, p := range s.power[half:] {
		floor += p
	}
	floor /= float64(len(s.power) - half)
	sum := 0.0
	for _, p := range s.power[1:] {
		if p > lineOverFloor*floor {
			sum += p
		}
	}
	return sum / 1.5 // the taper spreads a line over 1.5 frequencies
}

// octaves returns the standard deviation in each octave of frequency: slower
// than one and a half days, around a day, and four more, the last with all above it.
func (s *spectrum) octaves(step time.Duration) []float64 {
	var sum [6]float64
	size := float64(len(s.x))
	k, edge := 1, 2./3 // cycles a day
	for i := range sum {
		end := min(len(s.power), int(math.Ceil(edge*size*float64(step)/float64(day))))
		if i == len(sum)-1 {
			end = len(s.power)
		}
		for ; k < end; k++ {
			sum[i] += s.power[k]
		}
		edge *= 2
	}
	for i, v := range sum {
		sum[i] = math.Sqrt(v / 1.5)
	}
	return sum[:]
}

// peaks returns the frequencies, in cycles per bin, of the strongest local
// maxima from at least low on, strongest first.
func (s *spectrum) peaks(low float64, most int) []float64 {
	type peak struct{ at, height float64 }
	var found []peak
	size := float64(len(s.x))
	for k := max(2, int(low*size)); k+1 < len(s.power); k++ {
		l, m, r := s.power[k-1], s.power[k], s.power[k+1]
		if m <= l || m < r || m == 0 {
			continue
		}
		if len(found) == most && m <= found[most-1].height {
			continue
		}
		// A Hann peak is close to a parabola in the logarithm.
		ll, lm, lr := math.Log(l+1e-30), math.Log(m), math.Log(r+1e-30)
		shift := 0.5 * (ll - lr) / (ll - 2*lm + lr)
		p := peak{(float64(k) + shift) / size, m}
		i, _ := slices.BinarySearchFunc(found, p, func(a, b peak) int { return cmp.Compare(b.height, a.height) })
		found = slices.Insert(found, i, p)
		found = found[:min(len(found), most)]
	}
	at := make([]float64, len(found))
	for i, p := range found {
		at[i] = p.at
	}
	return at
}
