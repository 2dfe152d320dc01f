package mine

import (
	"math"
	"slices"

	"gleaner/trace/mine/ladder"
	"gleaner/trace/program"
)

// timing is when calls are made: the interval between two consecutive calls of
// a sender by the site of the second, and what a type's start waits for.
type timing struct {
	gaps   map[siteID]program.Formula // milliseconds since the sender's call before
	starts []*startRule               // by type
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
	t := &timing{gaps: map[siteID]program.Formula{}}
	type sample struct{ n, ms float64 }
	byScale := map[siteID]map[int][]float64{}
	for _, r := range runs {
		s.eachGap(r, func(site siteID, gap float64) {
			if byScale[site] == nil {
				byScale[site] = map[int][]float64{}
			}
			byScale[site][r.Scale] = append(byScale[site][r.Scale], gap)
		})
	}
	for site, scales := range byScale {
		var samples []sample
		for n, gaps := range scales {
			slices.Sort(gaps)
			samples = append(samples, sample{float64(n), gaps[len(gaps)/2]})
		}
		slices.SortFunc(samples, func(a, b sample) int { return int(a.n - b.n) })
		var n, v []float64
		for _, sm := range samples {
			n, v = append(n, sm.n), append(v, sm.ms)
		}
		t.gaps[site] = ladder.Smooth(n, v)
	}
	for kind := range types {
		t.starts = append(t.starts, s.findStart(kind, runs))
	}
	return t
}

// eachGap visits the intervals of a run in milliseconds: between the beats of
// a real-time call, and between the other calls of a sender.
func (s *sites) eachGap(r *Run, visit func(site siteID, ms float64)) {
	for _, snd := range r.senders {
		before := int64(0)
		beat := map[siteID]int64{}
		for _, i := range snd.calls {
			call := &r.calls[i]
			if call.site == noSite {
				continue
			}
			if s.all[call.site].nature == realtime {
				if last, ok := beat[call.site]; ok {
					visit(call.site, float64(call.start-last)/1e6)
				}
				beat[call.site] = call.start
				continue
			}
			if before != 0 {
				visit(call.site, float64(call.start-before)/1e6)
			}
			before = call.start
		}
	}
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
