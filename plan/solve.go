package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gleaner/input"
	"gleaner/plan/pack"
)

// Options say how a plan is searched for. The zero value searches with the
// built-in solver, tasks and remote data on servers of their own, to the
// proven optimum.
type Options struct {
	Colocate bool    // tasks and remote data may share a server
	Gap      float64 // stop packing this close to the proven bound
	// Pack fills the servers; nil is pack.Solve.
	Pack func(pack.Problem, pack.Options) (pack.Solution, error)
	// Most is how many architectures are looked at one by one; a space larger
	// than that is searched by repeated descent. 0 is DefaultMost.
	Most     int
	Restarts int          // of the descent; 0 is 10
	Rand     *rand.Rand   // of the descent; nil is a fixed seed
	Stop     func() bool  // polled; the search ends with ErrStopped once it says true
	First    Architecture // tried first, so that its cost prunes the rest
}

// DefaultMost is the largest space of architectures that is searched exhaustively.
const DefaultMost = 100_000

// ErrStopped is returned when Options.Stop ended a search.
var ErrStopped = errors.New("plan: stopped")

// A Plan is a cluster that meets the SLA.
type Plan struct {
	Needs      Needs
	Problem    pack.Problem
	Packing    pack.Solution
	Cost       float64
	LowerBound float64 // of this architecture when searched by descent, else of all
	Tried      int     // architectures that were packed
	Space      int     // architectures there are; math.MaxInt when too many to count
	Search     string  // how they were searched
	Second     *Runner // the next best architecture, if there is another
}

// A Runner is an architecture that did not win.
type Runner struct {
	Architecture Architecture
	Cost         float64
}

// Gap is how far the cost may be above the cheapest, as a share of it.
func (p Plan) Gap() float64 {
	if p.Cost == 0 {
		return 0
	}
	return max(0, (p.Cost-p.LowerBound)/p.Cost)
}

// Solve finds the cheapest cluster.
func Solve(in Input, o Options) (Plan, error) {
	if o.Pack == nil {
		o.Pack = pack.Solve
	}
	if o.Most == 0 {
		o.Most = DefaultMost
	}
	if o.Restarts == 0 {
		o.Restarts = 10
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewPCG(1, 12))
	}
	s := &search{in: in, o: o, space: 1}
	for i, d := range in.App.Datasets {
		c := choices(in, i)
		if len(c) == 0 {
			return Plan{}, input.Linef(in.App.File, d.Line, "dataset %q: must be persistent, and %s has only volatile storage", d.Name, in.HW.File)
		}
		s.choices = append(s.choices, c)
		if s.space > math.MaxInt/len(c) {
			s.space = math.MaxInt
		} else {
			s.space *= len(c)
		}
	}
	if in.needsMemory() && in.HW.Memory() < 0 {
		return Plan{}, input.Errorf(in.HW.File, "tasks or storage systems need memory, and no storage_unit is volatile to serve as it")
	}
	if s.space <= o.Most {
		return s.exhaustive()
	}
	return s.descent()
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
	return false
}

type search struct {
	in      Input
	o       Options
	choices [][]Choice
	space   int
	tried   int
	best    *Plan
	second  *Plan
	unfit   *pack.UnfitError // of the architecture that came closest
}

func (s *search) stopped() bool { return s.o.Stop != nil && s.o.Stop() }

// architecture is the i-th of the space, the last dataset varying fastest.
func (s *search) architecture(i int) Architecture {
	arch := make(Architecture, len(s.choices))
	for d := len(arch) - 1; d >= 0; d-- {
		n := len(s.choices[d])
		arch[d] = s.choices[d][i%n]
		i /= n
	}
	return arch
}

