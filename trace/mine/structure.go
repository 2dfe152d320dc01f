package mine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gleaner/trace/mine/fold"
	"gleaner/trace/mine/ladder"
	"gleaner/trace/program"
)

// A structure is the order in which the nodes of one type make their calls.
type structure struct {
	kind  int
	steps []*step
	// loose holds the sites whose order means nothing: those of a type whose
	// logs share no order, and those that vary by themselves.
	loose []*site
	beats []*site
}

// A step is a call or a loop, with how often each sender made it.
type step struct {
	symbol fold.Symbol
	site   *site
	body   []*step
	counts []tally // of a loop: iterations
	made   int     // by how many senders
	of     int
	repeat count // of a loop
}

type tally struct {
	run *Run
	n   int
}

// maxSteps is how long a merged log may become before order means nothing.
const maxSteps = 1500

// structures folds the logs of all types.
func (s *sites) structures(nodes []count, runs []*Run) []*structure {
	out := make([]*structure, len(nodes))
	for k := range nodes {
		out[k] = s.structure(k, nodes[k], runs)
	}
	return out
}

// structure folds the logs of one type. Calls whose total follows no formula
// are folded along at first: a loop within a loop may explain them. Those that
// stay unexplained are noise and are left out of a second attempt.
func (s *sites) structure(kind int, nodes count, runs []*Run) *structure {
	steps, ok := s.fold(kind, runs, varying)
	if ok {
		s.explain(kind, steps, nodes)
	}
	steps, ok = s.fold(kind, runs, logical)
	st := &structure{kind: kind, steps: steps}
	for _, site := range s.all {
		switch {
		case site.kind != kind:
		case site.nature == realtime:
			st.beats = append(st.beats, site)
		case site.nature == varying || !ok:
			st.loose = append(st.loose, site)
		}
	}
	return st
}

// fold folds the logs of one type, with the calls that vary by themselves
// (worst varying) or without.
func (s *sites) fold(kind int, runs []*Run, worst nature) ([]*step, bool) {
	var logs [][]fold.Symbol
	var owners []*Run
	for _, r := range runs {
		for _, snd := range r.senders {
			if snd.kind == kind {
				logs = append(logs, s.log(r, snd, worst))
				owners = append(owners, r)
			}
		}
	}
	folded, loops := fold.Sequences(logs)
	return s.merge(folded, owners, loops)
}

// explain finds the sites that every node calls in loops whose counts are
// exact: their total is the product, and no formula fitted to the total alone
// says as much.
func (s *sites) explain(kind int, steps []*step, nodes count) {
	found := map[*site][]string{}
	var walk func(steps []*step, factor string, sure bool)
	walk = func(steps []*step, factor string, sure bool) {
		for _, st := range steps {
			if st.site == nil {
				walk(st.body, factor+"*("+st.repeat.formula.String()+")", sure && st.repeat.exact && st.made == st.of)
			} else if sure && st.made == st.of {
				found[st.site] = append(found[st.site], factor)
			} else {
				found[st.site] = append(found[st.site], "")
			}
		}
	}
	walk(steps, "("+nodes.formula.String()+")", nodes.exact)
	for site, factors := range found {
		if site.nature != varying && site.nature != logical || slices.Contains(factors, "") {
			continue
		}
		f := program.MustFormula("%s", strings.Join(factors, "+"))
		if !slices.ContainsFunc(site.count.points, func(p ladder.Point) bool { return f.At(p.N) != p.V }) {
			site.nature, site.count.formula, site.count.exact, site.explained = logical, f, true, true
		}
	}
}

// log is a sender's calls without what follows the clock or nothing at all,
// and with repeated calls taken as one.
func (s *sites) log(r *Run, snd *sender, worst nature) []fold.Symbol {
	var out []fold.Symbol
	asked := map[uint64]bool{}
	for _, i := range snd.calls {
		call := &r.calls[i]
		if call.site == noSite {
			continue
		}
		site := s.all[call.site]
		if site.nature == realtime || site.nature == varying && worst != varying {
			continue
		}
		if site.nature == until {
			h := call.req.hash() ^ uint64(call.site)<<48
			if asked[h] {
				continue
			}
			asked[h] = true
		}
		out = append(out, fold.Symbol(call.site))
	}
	return out
}

