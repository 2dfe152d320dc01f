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
	Leaves []bool   // by type: its nodes end their beats before their last call
}

// A Gap is the interval before a call of a site, or before another try of it.
type Gap struct {
	Site  corpus.SiteID
	Again bool
}

// A Start is what a type waits for before it starts: a share of another type's nodes
// has made a call, and some time has passed.
type Start struct {
	Site  *count.Site
	Share float64
	Wait  program.Formula
}

// Learn finds intervals, limits and starts.
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

// confirm keeps the limits that more than one scale shows, and limits of the same
// type that are equal to one of those (within sameLimit): a limit belongs to a
// sender, not to a call.
func confirm(s *count.Sites, t *Timing, largest int) {
	sure := map[int][]float64{}
	for g, l := range t.Limits {
		if kind := s.All[g.Site].Kind; l.From < largest {
			sure[kind] = append(sure[kind], l.Millis)
		}
	}
	for g, l := range t.Limits {
		if slices.ContainsFunc(sure[s.All[g.Site].Kind], func(ms float64) bool { return math.Abs(ms-l.Millis) <= sameLimit*ms }) {
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

// What makes a rate limit. They were chosen on the recorded systems: Hadoop shows no
// rate limit, and the clients of Kubernetes show one in six calls. Stricter values lose
// some of the six and up to 1% of the intervals; most laxer ones find limits in Hadoop.
const (
	leastIntervals = 3    // that are equal; 2, with 5 ms below, finds three in Hadoop; 6, with 20 ms, loses three
	shortestLimit  = 10   // milliseconds; below that, calls are as fast as the target answers
	equalPart      = 4    // one interval in so many must be equal at the largest scale; 2 loses five, 8 loses one
	equalWidth     = 0.03 // how far these may differ, relative; half loses three, twice finds one in Hadoop
	atLimit        = 0.05 // how far an interval may be from the limit, relative; half loses two, twice finds two in Hadoop
	fewAtLimit     = 0.1  // share of intervals at the limit below which a scale does not show it; half finds two in Hadoop, twice changes nothing
	sameLimit      = 0.02 // how far two limits of one sender may differ, relative; half or twice changes nothing
)

// findLimit finds a rate limit: at the largest scale a part of the intervals is
// equal, and at smaller scales fewer of them are. Above the largest scale the limit
// decides the interval.
func findLimit(scales map[int][]float64) (Limit, bool) {
	order := slices.Sorted(maps.Keys(scales))
	if len(order) < 3 {
		return Limit{}, false
	}
	gaps := scales[order[len(order)-1]]
	part := (len(gaps) + equalPart - 1) / equalPart
	if part < leastIntervals {
		return Limit{}, false
	}
	best := Limit{}
	width := math.Inf(1)
	for i := 0; i+part <= len(gaps); i++ {
		if w := (gaps[i+part-1] - gaps[i]) / gaps[i+part-1]; w < width {
			best.Millis, width = gaps[i+part/2], w
		}
	}
	if width > equalWidth || best.Millis < shortestLimit {
		return Limit{}, false
	}
	shares := make([]float64, len(order))
	for i, n := range order {
		for _, g := range scales[n] {
			if math.Abs(g-best.Millis) <= atLimit*best.Millis {
				shares[i] += 1 / float64(len(scales[n]))
			}
		}
		if best.From == 0 && shares[i] > fewAtLimit {
			best.From = n
		}
	}
	last := len(shares) - 1
	return best, shares[0] < fewAtLimit && shares[last] >= 1.0/equalPart && shares[last] > shares[last/2]
}

// EachGap visits the intervals of a run in milliseconds: between calls of a site that
// the clock decides, and between all other calls of a sender.
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

// leaves reports whether the last call of a type's nodes is no beat, as when a node
// signs off: of all nodes that beat, 19 in 20. A run that is cut off leaves some
// nodes with a beat as their last call. 9 in 10 or 39 in 40 change nothing in the
// recorded systems.
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

// shares are the shares of a type's nodes that a start may wait for; 0 is the first
// node. They are those that programs have: none, a twentieth (Hadoop's slow start
// of reducers), quarters, all. A share between two of them is not found.
var shares = []float64{0, 0.05, 0.25, 0.5, 0.75, 1}

// findStart finds what the first call of a type waits for: a call of another type
// that comes before it in every run, with the steadiest time between the two. If it
// always came after all nodes of the other type had made that call, it waits for all
// of them, and for the last call that all had made: the recordings cannot show that
// less would be enough.
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
	latest := map[int]*Start{} // by type: the last call that all had made
	bestScore, leastSlack := math.Inf(1), map[int]float64{}
	for _, st := range s.All {
		// Of types that begin at the same time, the first in order waits for no other.
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

// slacks are the times from a call to a start, in milliseconds, in every run.
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

// spreadOf is small for times that are similar and short. How similar they are counts
// five times as much as how short: the cause of a start comes right before it, but
// calls before the cause may be as regular. Half or twice of the 0.2 changes what some
// types wait for, and no figure of the check, which does not compare starts.
func spreadOf(v []float64) float64 {
	if len(v) == 0 {
		return math.Inf(1)
	}
	low, high := slices.Min(v), slices.Max(v)
	return high - low + 0.2*high
}
