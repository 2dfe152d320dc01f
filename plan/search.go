package plan

import (
	"container/heap"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"gleaner/input"
	"gleaner/plan/pack"
	"gleaner/plan/spec"
)

// A search finds the cheapest plan over the open choices. Packing chooses for all
// datasets at once, but takes two things as given: how long tasks run, which depends
// on where their data lies and matters if instances hold memory or copies of data,
// and how a job's time is split. So regions of plans are bounded with their shortest
// run times and longest phases, and split until the bound is tight.
type search struct {
	in     Input
	o      Options
	memo   map[string]packed
	best   *Plan
	cost   float64 // of best, or the highest cost that is of interest
	lower  float64 // least bound of the regions that were closed
	packed int     // problems
	unfit  *pack.UnfitError
	over   string // what breaks the limits of the plan, if they leave none
	late   *Needs // what comes closest to the latency goals, if nothing meets them
	open   regions
	seq    int
}

// A region is a set of plans: the open choices and, for a job, the least and most
// time of each phase.
type region struct {
	open  [][]Choice
	least []float64
	most  []float64
	bound float64
	seq   int // of equals, the earlier comes first
}

type regions []region

func (q regions) Len() int { return len(q) }
func (q regions) Less(i, j int) bool {
	return q[i].bound < q[j].bound || q[i].bound == q[j].bound && q[i].seq < q[j].seq
}
func (q regions) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *regions) Push(x any)   { *q = append(*q, x.(region)) }
func (q *regions) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func newSearch(in Input, o Options) *search {
	return &search{in: in, o: o, memo: map[string]packed{}, cost: math.Inf(1), lower: math.Inf(1)}
}

func (s *search) stopped() bool { return s.o.Stop != nil && s.o.Stop() }

// enough is the bound from which on a region is of no interest.
func (s *search) enough() float64 { return s.cost * (1 - max(s.o.Gap, 1e-9)) }