// exhaustive bounds every architecture and packs them from the most promising
// on, until none can be among the two cheapest.
func (s *search) exhaustive() (Plan, error) {
	type candidate struct {
		arch  Architecture
		bound float64
	}
	all := make([]candidate, s.space)
	for i := range all {
		if i%256 == 0 && s.stopped() {
			return Plan{}, ErrStopped
		}
		arch := s.architecture(i)
		all[i] = candidate{arch, s.bound(arch)}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.bound, b.bound) })
	if s.o.First != nil {
		if _, err := s.try(s.o.First); err != nil {
			return Plan{}, err
		}
	}
	for _, c := range all {
		if s.second != nil && c.bound >= s.second.Cost {
			break
		}
		if c.arch.Equal(s.o.First) {
			continue
		}
		if _, err := s.try(c.arch); err != nil {
			return Plan{}, err
		}
	}
	return s.finish("exhaustive")
}

// descent starts from random architectures and moves to the best neighbour,
// one dataset away, until none is cheaper (Section 4.1).
func (s *search) descent() (Plan, error) {
	known := map[string]float64{}
	cost := func(arch Architecture) (float64, error) {
		key := fmt.Sprint(arch)
		if c, ok := known[key]; ok {
			return c, nil
		}
		c, err := s.try(arch)
		known[key] = c
		return c, err
	}
	for range s.o.Restarts {
		at := make(Architecture, len(s.choices))
		for d, c := range s.choices {
			at[d] = c[s.o.Rand.IntN(len(c))]
		}
		if err := s.descend(at, cost); err != nil {
			return Plan{}, err
		}
	}
	return s.finish(fmt.Sprintf("descent, %d restarts", s.o.Restarts))
}

func (s *search) descend(at Architecture, cost func(Architecture) (float64, error)) error {
	here, err := cost(at)
	if err != nil {
		return err
	}
	for {
		best, next := here, at
		for d, options := range s.choices {
			for _, c := range options {
				step := slices.Clone(at)
				step[d] = c
				if c == at[d] || s.bound(step) >= best {
					continue
				}
				there, err := cost(step)
				if err != nil {
					return err
				}
				if there < best {
					best, next = there, step
				}
			}
		}
		if best >= here && !math.IsInf(here, 1) || next.Equal(at) {
			return nil
		}
		here, at = best, next
	}
}

// try packs an architecture and keeps it if it is among the two cheapest. Its
// cost is infinite when it fits no server.
func (s *search) try(arch Architecture) (float64, error) {
	if s.stopped() {
		return 0, ErrStopped
	}
	s.tried++
	p, err := s.pack(arch)
	var unfit *pack.UnfitError
	if errors.As(err, &unfit) {
		if s.unfit == nil || unfit.Need/unfit.Have < s.unfit.Need/s.unfit.Have {
			s.unfit = unfit
		}
		return math.Inf(1), nil
	}
	if err != nil {
		return 0, err
	}
	switch {
	case s.best == nil || p.Cost < s.best.Cost-1e-9*p.Cost:
		s.best, s.second = &p, s.best
	case s.second == nil || p.Cost < s.second.Cost:
		s.second = &p
	}
	return p.Cost, nil
}

func (s *search) finish(how string) (Plan, error) {
	if s.best == nil {
		return Plan{}, s.impossible()
	}
	out := *s.best
	out.Tried, out.Space, out.Search = s.tried, s.space, how
	if s.second != nil {
		out.Second = &Runner{s.second.Needs.Architecture, s.second.Cost}
	}
	return out, nil
}

// impossible says what is short on the server that comes closest to hosting
// the application.
func (s *search) impossible() error {
	u := s.unfit
	return input.Errorf(s.in.SLA.File, "no hardware of %s meets this: %s needs %.4g of %s on one server, and %s, which comes closest, has %.4g: short by %.4g",
		s.in.HW.File, u.Item, u.Need, u.Resource, u.Server, u.Have, u.Need-u.Have)
}

// Fixed plans for one architecture.
func Fixed(in Input, o Options, arch Architecture) (Plan, error) {
	if o.Pack == nil {
		o.Pack = pack.Solve
	}
	s := &search{in: in, o: o, space: 1}
	if _, err := s.try(arch); err != nil {
		return Plan{}, err
	}
	return s.finish("fixed")
}
