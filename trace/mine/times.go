package mine

import (
	"maps"
	"math"
	"slices"

	"gleaner/trace/mine/ladder"
	"gleaner/trace/program"
)

// timing is when calls are made: the interval between two consecutive calls of
// a sender by the site of the second, and what a type's start waits for.
type timing struct {
	gaps   map[gap]program.Formula // milliseconds since the sender's call before
	limits map[gap]limit
	starts []*startRule // by type
	leaves []bool       // by type: its nodes beat no more when they make their last call
}

// A gap is before a call of a site; again, when the call is one more try.
type gap struct {
	site  siteID
	again bool
}

// A startRule: a type starts some time after a share of another type's nodes
// made a call.
type startRule struct {
	site  *site
	share float64
	wait  program.Formula
}

// times learns both (PatternMiner §III-B4).
func (s *sites) times(runs []*Run, types int) *timing {
	t := &timing{gaps: map[gap]program.Formula{}, limits: map[gap]limit{}}
	byScale := map[gap]map[int][]float64{}
	for _, r := range runs {
		s.eachGap(r, func(g gap, ms float64) {
			if byScale[g] == nil {
				byScale[g] = map[int][]float64{}
			}
			byScale[g][r.Scale] = append(byScale[g][r.Scale], ms)
		})
	}
	for g, scales := range byScale {
		var n, v []float64
		for _, scale := range slices.Sorted(maps.Keys(scales)) {
			slices.Sort(scales[scale])
			n, v = append(n, float64(scale)), append(v, middle(scales[scale]))
		}
		t.gaps[g] = ladder.Smooth(n, v)
		largest, last := n[len(n)-1], v[len(v)-1]
		if t.gaps[g].Eval(program.Vars{"n": 2 * largest}) <= 0 {
			t.gaps[g] = program.MustFormula("%.5g", max(last, 0)) // it falls, but not below nothing
		}
		if l, ok := findLimit(scales); ok {
			l.beyond = program.MustFormula("%.4f+%.4f*min(1, max(0, n-%g))", max(last, 0), l.ms-max(last, 0), largest)
			t.limits[g] = l
		}
	}
	s.confirm(t, slices.MaxFunc(runs, func(a, b *Run) int { return a.Scale - b.Scale }).Scale)
	for kind := range types {
		t.starts = append(t.starts, s.findStart(kind, runs))
		t.leaves = append(t.leaves, s.leaves(kind, runs))
	}
	return t
}

// confirm keeps the limits that more than one scale shows, and those that are
// the same as such a one of the same type: it is senders that have limits.
func (s *sites) confirm(t *timing, largest int) {
	sure := map[int][]float64{}
	for g, l := range t.limits {
		if kind := s.all[g.site].kind; l.from < largest {
			sure[kind] = append(sure[kind], l.ms)
		}
	}
	for g, l := range t.limits {
		if slices.ContainsFunc(sure[s.all[g.site].kind], func(ms float64) bool { return math.Abs(ms-l.ms) <= 0.02*ms }) {
			t.gaps[g] = l.beyond
		} else {
			delete(t.limits, g)
		}
	}
}

func middle(sorted []float64) float64 { return sorted[len(sorted)/2] }

// A limit is the interval that a sender's rate limiter enforces.
type limit struct {
	ms     float64
	from   int             // the scale at which it was first seen
	beyond program.Formula // the interval, up to the largest scale and beyond
}

// findLimit recognises a rate limit: at the largest scale a good part of the
// intervals is one and the same, at smaller ones less of them are. Beyond, it is
// the limit that decides.
func findLimit(scales map[int][]float64) (limit, bool) {
	const slowest, shortest = 3, 10 // as many intervals as that, as long as that in milliseconds
	order := slices.Sorted(maps.Keys(scales))
	if len(order) < 3 {
		return limit{}, false
	}
	gaps := scales[order[len(order)-1]]
	part := (len(gaps) + 3) / 4
	if part < slowest {
		return limit{}, false
	}
	best := limit{}
	width := math.Inf(1)
	for i := 0; i+part <= len(gaps); i++ {
		if w := (gaps[i+part-1] - gaps[i]) / gaps[i+part-1]; w < width {
			best.ms, width = gaps[i+part/2], w
		}
	}
	if width > 0.03 || best.ms < shortest {
		return limit{}, false
	}
	shares := make([]float64, len(order))
	for i, n := range order {
		for _, g := range scales[n] {
			if math.Abs(g-best.ms) <= 0.05*best.ms {
				shares[i] += 1 / float64(len(scales[n]))
			}
		}
		if best.from == 0 && shares[i] > 0.1 {
			best.from = n
		}
	}
	last := len(shares) - 1
	return best, shares[0] < 0.1 && shares[last] >= 0.25 && shares[last] > shares[last/2]
}

