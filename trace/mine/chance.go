package mine

import (
	"fmt"
	"slices"
	"strings"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/count"
	"gleaner/trace/mine/ladder"
	"gleaner/trace/program"
)

// Varying is a count that no formula of the scale gives, and what is known of
// it: PatternMiner asks the developer about such calls (§III-B2).
type Varying struct {
	NodeType string `json:"node_type"`
	Target   string `json:"target,omitempty"`
	Method   string `json:"method"`
	Counts   []int  `json:"counts"` // in the order of the runs
	Why      string `json:"why"`

	chance bool // the recordings prove that the scale does not decide it
}

// varying lists the call types whose number the scale does not decide.
func (m *Model) varying() []Varying {
	out := []Varying{}
	for _, t := range m.totals {
		if t.Nature != count.Varying {
			continue
		}
		op := m.c.OpOf[t.Op]
		v := Varying{NodeType: m.types[t.Kind].Name, Target: op.Target, Method: op.Method}
		for _, p := range t.Count.Points {
			v.Counts = append(v.Counts, p.V)
		}
		v.Why, v.chance = m.whyVarying(t)
		out = append(out, v)
	}
	return out
}

// whyVarying gives the evidence that the scale does not decide a count: runs at one
// scale that differ, one run that is an exception, or nodes of one run that differ.
func (m *Model) whyVarying(t *count.Total) (why string, chance bool) {
	points := t.Count.Points
	for i, p := range points {
		for _, q := range points[:i] {
			if p.N == q.N && p.V != q.V {
				return fmt.Sprintf("%d and %d calls in two runs at n = %d", q.V, p.V, p.N), true
			}
		}
	}
	if f, at, ok := count.AllButOne(points); ok {
		odd := points[at]
		if f.At(odd.N) == odd.V { // the largest scale
			return fmt.Sprintf("%d at n = %d, the largest, where the formula of the other runs gives another number: chance, or the first of many", odd.V, odd.N), false
		}
		return fmt.Sprintf("%s, but %d at n = %d", f, odd.V, odd.N), true
	}
	if why := m.uneven(t.CallType); why != "" {
		return why, true
	}
	return "no formula of the scale gives these counts", false
}

// uneven tells how much the nodes of one run differ in how often they make a call.
func (m *Model) uneven(ct count.CallType) string {
	for _, r := range slices.Backward(m.runs) {
		if low, high := callsPerNode(r, ct); low != high {
			return fmt.Sprintf("%d to %d calls a node at n = %d", low, high, r.Scale)
		}
	}
	return ""
}

// callsPerNode is how many calls of a type its nodes made at least and at most.
func callsPerNode(r *corpus.Recording, ct count.CallType) (low, high int) {
	low = -1
	for _, s := range r.Senders {
		if s.Kind != ct.Kind {
			continue
		}
		n := made(r, s, ct.Op)
		if high = max(high, n); low < 0 || n < low {
			low = n
		}
	}
	return max(low, 0), high
}

// made is how often a sender calls something.
func made(r *corpus.Recording, s *corpus.Sender, op corpus.OpID) int {
	n := 0
	for _, i := range s.Calls {
		if r.Calls[i].Op == op {
			n++
		}
	}
	return n
}

// strays lists the nodes that made another number of calls than all others, if they
// are few enough to be noise (count.OneIn).
func (m *Model) strays(r *corpus.Recording, t *count.Total) string {
	var nodes []*corpus.Sender
	for _, s := range r.Senders {
		if s.Kind == t.Kind {
			nodes = append(nodes, s)
		}
	}
	expect := t.At(r.Scale)
	if len(nodes) == 0 || expect%len(nodes) != 0 {
		return ""
	}
	var odd []string
	for _, s := range nodes {
		if n := made(r, s, t.Op); n != expect/len(nodes) {
			odd = append(odd, fmt.Sprintf("%d by %s", n, m.c.Syms.Text[s.Name]))
		}
	}
	if len(odd) == 0 || len(odd)*count.OneIn > len(nodes) {
		return ""
	}
	return fmt.Sprintf("%d by each, but %s", expect/len(nodes), strings.Join(odd, ", "))
}

// doubtful lists the counts whose formula meets every run and may still be wrong at a
// larger scale.
func (m *Model) doubtful() []Ambiguous {
	var out []Ambiguous
	type bend struct{ kind, before, after int }
	growing := map[bend]string{} // bends after which a count still grows, with its method
	for _, grows := range []bool{true, false} {
		for _, t := range m.totals {
			before, after, bent := bendOf(t)
			if !bent || stillGrows(t) != grows {
				continue
			}
			a, at := m.doubt(t), bend{t.Kind, before, after}
			a.Why = fmt.Sprintf("it changed its course between n = %d and %d and may do so again", before, after)
			switch {
			case grows:
				growing[at] = a.Method
				a.Formulas = append(a.Formulas, fmt.Sprintf("min(%d, %s)", largestOf(t), t.Count.Formula))
			case growing[at] != "":
				a.Why = fmt.Sprintf("it changed its course between n = %d and %d together with %s", before, after, growing[at])
			default:
				continue // it reached a bound and stays there
			}
			out = append(out, a)
		}
	}
	for _, t := range m.totals {
		if t.Nature == count.Logical && t.Count.Exact && len(m.Program.Scales) == 3 && !t.Explained() {
			a := m.doubt(t)
			if why := m.uneven(t.CallType); !t.Count.Formula.Line() {
				a.Why = "three scales prove no more than a line"
				out = append(out, a)
			} else if why != "" {
				a.Why = why + ": chance draws a line through three scales too"
				out = append(out, a)
			}
		}
		i := slices.IndexFunc(t.Sites, (*count.Site).Paced)
		if t.Nature == count.Logical && i >= 0 {
			a := m.doubt(t)
			a.Why = fmt.Sprintf("the calls are %.1f s apart: the clock may decide their number, and not the scale", float64(t.Sites[i].Period)/1e9)
			out = append(out, a)
		}
	}
	return out
}

func (m *Model) doubt(t *count.Total) Ambiguous {
	op := m.c.OpOf[t.Op]
	return Ambiguous{NodeType: m.types[t.Kind].Name, Target: op.Target, Method: op.Method, What: "calls",
		Formulas: []string{t.Count.Formula.String()}, Next: 2 * m.largest(), of: t.CallType}
}

// bendOf gives the scales between which a count that the scale decides last changed
// its course.
func bendOf(t *count.Total) (before, after int, ok bool) {
	if t.Nature != count.Logical || !t.Count.Exact || !t.Count.Formula.Calls(program.Min, program.Max) {
		return 0, 0, false
	}
	return ladder.Break(t.Count.Points)
}

// stillGrows reports whether a count is larger at the largest scale than at the one
// before.
func stillGrows(t *count.Total) bool {
	top, below := 0, 0
	for i, p := range t.Count.Points {
		if p.N > t.Count.Points[top].N {
			below, top = top, i
		}
	}
	return t.Count.Points[top].V > t.Count.Points[below].V
}

func largestOf(t *count.Total) int {
	return slices.MaxFunc(t.Count.Points, func(a, b ladder.Point) int { return a.V - b.V }).V
}
