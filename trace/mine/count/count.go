// Package count finds why a site is called as often as it is (the program, the
// clock, a reply or chance), and how often it will be at another scale
// (PatternMiner §III-B2).
package count

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/ladder"
	"gleaner/trace/mine/site"
	"gleaner/trace/program"
)

// A Nature is why a site is called as often as it is.
type Nature uint8

const (
	Logical  Nature = iota // the program says how often
	Realtime               // the clock does
	Until                  // a reply does: repeated until it is the one waited for
	Varying                // nobody knows
)

// String is the name a report has for it.
func (n Nature) String() string { return [...]string{"logical", "realtime", "until", "varying"}[n] }

// A Count is how often something happens as the scale changes.
type Count struct {
	Points  []ladder.Point
	Formula program.Formula
	Exact   bool
	nearly  bool              // a plain formula meets all runs but one
	Forms   []program.Formula // all that fit exactly
}

// Of finds the formulas that meet all points, or one that is near them.
func Of(points []ladder.Point) Count {
	c := Count{Points: points, Forms: ladder.Exact(points)}
	if len(c.Forms) > 0 {
		c.Formula, c.Exact = c.Forms[0], true
		return c
	}
	var n, v []float64
	for _, p := range points {
		n, v = append(n, float64(p.N)), append(v, float64(p.V))
	}
	c.Formula = ladder.Smooth(n, v)
	return c
}

// At is the count expected at a scale.
func (c Count) At(n int) int { return c.Formula.At(n) }

// A Site is a call site and why it is called as often as it is.
type Site struct {
	*site.Site
	Count     Count
	Explained bool // the count is that of the loops the site is in
	Nature    Nature
	Period    int64   // nanoseconds between its calls, where they keep time
	follows   follow  // the site whose count decides this one's
	Groups    Count   // how often a repeated call is waited for
	Tries     float64 // and how many calls that takes
	Reach     []reach // the calls it is made for
	perReach  float64 // and how many calls one of them takes
}

// Sites are all call sites, by their number.
type Sites struct {
	c     *corpus.Corpus
	Sites *site.Sites
	All   []*Site
}

// Learn finds the nature of every site, and how often it is called.
func Learn(in *site.Sites, nodes []Count, runs []*corpus.Recording) *Sites {
	s := &Sites{c: in.Corpus, Sites: in}
	for _, st := range in.All {
		s.All = append(s.All, &Site{Site: st})
	}
	byRun, byNode := make([]map[corpus.SiteID]int, len(runs)), map[corpus.SiteID]map[*corpus.Sender]int{}
	for i, r := range runs {
		byRun[i] = map[corpus.SiteID]int{}
		for k := range r.Calls {
			c := &r.Calls[k]
			byRun[i][c.Site]++
			if byNode[c.Site] == nil {
				byNode[c.Site] = map[*corpus.Sender]int{}
			}
			byNode[c.Site][c.Sender]++
		}
	}
	regular := s.beats(runs)
	for _, st := range s.All {
		st.Count = Of(site.Points(runs, func(i int) int { return byRun[i][st.ID] }))
		st.Period = regular[st.ID]
		switch {
		case s.findUntil(st, runs):
			st.Nature = Until
		case st.Period == 0 && st.strayed(byNode[st.ID], nodes[st.Kind]):
			st.Nature = Varying
		case st.Count.Exact && (st.Period == 0 || Plain(st.Count.Formula)):
			st.Nature = Logical
		case st.Period > 0:
			st.Nature = Realtime
			st.Count.Exact = false
		default:
			st.Nature = Varying
		}
	}
	s.findFollowers()
	for _, r := range runs {
		in.Number(r)
	}
	s.fit(nodes, runs)
	return s
}

// Plain: a call that comes at regular intervals follows the program and not
// the clock only if its count follows the scale in the plainest way.
func Plain(f program.Formula) bool {
	names := f.Names()
	return len(names) == 0 || len(names) == 1 && !strings.Contains(f.String(), "(")
}

