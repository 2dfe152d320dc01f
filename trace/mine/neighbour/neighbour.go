// Package neighbour tells calls of one form apart by the calls before and after
// them, if that explains an argument that is not explained otherwise: a program
// asks about a file before it writes it, moves it and reads it, each time at another
// place (PatternMiner §III-B3).
package neighbour

import (
	"slices"

	"gleaner/trace/mine/argument"
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/count"
	"gleaner/trace/mine/flow"
	"gleaner/trace/mine/ladder"
	"gleaner/trace/mine/site"
)

// maxContexts is how many contexts the calls of a site may have. With more, threads
// interleave and the contexts mean nothing; the time grows with their square.
// Half or twice changes nothing in the recorded systems.
const maxContexts = 24

// A spot is a site with arguments that are not explained well.
type spot struct {
	*count.Site
	open   []*site.Arg
	groups []*group
	at     map[site.Context]*group
}

// A group is calls of a site that are taken for one place in the program.
type group struct {
	contexts []site.Context
	calls    [][]int32 // by run, in the order they were made
}

// Split splits sites, and reports whether it did: then everything that was learned
// about sites is invalid. A count takes three runs to follow a formula.
func Split(s *count.Sites, args *argument.Rules, runs []*corpus.Recording) bool {
	spots := map[corpus.SiteID]*spot{}
	for _, st := range s.All {
		if open := args.Loose(st.Site); standing(st) != site.Nowhere && len(open) > 0 {
			spots[st.ID] = &spot{Site: st, open: open, at: map[site.Context]*group{}}
		}
	}
	if len(spots) == 0 || len(runs) < 3 {
		return false
	}
	s.Sites.Stand(func(st *site.Site) site.Standing { return standing(s.All[st.ID]) })
	for k, r := range runs {
		s.Sites.Contexts(r, func(i int32, at site.Context) {
			if sp := spots[r.Calls[i].Site]; sp != nil {
				sp.note(k, i, at, len(runs))
			}
		})
	}
	parts := map[corpus.SiteID][][]site.Context{}
	for id, sp := range spots {
		if sp.divide(s.Sites.Corpus, runs) {
			for _, g := range sp.groups {
				parts[id] = append(parts[id], g.contexts)
			}
		}
	}
	for _, r := range runs {
		s.Sites.Number(r)
	}
	if len(parts) > 0 {
		s.Sites.TellApart(parts, runs)
	}
	return len(parts) > 0
}

// standing: calls that the clock decides, or nothing that is known, have no fixed
// place in a log.
func standing(st *count.Site) site.Standing {
	switch {
	case st.Nature == count.Until && st.Groups.Exact:
		return site.Retried
	case st.Nature == count.Logical:
		return site.InOrder
	}
	return site.Nowhere
}

func (sp *spot) note(run int, call int32, at site.Context, runs int) {
	g := sp.at[at]
	if g == nil {
		g = &group{contexts: []site.Context{at}, calls: make([][]int32, runs)}
		sp.at[at] = g
		sp.groups = append(sp.groups, g)
	}
	g.calls[run] = append(g.calls[run], call)
}

// divide merges groups as long as the places of their calls explain the arguments,
// and reports whether more than one is left.
func (sp *spot) divide(c *corpus.Corpus, runs []*corpus.Recording) bool {
	if len(sp.groups) < 2 || len(sp.groups) > maxContexts {
		return false
	}
	for _, g := range sp.groups {
		for _, calls := range g.calls {
			slices.Sort(calls)
		}
		sp.open = slices.DeleteFunc(sp.open, func(a *site.Arg) bool { return !sp.explains(g, c, runs, a) })
		if len(sp.open) == 0 {
			return false
		}
	}
	for i := 0; i < len(sp.groups); i++ {
		for k := i + 1; k < len(sp.groups); {
			if both := union(sp.groups[i], sp.groups[k]); sp.explains(both, c, runs, sp.open...) {
				sp.groups[i] = both
				sp.groups = slices.Delete(sp.groups, k, k+1)
				k = i + 1 // a group that did not fit before may fit the larger one
			} else {
				k++
			}
		}
	}
	return len(sp.groups) > 1
}

func union(a, b *group) *group {
	out := &group{contexts: slices.Concat(a.contexts, b.contexts), calls: make([][]int32, len(a.calls))}
	for i := range a.calls {
		out.calls[i] = slices.Concat(a.calls[i], b.calls[i])
		slices.Sort(out.calls[i])
	}
	return out
}

// explains reports whether the number of a group's calls follows the scale, and the
// arguments follow the places of the calls.
func (sp *spot) explains(g *group, c *corpus.Corpus, runs []*corpus.Recording, args ...*site.Arg) bool {
	occs := make([][]flow.Occ, len(args))
	points := site.Points(runs, func(k int) int {
		n := sp.number(runs[k], g.calls[k])
		for _, i := range g.calls[k] {
			for pos, p := range sp.Plan(c, runs[k].Calls[i].Request.Shape) {
				for j, a := range args {
					if int(p.Arg) == a.Index {
						occs[j] = append(occs[j], flow.Occ{In: runs[k], Call: i, Pos: int32(pos)})
					}
				}
			}
		}
		return n
	})
	if len(ladder.Exact(points)) == 0 {
		return false
	}
	for j, a := range args {
		if a.InList || len(occs[j]) == 0 || !argument.ByPlace(c, a, occs[j]) {
			return false
		}
	}
	return true
}

// number numbers each sender's calls in a group, all tries of a call as one, and
// counts them.
func (sp *spot) number(r *corpus.Recording, calls []int32) int {
	type try struct {
		by   *corpus.Sender
		hash uint64
	}
	made, tries, all := map[*corpus.Sender]int32{}, map[try]int32{}, 0
	for _, i := range calls {
		call := &r.Calls[i]
		key := try{call.Sender, call.Request.Hash()}
		if before, again := tries[key]; again && sp.Nature == count.Until {
			call.Nth = before
			continue
		}
		call.Nth = made[call.Sender]
		tries[key] = call.Nth
		made[call.Sender]++
		all++
	}
	return all
}
