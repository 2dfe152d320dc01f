package plan

import (
	"fmt"
	"math"
	"slices"
)

// A Point is a plan at a multiple of the SLA.
type Point struct {
	Scale float64
	Plan  Plan
}

// Scales are n multiples of the SLA, evenly spaced in ratio.
func Scales(from, to float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = from
		if n > 1 {
			out[i] = from * math.Pow(to/from, float64(i)/float64(n-1))
		}
	}
	return out
}

// pointNodes limits the search for one point: a curve has hundreds, and each has
// its gap. A point with a wide gap would be a bump in the curve, or make a list of hardware
// look dearer than a part of it: such a point, and there are few, is searched again.
const (
	pointNodes = 60
	wideGap    = 0.01
	againNodes = 10 * pointNodes
)

// At solves for a multiple of the SLA.
func At(in Input, o Options, scale float64) (Point, error) {
	limited := o.Nodes == 0
	if limited {
		o.Nodes = pointNodes
	}
	in.SLA = in.SLA.Scaled(scale)
	p, err := solved(in, o)
	if !limited || err != nil || p.Gap() <= wideGap {
		return Point{scale, p}, err
	}
	o.Nodes = againNodes
	again, err := solved(in, o)
	if again.Packing.Servers() > 0 && again.Cost <= p.Cost {
		again.LowerBound = max(again.LowerBound, p.LowerBound)
		p = again
	}
	return Point{scale, p}, err
}

// solved is Solve, but fails if the search was stopped.
func solved(in Input, o Options) (Plan, error) {
	p, err := Solve(in, o)
	if err == nil && p.Stopped {
		err = ErrStopped
	}
	return p, err
}

// Even mends points whose search ended early, in the order of their scales: a cluster for more serves
// less as well, and what is proven for less holds for more.
func Even(points []Point) {
	for i := 1; i < len(points); i++ {
		p := &points[i].Plan
		p.LowerBound = min(max(p.LowerBound, points[i-1].Plan.LowerBound), p.Cost)
	}
	for i := len(points) - 2; i >= 0; i-- {
		if better := points[i+1].Plan; better.Cost < points[i].Plan.Cost {
			better.LowerBound = points[i].Plan.LowerBound
			points[i].Plan = better
		}
	}
}

// A Regime is a range of the SLA in which one architecture is cheapest.
type Regime struct {
	From, To     float64 // multiples of the SLA
	Architecture Architecture
	Words        []string // what changes at its lower end; none for the first
}

// Regimes finds where the architecture changes between points, each border to
// 1% by bisection. A change that is undone before the next point is not found.
func Regimes(in Input, o Options, points []Point) ([]Regime, error) {
	if len(points) == 0 {
		return nil, nil
	}
	out := []Regime{{From: points[0].Scale, Architecture: points[0].Plan.Needs.Architecture}}
	for i := 1; i < len(points); i++ {
		low, high := points[i-1], points[i]
		for !low.Plan.Needs.Architecture.Equal(high.Plan.Needs.Architecture) {
			before, after, err := border(in, o, low, high)
			if err != nil {
				return nil, err
			}
			out[len(out)-1].To = after.Scale
			out = append(out, Regime{From: after.Scale, Architecture: after.Plan.Needs.Architecture, Words: Changes(in, before.Plan, after.Plan)})
			low = after
		}
	}
	out[len(out)-1].To = points[len(points)-1].Scale
	return out, nil
}

// border narrows the first change above low down to 1%.
func border(in Input, o Options, low, high Point) (before, after Point, err error) {
	for high.Scale/low.Scale > 1.01 {
		middle, err := At(in, o, math.Sqrt(low.Scale*high.Scale))
		if err != nil {
			return low, high, err
		}
		if middle.Plan.Needs.Architecture.Equal(low.Plan.Needs.Architecture) {
			low = middle
		} else {
			high = middle
		}
	}
	return low, high, nil
}

// Changes lists in words how one plan differs from another (Figure 7).
func Changes(in Input, before, after Plan) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for i, c := range after.Needs.Architecture {
		if b := before.Needs.Architecture[i]; b != c {
			say("%s move from %s to %s", in.App.Datasets[i].Name, b.Names(in.HW), c.Names(in.HW))
		}
	}
	for _, t := range after.Needs.Tiers {
		for _, b := range before.Needs.Tiers {
			if b.Dataset == t.Dataset && b.Cache == t.Cache && b.Unit == t.Unit && b.Units != t.Units {
				say("%s: %d instead of %d units of %s, for %s", copyWord(in, t.Copy), t.Units, b.Units, in.HW.Units[t.Unit].Name, after.cause(in, t))
			}
		}
	}
	for _, t := range after.Needs.Tasks {
		for _, b := range before.Needs.Tasks {
			if b.Task == t.Task && b.Instances != t.Instances {
				say("%s: %d instead of %d instances, for %s executions a second of %s s each", in.App.Tasks[t.Task].Name, t.Instances, b.Instances, Figure(t.Rate), Figure(t.Runtime))
			}
		}
	}
	if now, then := after.Most(in), before.Most(in); now != then {
		say("%d instead of %d servers%s", now, then, full(in, before))
	}
	return out
}

// cause is why a tier needs its units.
func (p Plan) cause(in Input, t Tier) string {
	why := "the CPU of its records"
	switch io := slices.Max(t.IO); {
	case t.Capacity >= t.Least*(1-dust):
		why = "capacity"
	case io >= t.Least*(1-dust):
		why = "I/O"
	}
	if ceil(t.Least) >= t.Units {
		return why
	}
	for _, s := range p.Servers(in) {
		if s.Datasets[in.data(t.Copy).Name][in.HW.Units[t.Unit].Name] > 1 {
			return why + ", in whole units on each server"
		}
	}
	if t.Units <= t.Servers {
		return "the servers over which it is spread"
	}
	return "the CPU and network of their hosts"
}

// full names the bottleneck of the servers before.
func full(in Input, p Plan) string {
	for _, s := range p.Servers(in) {
		if len(s.Tasks) > 0 && s.Loads[0].Share() > 0.95*s.Loads[0].Most {
			return ", as " + s.Bottleneck + " are used up"
		}
	}
	return ""
}
