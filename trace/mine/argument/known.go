package argument

import (
	"slices"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/flow"
	"gleaner/trace/mine/site"
)

// An unexplained argument, with an example of its values and the generator that
// fills it.
type unexplained struct{ Name, Example, Generator string }

// Known counts the arguments of call sites by how they are known (Table IV).
type Known struct {
	Total    int `json:"total"`
	Constant int `json:"constant"`
	Regular  int `json:"regular"`
	Flow     int `json:"flow"`
	Unknown  int `json:"unknown"`
}

// Add adds the arguments of another site.
func (a *Known) Add(b Known) {
	a.Total += b.Total
	a.Constant += b.Constant
	a.Regular += b.Regular
	a.Flow += b.Flow
	a.Unknown += b.Unknown
}

// Count counts the arguments of a site.
func (m *Rules) Count(st *site.Site) Known {
	out := Known{Total: len(m.of[st.ID])}
	for _, a := range m.of[st.ID] {
		switch a.class() {
		case constant:
			out.Constant++
		case regular:
			out.Regular++
		case fromFlow:
			out.Flow++
		default:
			out.Unknown++
		}
	}
	return out
}

// Unknown are the arguments of a site that no rule explains.
func (m *Rules) Unknown(st *site.Site) []unexplained {
	var out []unexplained
	for _, a := range m.of[st.ID] {
		if a.class() == unknown {
			out = append(out, unexplained{a.Name, m.c.Syms.Text[a.value], m.template(a).String()})
		}
	}
	return out
}

// Loose are the arguments of a site that no rule explains, or several sources in
// turn, or a source in any order.
func (m *Rules) Loose(st *site.Site) []*site.Arg {
	var out []*site.Arg
	for _, a := range m.of[st.ID] {
		if a.class() == unknown || slices.ContainsFunc(a.slots(), (*slot).loose) {
			out = append(out, a.Arg)
		}
	}
	return out
}

func (s *slot) loose() bool {
	sources := 0
	for _, r := range s.rules {
		src, ok := r.(taken)
		if ok && src.AnyOrder() {
			return true
		}
		if ok {
			sources++
		}
	}
	return sources > 1
}

// ByPlace reports whether the place of each occurrence of an argument gives its
// value: the number of the call, the node, and the scale.
func ByPlace(c *corpus.Corpus, of *site.Arg, occs []flow.Occ) bool {
	a := &arg{Arg: of, value: occs[0].Raw(), occs: occs, stride: 1}
	a.whole = &slot{arg: a, word: -1}
	if sure := a.whole.simple(c); sure || a.whole.placed {
		return sure
	}
	a.split(c)
	return len(a.words) > 0 && !slices.ContainsFunc(a.words, func(w *slot) bool { return !w.simple(c) })
}
