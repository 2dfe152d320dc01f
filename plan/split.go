package plan

import (
	"cmp"
	"math"
	"slices"
)

// Limits of the search for the split of a job's time over its phases.
const (
	splitSteps = 400  // times of one kind that are considered
	splitTries = 12   // most promising ones, which are packed
	splitLeast = 1e-6 // of the job's time: a region narrower than this is not split
)

// split tries times with which an architecture may be cheapest, and splits the region
// by the time of a phase. A longer phase needs less, so a region is bounded with the
// longest time of every phase.
func (s *search) split(r region, needs Needs, arch Architecture) error {
	for _, seconds := range s.candidates(r, arch) {
		if s.stopped() && s.best != nil {
			break
		}
		if err := s.try(NeedsOf(s.in, arch, seconds)); err != nil {
			return err
		}
	}
	if r.bound >= s.enough() {
		s.lower = min(s.lower, r.bound)
		return nil
	}
	if !asMuch(needs, NeedsOf(s.in, arch, r.most)) {
		s.part(r, arch)
		return nil
	}
	i, wide := r.widest()
	if wide < splitLeast*s.in.SLA.Job.Time {
		s.lower = min(s.lower, r.bound)
		return nil
	}
	at := (r.least[i] + r.most[i]) / 2
	if s.best != nil { // the best split is at a border, where bounds are tight
		if t := s.best.Needs.Seconds[i]; t > r.least[i]+splitLeast*wide && t < r.most[i]-splitLeast*wide {
			at = t
		}
	}
	short, long := r, r
	short.most, long.least = slices.Clone(r.most), slices.Clone(r.least)
	short.most[i], long.least[i] = at, at
	for _, half := range []region{short, long} {
		if half.narrow(s.in.SLA.Job.Time) {
			s.push(half)
		}
	}
	return nil
}

// narrow leaves out times that are impossible given the other phases, and reports
// whether any are left.
func (r *region) narrow(total float64) bool {
	least, most := 0.0, 0.0
	for i := range r.most {
		least += r.least[i]
		most += r.most[i]
	}
	if least > total*(1+1e-12) || most < total*(1-1e-12) {
		return false
	}
	r.least, r.most = slices.Clone(r.least), slices.Clone(r.most)
	for i := range r.most {
		lo, hi := r.least[i], r.most[i]
		r.most[i] = min(hi, total-(least-lo))
		r.least[i] = max(lo, total-(most-hi))
	}
	return true
}

// widest is the phase whose time is least certain, as a share of it.
func (r region) widest() (phase int, width float64) {
	most := -1.0
	for i := range r.most {
		wide := r.most[i] - r.least[i]
		if part := wide / r.most[i]; part > most {
			phase, width, most = i, wide, part
		}
	}
	return phase, width
}

// candidates are splits of the time within the region, most promising first:
// in proportion to the work, and those at which two phases exchange time until
// one needs a whole number of something.
func (s *search) candidates(r region, arch Architecture) [][]float64 {
	busiest, work := s.work(arch)
	total := s.in.SLA.Job.Time
	start := r.proportional(busiest, total)
	type candidate struct {
		seconds []float64
		bound   float64
	}
	var all []candidate
	add := func(seconds []float64) {
		bound := NeedsOf(s.in, arch, seconds).Bound(s.in, s.o.Colocate)
		if bound < s.enough() {
			all = append(all, candidate{seconds, bound})
		}
	}
	add(start)
	from := start
	if s.best != nil && r.holds(s.best.Needs.Seconds) {
		from = s.best.Needs.Seconds
	}
	for i := range from {
		for j := i + 1; j < len(from); j++ {
			both := from[i] + from[j]
			for _, t := range splits(work[i], work[j], both) {
				if s.stopped() {
					return [][]float64{start}
				}
				seconds := slices.Clone(from)
				seconds[i], seconds[j] = t, both-t
				if r.holds(seconds) {
					add(seconds)
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.bound, b.bound) })
	var out [][]float64
	for _, c := range all[:min(len(all), splitTries)] {
		out = append(out, c.seconds)
	}
	return out
}

// holds reports whether a split is within the region.
func (r region) holds(seconds []float64) bool {
	for i, t := range seconds {
		if t < r.least[i] || t > r.most[i] || t <= 0 {
			return false
		}
	}
	return true
}

// proportional splits the time in proportion to the work of each phase, as far as
// the region allows.
func (r region) proportional(work []float64, total float64) []float64 {
	out := slices.Clone(r.least)
	left := total
	for _, t := range out {
		left -= t
	}
	for range 50 { // what does not fit one phase goes to the others
		sum := 0.0
		for i, w := range work {
			if out[i] < r.most[i] {
				sum += max(w, 1e-9)
			}
		}
		if sum == 0 || left <= 1e-12*total {
			break
		}
		given := 0.0
		for i, w := range work {
			if out[i] < r.most[i] {
				more := min(left*max(w, 1e-9)/sum, r.most[i]-out[i])
				out[i] += more
				given += more
			}
		}
		left -= given
	}
	return out
}

// work is how long each phase would keep a single core or unit busy, the longest of
// these.
func (s *search) work(arch Architecture) (busiest []float64, all [][]float64) {
	app := s.in.App
	one := make([]float64, len(app.Phases()))
	for i := range one {
		one[i] = 1
	}
	n := NeedsOf(s.in, arch, one) // loads within one second are work

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
				cpu += l.CPU[p]
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
