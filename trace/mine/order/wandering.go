package order

import (
	"cmp"
	"slices"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/count"
	"gleaner/trace/mine/fold"
)

// maxWandering is how many sites may wander. Each takes two foldings of all logs, and a type
// of which more wander has no order worth the name.
const maxWandering = 8

// wander finds the sites whose calls stand at no place of their own: another thread of the
// sender makes them now and then by the clock, as Hadoop's client renews its leases. One such
// call in the middle of a loop makes two of it, with counts that no formula meets. Without these
// sites all steps are certain; what decides their calls is not known.
func (st *Structure) wander(s *count.Sites, runs []*corpus.Recording) bool {
	var out []*count.Site
	var steps []*Step
	without := func(sites []*count.Site) bool {
		some, ok := foldLogs(s, st.kind, runs, st.threads, count.Logical, sites...)
		if ok = ok && len(some) > 0 && (&Structure{Steps: some}).Certain(); ok {
			steps = some
		}
		return ok
	}
	for _, site := range st.restless(s, runs) {
		if out = append(out, site); without(out) {
			break
		}
	}
	if steps == nil {
		return false
	}
	for _, site := range slices.Clone(out) {
		others := slices.DeleteFunc(slices.Clone(out), func(other *count.Site) bool { return other == site })
		if len(others) > 0 && without(others) {
			out = others
		}
	}
	for _, site := range out {
		site.Nature = count.Varying
	}
	st.Steps = steps
	return true
}

// restless are the sites whose calls may wander: at most one in count.OneIn of a log's. Those
// come first that stand between the most different neighbours for their number.
func (st *Structure) restless(s *count.Sites, runs []*corpus.Recording) []*count.Site {
	type place struct {
		site          corpus.SiteID
		before, after fold.Symbol
	}
	places, calls := map[place]bool{}, map[corpus.SiteID]float64{}
	often := map[corpus.SiteID]bool{}
	logs, _ := logsOf(s, st.kind, runs, count.Logical)
	for _, log := range logs {
		log = st.threads.tidy(log)
		here := map[corpus.SiteID]int{}
		for i, sym := range log {
			p := place{corpus.SiteID(sym), -1, -1}
			if i > 0 {
				p.before = log[i-1]
			}
			if i+1 < len(log) {
				p.after = log[i+1]
			}
			places[p] = true
			calls[p.site]++
			if here[p.site]++; here[p.site]*count.OneIn > len(log) {
				often[p.site] = true
			}
		}
	}
	share := map[corpus.SiteID]float64{}
	for p := range places {
		share[p.site] += 1 / calls[p.site]
	}
	var out []*count.Site
	for id := range calls {
		if site := s.All[id]; site.Nature == count.Logical && !often[id] {
			out = append(out, site)
		}
	}
	slices.SortFunc(out, func(a, b *count.Site) int {
		return cmp.Or(cmp.Compare(share[b.ID], share[a.ID]), cmp.Compare(calls[a.ID], calls[b.ID]), cmp.Compare(a.ID, b.ID))
	})
	return out[:min(len(out), maxWandering)]
}
