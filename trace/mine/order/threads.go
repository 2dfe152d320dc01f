package order

import (
	"cmp"
	"slices"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/count"
	"gleaner/trace/mine/fold"
)

// threads are the sites of a type whose calls have no order, because several threads
// of a sender make them. Where such calls stand side by side they are sorted by
// their average place in the logs. Otherwise the logs of two nodes would differ by
// nothing but the order of threads.
type threads struct {
	group map[corpus.SiteID]int // sites of one group have no order
	place map[corpus.SiteID]float64
}

// A pair is two sites: a call of the first was under way when one of the second was
// made.
type pair struct{ first, second corpus.SiteID }

// maxOpen is how many calls of a sender are looked at that are under way, the latest
// first. It bounds the time where calls never end, as watches. Half or twice changes
// nothing in the recorded systems.
const maxOpen = 64

// findThreads finds the sites whose calls overlap in time in either order: neither
// waits for the other. Other sites of the same methods join them. Sites keep their
// order if calls of one take a value from the last call of the other.
func findThreads(s *count.Sites, kind int, runs []*corpus.Recording, chained func(a, b corpus.SiteID) bool) *threads {
	overlap := map[pair]bool{}
	var logs [][]fold.Symbol
	for _, r := range runs {
		for _, snd := range r.Senders {
			if snd.Kind == kind {
				underWay(s, r, snd, overlap)
				logs = append(logs, log(s, r, snd, count.Varying))
			}
		}
	}
	t := &threads{place: places(logs)}
	pairs := bothWays(overlap)
	for ordered := map[corpus.SiteID]bool{}; ; {
		t.gather(s, kind, pairs, ordered)
		if !t.findOrdered(chained, ordered) {
			return t
		}
	}
}

// underWay finds which calls of a sender were made while others were under way.
func underWay(s *count.Sites, r *corpus.Recording, snd *corpus.Sender, overlap map[pair]bool) {
	var open []*corpus.Call
	for _, i := range snd.Calls {
		c := &r.Calls[i]
		if c.Site == corpus.NoSite || s.All[c.Site].Nature == count.Realtime {
			continue
		}
		open = slices.DeleteFunc(open, func(o *corpus.Call) bool { return o.End <= c.Start })
		for _, o := range open {
			if o.Site != c.Site {
				overlap[pair{o.Site, c.Site}] = true
			}
		}
		open = append(open[max(0, len(open)-maxOpen+1):], c)
	}
}

// bothWays are the pairs of sites that overlap in either order.
func bothWays(overlap map[pair]bool) []pair {
	var out []pair
	for p := range overlap {
		if p.first < p.second && overlap[pair{p.second, p.first}] {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b pair) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.second, b.second)) })
	return out
}

// gather groups the sites that overlap in either order, and other sites of the same
// methods, without those that have an order.
func (t *threads) gather(s *count.Sites, kind int, pairs []pair, ordered map[corpus.SiteID]bool) {
	t.group = map[corpus.SiteID]int{}
	byOp := map[corpus.OpID]corpus.SiteID{}
	for _, p := range pairs {
		if !ordered[p.first] && !ordered[p.second] {
			t.join(p.first, p.second)
			byOp[s.All[p.first].Op], byOp[s.All[p.second].Op] = p.first, p.second
		}
	}
	for _, st := range s.All {
		if like, ok := byOp[st.Op]; ok && st.Kind == kind && !ordered[st.ID] {
			t.join(like, st.ID)
		}
	}
}

// join merges the groups of two sites.
func (t *threads) join(a, b corpus.SiteID) {
	for _, site := range []corpus.SiteID{a, b} {
		if _, ok := t.group[site]; !ok {
			t.group[site] = int(site)
		}
	}
	from, to := t.group[b], t.group[a]
	for site, g := range t.group {
		if g == from {
			t.group[site] = to
		}
	}
}

// findOrdered finds two sites of a group of which one takes a value from the last
// call of the other, and reports whether it found new ones.
func (t *threads) findOrdered(chained func(a, b corpus.SiteID) bool, ordered map[corpus.SiteID]bool) bool {
	before := len(ordered)
	for a, g := range t.group {
		for b, other := range t.group {
			if a != b && g == other && chained(a, b) {
				ordered[a], ordered[b] = true, true
			}
		}
	}
	return len(ordered) > before
}

// places is the average place of a site's calls in the logs, from 0 to 1.
func places(logs [][]fold.Symbol) map[corpus.SiteID]float64 {
	sum, n := map[corpus.SiteID]float64{}, map[corpus.SiteID]float64{}
	for _, log := range logs {
		for i, sym := range log {
			sum[corpus.SiteID(sym)] += float64(i) / float64(len(log))
			n[corpus.SiteID(sym)]++
		}
	}
	for site := range sum {
		sum[site] /= n[site]
	}
	return sum
}

// tidy sorts calls without an order where they stand side by side.
func (t *threads) tidy(log []fold.Symbol) []fold.Symbol {
	for i := 0; i < len(log); {
		g, ok := t.group[corpus.SiteID(log[i])]
		end := i + 1
		for ok && end < len(log) {
			if other, in := t.group[corpus.SiteID(log[end])]; !in || other != g {
				break
			}
			end++
		}
		slices.SortStableFunc(log[i:end], func(a, b fold.Symbol) int {
			x, y := corpus.SiteID(a), corpus.SiteID(b)
			return cmp.Or(cmp.Compare(t.place[x], t.place[y]), cmp.Compare(x, y))
		})
		i = end
	}
	return log
}