// merge brings the logs of all nodes of a type together: the commonest first,
// then the others aligned to it. Not ok when they have no order in common.
func (s *sites) merge(logs [][]fold.Item, owners []*Run, loops *fold.Loops) ([]*step, bool) {
	type variant struct {
		tokens []fold.Symbol
		logs   []int
	}
	byKey := map[string]*variant{}
	var variants []*variant
	for i, log := range logs {
		tokens := make([]fold.Symbol, len(log))
		for j, it := range log {
			tokens[j] = it.Symbol
		}
		key := fmt.Sprint(tokens)
		if byKey[key] == nil {
			byKey[key] = &variant{tokens: tokens}
			variants = append(variants, byKey[key])
		}
		byKey[key].logs = append(byKey[key].logs, i)
	}
	slices.SortStableFunc(variants, func(a, b *variant) int {
		return cmp.Or(cmp.Compare(len(b.logs), len(a.logs)), cmp.Compare(len(b.tokens), len(a.tokens)))
	})
	var merged []*step
	sites := map[fold.Symbol]bool{}
	for _, v := range variants {
		if len(v.tokens) > maxSteps {
			return nil, false
		}
		var at []int
		merged, at = s.align(merged, v.tokens, loops)
		for _, t := range v.tokens {
			sites[t] = true
		}
		if len(merged) > maxSteps || len(merged) > 4*len(sites)+40 {
			return nil, false
		}
		for _, log := range v.logs {
			for j, it := range logs[log] {
				merged[at[j]].note(owners[log], it)
			}
		}
	}
	total := map[*Run]int{}
	for _, r := range owners {
		total[r]++
	}
	for _, st := range merged {
		st.settle(total)
	}
	return merged, true
}

// align puts tokens beside the merged steps, along their longest common
// subsequence, and says where each token went.
func (s *sites) align(merged []*step, tokens []fold.Symbol, loops *fold.Loops) ([]*step, []int) {
	old := make([]fold.Symbol, len(merged))
	for i, st := range merged {
		old[i] = st.symbol
	}
	pairs := common2(old, tokens)
	var out []*step
	at := make([]int, len(tokens))
	i, j := 0, 0
	flush := func(toI, toJ int) {
		for ; i < toI; i++ {
			out = append(out, merged[i])
		}
		for ; j < toJ; j++ {
			at[j] = len(out)
			out = append(out, s.newStep(tokens[j], loops))
		}
	}
	for _, p := range pairs {
		flush(p[0], p[1])
		at[j] = len(out)
		out = append(out, merged[i])
		i, j = i+1, j+1
	}
	flush(len(merged), len(tokens))
	return out, at
}

func (s *sites) newStep(sym fold.Symbol, loops *fold.Loops) *step {
	st := &step{symbol: sym}
	if !sym.IsLoop() {
		st.site = s.all[sym]
		return st
	}
	for _, b := range loops.Body(sym) {
		st.body = append(st.body, s.newStep(b, loops))
	}
	return st
}

// note counts one sender's (or iteration's) pass through a step.
func (st *step) note(r *Run, it fold.Item) {
	st.made++
	if st.site != nil {
		return
	}
	st.counts = append(st.counts, tally{r, len(it.Iters)})
	for _, iter := range it.Iters {
		for i, inner := range iter {
			st.body[i].note(r, inner)
		}
	}
}

// settle finds how the iterations of loops follow the scale.
func (st *step) settle(senders map[*Run]int) {
	for _, n := range senders {
		st.of += n
	}
	if st.site != nil {
		return
	}
	st.repeat = iterations(st.counts)
	for _, b := range st.body {
		b.settle(senders)
		b.of = b.made
	}
}