// beats finds the sites that are called at regular intervals of real time, and
// the interval in nanoseconds.
func (s *Sites) beats(runs []*corpus.Recording) map[corpus.SiteID]int64 {
	type key struct {
		s    *corpus.Sender
		site corpus.SiteID
	}
	gaps := map[corpus.SiteID][]int64{}
	for _, r := range runs {
		last := map[key]int64{}
		for i := range r.Calls {
			call := &r.Calls[i]
			k := key{call.Sender, call.Site}
			if before, ok := last[k]; ok {
				gaps[call.Site] = append(gaps[call.Site], call.Start-before)
			}
			last[k] = call.Start
		}
	}
	out := map[corpus.SiteID]int64{}
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

// findUntil recognises a call that is repeated, with the same arguments, until
// its reply says so (the paper's complete): a leaf that has one value in the
// last reply of every group of equal calls and never that value before.
func (s *Sites) findUntil(st *Site, runs []*corpus.Recording) bool {
	groups := s.groups(st, runs)
	repeated := slices.IndexFunc(groups, func(g []*corpus.Call) bool { return len(g) > 1 })
	if repeated < 0 || !slices.ContainsFunc(groups, func(g []*corpus.Call) bool { return len(g) != len(groups[0]) }) {
		return false // always as often is not a retry
	}
	final := groups[repeated][len(groups[repeated])-1]
	for pos, path := range s.c.Shapes.Paths[final.Response.Shape] {
		cond := site.Condition{Path: path, Value: final.Response.Values[pos]}
		if s.endsAll(cond, groups) {
			st.Until = &cond
			perRun := map[*corpus.Recording]int{}
			for _, g := range groups {
				perRun[s.runOf(g[0], runs)]++
			}
			st.Groups = Of(site.Points(runs, func(i int) int { return perRun[runs[i]] }))
			st.Tries = float64(st.Calls) / float64(len(groups))
			return true
		}
	}
	return false
}

func (s *Sites) runOf(c *corpus.Call, runs []*corpus.Recording) *corpus.Recording {
	for _, r := range runs {
		if r.ByName[s.c.Syms.Text[c.Sender.Name]] == c.Sender {
			return r
		}
	}
	return nil
}

// groups are a site's calls with equal senders and arguments, in time.
func (s *Sites) groups(st *Site, runs []*corpus.Recording) [][]*corpus.Call {
	type key struct {
		s    *corpus.Sender
		hash uint64
	}
	at := map[key]int{}
	var out [][]*corpus.Call
	for _, r := range runs {
		for i := range r.Calls {
			call := &r.Calls[i]
			if call.Site != st.ID {
				continue
			}
			k := key{call.Sender, call.Request.Hash()}
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

func (s *Sites) endsAll(cond site.Condition, groups [][]*corpus.Call) bool {
	for _, g := range groups {
		for i, c := range g {
			if s.Sites.Met(cond, c) != (i == len(g)-1) {
				return false
			}
		}
	}
	return true
}

// A CallType is what the counts of a check are about: a node type and what it calls.
type CallType struct {
	Kind int
	Op   corpus.OpID
}

// A Total is the count of a call type, over all its sites and nodes.
type Total struct {
	CallType
	Count  Count
	Nature Nature
	Sites  []*Site
}

// Totals sums sites up to call types. A call type is predicted from its sites
// where all of them are exact, from its own count where that is.
func (s *Sites) Totals(runs []*corpus.Recording) []*Total {
	by := map[CallType]*Total{}
	var out []*Total
	for _, st := range s.All {
		ct := CallType{st.Kind, st.Op}
		if by[ct] == nil {
			by[ct] = &Total{CallType: ct}
			out = append(out, by[ct])
		}
		by[ct].Sites = append(by[ct].Sites, st)
	}
	for _, t := range out {
		t.Count = Of(site.Points(runs, func(i int) int {
			n := 0
			for _, st := range t.Sites {
				n += st.Count.Points[i].V
			}
			return n
		}))
		t.Nature = t.natureOf()
	}
	slices.SortFunc(out, func(a, b *Total) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Op, b.Op)) })
	return out
}

func (t *Total) natureOf() Nature {
	all := Logical
	for _, st := range t.Sites {
		all = max(all, st.Nature)
	}
	if all == Varying && t.Count.Exact {
		return Logical
	}
	return all
}

// Explained: the loops the calls are in give their number.
func (t *Total) Explained() bool {
	return !slices.ContainsFunc(t.Sites, func(st *Site) bool { return !st.Explained })
}

// At is how often the call type is expected at a scale.
func (t *Total) At(n int) int {
	allExact := !slices.ContainsFunc(t.Sites, func(st *Site) bool { return !st.Count.Exact })
	if t.Count.Exact && !allExact {
		return t.Count.At(n)
	}
	sum := 0.0
	for _, st := range t.Sites {
		sum += st.expect(n)
	}
	return program.Whole(sum)
}

// expect is how often a site is called at a scale. It is no int: products of what
// formulas give far from the scales seen may be beyond one.
func (st *Site) expect(n int) float64 {
	if st.follows.site != nil {
		return float64(st.follows.times)*st.follows.site.expect(n) + float64(st.follows.plus)
	}
	if st.Nature == Until && st.Groups.Exact {
		return math.Round(float64(st.Groups.At(n)) * st.Tries)
	}
	if st.Nature == Varying && st.perReach > 0 && !st.Count.nearly {
		return math.Round(st.reached(n) * st.perReach)
	}
	return float64(st.Count.At(n))
}

// strayed recognises a call that every node makes as often, but for one node in
// twenty at most: those few are noise (PatternMiner §III-B2, nondeterministic
// calls by comparing logs of one type), and the count is that of the others.
func (st *Site) strayed(made map[*corpus.Sender]int, nodes Count) bool {
	all := 0
	for _, p := range nodes.Points {
		all += p.V
	}
	by := map[int]int{0: all - len(made)} // how many nodes made so many calls
	for _, n := range made {
		by[n]++
	}
	usual := 0
	for n, k := range by {
		if k > by[usual] || k == by[usual] && n < usual {
			usual = n
		}
	}
	if by[usual] == all || (all-by[usual])*20 > all {
		return false
	}
	st.Count.Formula, st.Count.Exact, st.Count.nearly = product(strconv.Itoa(usual), nodes.Formula), false, true
	return true
}

// Paced: as often at every scale, at regular intervals of a length that no
// node's work takes by chance.
func (st *Site) Paced() bool {
	return st.Nature == Logical && st.Period > 5e8 && st.Count.Formula.Constant()
}

// Nodes is how many nodes a type has as the scale changes.
func Nodes(kind int, runs []*corpus.Recording) Count {
	return Of(site.Points(runs, func(i int) int {
		n := 0
		for _, s := range runs[i].Senders {
			if s.Kind == kind {
				n++
			}
		}
		return n
	}))
}

// fit predicts the counts that follow the clock or nothing.
func (s *Sites) fit(nodes []Count, runs []*corpus.Recording) {
	for _, st := range s.All {
		switch st.Nature {
		case Realtime:
			keepTime(st, nodes[st.Kind], runs)
		case Varying:
			if st.Count.nearly {
				continue
			}
			st.Count = perNode(st.Count, nodes[st.Kind])
		}
	}
}