// run looks for the cheapest plan and a bound of all.
func (s *search) run(open [][]Choice) error {
	first := region{open: open}
	if job := s.in.SLA.Job; job != nil {
		first.least = make([]float64, len(s.in.App.Phases()))
		first.most = slices.Clone(first.least)
		for i := range first.most {
			first.most[i] = job.Time
		}
	}
	var err error
	if first.open, err = s.countable(first); err != nil {
		return err
	}
	first.open = s.undominated(first)
	if s.stopped() {
		return ErrStopped
	}
	s.push(first)
	for s.open.Len() > 0 {
		r := heap.Pop(&s.open).(region)
		if r.bound >= s.enough() || s.stopped() && s.best != nil {
			s.lower = min(s.lower, r.bound)
			break // the other regions are no better
		}
		err := s.explore(r)
		if errors.Is(err, ErrStopped) && s.best != nil {
			s.lower = min(s.lower, r.bound)
			break
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// countable leaves out choices that take more units than can be planned.
func (s *search) countable(r region) ([][]Choice, error) {
	out := make([][]Choice, len(r.open))
	needs := needsOf(s.in, r.open, r.most)
	countless := needs.countless()
	for _, role := range needs.Roles {
		if !(role.Instances < Countless) {
			return nil, s.beyond("instances of " + roleName(s.in, role))
		}
	}
	for d, all := range r.open {
		for _, choice := range all {
			if !slices.ContainsFunc(choice.copies(d), func(c Copy) bool { return slices.Contains(countless, c) }) {
				out[d] = append(out[d], choice)
			}
		}
		if out[d] == nil {
			return nil, s.beyond("units of " + s.in.copyName(all[0].copies(d)[0]))
		}
	}
	return out, nil
}

func (s *search) beyond(what string) error {
	return input.Errorf(s.in.SLA.File, "this takes a thousand million %s or more, which is too many to plan", what)
}

func (s *search) push(r region) {
	s.seq++
	r.seq = s.seq
	heap.Push(&s.open, r)
}

// explore bounds a region, tries the plan that the bound suggests, and splits the
// region if that plan costs more.
func (s *search) explore(r region) error {
	needs := needsOf(s.in, r.open, r.most)
	got, fits, err := s.host(needs)
	if !fits {
		return err
	}
	r.bound = max(r.bound, got.bound)
	if r.bound >= s.enough() {
		s.lower = min(s.lower, r.bound)
		return nil
	}
	arch := got.arch
	if s.in.SLA.Job == nil || len(r.most) == 1 {
		exact := NeedsOf(s.in, arch, r.most)
		if asMuch(needs, exact) {
			s.lower = min(s.lower, r.bound)
			return s.offer(exact, got)
		}
		if err := s.try(exact); err != nil {
			return err
		}
		s.part(r, arch)
		return nil
	}
	return s.split(r, needs, arch)
}

// keep stores the shortage that came closest to fitting.
func (s *search) keep(e *pack.UnfitError) {
	if s.unfit == nil || e.Resource != "" && (s.unfit.Resource == "" || e.Need/e.Have < s.unfit.Need/s.unfit.Have) {
		s.unfit = e
	}
}

// try packs needs of one architecture, at one split of a job's time.
func (s *search) try(needs Needs) error {
	got, fits, err := s.host(needs)
	if !fits {
		return err
	}
	return s.offer(needs, got)
}

// offer keeps a plan if it is the cheapest so far.
func (s *search) offer(needs Needs, got hosted) error {
	if got.cost >= s.cost*(1-1e-9) {
		return nil
	}
	p, err := s.plan(needs, got)
	if err != nil {
		return err
	}
	s.best, s.cost = &p, p.Cost
	return nil
}

// asMuch reports whether the run times of both leave the same: as much headroom, and as
// many instances where that matters.
func asMuch(a, b Needs) bool {
	if math.Abs(a.slack()-b.slack()) > 1e-12 {
		return false
	}
	for i, r := range a.Roles {
		if r.counts() && math.Abs(r.Instances-b.Roles[i].Instances) > 1e-12*r.Instances {
			return false
		}
	}
	return true
}

// counts reports whether it matters how many instances a role has.
func (r Role) counts() bool {
	return slices.Max(r.Held) > 0 || slices.ContainsFunc(r.Locals, func(l Local) bool { return l.Each > 0 })
}

// part splits a region by the dataset whose choice lengthens run times most: it lies
// as in arch, or not.
func (s *search) part(r region, arch Architecture) {
	total := func(open [][]Choice) float64 {
		needs := needsOf(s.in, open, r.most)
		sum := 1 / max(needs.slack(), leastBusy/2)
		for _, role := range needs.Roles {
			if role.counts() {
				sum += role.Instances
			}
		}
		return sum
	}
	best, most := -1, 0.0
	for d, c := range arch {
		if len(r.open[d]) > 1 {
			if sum := total(with(r.open, d, []Choice{c})); sum > most {
				best, most = d, sum
			}
		}
	}
	here, there := r, r
	here.open = with(r.open, best, []Choice{arch[best]})
	there.open = with(r.open, best, slices.DeleteFunc(slices.Clone(r.open[best]), func(c Choice) bool { return c == arch[best] }))
	s.push(here)
	s.push(there)
}

// with replaces the choices of a dataset.
func with(open [][]Choice, dataset int, choices []Choice) [][]Choice {
	out := slices.Clone(open)
	out[dataset] = choices
	return out
}

// A packed is a part of the needs on servers; a hosted is all of them.
type packed struct {
	problem pack.Problem
	pack.Solution
	err error
}

type hosted struct {
	parts       []packed
	arch        Architecture
	cost, bound float64
}

// host fills servers for needs, reusing what was packed before, and reports whether
// they fit.
func (s *search) host(needs Needs) (_ hosted, fits bool, _ error) {
	if needs.Late() {
		s.tooSlow(needs)
		return hosted{}, false, nil
	}
	out := hosted{arch: make(Architecture, len(needs.Open))}
	for d, open := range needs.Open {
		out.arch[d] = open[0]
	}
	for _, problem := range s.problems(needs) {
		got := s.remember(problem)
		var unfit *pack.UnfitError
		if errors.As(got.err, &unfit) {
			if s.in.limited() {
				s.explain(needs)
			} else {
				s.keep(unfit)
			}
			return hosted{}, false, nil
		}
		if got.err != nil {
			return hosted{}, false, got.err
		}
		out.parts = append(out.parts, got)
		out.cost += got.Cost
		out.bound += got.LowerBound
		for k, c := range got.problem.Choices {
			d := slices.IndexFunc(s.in.App.Datasets, func(d spec.Dataset) bool { return d.Name == c.Name })
			out.arch[d] = needs.Open[d][got.Taken[k]]
		}
	}
	return out, true, nil
}

// problems are the needs to pack, each by itself.
func (s *search) problems(needs Needs) []pack.Problem {
	if s.in.limited() {
		return []pack.Problem{needs.Limited(s.in, s.o.Colocate)}
	}
	var out []pack.Problem
	for _, part := range needs.parts(s.o.Colocate) {
		out = append(out, part.Problem(s.in))
	}
	return out
}

// remember packs a problem, or returns how it was packed before.
func (s *search) remember(p pack.Problem) packed {
	key := signature(p)
	if got, ok := s.memo[key]; ok {
		return got
	}
	s.packed++
	sol, err := s.o.Pack(p, pack.Options{Gap: s.o.Gap, NodeLimit: s.o.Nodes, Interrupt: s.o.Stop})
	if errors.Is(err, pack.ErrStopped) {
		err = ErrStopped
	}
	got := packed{p, sol, err}
	if !s.stopped() {
		s.memo[key] = got
	}
	return got
}

// signature is a key of all that packing depends on.
func signature(p pack.Problem) string {
	var b []byte
	word := func(s string) { b = append(append(b, s...), 0) }
	number := func(x float64) { b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x)) }
	row := func(xs []float64) {
		for _, x := range xs {
			number(x)
		}
	}
	for _, r := range p.Resources {
		word(r)
	}
	for _, l := range p.Loads {
		word(l.Name)
		number(l.Amount)
		row(l.Demand)
	}
	for _, u := range p.Purchases {
		word(u.Name)
		number(u.Cost)
		row(u.Change)
	}
	for _, c := range p.Choices {
		for _, o := range c.Options {
			for _, i := range o.Loads {
				number(float64(i))
			}
			word("")
		}
		word(c.Name)
	}
	for _, s := range p.Servers { // their hardware is the same throughout a search, the parts they may have are not
		row(s.Capacity)
	}
	return string(b)
}

// plan makes a plan of what was packed: it restates the parts in terms of one problem
// in which no dataset has a choice.
func (s *search) plan(needs Needs, got hosted) (Plan, error) {
	p := Plan{Needs: needs, Problem: needs.Problem(s.in)}
	var contents []pack.Content
	for _, part := range got.parts {
		for _, f := range part.Fillings {
			contents = append(contents, widen(f, part.problem, p.Problem))
		}
	}
	var err error
	if p.Packing, err = p.Problem.Assemble(contents, nil, got.bound); err != nil {
		return p, err
	}
	p.Cost, p.LowerBound = p.Packing.Cost, p.Packing.LowerBound
	p.count(s.in)
	return p, nil
}

// widen converts a filling of a part to the content of a server of the whole.
func widen(f pack.Filling, part, whole pack.Problem) pack.Content {
	out := pack.Content{Count: f.Count, Loads: make([]float64, len(whole.Loads)), Bought: make([]int, len(whole.Purchases))}
	out.Server = slices.IndexFunc(whole.Servers, func(t pack.Server) bool { return t.Name == f.Server })
	for i, y := range f.Loads {
		k := slices.IndexFunc(whole.Loads, func(l pack.Load) bool { return l.Name == part.Loads[i].Name })
		if y > 0 && k >= 0 {
			out.Loads[k] = y * whole.Loads[k].Amount / part.Loads[i].Amount
		}
	}
	for i, n := range f.Bought {
		k := slices.IndexFunc(whole.Purchases, func(p pack.Purchase) bool { return p.Name == part.Purchases[i].Name })
		if n > 0 && k >= 0 {
			out.Bought[k] = n
		}
	}
	return out
}
