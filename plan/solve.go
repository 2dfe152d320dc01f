package plan

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gleaner/input"
	"gleaner/plan/pack"
	"gleaner/plan/spec"
)

// Options say how a plan is searched for. The zero value searches with the
// built-in solver, tasks and remote data on servers of their own, to the
// proven optimum.
type Options struct {
	Colocate bool    // tasks and remote data may share a server
	Gap      float64 // stop packing this close to the proven bound
	// Pack fills the servers; nil is pack.Solve.
	Pack func(pack.Problem, pack.Options) (pack.Solution, error)
	// Most is how many architectures, whole or partial, are bounded before the
	// search turns to repeated descent. 0 is DefaultMost.
	Most     int
	Restarts int          // of the descent; 0 is 10
	Rand     *rand.Rand   // of the descent; nil is a fixed seed
	Stop     func() bool  // polled; the search ends with ErrStopped once it says true
	First    Architecture // tried first, so that its cost prunes the rest
}

// DefaultMost is how many architectures are bounded at most.
const DefaultMost = 100_000

// ErrStopped is returned when Options.Stop ended a search.
var ErrStopped = errors.New("plan: stopped")

// A Plan is a cluster that meets the SLA.
type Plan struct {
	Needs      Needs
	Problem    pack.Problem
	Packing    pack.Solution
	Cost       float64
	LowerBound float64 // no cluster of any architecture costs less
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
	s := &search{in: in, o: o, space: 1, lowest: math.Inf(1), memo: memo{}}
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
	in.HW.Units = append(in.HW.Units[:len(in.HW.Units):len(in.HW.Units)], ideal())
	s.in = in
	complete, err := s.exhaustive()
	if err != nil {
		return Plan{}, err
	}
	if complete {
		return s.finish("exhaustive")
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
	lower   float64 // no architecture that was not packed costs less
	lowest  float64 // nor any that was
	memo    memo
	unfit   *pack.UnfitError // of the architecture that came closest
}

func (s *search) stopped() bool { return s.o.Stop != nil && s.o.Stop() }

// A partial architecture has its first datasets placed.
type partial struct {
	arch  Architecture
	bound float64
	seq   int // the earlier of equals comes first
}

// A frontier is a heap of partial architectures, the most promising first.
type frontier []partial

func (f frontier) Len() int { return len(f) }
func (f frontier) Less(i, j int) bool {
	return f[i].bound < f[j].bound || f[i].bound == f[j].bound && f[i].seq < f[j].seq
}
func (f frontier) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *frontier) Push(x any)   { *f = append(*f, x.(partial)) }
func (f *frontier) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}

// exhaustive places one dataset after the other, always going on with the
// most promising, and packs what is complete, until nothing that is left can
// be among the two cheapest. It gives up, and says so, when that takes more
// than Most bounds; what is left is then all bounded by the lower bound.
func (s *search) exhaustive() (complete bool, err error) {
	if s.o.First != nil {
		if _, err := s.try(s.o.First); err != nil {
			return false, err
		}
	}
	open := &frontier{{}}
	for seq := 1; open.Len() > 0; {
		next := heap.Pop(open).(partial)
		s.lower = next.bound
		if s.second != nil && next.bound >= s.second.Cost {
			return true, nil
		}
		if len(next.arch) == len(s.choices) {
			if !next.arch.Equal(s.o.First) {
				if _, err := s.try(next.arch); err != nil {
					return false, err
				}
			}
			continue
		}
		for _, c := range s.choices[len(next.arch)] {
			if seq++; seq > s.o.Most {
				return false, nil
			}
			if s.stopped() {
				return false, ErrStopped
			}
			arch := append(next.arch[:len(next.arch):len(next.arch)], c)
			heap.Push(open, partial{arch, max(next.bound, s.boundPartial(arch)), seq})
		}
	}
	s.lower = math.Inf(1)
	return true, nil
}

// boundPartial bounds what a partial architecture can become: datasets that
// are not placed yet lie on storage that is free, boundless and instant.
func (s *search) boundPartial(arch Architecture) float64 {
	whole := arch[:len(arch):len(arch)]
	for len(whole) < len(s.choices) {
		whole = append(whole, Choice{len(s.in.HW.Units) - 1, NoCache})
	}
	return s.bound(whole, len(arch) < len(s.choices))
}

// ideal is the storage of datasets that are not placed yet. It is in no
// catalogue: only bounds use it.
func ideal() spec.Unit {
	return spec.Unit{Name: "ideal", Capacity: math.Inf(1), Read: spec.Read{RateR: math.Inf(1)}, Write: spec.Write{RateW: math.Inf(1)}}
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
				if c == at[d] || s.bound(step, false) >= best {
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
	if err == nil {
		s.lowest = min(s.lowest, p.LowerBound)
	}
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
	out.LowerBound = min(s.lowest, max(s.lower, 0))
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
	s := &search{in: in, o: o, space: 1, lower: math.Inf(1), lowest: math.Inf(1), memo: memo{}}
	if _, err := s.try(arch); err != nil {
		return Plan{}, err
	}
	return s.finish("fixed")
}
