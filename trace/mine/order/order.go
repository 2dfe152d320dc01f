// Package order finds the order in which the nodes of a type make their calls:
// logs folded into loops and aligned across nodes and scales.
package order

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/count"
	"gleaner/trace/mine/fold"
	"gleaner/trace/mine/ladder"
	"gleaner/trace/program"
)

// A Structure is the order in which the nodes of one type make their calls.
type Structure struct {
	kind  int
	Steps []*Step
	// Loose holds the sites without an order: all sites of a type whose logs have no
	// order in common, and those whose count varies.
	Loose []*count.Site
	Beats []*count.Site
	// Firm are the steps without the sites in Aside: those in loops whose number of
	// iterations follows another loop and not the scale. Both are set only if the
	// steps are certain without them.
	Firm  []*Step
	Aside []*count.Site

	nodes   count.Count
	threads *threads
}

// A Step is a call or a loop.
type Step struct {
	symbol fold.Symbol
	Site   *count.Site
	Body   []*Step
	counts []tally     // of a loop: iterations
	Made   int         // how many senders made it
	Of     int         // of how many
	Repeat count.Count // of a loop
}

type tally struct {
	run *corpus.Recording
	n   int
}

// When logs have no order in common. Merging takes the product of the lengths of two
// logs, so maxSteps bounds the time as well. Half or twice of each changes nothing in
// the recorded systems.
const (
	maxSteps     = 1500 // in a merged log
	stepsPerSite = 4    // on average: with more, each log has an order of its own
	freeSteps    = 40   // and that many more, because a few sites may repeat often
)

// Find folds the logs of all types. Chained says of two sites whether calls of
// the first take something from the sender's last call of the second.
func Find(s *count.Sites, nodes []count.Count, runs []*corpus.Recording, chained func(a, b corpus.SiteID) bool) []*Structure {
	out := make([]*Structure, len(nodes))
	for k := range nodes {
		out[k] = structureOf(s, k, nodes[k], runs, findThreads(s, k, runs, chained))
	}
	return out
}

// structureOf folds the logs of one type. At first, calls whose total follows no
// formula are folded too, because a loop in a loop may explain them. Those that stay
// unexplained are noise, and are left out the second time.
func structureOf(s *count.Sites, kind int, nodes count.Count, runs []*corpus.Recording, t *threads) *Structure {
	steps, ok := foldLogs(s, kind, runs, t, count.Varying)
	if ok {
		explain(steps, nodes)
	}
	steps, ok = foldLogs(s, kind, runs, t, count.Logical)
	st := &Structure{kind: kind, Steps: steps, nodes: nodes, threads: t}
	if !ok || !st.Certain() {
		ok = st.wander(s, runs) || ok
	}
	for _, site := range s.All {
		switch {
		case site.Kind != kind:
		case site.Nature == count.Realtime:
			st.Beats = append(st.Beats, site)
		case site.Nature == count.Varying || !ok:
			st.Loose = append(st.Loose, site)
		}
	}
	if ok && !st.Certain() {
		st.firm(s, runs)
	}
	return st
}

// firm puts aside the sites in loops without an exact count, if all else is certain
// then and their own counts are exact.
func (st *Structure) firm(s *count.Sites, runs []*corpus.Recording) {
	var unsure []*count.Site
	EachLoop(st.Steps, func(loop *Step) {
		if !loop.Repeat.Exact {
			EachCall(loop.Body, func(site *count.Site) { unsure = append(unsure, site) })
		}
	})
	if slices.ContainsFunc(unsure, func(site *count.Site) bool { return site.Nature != count.Logical || !site.Count.Exact }) {
		return
	}
	steps, ok := foldLogs(s, st.kind, runs, st.threads, count.Logical, unsure...)
	if rest := (&Structure{Steps: steps}); ok && len(steps) > 0 && rest.Certain() {
		slices.SortFunc(unsure, func(a, b *count.Site) int { return cmp.Compare(a.ID, b.ID) })
		st.Firm, st.Aside = steps, slices.Compact(unsure)
	}
}

