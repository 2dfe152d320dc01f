// Package pace finds when calls are made: the intervals between them, the limits
// on their rate, and what a type of nodes waits for before it starts
// (PatternMiner §III-B4).
package pace

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/count"
	"gleaner/trace/mine/ladder"
	"gleaner/trace/program"
)

// Timing is when calls are made: the interval between two consecutive calls of
// a sender by the site of the second, and what a type's start waits for.
type Timing struct {
	Gaps   map[Gap]program.Formula // milliseconds since the sender's call before
	Limits map[Gap]Limit
	Starts []*Start // by type
	Leaves []bool   // by type: its nodes beat no more when they make their last call
}

// A Gap is before a call of a site; again, when the call is one more try.
type Gap struct {
	Site  corpus.SiteID
	Again bool
}

// A Start is what a type waits for: it starts some time after a share of another
// type's nodes made a call.
type Start struct {
	Site  *count.Site
	Share float64
	Wait  program.Formula
}

// Learn finds both.
func Learn(s *count.Sites, runs []*corpus.Recording, types int) *Timing {
	t := &Timing{Gaps: map[Gap]program.Formula{}, Limits: map[Gap]Limit{}}
	byScale := map[Gap]map[int][]float64{}
	for _, r := range runs {
		EachGap(s, r, func(g Gap, ms float64) {
			if byScale[g] == nil {
				byScale[g] = map[int][]float64{}
			}
			byScale[g][r.Scale] = append(byScale[g][r.Scale], ms)
		})
	}
	for g, scales := range byScale {
		var seen []intervals
		for _, n := range slices.Sorted(maps.Keys(scales)) {
			slices.Sort(scales[n])
			seen = append(seen, intervals{n, scales[n]})
		}
		t.Gaps[g] = predict(seen)
		if l, ok := findLimit(scales); ok {
			largest := seen[len(seen)-1]
			usual := max(middle(largest.ms), 0)
			l.beyond = program.MustFormula("%.4f+%.4f*min(1, max(0, n-%d))", usual, l.Millis-usual, largest.scale)
			t.Limits[g] = l
		}
	}
	confirm(s, t, slices.MaxFunc(runs, func(a, b *corpus.Recording) int { return a.Scale - b.Scale }).Scale)
	for kind := range types {
		t.Starts = append(t.Starts, findStart(s, kind, runs))
		t.Leaves = append(t.Leaves, leaves(s, kind, runs))
	}
	return t
}

// confirm keeps the limits that more than one scale shows, and those that are
// the same as such a one of the same type: it is senders that have limits.
func confirm(s *count.Sites, t *Timing, largest int) {
	sure := map[int][]float64{}
	for g, l := range t.Limits {
		if kind := s.All[g.Site].Kind; l.From < largest {
			sure[kind] = append(sure[kind], l.Millis)
		}
	}
	for g, l := range t.Limits {
		if slices.ContainsFunc(sure[s.All[g.Site].Kind], func(ms float64) bool { return math.Abs(ms-l.Millis) <= 0.02*ms }) {
			t.Gaps[g] = l.beyond
		} else {
			delete(t.Limits, g)
		}
	}
}

func middle(sorted []float64) float64 { return sorted[len(sorted)/2] }

// A Limit is the interval that a sender's rate limiter enforces.
type Limit struct {
	Millis float64
	From   int             // the scale at which it was first seen
	beyond program.Formula // the interval, up to the largest scale and beyond
}

// findLimit recognises a rate limit: at the largest scale a good part of the
// intervals is one and the same, at smaller ones less of them are. Beyond, it is
// the limit that decides.
func findLimit(scales map[int][]float64) (Limit, bool) {
	const slowest, shortest = 3, 10 // as many intervals as that, as long as that in milliseconds
	order := slices.Sorted(maps.Keys(scales))
	if len(order) < 3 {
		return Limit{}, false
	}
	gaps := scales[order[len(order)-1]]
	part := (len(gaps) + 3) / 4
	if part < slowest {
		return Limit{}, false
	}
	best := Limit{}
	width := math.Inf(1)
	for i := 0; i+part <= len(gaps); i++ {
		if w := (gaps[i+part-1] - gaps[i]) / gaps[i+part-1]; w < width {
			best.Millis, width = gaps[i+part/2], w
		}
	}
	if width > 0.03 || best.Millis < shortest {
		return Limit{}, false
	}
	shares := make([]float64, len(order))
	for i, n := range order {
		for _, g := range scales[n] {
			if math.Abs(g-best.Millis) <= 0.05*best.Millis {
				shares[i] += 1 / float64(len(scales[n]))
			}
		}
		if best.From == 0 && shares[i] > 0.1 {
			best.From = n
		}
	}
	last := len(shares) - 1
	return best, shares[0] < 0.1 && shares[last] >= 0.25 && shares[last] > shares[last/2]
}

