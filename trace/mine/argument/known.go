package argument

import (
	"gleaner/trace/mine/site"
)

// An unexplained argument, with an example of its values and what fills it instead.
type unexplained struct{ Name, Example, Generator string }

// Known says how the arguments of all call sites are known (Table IV).
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

// Count is how the arguments of a site are known.
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

// Unknown are the arguments of a site that nothing explains.
func (m *Rules) Unknown(st *site.Site) []unexplained {
	var out []unexplained
	for _, a := range m.of[st.ID] {
		if a.class() == unknown {
			out = append(out, unexplained{a.Name, m.c.Syms.Text[a.value], m.template(a).String()})
		}
	}
	return out
}
