package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gleaner/input"
	"gleaner/plan/pack"
	"gleaner/plan/spec"
)

// Options of a search. The zero value searches with the built-in solver, with tasks
// and remote data on separate servers, to the proven optimum.
type Options struct {
	Colocate bool    // tasks and remote data may share a server
	Gap      float64 // stop this close to the proven bound
	Nodes    int     // limit of the search for a packing; 0 is that of pack
	// Pack fills the servers; nil is pack.Solve.
	Pack   func(pack.Problem, pack.Options) (pack.Solution, error)
	Limits []Limit     // where datasets must and must not lie
	Second bool        // find the next best architecture too
	Stop   func() bool // polled; once it returns true, the best plan so far is returned
}

// ErrStopped is returned if Options.Stop ended a search before a plan was found.
var ErrStopped = errors.New("plan: stopped")

// A Plan is a cluster that meets the SLA.
type Plan struct {
	Needs      Needs
	Problem    pack.Problem
	Packing    pack.Solution
	Cost       float64
	LowerBound float64 // no cluster of any architecture costs less
	Packed     int     // packing problems that were solved
	Space      float64 // number of architectures
	Stopped    bool    // Options.Stop ended the search
	Second     *Runner // the next best architecture found, if requested

	colocated bool    // tasks and remote data may share a server
	slowest   float64 // cores that are used, by speed, if there are latency goals
}

// A Runner is an architecture that did not win.
type Runner struct {
	Architecture Architecture
	Cost         float64
}

// Gap is how much of the cost may be too much, as a share of the cost, as solvers say it. One that is
// only a floating-point error is 0.
func (p Plan) Gap() float64 {
	if gap := (p.Cost - p.LowerBound) / p.Cost; gap > 1e-7 {
		return gap
	}
	return 0
}

// Proven says how good the plan is.
func (p Plan) Proven() string {
	by := ""
	if len(p.Needs.Answers) > 0 {
		by = " by the latency bound"
	}
	switch {
	case p.Gap() == 0:
		return "proven cheapest" + by
	case p.LowerBound <= 0:
		return "nothing is proven"
	}
	return fmt.Sprintf("at most %.1f%% above the cheapest%s", math.Ceil(1000*(p.Cost-p.LowerBound)/p.LowerBound)/10, by)
}

// Solve finds the cheapest cluster.
func Solve(in Input, o Options) (Plan, error) {
	open := make([][]Choice, len(in.App.Datasets))
	space := 1.0
	for d, data := range in.App.Datasets {
		open[d] = choices(in, d)
		if len(open[d]) == 0 {
			return Plan{}, input.Linef(in.App.File, data.Line, "dataset %q: must be persistent, and %s has only volatile storage", data.Name, in.HW.File)
		}
		var err error
		if open[d], err = limited(in, d, open[d], o.Limits); err != nil {
			return Plan{}, err
		}
		space *= float64(len(open[d]))
	}
	p, err := solve(in, o, open)
	if err != nil {
		return p, err
	}
	p.Space = space
	if o.Second && !p.Stopped {
		p.Second, err = second(in, o, open, p)
	}
	return p, err
}

// Fixed plans for one architecture.
func Fixed(in Input, o Options, arch Architecture) (Plan, error) {
	p, err := solve(in, o, arch.open())
	p.Space = 1
	return p, err
}

func solve(in Input, o Options, open [][]Choice) (Plan, error) {
	if o.Pack == nil {
		o.Pack = pack.Solve
	}
	in.colocated = o.Colocate
	if in.zoned() {
		one, err := in.zone()
		if err != nil {
			return Plan{}, err
		}
		p, err := solve(one, o, open)
		if err != nil {
			return Plan{}, err
		}
		return p.everywhere(in), nil
	}
	if in.Harvested != nil && in.SLA.Job != nil {
		return harvesting(in, o, open)
	}
	if speeds := in.speeds(); len(speeds) > 1 {
		return in.bySpeed(o, open, speeds)
	}
	return searched(in, o, open)
}

func searched(in Input, o Options, open [][]Choice) (Plan, error) {
	s := newSearch(in, o)
	if err := s.run(open); err != nil {
		return Plan{}, err
	}
	return s.finish()
}

func (in Input) needsMemory() bool {
	for _, t := range in.App.Tasks {
		if t.Memory > 0 {
			return true
		}
	}
	for _, s := range in.App.Systems {
		if s.MemoryPerServer > 0 {
			return true
		}
	}
	for _, s := range in.HW.Servers {
		if s.BootMemory > 0 {
			return true
		}
	}
	return false
}

func (s *search) finish() (Plan, error) {
	switch {
	case s.best == nil && s.stopped():
		return Plan{}, ErrStopped
	case s.best == nil:
		return Plan{}, s.impossible()
	}
	out := *s.best
	out.LowerBound = min(s.lower, out.Cost)
	out.Packed, out.Stopped, out.colocated, out.slowest = s.packed, s.stopped(), s.o.Colocate, s.in.slowest
	return out, nil
}

// impossible says what is short on the server that comes closest to hosting
// the application.
func (s *search) impossible() error {
	u := s.unfit
	if s.in.needsMemory() && s.in.HW.Memory() < 0 && !slices.ContainsFunc(s.in.HW.Servers, spec.Server.Rented) {
		return input.Errorf(s.in.HW.File, "tasks, storage systems or servers need memory, and no storage_unit is volatile to serve as it")
	}
	if u == nil && s.late != nil {
		return s.slow()
	}
	if u == nil {
		return s.exhausted()
	}
	if u.Resource == "" {
		return input.Errorf(s.in.SLA.File, "no hardware of %s meets this: no server holds %s with all that must be beside it", s.in.HW.File, u.Load)
	}
	return input.Errorf(s.in.SLA.File, "no hardware of %s meets this: %s needs %s of %s on one server, and %s, which comes closest, has %s: short by %s",
		s.in.HW.File, u.Load, Figure(u.Need), u.Resource, u.Server, Figure(u.Have), Figure(u.Need-u.Have))
}

// second finds the cheapest plan of another architecture: one that differs
// from the best in some dataset.
func second(in Input, o Options, open [][]Choice, best Plan) (*Runner, error) {
	var out *Runner
	for d, c := range best.Needs.Architecture {
		var others []Choice
		for _, other := range open[d] {
			if other != c {
				others = append(others, other)
			}
		}
		if len(others) == 0 {
			continue
		}
		if o.Stop != nil && o.Stop() {
			break
		}
		p, err := solve(in, o, with(open, d, others))
		if input.Is(err) {
			continue // no cluster at all
		}
		if errors.Is(err, ErrStopped) {
			break
		}
		if err != nil {
			return nil, err
		}
		if out == nil || p.Cost < out.Cost {
			out = &Runner{p.Needs.Architecture, p.Cost}
		}
	}
	return out, nil
}