// foldLogs folds the logs of one type, with calls whose count varies (worst is
// count.Varying) or without them, and without some sites.
func foldLogs(s *count.Sites, kind int, runs []*corpus.Recording, t *threads, worst count.Nature, without ...*count.Site) ([]*Step, bool) {
	logs, owners := logsOf(s, kind, runs, worst)
	for i, log := range logs {
		logs[i] = t.tidy(slices.DeleteFunc(log, func(sym fold.Symbol) bool { return slices.Contains(without, s.All[sym]) }))
	}
	folded, loops := fold.Sequences(logs)
	return merge(s, folded, owners, loops)
}

// logsOf are the logs of the nodes of a type, each with the run it is of.
func logsOf(s *count.Sites, kind int, runs []*corpus.Recording, worst count.Nature) (logs [][]fold.Symbol, owners []*corpus.Recording) {
	for _, r := range runs {
		for _, snd := range r.Senders {
			if snd.Kind == kind {
				logs, owners = append(logs, log(s, r, snd, worst)), append(owners, r)
			}
		}
	}
	return logs, owners
}

// explain finds the sites that every node calls in loops with exact counts: the
// product of these counts is their total, and a better formula than one fitted to
// the total.
func explain(steps []*Step, nodes count.Count) {
	found, unsure := map[*count.Site][]string{}, map[*count.Site]bool{}
	var walk func(steps []*Step, factor string, sure bool)
	walk = func(steps []*Step, factor string, sure bool) {
		for _, st := range steps {
			sure := sure && st.Made == st.Of
			if st.Site == nil {
				walk(st.Body, fmt.Sprintf("%s*(%s)", factor, st.Repeat.Formula), sure && st.Repeat.Exact)
				continue
			}
			found[st.Site] = append(found[st.Site], factor)
			unsure[st.Site] = unsure[st.Site] || !sure
		}
	}
	walk(steps, fmt.Sprintf("(%s)", nodes.Formula), nodes.Exact)
	for site, factors := range found {
		if site.Nature != count.Varying && site.Nature != count.Logical || unsure[site] {
			continue
		}
		f := program.MustFormula("%s", strings.Join(factors, "+"))
		if !slices.ContainsFunc(site.Count.Points, func(p ladder.Point) bool { return f.At(p.N) != p.V }) {
			site.Nature, site.Count.Formula, site.Count.Exact, site.Explained = count.Logical, f, true, true
		}
	}
}

// Log is a sender's calls without those that are no part of the structure.
func (st *Structure) Log(s *count.Sites, r *corpus.Recording, snd *corpus.Sender) []corpus.SiteID {
	var out []corpus.SiteID
	for _, sym := range st.threads.tidy(log(s, r, snd, count.Logical)) {
		out = append(out, corpus.SiteID(sym))
	}
	return out
}

// log is a sender's calls without those that the clock decides or, unless worst is
// count.Varying, nothing that is known. All tries of a call are one call.
func log(s *count.Sites, r *corpus.Recording, snd *corpus.Sender, worst count.Nature) []fold.Symbol {
	var out []fold.Symbol
	asked := map[uint64]bool{}
	for _, i := range snd.Calls {
		call := &r.Calls[i]
		if call.Site == corpus.NoSite {
			continue
		}
		site := s.All[call.Site]
		if site.Nature == count.Realtime || site.Nature == count.Varying && worst != count.Varying {
			continue
		}
		if site.Nature == count.Until {
			h := call.Request.Hash() ^ uint64(call.Site)<<48
			if asked[h] {
				continue
			}
			asked[h] = true
		}
		out = append(out, fold.Symbol(call.Site))
	}
	return out
}

