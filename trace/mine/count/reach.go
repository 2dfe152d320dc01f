package count

import (
	"cmp"
	"slices"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/ladder"
)

// A reach is how many nodes make a call for each call of another site: a block that
// is added is reported by every node that has it.
type reach struct {
	From  *Site
	Nodes Count
}

// FindReach finds how many nodes call a site for each call of another, if that number
// is exact: then a count without a formula of its own can be predicted. users has
// how many senders use each value, by run and by the site that gave it. A reach that
// falls to nothing at n = 1000 was fitted to too few scales.
func (s *Sites) FindReach(st *Site, users []map[corpus.SiteID][]int, runs []*corpus.Recording) {
	points := map[corpus.SiteID][]ladder.Point{}
	uneven := map[corpus.SiteID]bool{}
	for i, r := range runs {
		for by, n := range users[i] {
			uneven[by] = uneven[by] || slices.Min(n) != slices.Max(n)
			points[by] = append(points[by], ladder.Point{N: r.Scale, V: n[0]})
		}
	}
	for by, p := range points {
		if c := Of(p); c.Exact && !uneven[by] && c.At(1000) > 0 && s.All[by].Count.Exact && s.All[by].Kind != st.Kind && !s.All[by].madeFor(st) {
			st.Reach = append(st.Reach, reach{s.All[by], c})
		}
	}
	slices.SortFunc(st.Reach, func(a, b reach) int { return cmp.Compare(a.From.ID, b.From.ID) })
}

// madeFor reports whether a site is called for calls of another one, directly or not.
// Reaches are found one site after another and never form a cycle.
func (st *Site) madeFor(other *Site) bool {
	return slices.ContainsFunc(st.Reach, func(r reach) bool { return r.From == other || r.From.madeFor(other) })
}

// reached is how many nodes all calls that a site is made for reach, at a scale.
func (st *Site) reached(n int) float64 {
	sum := 0.0
	for _, r := range st.Reach {
		sum += float64(r.From.Count.At(n)) * float64(r.Nodes.At(n))
	}
	return sum
}

// LearnReach fits the calls for each node reached: messages may be merged or split.
func (st *Site) LearnReach() {
	calls, sum := 0.0, 0.0
	for _, p := range st.Count.Points {
		calls += float64(p.V)
		sum += st.reached(p.N)
	}
	if sum > 0 {
		st.perReach = calls / sum
	}
}
