package argument

import (
	"iter"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/flow"
	"gleaner/trace/mine/intern"
	"gleaner/trace/mine/site"
)

// Users follows the values that the nodes of a site take from replies to others:
// how many senders use each value, by run and by the site that gave it. It yields
// once for each source of such values.
func (s *Rules) Users(st *site.Site, runs []*corpus.Recording) iter.Seq[[]map[corpus.SiteID][]int] {
	return func(yield func([]map[corpus.SiteID][]int) bool) {
		for _, a := range s.of[st.ID] {
			for _, sl := range a.slots() {
				for _, r := range sl.best() {
					if src, ok := r.(taken); ok && src.Told() && sl.word < 0 && !yield(s.follow(a, src.Source, runs)) {
						return
					}
				}
			}
		}
	}
}

func (s *Rules) follow(a *arg, src flow.Source, runs []*corpus.Recording) []map[corpus.SiteID][]int {
	out := make([]map[corpus.SiteID][]int, len(runs))
	for i, r := range runs {
		out[i] = map[corpus.SiteID][]int{}
		used := s.users(a, r)
		for v, by := range src.Produced(r, s.c) {
			out[i][by] = append(out[i][by], len(used[v]))
		}
	}
	return out
}

// users are the senders that use each value of an argument.
func (s *Rules) users(a *arg, r *corpus.Recording) map[intern.Symbol]map[*corpus.Sender]bool {
	out := map[intern.Symbol]map[*corpus.Sender]bool{}
	for i := range r.Calls {
		c := &r.Calls[i]
		if c.Site != a.Site.ID {
			continue
		}
		for pos, p := range a.Site.Plan(s.c, c.Request.Shape) {
			if int(p.Arg) == a.Index {
				v := c.Request.Values[pos]
				if out[v] == nil {
					out[v] = map[*corpus.Sender]bool{}
				}
				out[v][c.Sender] = true
			}
		}
	}
	return out
}

// From lists the sites whose calls the arguments of a site come from, one for each
// such rule.
func (s *Rules) From(st *site.Site) []corpus.SiteID {
	var out []corpus.SiteID
	for _, a := range s.of[st.ID] {
		for _, sl := range a.slots() {
			for _, r := range sl.rules {
				if src, ok := r.(taken); ok {
					if from, one := src.Site(); one {
						out = append(out, from)
					}
				}
			}
		}
	}
	return out
}

// Chained reports whether calls of site a take a value that varies from the sender's
// last call of site b: then their order matters. Whatever seldom changes is what it was
// in the last call of anything.
func (s *Rules) Chained(a, b corpus.SiteID) bool {
	for _, arg := range s.of[a] {
		if arg.lasting() {
			continue
		}
		for _, sl := range arg.slots() {
			for _, r := range sl.rules {
				src, ok := r.(taken)
				if !ok || !src.LastOf(s.sites.All[b]) {
					continue
				}
				if _, one := src.Site(); one || arg.follows(s.sites.All[b]) {
					return true
				}
			}
		}
	}
	return false
}

// follows reports whether a call of st was ever the sender's last of its method before
// a call with the argument.
func (a *arg) follows(st *site.Site) bool {
	for _, o := range a.occs {
		calls := o.In.Calls
		for i := int(o.Call) - 1; i >= 0; i-- {
			if c := &calls[i]; c.Sender == calls[o.Call].Sender && c.Op == st.Op {
				if c.Site == st.ID {
					return true
				}
				break
			}
		}
	}
	return false
}
