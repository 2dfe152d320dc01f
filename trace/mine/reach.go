package mine

import (
	"cmp"
	"slices"

	"gleaner/trace/mine/ladder"
)

// A reach is how many nodes make a call for each call of another site: a block
// that is added is reported by as many nodes as hold it.
type reach struct {
	from  *site
	nodes count
}

// findReach follows the values that nodes take from others in no order: how
// many senders use each value, by the site it came from. Where that is exact,
// it foretells a call whose number follows nothing by itself.
func (s *sites) findReach(st *site, runs []*Run) {
	for _, a := range st.args {
		for _, sl := range a.slots() {
			for _, r := range sl.best() {
				if src, ok := r.(source); ok && src.sel == each && src.part == response && src.index == fixed && src.word < 0 && sl.word < 0 && len(st.reach) == 0 {
					s.follow(st, a, src, runs)
				}
			}
		}
	}
}

func (s *sites) follow(st *site, a *arg, src source, runs []*Run) {
	points := map[siteID][]ladder.Point{}
	uneven := map[siteID]bool{}
	for _, r := range runs {
		made := s.produced(src, r)
		used := s.users(st, a, r)
		perSite := map[siteID]int{}
		for v, by := range made {
			n := len(used[v])
			if before, ok := perSite[by]; ok && before != n {
				uneven[by] = true
			}
			perSite[by] = n
		}
		for by, n := range perSite {
			points[by] = append(points[by], ladder.Point{N: r.Scale, V: n})
		}
	}
	for by, p := range points {
		if c := countOf(p); c.exact && !uneven[by] && c.at(1000) > 0 && s.all[by].count.exact && s.all[by].kind != st.kind {
			st.reach = append(st.reach, reach{s.all[by], c})
		}
	}
	slices.SortFunc(st.reach, func(a, b reach) int { return cmp.Compare(a.from.id, b.from.id) })
}

// produced are the values a source gives in a run, by the site that gave them.
func (s *sites) produced(src source, r *Run) map[symbol]siteID {
	out := map[symbol]siteID{}
	for i := range r.calls {
		c := &r.calls[i]
		if c.site == noSite || !src.from.holds(c) {
			continue
		}
		m := c.message(src.part)
		if pos := s.c.shapes.Find(m.shape, src.path); pos >= 0 {
			out[m.values[pos]] = c.site
		}
	}
	return out
}

func (sc scope) holds(c *call) bool {
	switch sc.kind {
	case siteScope:
		return c.site == siteID(sc.id)
	case opScope:
		return c.op == opID(sc.id)
	}
	return true
}

// users are the senders that gave each value of an argument.
func (s *sites) users(st *site, a *arg, r *Run) map[symbol]map[*sender]bool {
	out := map[symbol]map[*sender]bool{}
	for i := range r.calls {
		c := &r.calls[i]
		if c.site != st.id {
			continue
		}
		for pos, p := range st.plan(s.c, c.req.shape) {
			if int(p.arg) == a.index {
				v := c.req.values[pos]
				if out[v] == nil {
					out[v] = map[*sender]bool{}
				}
				out[v][c.sender] = true
			}
		}
	}
	return out
}

// reached is how often a site is called for what reaches it, at a scale.
func (st *site) reached(n int) float64 {
	sum := 0.0
	for _, r := range st.reach {
		sum += float64(r.from.count.at(n) * r.nodes.at(n))
	}
	return sum
}

// learnReach fits how many calls one reach takes: messages are merged, or split.
func (st *site) learnReach() {
	calls, sum := 0.0, 0.0
	for _, p := range st.count.points {
		calls += float64(p.V)
		sum += st.reached(p.N)
	}
	if sum > 0 {
		st.perReach = calls / sum
	}
}
