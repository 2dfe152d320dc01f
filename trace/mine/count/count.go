// Package count finds what decides how often a site is called (the program, the
// clock, a reply, or nothing that is known), and how often it is called at another
// scale (PatternMiner §III-B2).
package count

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/ladder"
	"gleaner/trace/mine/site"
	"gleaner/trace/program"
)

// A Nature is what decides how often a site is called.
type Nature uint8

const (
	Logical  Nature = iota // the program: a formula of the scale
	Realtime               // the clock: calls at regular intervals
	Until                  // a reply: repeated until it meets a condition
	Varying                // nothing that is known
)

// String is its name in a report.
func (n Nature) String() string { return [...]string{"logical", "realtime", "until", "varying"}[n] }

// A Count is how often something happens as the scale changes.
type Count struct {
	Points  []ladder.Point
	Formula program.Formula
	Exact   bool
	nearly  bool              // the formula meets nearly all runs or nodes
	Forms   []program.Formula // all that fit exactly
}

// Of finds the formulas that meet all points, or else one close to them.
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

// A Site is a call site with what decides the number of its calls.
type Site struct {
	*site.Site
	Count     Count
	Explained bool // the count is that of the loops the site is in
	Nature    Nature
	Period    int64   // nanoseconds between its calls, if they are regular; otherwise 0
	follows   follow  // the site whose count decides this one's
	Groups    Count   // of Until: how often it is called, all tries counted as one
	Tries     float64 // of Until: tries for each
	Alike     *Site   // a site of the nature Until whose condition this one has too
	Reach     []reach // the calls that it is made for
	perReach  float64 // calls for each node that one of them reaches
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
		// A call at regular intervals follows the program, and not the clock, only if its
		// count is a line.
		case st.Count.Exact && (st.Period == 0 || st.Count.Formula.Line()):
			st.Nature = Logical
		case st.Period > 0:
			st.Nature = Realtime
			st.Count.Exact = false
		default:
			st.Nature = Varying
		}
	}
	s.shareUntil(runs)
	s.findFollowers()
	for _, r := range runs {
		in.Number(r)
	}
	s.fit(nodes, runs)
	return s
}

// What makes calls regular.
const (
	// leastGaps: with half, two counts of Kubernetes that vary are taken for beats;
	// with twice, a beat that is rare is missed and a count is predicted wrong.
	leastGaps = 5
	// nearMiddle is how far a gap may be from the middle one; half or twice changes
	// nothing in the recorded systems.
	nearMiddle = 0.2
	// nearShare is the share of gaps that must be near: a busy machine delays some.
	// With 0.4, two counts of Kubernetes that vary are taken for beats; 0.8 changes
	// nothing.
	nearShare = 0.6
	// shortestBeat: calls that follow each other faster than every 0.1 s are work.
	// Half or twice changes nothing in the recorded systems, whose beats are a
	// second and more apart.
	shortestBeat = 1e8
)

// beats finds the sites that are called at regular intervals, and the interval in
// nanoseconds.
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
		if len(g) < leastGaps {
			continue
		}
		slices.Sort(g)
		middle := g[len(g)/2]
		near := 0
		for _, v := range g {
			if math.Abs(float64(v-middle)) <= nearMiddle*float64(middle) {
				near++
			}
		}
		if float64(near) >= nearShare*float64(len(g)) && middle > shortestBeat {
			out[site] = middle
		}
	}
	return out
}

// findUntil finds a call that is repeated with the same arguments until its reply
// meets a condition (the paper's complete): a leaf that has one value in the last
// reply of every group of equal calls, and another value in all replies before.
func (s *Sites) findUntil(st *Site, runs []*corpus.Recording) bool {
	groups := s.groups(st, runs)
	repeated := slices.IndexFunc(groups, func(g []*corpus.Call) bool { return len(g) > 1 })
	if repeated < 0 || !slices.ContainsFunc(groups, func(g []*corpus.Call) bool { return len(g) != len(groups[0]) }) {
		return false // the same number of calls each time is no retry
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

// shareUntil gives the condition of a call that is repeated to all sites that call the
// same: that one of them was never repeated when it was recorded is chance. All replies
// that it had must meet the condition, and there must be only one.
func (s *Sites) shareUntil(runs []*corpus.Recording) {
	first, several := map[corpus.OpID]*Site{}, map[corpus.OpID]bool{}
	for _, st := range s.All {
		if st.Nature != Until {
			continue
		}
		if first[st.Op] == nil {
			first[st.Op] = st
		}
		several[st.Op] = several[st.Op] || *first[st.Op].Until != *st.Until
	}
	unmet := map[corpus.SiteID]bool{}
	for _, r := range runs {
		for i := range r.Calls {
			if c := &r.Calls[i]; first[c.Op] != nil && !s.Sites.Met(*first[c.Op].Until, c) {
				unmet[c.Site] = true
			}
		}
	}
	for _, st := range s.All {
		if like := first[st.Op]; like != nil && !several[st.Op] && !unmet[st.ID] && (st.Nature == Logical || st.Nature == Varying) {
			st.Until, st.Tries, st.Alike = like.Until, 1, like
		}
	}
}

func (s *Sites) runOf(c *corpus.Call, runs []*corpus.Recording) *corpus.Recording {
	for _, r := range runs {
		if r.ByName[s.c.Syms.Text[c.Sender.Name]] == c.Sender {
			return r
		}
	}
	return nil
}

// groups are a site's calls with equal senders and arguments, in the order of time.
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

// A CallType is a node type and what it calls: a row of a check.
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

// Totals adds up the sites of each call type. A call type is predicted from its
// sites if all of them are exact, from its own count if only that is exact.
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

// Explained reports whether the loops that the calls are in give their number.
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

// expect is how often a site is called at a scale. It is a float, because products of
// formulas may overflow an int far beyond the scales seen.
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

// OneIn is how many nodes there are for each that may make another number of calls
// than all others and be noise (PatternMiner §III-B2, nondeterministic calls by
// comparing logs of one type). Half or twice changes the program of Hadoop, but
// no figure of the check.
const OneIn = 20

// strayed finds a call that all nodes make equally often but for a few: then the
// count is that of the others.
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
	if by[usual] == all || (all-by[usual])*OneIn > all {
		return false
	}
	st.Count.Formula, st.Count.Exact, st.Count.nearly = product(strconv.Itoa(usual), nodes.Formula), false, true
	return true
}

// Paced reports whether a site is called equally often at every scale and more than
// half a second apart. Then the clock may decide, and not the program. Half of that
// changes nothing in the recorded systems; with twice, a count of Kubernetes that the
// clock decides is predicted wrong and not named as ambiguous.
func (st *Site) Paced() bool {
	const slow = 5e8
	return st.Nature == Logical && st.Period > slow && st.Count.Formula.Constant()
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

// fit predicts the counts that the clock decides, or nothing that is known.
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