// eachGap visits the intervals of a run in milliseconds: between the beats of
// a real-time call, and between the other calls of a sender.
func (s *sites) eachGap(r *Run, visit func(g gap, ms float64)) {
	for _, snd := range r.senders {
		var before *call
		beat := map[siteID]int64{}
		for _, i := range snd.calls {
			call := &r.calls[i]
			if call.site == noSite {
				continue
			}
			if s.all[call.site].nature == realtime {
				if last, ok := beat[call.site]; ok {
					visit(gap{site: call.site}, float64(call.start-last)/1e6)
				}
				beat[call.site] = call.start
				continue
			}
			if before != nil {
				again := s.all[call.site].nature == until && before.site == call.site && before.nth == call.nth
				visit(gap{call.site, again}, float64(call.start-before.start)/1e6)
			}
			before = call
		}
	}
}

// leaves reports whether a type's nodes end with a call that is no beat, as
// one that signs off does: nearly all of those that beat.
func (s *sites) leaves(kind int, runs []*Run) bool {
	left, all := 0, 0
	for _, r := range runs {
		for _, snd := range r.senders {
			isBeat := func(i int32) bool {
				site := r.calls[i].site
				return site != noSite && s.all[site].nature == realtime
			}
			if snd.kind != kind || !slices.ContainsFunc(snd.calls, isBeat) {
				continue
			}
			all++
			if !isBeat(snd.calls[len(snd.calls)-1]) {
				left++
			}
		}
	}
	return all > 0 && left*20 >= all*19
}

// shares of a type that a start may wait for; 0 is the first of them.
var shares = []float64{0, 0.05, 0.25, 0.5, 0.75, 1}

// findStart looks for what the first call of a type waits for: an event that
// comes before it in every run, with the steadiest time between.
func (s *sites) findStart(kind int, runs []*Run) *startRule {
	var best *startRule
	bestScore := math.Inf(1)
	firsts := make([]map[siteID][]int64, len(runs)) // when each sender first called a site
	begin := make([]int64, len(runs))
	for i, r := range runs {
		firsts[i] = s.firstCalls(r)
		begin[i] = r.begin(kind)
		if begin[i] == 0 {
			return nil
		}
	}
	for _, st := range s.all {
		if st.kind == kind || st.nature != logical {
			continue
		}
		for _, share := range shares {
			slack, ok := slacks(st.id, share, firsts, begin)
			if !ok {
				continue
			}
			score := spreadOf(slack)
			if score < bestScore {
				bestScore = score
				var n []float64
				for _, r := range runs {
					n = append(n, float64(r.Scale))
				}
				best = &startRule{site: st, share: share, wait: ladder.Smooth(n, slack)}
			}
		}
	}
	return best
}

func (s *sites) firstCalls(r *Run) map[siteID][]int64 {
	out := map[siteID][]int64{}
	for i := range r.calls {
		if c := &r.calls[i]; c.nth == 0 && c.site != noSite {
			out[c.site] = append(out[c.site], c.start)
		}
	}
	return out
}

func (r *Run) begin(kind int) int64 {
	for i := range r.calls {
		if r.calls[i].sender.kind == kind {
			return r.calls[i].start
		}
	}
	return 0
}

// slacks are the times from an event to a start, in milliseconds, in every run.
func slacks(site siteID, share float64, firsts []map[siteID][]int64, begin []int64) ([]float64, bool) {
	out := make([]float64, len(begin))
	for i := range begin {
		times := firsts[i][site]
		if len(times) == 0 {
			return nil, false
		}
		at := times[max(0, int(math.Ceil(share*float64(len(times))))-1)]
		if at > begin[i] {
			return nil, false
		}
		out[i] = float64(begin[i]-at) / 1e6
	}
	return out, true
}

// spreadOf is small for times that are short and much alike.
func spreadOf(v []float64) float64 {
	low, high := slices.Min(v), slices.Max(v)
	return high - low + 0.2*high
}
