package mine

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"gleaner/trace/mine/ladder"
	"gleaner/trace/program"
)

// A nature is why a site is called as often as it is.
type nature uint8

const (
	logical  nature = iota // the program says how often
	realtime               // the clock does
	until                  // a reply does: repeated until it is the one waited for
	varying                // nobody knows
)

func (n nature) String() string { return [...]string{"logical", "realtime", "until", "varying"}[n] }

// A count is how often something happens as the scale changes.
type count struct {
	points  []ladder.Point
	formula program.Formula
	exact   bool
	nearly  bool              // a plain formula meets all runs but one
	forms   []program.Formula // all that fit exactly
}

func countOf(points []ladder.Point) count {
	c := count{points: points, forms: ladder.Exact(points)}
	if len(c.forms) > 0 {
		c.formula, c.exact = c.forms[0], true
		return c
	}
	var n, v []float64
	for _, p := range points {
		n, v = append(n, float64(p.N)), append(v, float64(p.V))
	}
	c.formula = ladder.Smooth(n, v)
	return c
}

// at is the count expected at a scale.
func (c count) at(n int) int { return c.formula.At(n) }

// counts finds the nature of every site, and how often it is called.
func (s *sites) counts(nodes []count, runs []*Run) {
	byRun, byNode := make([]map[siteID]int, len(runs)), map[siteID]map[*sender]int{}
	for i, r := range runs {
		byRun[i] = map[siteID]int{}
		for k := range r.calls {
			c := &r.calls[k]
			byRun[i][c.site]++
			if byNode[c.site] == nil {
				byNode[c.site] = map[*sender]int{}
			}
			byNode[c.site][c.sender]++
		}
	}
	regular := s.beats(runs)
	for _, st := range s.all {
		st.count = countOf(pointsOf(runs, func(i int) int { return byRun[i][st.id] }))
		st.period = regular[st.id]
		switch {
		case s.findUntil(st, runs):
			st.nature = until
		case st.period == 0 && st.strayed(byNode[st.id], nodes[st.kind]):
			st.nature = varying
		case st.count.exact && (st.period == 0 || plain(st.count.formula)):
			st.nature = logical
		case st.period > 0:
			st.nature = realtime
			st.count.exact = false
		default:
			st.nature = varying
		}
	}
	s.findFollowers()
	for _, r := range runs {
		s.number(r)
	}
}

// plain: a call that comes at regular intervals follows the program and not
// the clock only if its count follows the scale in the plainest way.
func plain(f program.Formula) bool {
	names := f.Names()
	return len(names) == 0 || len(names) == 1 && !strings.Contains(f.String(), "(")
}

func pointsOf(runs []*Run, count func(i int) int) []ladder.Point {
	points := make([]ladder.Point, len(runs))
	for i, r := range runs {
		points[i] = ladder.Point{N: r.Scale, V: count(i)}
	}
	return points
}

// beats finds the sites that are called at regular intervals of real time, and
// the interval in nanoseconds.
func (s *sites) beats(runs []*Run) map[siteID]int64 {
	type key struct {
		s    *sender
		site siteID
	}
	gaps := map[siteID][]int64{}
	for _, r := range runs {
		last := map[key]int64{}
		for i := range r.calls {
			call := &r.calls[i]
			k := key{call.sender, call.site}
			if before, ok := last[k]; ok {
				gaps[call.site] = append(gaps[call.site], call.start-before)
			}
			last[k] = call.start
		}
	}
	out := map[siteID]int64{}
	for site, g := range gaps {
		if len(g) < 5 {
			continue
		}
		slices.Sort(g)
		middle := g[len(g)/2]
		near := 0
		for _, v := range g {
			if math.Abs(float64(v-middle)) <= 0.2*float64(middle) {
				near++
			}
		}
		if near*10 >= 6*len(g) && middle > 1e8 {
			out[site] = middle
		}
	}
	return out
}

// A condition is what a repeated call waits for: a leaf of the reply with a value.
type condition struct {
	path  pathID
	value symbol
}