// EachGap visits the intervals of a run in milliseconds: between the beats of
// a real-time call, and between the other calls of a sender.
func EachGap(s *count.Sites, r *corpus.Recording, visit func(g Gap, ms float64)) {
	for _, snd := range r.Senders {
		var before *corpus.Call
		beat := map[corpus.SiteID]int64{}
		for _, i := range snd.Calls {
			call := &r.Calls[i]
			if call.Site == corpus.NoSite {
				continue
			}
			if s.All[call.Site].Nature == count.Realtime {
				if last, ok := beat[call.Site]; ok {
					visit(Gap{Site: call.Site}, float64(call.Start-last)/1e6)
				}
				beat[call.Site] = call.Start
				continue
			}
			if before != nil {
				again := s.All[call.Site].Nature == count.Until && before.Site == call.Site && before.Nth == call.Nth
				visit(Gap{call.Site, again}, float64(call.Start-before.Start)/1e6)
			}
			before = call
		}
	}
}

// leaves reports whether a type's nodes end with a call that is no beat, as
// one that signs off does: nearly all of those that beat.
func leaves(s *count.Sites, kind int, runs []*corpus.Recording) bool {
	left, all := 0, 0
	for _, r := range runs {
		for _, snd := range r.Senders {
			isBeat := func(i int32) bool {
				site := r.Calls[i].Site
				return site != corpus.NoSite && s.All[site].Nature == count.Realtime
			}
			if snd.Kind != kind || !slices.ContainsFunc(snd.Calls, isBeat) {
				continue
			}
			all++
			if !isBeat(snd.Calls[len(snd.Calls)-1]) {
				left++
			}
		}
	}
	return all > 0 && left*20 >= all*19
}

// shares of a type that a start may wait for; 0 is the first of them.
var shares = []float64{0, 0.05, 0.25, 0.5, 0.75, 1}

// findStart looks for what the first call of a type waits for: an event that
// comes before it in every run, with the steadiest time between. Where that was
// always after all nodes of the other type, all are waited for, and for the last
// thing that all had done: that less would do is not to be seen.
func findStart(s *count.Sites, kind int, runs []*corpus.Recording) *Start {
	firsts := make([]map[corpus.SiteID][]int64, len(runs)) // when each sender first called a site
	begin, n := make([]int64, len(runs)), make([]float64, len(runs))
	for i, r := range runs {
		firsts[i], begin[i], n[i] = firstCalls(r), beginOf(r, kind), float64(r.Scale)
		if begin[i] == 0 {
			return nil
		}
	}
	var best *Start
	latest := map[int]*Start{} // of each type, what all had done
	bestScore, leastSlack := math.Inf(1), map[int]float64{}
	for _, st := range s.All {
		// Types that begin at the same time do not wait for each other.
		earlier := cmp.Or(cmp.Compare(beginOf(runs[0], st.Kind), begin[0]), cmp.Compare(st.Kind, kind)) < 0
		if st.Nature != count.Logical || !earlier {
			continue
		}
		candidates := shares
		if slack, all := slacks(st.ID, 1, firsts, begin); all && several(st.ID, firsts) {
			candidates = []float64{1}
			if least, seen := leastSlack[st.Kind]; !seen || total(slack) < least {
				leastSlack[st.Kind], latest[st.Kind] = total(slack), &Start{Site: st, Share: 1, Wait: ladder.Smooth(n, slack)}
			}
		}
		for _, share := range candidates {
			slack, ok := slacks(st.ID, share, firsts, begin)
			if score := spreadOf(slack); ok && score < bestScore {
				bestScore, best = score, &Start{Site: st, Share: share, Wait: ladder.Smooth(n, slack)}
			}
		}
	}
	if best == nil || best.Share < 1 || latest[best.Site.Kind] == nil {
		return best
	}
	return latest[best.Site.Kind]
}

func total(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum
}

// several reports whether more than one node calls a site in some run.
func several(site corpus.SiteID, firsts []map[corpus.SiteID][]int64) bool {
	return slices.ContainsFunc(firsts, func(times map[corpus.SiteID][]int64) bool { return len(times[site]) > 1 })
}

func firstCalls(r *corpus.Recording) map[corpus.SiteID][]int64 {
	out := map[corpus.SiteID][]int64{}
	for i := range r.Calls {
		if c := &r.Calls[i]; c.Nth == 0 && c.Site != corpus.NoSite {
			out[c.Site] = append(out[c.Site], c.Start)
		}
	}
	return out
}

func beginOf(r *corpus.Recording, kind int) int64 {
	for i := range r.Calls {
		if r.Calls[i].Sender.Kind == kind {
			return r.Calls[i].Start
		}
	}
	return 0
}

// slacks are the times from an event to a start, in milliseconds, in every run.
func slacks(site corpus.SiteID, share float64, firsts []map[corpus.SiteID][]int64, begin []int64) ([]float64, bool) {
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
	if len(v) == 0 {
		return math.Inf(1)
	}
	low, high := slices.Min(v), slices.Max(v)
	return high - low + 0.2*high
}