// iterations is exact when all loops of a run have the same count.
func iterations(counts []tally) count {
	byRun := map[*Run]int{}
	same := true
	var points []ladder.Point
	sums, times := map[int]float64{}, map[int]float64{}
	for _, c := range counts {
		if before, ok := byRun[c.run]; ok && before != c.n {
			same = false
		} else if !ok {
			points = append(points, ladder.Point{N: c.run.Scale, V: c.n})
		}
		byRun[c.run] = c.n
		sums[c.run.Scale] += float64(c.n)
		times[c.run.Scale]++
	}
	if same {
		return countOf(points)
	}
	scales := make([]int, 0, len(sums))
	for n := range sums {
		scales = append(scales, n)
	}
	slices.Sort(scales)
	var n, v []float64
	for _, scale := range scales {
		n, v = append(n, float64(scale)), append(v, sums[scale]/times[scale])
	}
	return count{formula: ladder.Smooth(n, v)}
}

// common2 is the longest common subsequence of two sequences, as pairs of places.
func common2[T comparable](a, b []T) [][2]int {
	start := 0
	var out [][2]int
	for start < len(a) && start < len(b) && a[start] == b[start] {
		out = append(out, [2]int{start, start})
		start++
	}
	endA, endB := len(a), len(b)
	for endA > start && endB > start && a[endA-1] == b[endB-1] {
		endA, endB = endA-1, endB-1
	}
	rows, cols := endA-start, endB-start
	table := make([]uint32, (rows+1)*(cols+1))
	at := func(i, j int) *uint32 { return &table[i*(cols+1)+j] }
	for i := rows - 1; i >= 0; i-- {
		for j := cols - 1; j >= 0; j-- {
			if a[start+i] == b[start+j] {
				*at(i, j) = *at(i+1, j+1) + 1
			} else {
				*at(i, j) = max(*at(i+1, j), *at(i, j+1))
			}
		}
	}
	for i, j := 0, 0; i < rows && j < cols; {
		switch {
		case a[start+i] == b[start+j]:
			out = append(out, [2]int{start + i, start + j})
			i, j = i+1, j+1
		case *at(i+1, j) >= *at(i, j+1):
			i++
		default:
			j++
		}
	}
	for i := range len(a) - endA {
		out = append(out, [2]int{endA + i, endB + i})
	}
	return out
}

// expand is the sequence of sites a node is expected to call at a scale.
func (st *structure) expand(n int) []siteID {
	var out []siteID
	var walk func(steps []*step)
	walk = func(steps []*step) {
		for _, s := range steps {
			if s.made*2 < s.of || len(out) > 1e6 {
				continue // fewer than half of the nodes make it
			}
			if s.site != nil {
				out = append(out, s.site.id)
				continue
			}
			for range s.repeat.at(n) {
				walk(s.body)
			}
		}
	}
	walk(st.steps)
	return out
}

// loops is how many loops the structure has.
func (st *structure) loops() int {
	n := 0
	eachLoop(st.steps, func(*step) { n++ })
	return n
}

// certain reports whether all loops have exact counts and all nodes make every
// step: then the steps give the right number of calls at any scale.
func (st *structure) certain() bool {
	sure := !slices.ContainsFunc(st.steps, func(s *step) bool { return s.made != s.of })
	eachLoop(st.steps, func(s *step) { sure = sure && s.repeat.exact })
	return sure
}

func eachLoop(steps []*step, visit func(*step)) {
	for _, s := range steps {
		if s.site == nil {
			visit(s)
			eachLoop(s.body, visit)
		}
	}
}

func eachCall(steps []*step, visit func(*site)) {
	for _, s := range steps {
		if s.site != nil {
			visit(s.site)
		} else {
			eachCall(s.body, visit)
		}
	}
}

// first is the first call in a loop.
func (s *step) first() *site {
	for s.site == nil {
		s = s.body[0]
	}
	return s.site
}

// nodesOf is how many nodes a type has as the scale changes.
func nodesOf(kind int, runs []*Run) count {
	return countOf(pointsOf(runs, func(i int) int {
		n := 0
		for _, s := range runs[i].senders {
			if s.kind == kind {
				n++
			}
		}
		return n
	}))
}
