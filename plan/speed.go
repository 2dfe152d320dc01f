package plan

import (
	"errors"
	"math"
	"slices"

	"gleaner/input"
	"gleaner/plan/spec"
)

// A computation takes as long on a server as its cores are slow, which matters to latency goals only:
// how many cores are busy is the same. If there are goals, all servers of a plan have cores of some speed
// or faster, and goals are met at that speed. Each speed on offer is planned, and the cheapest plan taken; so
// slow servers on offer make nothing dearer.

// speeds are those of the servers that may be used, slowest first; one, if latencies are not planned.
func (in Input) speeds() []float64 {
	goals := slices.ContainsFunc(in.SLA.Rates, func(r spec.Rate) bool { return r.Latency > 0 })
	if !goals {
		return []float64{1}
	}
	if in.slowest > 0 {
		return []float64{in.slowest}
	}
	var out []float64
	for _, s := range in.HW.Servers {
		out = append(out, s.Pace())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// bySpeed plans for the servers of each speed and faster ones, and takes the cheapest plan.
func (in Input) bySpeed(o Options, open [][]Choice, speeds []float64) (Plan, error) {
	var best *Plan
	var failed error
	lower, packed, stopped := math.Inf(1), 0, false
	for _, speed := range slices.Backward(speeds) {
		in.slowest = speed
		p, err := searched(in, o, open)
		switch {
		case errors.Is(err, ErrStopped): // nothing is known of it
			lower, stopped = 0, true
			continue
		case input.Is(err):
			if failed == nil { // the fastest come closest
				failed = err
			}
			continue
		case err != nil:
			return Plan{}, err
		}
		lower, packed, stopped = min(lower, p.LowerBound), packed+p.Packed, stopped || p.Stopped
		if best == nil || p.Cost < best.Cost {
			best = &p
		}
	}
	switch {
	case best == nil && stopped:
		return Plan{}, ErrStopped
	case best == nil:
		return Plan{}, failed
	}
	best.LowerBound, best.Packed, best.Stopped = min(lower, best.Cost), packed, stopped
	return *best, nil
}
