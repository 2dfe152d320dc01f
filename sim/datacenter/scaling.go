package datacenter

import (
	"math"

	"gleaner/input"
)

// A Scaling changes utilisations so that a datacenter's average meets a target
// (OSDI'16 §6.1): linear multiplies and saturates at 100%, root takes the n-th
// root, which moves high utilisations less than low ones.
type Scaling struct {
	Method string  // "linear" or "root"
	Factor float64 // what linear multiplies by; the n of root
	table  [steps + 1]float32
}

// Scalings are the methods' names.
var Scalings = []string{"linear", "root"}

// steps is how finely utilisations are counted when they are scaled.
const steps = 1 << 12

// Of scales one utilisation.
func (s *Scaling) Of(u float32) float32 {
	if s.Method == "linear" {
		return min(u*float32(s.Factor), 1)
	}
	return s.table[int(min(u, 1)*steps+0.5)]
}

func newScaling(method string, factor float64) *Scaling {
	s := &Scaling{Method: method, Factor: factor}
	for i := range s.table {
		s.table[i] = float32(math.Pow(float64(i)/steps, 1/factor))
	}
	return s
}

// Scaled returns the same datacenter with its utilisation scaled to a target
// average, from 0 to 1, over all servers and the whole window. It shares
// everything else with d. An unknown method or a target that cannot be met is an
// input.Error.
func (d *Datacenter) Scaled(method string, target float64) (*Datacenter, error) {
	if method != "linear" && method != "root" {
		return nil, input.Fieldf("scaling", "unknown scaling %q; there are linear, root", method)
	}
	if !(target > 0 && target < 1) {
		return nil, input.Fieldf("utilisation", "%v is not between 0 and 1", target)
	}
	plain := *d
	plain.scaling = nil
	counts := plain.histogram()
	average := func(factor float64) float64 {
		s := Scaling{Method: method, Factor: factor}
		if method == "root" {
			s = *newScaling(method, factor)
		}
		sum, n := 0.0, 0.0
		for i, c := range counts {
			sum += c * float64(s.Of(float32(i)/steps))
			n += c
		}
		return sum / n
	}
	low, high := 1e-3, 1e3 // both averages grow with the factor
	if average(high) < target {
		return nil, input.Fieldf("utilisation", "%v cannot be reached by %s scaling: servers idle too much", target, method)
	}
	for range 60 {
		if mid := math.Sqrt(low * high); average(mid) < target {
			low = mid
		} else {
			high = mid
		}
	}
	plain.scaling = newScaling(method, math.Sqrt(low*high))
	return &plain, nil
}

// Scaling is how d was scaled; nil if it was not.
func (d *Datacenter) Scaling() *Scaling { return d.scaling }

// histogram counts utilisations over all servers and one slot in 31, which
// covers all times of day in turn.
func (d *Datacenter) histogram() []float64 {
	counts := make([]float64, steps+1)
	for slot := 0; slot < d.Window.Len; slot += 31 {
		for server := range d.Servers {
			counts[int(d.CPU(server, slot)*steps+0.5)]++
		}
	}
	return counts
}

// MeanCPU returns the average utilisation of all servers over the window, from
// one slot in 31.
func (d *Datacenter) MeanCPU() float64 {
	sum, n := 0.0, 0.0
	for i, c := range d.histogram() {
		sum += c * float64(i) / steps
		n += c
	}
	if n == 0 {
		return 0
	}
	return sum / n
}
