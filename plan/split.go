package plan

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"gleaner/input"
	"gleaner/plan/pack"
)

// pack fills servers for an architecture; for a batch job of several phases,
// at the cheapest split of its time over them.
func (s *search) pack(arch Architecture) (Plan, error) {
	if s.in.SLA.Job == nil {
		return s.fill(NeedsOf(s.in, arch, nil))
	}
	seconds := s.evenSplit(arch)
	best, err := s.fill(NeedsOf(s.in, arch, seconds))
	var unfit *pack.UnfitError
	if err != nil && !errors.As(err, &unfit) {
		return Plan{}, err
	}
	if err != nil {
		best.Cost = math.Inf(1)
	}
	for improved := true; improved; {
		improved = false
		for i := range seconds {
			for j := i + 1; j < len(seconds); j++ {
				found, failure := s.shift(arch, seconds, i, j, best.Cost)
				if failure != nil {
					return Plan{}, failure
				}
				if found != nil {
					best, seconds, improved, err = *found, found.Needs.Seconds, true, nil
				}
			}
		}
		improved = improved && len(seconds) > 2
	}
	return best, err
}

func (s *search) fill(needs Needs) (Plan, error) {
	if what := needs.countless(s.in); what != "" {
		return Plan{}, input.Errorf(s.in.SLA.File, "this takes %d or more %s, which is beyond planning", Countless, what)
	}
	p := Plan{Needs: needs, Problem: needs.Problem(s.in, s.o.Colocate)}
	sol, err := s.packNeeds(needs, p.Problem)
	if err != nil {
		return Plan{}, err
	}
	p.Packing, p.Cost, p.LowerBound = sol, sol.Cost, sol.LowerBound
	return p, nil
}

// work is how long each phase would keep one core or one unit busy, the
// longest of them, were it the only one.
func (s *search) work(arch Architecture) (busiest []float64, all [][]float64) {
	app := s.in.App
	one := make([]float64, len(app.Phases()))
	for i := range one {
		one[i] = 1
	}
	n := NeedsOf(s.in, arch, one) // loads in one second are work
	busiest, all = make([]float64, len(one)), make([][]float64, len(one))
	note := func(phase int, w float64) {
		if w > 0 {
			busiest[phase] = max(busiest[phase], w)
			all[phase] = append(all[phase], w)
		}
	}
	for _, t := range n.Tasks {
		note(slices.Index(n.Phases, app.Tasks[t.Task].Phase), t.Rate*t.Runtime)
	}
	for p := range one {
		cpu := 0.0
		for _, r := range n.Roles {
			cpu += r.CPU[p]
			for _, l := range r.Locals {
				note(p, l.IO[p])
			}
		}
		for _, t := range n.Tiers {
			cpu += t.CPU[p]
			note(p, t.IO[p])
		}
		note(p, cpu)
	}
	return busiest, all
}

// evenSplit gives every phase time in proportion to its work.
func (s *search) evenSplit(arch Architecture) []float64 {
	busiest, _ := s.work(arch)
	sum := 0.0
	for _, w := range busiest {
		sum += w
	}
	out := make([]float64, len(busiest))
	for i, w := range busiest {
		out[i] = s.in.SLA.Job.Time / float64(len(out))
		if sum > 0 {
			out[i] = s.in.SLA.Job.Time * w / sum
		}
	}
	return out
}

// Limits of the search for a split.
const (
	splitSteps  = 400  // candidates of one kind
	splitPacked = 2000 // packed at most, the most promising first
)

// shift moves time between two phases. What is needed only changes where some
// work divided by the time passes a whole number, so those times are tried,
// most promising first.
func (s *search) shift(arch Architecture, seconds []float64, i, j int, best float64) (*Plan, error) {
	if s.second != nil {
		best = min(best, s.second.Cost)
	}
	total := seconds[i] + seconds[j]
	_, work := s.work(arch)
	type candidate struct {
		seconds []float64
		bound   float64
	}
	var all []candidate
	for _, at := range splits(work[i], work[j], total) {
		try := slices.Clone(seconds)
		try[i], try[j] = at, total-at
		if bound := NeedsOf(s.in, arch, try).Bound(s.in, s.o.Colocate); bound < best {
			all = append(all, candidate{try, bound})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.bound, b.bound) })
	var found *Plan
	for k, c := range all {
		if c.bound >= best || k == splitPacked {
			break
		}
		if s.stopped() {
			return nil, ErrStopped
		}
		p, err := s.fill(NeedsOf(s.in, arch, c.seconds))
		var unfit *pack.UnfitError
		if errors.As(err, &unfit) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if p.Cost < best {
			best, found = p.Cost, &p
		}
	}
	return found, nil
}

// splits are times for the first of two phases at which either needs a whole
// number of something.
func splits(first, second []float64, total float64) []float64 {
	var out []float64
	add := func(work []float64, mirror bool) {
		for _, w := range work {
			least := math.Floor(w/total) + 1
			for k := range splitSteps {
				t := w / (least + float64(k))
				if t < total/50 {
					break
				}
				if mirror {
					t = total - t
				}
				out = append(out, t)
			}
		}
	}
	add(first, false)
	add(second, true)
	slices.Sort(out)
	return slices.CompactFunc(out, func(a, b float64) bool { return math.Abs(b-a) < 1e-9*total })
}

// bound is a cost that no split of the time undercuts. The first phase's time
// is cut into stretches; in each, both phases get the most they could have.
func (s *search) bound(arch Architecture, partial bool) float64 {
	bound := func(seconds []float64) float64 {
		return NeedsOf(s.in, arch, seconds).bound(s.in, s.o.Colocate, partial || seconds != nil)
	}
	job := s.in.SLA.Job
	if job == nil {
		return bound(nil)
	}
	phases := len(s.in.App.Phases())
	whole := make([]float64, phases)
	for i := range whole {
		whole[i] = job.Time
	}
	if phases != 2 {
		return bound(whole)
	}
	const stretches = 16
	least := math.Inf(1)
	for k := range stretches {
		whole[0] = job.Time * float64(k+1) / stretches
		whole[1] = job.Time * float64(stretches-k) / stretches
		least = min(least, bound(whole))
	}
	return least
}
