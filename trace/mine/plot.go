package mine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/pace"
	"gleaner/trace/program"
)

// A Curve is a count at the scales it was seen at, with its formula.
type Curve struct {
	Name    string
	N, V    []float64
	Formula program.Formula
	Exact   bool
}

// Curves gives the counts of all call types whose count changes with scale,
// the largest first.
func (m *Model) Curves() []Curve {
	var out []Curve
	for _, t := range m.totals {
		if t.Count.Exact && t.Count.Formula.Constant() {
			continue
		}
		c := Curve{Name: m.types[t.Kind].Name + " " + m.c.OpOf[t.Op].Method, Formula: t.Count.Formula, Exact: t.Count.Exact}
		for _, p := range t.Count.Points {
			c.N, c.V = append(c.N, float64(p.N)), append(c.V, float64(p.V))
		}
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b Curve) int { return cmp.Compare(slices.Max(b.V), slices.Max(a.V)) })
	return out
}

// Intervals gives the predicted and the recorded intervals of a checked run, in
// milliseconds.
func (m *Model) Intervals(r *corpus.Recording) (predicted, recorded []float64) {
	pace.EachGap(m.sites, r, func(g pace.Gap, ms float64) {
		if f, ok := m.timing.Gaps[g]; ok {
			predicted, recorded = append(predicted, f.Eval(program.Vars{program.N: float64(r.Scale)})), append(recorded, ms)
		}
	})
	return predicted, recorded
}

// Diagram gives the program as a diagram in the DOT language: node types, what
// they call, and what flows between them.
func (m *Model) Diagram() string {
	var out strings.Builder
	out.WriteString("digraph program {\n  rankdir=LR;\n  node [shape=box];\n")
	type edge struct{ from, to, label string }
	calls, flows := map[edge]int{}, map[edge]int{}
	for k, t := range m.types {
		fmt.Fprintf(&out, "  %q [label=%q];\n", t.Name, fmt.Sprintf("%s\n%s nodes, %d loops", t.Name, m.nodes[k].Formula, m.shapes[k].Loops()))
	}
	for _, st := range m.sites.All {
		calls[edge{m.types[st.Kind].Name, m.c.OpOf[st.Op].Target, ""}]++
		for _, from := range m.args.From(st.Site) {
			if kind := m.sites.All[from].Kind; kind != st.Kind {
				flows[edge{m.types[kind].Name, m.types[st.Kind].Name, ""}]++
			}
		}
	}
	for _, part := range []struct {
		edges map[edge]int
		style string
	}{{calls, "solid"}, {flows, "dashed"}} {
		edges := make([]edge, 0, len(part.edges))
		for e := range part.edges {
			edges = append(edges, e)
		}
		slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
		for _, e := range edges {
			fmt.Fprintf(&out, "  %q -> %q [style=%s, label=%q];\n", e.from, e.to, part.style, fmt.Sprint(part.edges[e]))
		}
	}
	out.WriteString("}\n")
	return out.String()
}