// findUntil recognises a call that is repeated, with the same arguments, until
// its reply says so (the paper's complete): a leaf that has one value in the
// last reply of every group of equal calls and never that value before.
func (s *sites) findUntil(st *site, runs []*Run) bool {
	groups := s.groups(st, runs)
	repeated := slices.IndexFunc(groups, func(g []*call) bool { return len(g) > 1 })
	if repeated < 0 || !slices.ContainsFunc(groups, func(g []*call) bool { return len(g) != len(groups[0]) }) {
		return false // always as often is not a retry
	}
	final := groups[repeated][len(groups[repeated])-1]
	for pos, path := range s.c.shapes.Paths[final.resp.shape] {
		cond := condition{path, final.resp.values[pos]}
		if s.endsAll(cond, groups) {
			st.until = cond
			perRun := map[*Run]int{}
			for _, g := range groups {
				perRun[s.runOf(g[0], runs)]++
			}
			st.groups = countOf(pointsOf(runs, func(i int) int { return perRun[runs[i]] }))
			st.tries = float64(st.calls) / float64(len(groups))
			return true
		}
	}
	return false
}

func (s *sites) runOf(c *call, runs []*Run) *Run {
	for _, r := range runs {
		if r.byName[s.c.syms.Text[c.sender.name]] == c.sender {
			return r
		}
	}
	return nil
}

// groups are a site's calls with equal senders and arguments, in time.
func (s *sites) groups(st *site, runs []*Run) [][]*call {
	type key struct {
		s    *sender
		hash uint64
	}
	at := map[key]int{}
	var out [][]*call
	for _, r := range runs {
		for i := range r.calls {
			call := &r.calls[i]
			if call.site != st.id {
				continue
			}
			k := key{call.sender, call.req.hash()}
			g, ok := at[k]
			if !ok {
				g = len(out)
				at[k] = g
				out = append(out, nil)
			}
			out[g] = append(out[g], call)
		}
	}
	return out
}

func (m *message) hash() uint64 {
	h := uint64(14695981039346656037)
	h = (h ^ uint64(m.shape)) * 1099511628211
	for _, v := range m.values {
		h = (h ^ uint64(v)) * 1099511628211
	}
	return h
}

func (s *sites) endsAll(cond condition, groups [][]*call) bool {
	for _, g := range groups {
		for i, c := range g {
			if s.met(cond, c) != (i == len(g)-1) {
				return false
			}
		}
	}
	return true
}

func (s *sites) met(cond condition, c *call) bool {
	pos := s.c.shapes.Find(c.resp.shape, cond.path)
	return pos >= 0 && c.resp.values[pos] == cond.value
}

// A callType is what the counts of a check are about: a node type and what it calls.
type callType struct {
	kind int
	op   opID
}

// A total is the count of a call type, over all its sites and nodes.
type total struct {
	callType
	count  count
	nature nature
	sites  []*site
}

// totals sums sites up to call types. A call type is predicted from its sites
// where all of them are exact, from its own count where that is.
func (s *sites) totals(runs []*Run) []*total {
	by := map[callType]*total{}
	var out []*total
	for _, st := range s.all {
		ct := callType{st.kind, st.op}
		if by[ct] == nil {
			by[ct] = &total{callType: ct}
			out = append(out, by[ct])
		}
		by[ct].sites = append(by[ct].sites, st)
	}
	for _, t := range out {
		t.count = countOf(pointsOf(runs, func(i int) int {
			n := 0
			for _, st := range t.sites {
				n += st.count.points[i].V
			}
			return n
		}))
		t.nature = t.natureOf()
	}
	slices.SortFunc(out, func(a, b *total) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.op, b.op)) })
	return out
}

func (t *total) natureOf() nature {
	all := logical
	for _, st := range t.sites {
		all = max(all, st.nature)
	}
	if all == varying && t.count.exact {
		return logical
	}
	return all
}

// explained: the loops the calls are in give their number.
func (t *total) explained() bool {
	return !slices.ContainsFunc(t.sites, func(st *site) bool { return !st.explained })
}

// at is how often the call type is expected at a scale.
func (t *total) at(n int) int {
	allExact := !slices.ContainsFunc(t.sites, func(st *site) bool { return !st.count.exact })
	if t.count.exact && !allExact {
		return t.count.at(n)
	}
	sum := 0
	for _, st := range t.sites {
		sum += st.expect(n)
	}
	return sum
}

// expect is how often a site is called at a scale.
func (st *site) expect(n int) int {
	if st.follows.site != nil {
		return st.follows.times*st.follows.site.expect(n) + st.follows.plus
	}
	if st.nature == until && st.groups.exact {
		return int(math.Round(float64(st.groups.at(n)) * st.tries))
	}
	if st.nature == varying && st.perReach > 0 && !st.count.nearly {
		return int(math.Round(st.reached(n) * st.perReach))
	}
	return st.count.at(n)
}
