// Package join finds what calls wait for though no value tells: calls that were over
// before them in every run (PatternMiner §III-C, the controller's join).
package join

import (
	"cmp"
	"math"
	"slices"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/count"
	"gleaner/trace/mine/order"
	"gleaner/trace/mine/pace"
)

// A Wait is what a call waits for: an answer to another call, of the first node that
// makes it or of all nodes.
type Wait struct {
	After *count.Site
	All   bool
}

// luck is how many waits may be found where there is only chance, in all pairs of calls
// together. Ten times as many adds no wait to what is learned of Hadoop; a tenth loses
// two.
const luck = 0.01

// Find finds the waits of each site. A wait must hold in every run. It must not be chance:
// of two calls that know nothing of each other, the second comes within a share g of a
// run's time after the first in less than that share of runs, and in all of m runs in g^m.
// Times the number of pairs that were looked at, this is how many such pairs chance makes.
// So a wait takes several runs, with little time between the two calls in each.
//
// Calls that both follow from a third come in one order too. So if the time since the
// node's own step before is about as steady as the time since the call of others, the node
// waits for nothing but its own.
//
// Of all that a call waits for, only the last is kept: what that waited for itself, and
// what comes before it in the steps of its own node, need no saying.
func Find(s *count.Sites, shapes []*order.Structure, starts []*pace.Start, runs []*corpus.Recording) map[corpus.SiteID][]Wait {
	f := newFinder(s, shapes, starts, runs)
	waiters := slices.Clone(s.All)
	slices.SortStableFunc(waiters, func(a, b *count.Site) int {
		return cmp.Compare(f.begun[0][a.ID]-f.start[0], f.begun[0][b.ID]-f.start[0])
	})
	for _, st := range waiters {
		if f.waits(st) {
			f.found[st.ID] = f.last(st, f.earlier(st))
		}
	}
	return f.found
}

// A finder knows when every site was called.
type finder struct {
	sites   *count.Sites
	starts  []*pace.Start
	before  map[corpus.SiteID]*count.Site // in the steps of its type
	inStep  map[corpus.SiteID]bool
	runs    []*corpus.Recording
	start   []int64      // of each run
	length  []float64    // of each run
	begun   [][]int64    // by run and site: when it was first called; 0 if never
	own     [][]int64    // by run and site: when the call before that of the same node was over; 0 if none
	over    [][]span     // by run and site: when the first and the last node had their answer
	several map[int]bool // types of which a run has more than one node
	events  []Wait       // what can be waited for
	found   map[corpus.SiteID][]Wait
}

type span struct{ first, last int64 }

func newFinder(s *count.Sites, shapes []*order.Structure, starts []*pace.Start, runs []*corpus.Recording) *finder {
	f := &finder{sites: s, starts: starts, runs: runs, before: map[corpus.SiteID]*count.Site{}, inStep: map[corpus.SiteID]bool{}, several: map[int]bool{}, found: map[corpus.SiteID][]Wait{}}
	for _, shape := range shapes {
		f.follow(shape)
	}
	all := make([]bool, len(s.All)) // every node calls it, and there are several
	for i := range all {
		all[i] = true
	}
	for i, r := range runs {
		f.start, f.length = append(f.start, r.Calls[0].Start), append(f.length, float64(r.Calls[len(r.Calls)-1].Start-r.Calls[0].Start))
		f.begun, f.own, f.over = append(f.begun, make([]int64, len(s.All))), append(f.own, make([]int64, len(s.All))), append(f.over, make([]span, len(s.All)))
		callers, nodes := f.watch(i), map[int]int{}
		for _, snd := range r.Senders {
			nodes[snd.Kind]++
		}
		for _, st := range s.All {
			all[st.ID] = all[st.ID] && callers[st.ID] == nodes[st.Kind]
			f.several[st.Kind] = f.several[st.Kind] || nodes[st.Kind] > 1
		}
	}
	for _, st := range s.All {
		if f.anchors(st) {
			f.events = append(f.events, Wait{st, false})
			if all[st.ID] && f.several[st.Kind] {
				f.events = append(f.events, Wait{st, true})
			}
		}
	}
	return f
}

// follow notes which call comes before which in the steps of a type.
func (f *finder) follow(shape *order.Structure) {
	steps, _ := shape.Lanes(f.sites)
	var last *count.Site
	order.EachCall(steps, func(st *count.Site) {
		if f.inStep[st.ID] {
			return
		}
		f.inStep[st.ID] = true
		if last != nil {
			f.before[st.ID] = last
		}
		last = st
	})
}

// watch notes when the sites are called in a run, and counts the nodes that call each. A
// call in steps is over for a node with its first answer, all tries counted as one, and
// one without an order with its last, as in a replay.
func (f *finder) watch(run int) (callers map[corpus.SiteID]int) {
	r := f.runs[run]
	callers = map[corpus.SiteID]int{}
	for _, snd := range r.Senders {
		over, before := map[corpus.SiteID]int64{}, int64(0)
		for _, i := range snd.Calls {
			c := &r.Calls[i]
			if c.Site == corpus.NoSite {
				continue
			}
			if at := &f.begun[run][c.Site]; *at == 0 || c.Start < *at {
				*at, f.own[run][c.Site] = c.Start, before
			}
			if f.sites.All[c.Site].Nature != count.Realtime {
				before = max(c.Start, c.End)
			}
			if _, made := over[c.Site]; !made || c.Nth == 0 || !f.inStep[c.Site] {
				over[c.Site] = max(over[c.Site], c.Start, c.End)
			}
		}
		for site, at := range over {
			callers[site]++
			if s := &f.over[run][site]; s.last == 0 {
				*s = span{at, at}
			} else {
				*s = span{min(s.first, at), max(s.last, at)}
			}
		}
	}
	return callers
}

