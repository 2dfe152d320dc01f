package argument

import (
	"iter"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/intern"
	"gleaner/trace/mine/site"
)

// Users follows the values that the nodes of a site take from others in no
// order: how many senders use each value, by run and by the site that gave it.
// One answer for each source of such values.
func (s *Rules) Users(st *site.Site, runs []*corpus.Run) iter.Seq[[]map[corpus.SiteID][]int] {
	return func(yield func([]map[corpus.SiteID][]int) bool) {
		for _, a := range s.of[st.ID] {
			for _, sl := range a.slots() {
				for _, r := range sl.best() {
					if src, ok := r.(source); ok && src.inNoOrder() && sl.word < 0 && !yield(s.follow(a, src, runs)) {
						return
					}
				}
			}
		}
	}
}

func (s *Rules) follow(a *arg, src source, runs []*corpus.Run) []map[corpus.SiteID][]int {
	out := make([]map[corpus.SiteID][]int, len(runs))
	for i, r := range runs {
		out[i] = map[corpus.SiteID][]int{}
		used := s.users(a, r)
		for v, by := range s.produced(src, r) {
			out[i][by] = append(out[i][by], len(used[v]))
		}
	}
	return out
}

// produced are the values a source gives in a run, by the site that gave them.
func (s *Rules) produced(src source, r *corpus.Run) map[intern.Symbol]corpus.SiteID {
	out := map[intern.Symbol]corpus.SiteID{}
	for i := range r.Calls {
		c := &r.Calls[i]
		if c.Site == corpus.NoSite || !src.from.holds(c) {
			continue
		}
		m := c.Message(src.part)
		if pos := s.c.Shapes.Find(m.Shape, src.path); pos >= 0 {
			out[m.Values[pos]] = c.Site
		}
	}
	return out
}

func (sc scope) holds(c *corpus.Call) bool {
	switch sc.kind {
	case siteScope:
		return c.Site == corpus.SiteID(sc.id)
	case opScope:
		return c.Op == corpus.OpID(sc.id)
	}
	return true
}

// users are the senders that gave each value of an argument.
func (s *Rules) users(a *arg, r *corpus.Run) map[intern.Symbol]map[*corpus.Sender]bool {
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

// inNoOrder: the source is any reply that was not used up, and its whole value.
func (s source) inNoOrder() bool {
	return s.sel == each && s.part == corpus.Response && s.index == fixed && s.word < 0
}

// From lists the sites whose calls the arguments of a site come from, one for
// each rule that says so.
func (s *Rules) From(st *site.Site) []corpus.SiteID {
	var out []corpus.SiteID
	for _, a := range s.of[st.ID] {
		for _, sl := range a.slots() {
			for _, r := range sl.rules {
				if src, ok := r.(source); ok && src.from.kind == siteScope && src.key >= sameSender {
					out = append(out, corpus.SiteID(src.from.id))
				}
			}
		}
	}
	return out
}