// merge merges the logs of all nodes of a type: the commonest first, then the others
// aligned to it. Not ok if they have no order in common.
func merge(s *count.Sites, logs [][]fold.Item, owners []*corpus.Recording, loops *fold.Loops) ([]*Step, bool) {
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
	var merged []*Step
	sites := map[fold.Symbol]bool{}
	for _, v := range variants {
		if len(v.tokens) > maxSteps {
			return nil, false
		}
		var at []int
		merged, at = align(s, merged, v.tokens, loops)
		for _, t := range v.tokens {
			sites[t] = true
		}
		if len(merged) > maxSteps || len(merged) > stepsPerSite*len(sites)+freeSteps {
			return nil, false
		}
		for _, log := range v.logs {
			for j, it := range logs[log] {
				merged[at[j]].note(owners[log], it)
			}
		}
	}
	total := map[*corpus.Recording]int{}
	for _, r := range owners {
		total[r]++
	}
	for _, st := range merged {
		st.fitLoops(total)
	}
	return unroll(merged), true
}

// align merges tokens into the steps along their longest common subsequence, and
// gives the place of each token.
func align(s *count.Sites, merged []*Step, tokens []fold.Symbol, loops *fold.Loops) ([]*Step, []int) {
	old := make([]fold.Symbol, len(merged))
	for i, st := range merged {
		old[i] = st.symbol
	}
	pairs := Common(old, tokens)
	var out []*Step
	at := make([]int, len(tokens))
	i, j := 0, 0
	flush := func(toI, toJ int) {
		for ; i < toI; i++ {
			out = append(out, merged[i])
		}
		for ; j < toJ; j++ {
			at[j] = len(out)
			out = append(out, newStep(s, tokens[j], loops))
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

func newStep(s *count.Sites, sym fold.Symbol, loops *fold.Loops) *Step {
	st := &Step{symbol: sym}
	if !sym.IsLoop() {
		st.Site = s.All[sym]
		return st
	}
	for _, b := range loops.Body(sym) {
		st.Body = append(st.Body, newStep(s, b, loops))
	}
	return st
}

// unroll replaces loops of one iteration by their bodies.
func unroll(steps []*Step) []*Step {
	var out []*Step
	for _, st := range steps {
		st.Body = unroll(st.Body)
		if st.Site != nil || !st.Repeat.Exact || !st.Repeat.Formula.Is(1) || len(st.Repeat.Forms) > 1 {
			out = append(out, st)
			continue
		}
		for _, b := range st.Body {
			b.Of = st.Of
			out = append(out, b)
		}
	}
	return out
}

// note counts one sender's (or iteration's) pass through a step.
func (st *Step) note(r *corpus.Recording, it fold.Item) {
	st.Made++
	if st.Site != nil {
		return
	}
	st.counts = append(st.counts, tally{r, len(it.Iters)})
	for _, iter := range it.Iters {
		for i, inner := range iter {
			st.Body[i].note(r, inner)
		}
	}
}

// fitLoops finds how the iterations of loops follow the scale.
func (st *Step) fitLoops(senders map[*corpus.Recording]int) {
	for _, n := range senders {
		st.Of += n
	}
	if st.Site != nil {
		return
	}
	st.Repeat = iterations(st.counts)
	for _, b := range st.Body {
		b.fitLoops(senders)
		b.Of = b.Made
	}
}

// iterations is exact if a loop has one count in each run, and a formula meets them.
func iterations(counts []tally) count.Count {
	byRun := map[*corpus.Recording]int{}
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
		return count.Of(points)
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
	return count.Count{Formula: ladder.Smooth(n, v)}
}

// Common is the longest common subsequence of two sequences, as pairs of places.
func Common[T comparable](a, b []T) [][2]int {
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

// longest is how many calls of a node are predicted one by one. Far beyond the scales
// seen a formula may give any number; a million take four megabytes.
const longest = 1e6

// Expand is the sequence of sites that a node is expected to call at a scale. Share
// is the node's place among those of its type, from 0 for the one that makes most
// steps to 1: a step that a third of the nodes make is made by those below 1/3.
func (st *Structure) Expand(n int, share float64) []corpus.SiteID {
	var out []corpus.SiteID
	var walk func(steps []*Step)
	walk = func(steps []*Step) {
		for _, s := range steps {
			if !s.reached(share) || len(out) >= longest {
				continue
			}
			if s.Site != nil {
				out = append(out, s.Site.ID)
				continue
			}
			for range s.Repeat.At(n) {
				before := len(out)
				if walk(s.Body); len(out) == before || len(out) >= longest {
					break // all further iterations would be the same
				}
			}
		}
	}
	walk(st.Steps)
	return st.balance(out, n)
}

// balance makes the calls of the only node of a type as many as their exact counts,
// which are better known than loops whose iterations vary. Superfluous calls are
// left out at the end, and missing ones follow the last call of the same site.
func (st *Structure) balance(calls []corpus.SiteID, n int) []corpus.SiteID {
	if st.Certain() || st.nodes.At(n) != 1 {
		return calls
	}
	left, last := map[corpus.SiteID]int{}, map[corpus.SiteID]int{}
	EachCall(st.Steps, func(site *count.Site) {
		if site.Nature == count.Logical && site.Count.Exact {
			left[site.ID] = max(0, site.Count.At(n))
		}
	})
	for i, site := range calls {
		last[site] = i
	}
	var out []corpus.SiteID
	for i, site := range calls {
		times := 1
		if more, counted := left[site]; counted {
			if times = min(more, 1); i == last[site] {
				times = more
			}
			left[site] -= times
		}
		out = append(out, slices.Repeat([]corpus.SiteID{site}, min(times, longest-min(len(out), longest)))...)
	}
	return out
}

// Reached is how many of the steps a node at a share makes.
func (st *Structure) Reached(share float64) int {
	n := 0
	for _, s := range st.Steps {
		if s.reached(share) {
			n++
		}
	}
	return n
}

// few is the share of nodes below which a step is not predicted for any node: it is
// one of many ways in which nodes differ. Half loses 0.4% of Hadoop's sequences; twice
// changes nothing.
const few = 0.2

func (s *Step) reached(share float64) bool { return float64(s.Made) >= max(few, share)*float64(s.Of) }

// Loops is how many loops the structure has.
func (st *Structure) Loops() int {
	n := 0
	EachLoop(st.Steps, func(*Step) { n++ })
	return n
}

// Certain reports whether all loops have exact counts and all nodes make every step:
// then the steps give the number of calls at any scale.
func (st *Structure) Certain() bool {
	sure := !slices.ContainsFunc(st.Steps, func(s *Step) bool { return s.Made != s.Of })
	EachLoop(st.Steps, func(s *Step) { sure = sure && s.Repeat.Exact })
	return sure
}

// Lanes are the steps that are sure, and the sites that have no place in them: those
// without an order, and all of them if only the counts are certain.
func (st *Structure) Lanes(s *count.Sites) (steps []*Step, loose []*count.Site) {
	switch loose = st.Loose; {
	case st.Certain():
		steps = st.Steps
	case st.Firm != nil:
		steps, loose = st.Firm, slices.Concat(loose, st.Aside)
	default:
		for _, site := range s.All {
			if site.Kind == st.kind && site.Nature != count.Realtime && !slices.Contains(loose, site) {
				loose = append(loose, site)
			}
		}
	}
	slices.SortStableFunc(loose, func(a, b *count.Site) int { return cmp.Compare(a.ID, b.ID) })
	return steps, loose
}

// EachLoop visits the loops, inner ones after those they are in.
func EachLoop(steps []*Step, visit func(*Step)) {
	for _, s := range steps {
		if s.Site == nil {
			visit(s)
			EachLoop(s.Body, visit)
		}
	}
}

// EachCall visits the sites that steps call.
func EachCall(steps []*Step, visit func(*count.Site)) {
	for _, s := range steps {
		if s.Site != nil {
			visit(s.Site)
		} else {
			EachCall(s.Body, visit)
		}
	}
}

// First is the first call in a loop.
func (s *Step) First() *count.Site {
	for s.Site == nil {
		s = s.Body[0]
	}
	return s.Site
}