// waits reports whether a call may wait: one that is made for calls of others comes right
// after those.
func (f *finder) waits(st *count.Site) bool { return len(st.Reach) == 0 }

// anchors reports whether a call may be waited for: the program decides how often it is
// made, and not the clock or chance.
func (f *finder) anchors(st *count.Site) bool {
	return (st.Nature == count.Logical || st.Nature == count.Until) && len(st.Reach) == 0
}

// gap is the time from the end of what is waited for to the first call of a site, in a
// run; not ok if it was not over.
func (f *finder) gap(run int, w Wait, st *count.Site) (ns float64, ok bool) {
	at, over := f.begun[run][st.ID], f.over[run][w.After.ID]
	end := over.first
	if w.All {
		end = over.last
	}
	return float64(at - end), at != 0 && end != 0 && end < at
}

// earlier are the events that were over before a site was first called, in every run, and
// not by chance, the latest first. The calls of one node are made by one program, so that
// their order is none.
func (f *finder) earlier(st *count.Site) []Wait {
	pairs := float64(len(f.events) * len(f.sites.All))
	var out []Wait
	for _, w := range f.events {
		own := w.After.Kind == st.Kind && !f.several[st.Kind]
		if w.After != st && f.always(w, st) && (own || pairs*math.Pow(f.longest(w, st), float64(len(f.runs))) < luck) {
			out = append(out, w)
		}
	}
	slices.SortStableFunc(out, func(a, b Wait) int { return cmp.Compare(f.longest(a, st), f.longest(b, st)) })
	return out
}

// most is how many events a call waits for, the latest first. Many threads that begin at
// once would be waited for one by one, as the watches of Kubernetes' API server by a call
// that follows 37 of them.
const most = 4

// last are the events that a site has to wait for: not those that others of them have
// waited for, nor those that its own node has waited for before, nor those that wait for
// it themselves.
func (f *finder) last(st *count.Site, events []Wait) []Wait {
	var out []Wait
	implied := map[Wait]bool{}
	f.made(st, false, implied)
	for _, w := range events {
		if len(out) < most && !implied[w] && f.needed(w, st) && !f.leads(w.After, st, map[*count.Site]bool{}) {
			out = append(out, w)
			f.imply(w, implied)
		}
	}
	return out
}

// imply adds an event and all that it has waited for.
func (f *finder) imply(w Wait, to map[Wait]bool) {
	if to[w] {
		return
	}
	to[w], to[Wait{w.After, false}] = true, true
	f.made(w.After, w.All, to)
}

// made adds what was over when a site was called: what it waits for, the step before of
// the same nodes, and what their start waits for. A start waits for the first call of a
// site, which is not over for one without an order.
func (f *finder) made(st *count.Site, all bool, to map[Wait]bool) {
	for _, w := range f.found[st.ID] {
		f.imply(w, to)
	}
	if p := f.before[st.ID]; p != nil {
		f.imply(Wait{p, all}, to)
	}
	if start := f.starts[st.Kind]; start != nil && f.inStep[start.Site.ID] {
		f.imply(Wait{start.Site, start.Share == 1}, to)
	} else if start != nil {
		f.made(start.Site, start.Share == 1, to)
	}
}

// needed reports whether nothing else explains when a call is made: not the start of its
// node, with which its beats begin, nor the step before. The calls of the only node of a
// type that has no steps have an order by their waits alone.
func (f *finder) needed(w Wait, st *count.Site) bool {
	switch own := w.After.Kind == st.Kind; {
	case own && !w.All:
		return true
	case st.Nature == count.Realtime:
		return false
	case f.inStep[st.ID] || !f.several[st.Kind]:
		return f.steadier(w, st)
	}
	return true
}

// steady is by how much the time since an event must differ less from run to run than the
// time since the node's own call before. 1 adds one wait to what is learned of Hadoop, and
// 4 changes nothing.
const steady = 2

// steadier reports whether the time from an event to a call differs much less from run to
// run than the time from the node's own call before.
func (f *finder) steadier(w Wait, st *count.Site) bool {
	var since, own []float64
	for run := range f.runs {
		if f.own[run][st.ID] == 0 {
			return false // the first call of a node: the start of its type says when
		}
		ns, _ := f.gap(run, w, st)
		since, own = append(since, ns), append(own, float64(f.begun[run][st.ID]-f.own[run][st.ID]))
	}
	return steady*(slices.Max(since)-slices.Min(since)) < slices.Max(own)-slices.Min(own)
}

// always reports whether an event was over before a site was first called, in every run.
func (f *finder) always(w Wait, st *count.Site) bool {
	for run := range f.runs {
		if _, ok := f.gap(run, w, st); !ok {
			return false
		}
	}
	return true
}

// longest is the longest time from an event to the first call of a site in all runs, as a
// share of the run.
func (f *finder) longest(w Wait, st *count.Site) (share float64) {
	for run := range f.runs {
		ns, _ := f.gap(run, w, st)
		share = max(share, ns/max(1, f.length[run]))
	}
	return share
}

// leads reports whether a site waits for another, directly or not.
func (f *finder) leads(from, to *count.Site, seen map[*count.Site]bool) bool {
	if from == to || seen[from] {
		return from == to
	}
	seen[from] = true
	for _, w := range f.found[from.ID] {
		if f.leads(w.After, to, seen) {
			return true
		}
	}
	if p := f.before[from.ID]; p != nil && f.leads(p, to, seen) {
		return true
	}
	start := f.starts[from.Kind]
	return start != nil && f.leads(start.Site, to, seen)
}

// Share is the share of the nodes whose answer is waited for; 0 is the first.
func (w Wait) Share() float64 {
	if w.All {
		return 1
	}
	return 0
}
