package mine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gleaner/trace/mine/ladder"
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
		if t.nature != varying {
			continue
		}
		op := m.c.opOf[t.op]
		v := Varying{NodeType: m.types[t.kind].name, Target: op.target, Method: op.method}
		for _, p := range t.count.points {
			v.Counts = append(v.Counts, p.V)
		}
		v.Why, v.chance = m.whyVarying(t)
		out = append(out, v)
	}
	return out
}

// whyVarying says what shows that a count is not the scale's: runs at one scale
// that differ, or nodes of one run.
func (m *Model) whyVarying(t *total) (why string, chance bool) {
	points := t.count.points
	for i, p := range points {
		for _, q := range points[:i] {
			if p.N == q.N && p.V != q.V {
				return fmt.Sprintf("%d and %d calls in two runs at n = %d", q.V, p.V, p.N), true
			}
		}
	}
	if f, at, ok := allButOne(points); ok {
		odd := points[at]
		if f.At(odd.N) == odd.V { // the largest scale
			return fmt.Sprintf("%d at n = %d, the largest, where the other runs say otherwise: chance, or the first of many", odd.V, odd.N), false
		}
		return fmt.Sprintf("%s, but %d at n = %d", f, odd.V, odd.N), true
	}
	for _, r := range slices.Backward(m.runs) {
		low, high := r.callsPerNode(t.callType)
		if low != high {
			return fmt.Sprintf("%d to %d calls a node at n = %d", low, high, r.Scale), true
		}
	}
	return "no formula of the scale gives these counts", false
}

// callsPerNode is how many calls of a type its nodes made at least and at most.
func (r *Run) callsPerNode(ct callType) (low, high int) {
	low = -1
	for _, s := range r.senders {
		if s.kind != ct.kind {
			continue
		}
		n := r.made(s, ct.op)
		if high = max(high, n); low < 0 || n < low {
			low = n
		}
	}
	return max(low, 0), high
}

// made is how often a sender calls something.
func (r *Run) made(s *sender, op opID) int {
	n := 0
	for _, i := range s.calls {
		if r.calls[i].op == op {
			n++
		}
	}
	return n
}

// strayed recognises a call that every node makes as often, but for one node in
// twenty at most: those few are noise (PatternMiner §III-B2, nondeterministic
// calls by comparing logs of one type), and the count is that of the others.
func (st *site) strayed(made map[*sender]int, nodes count) bool {
	all := 0
	for _, p := range nodes.points {
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
	if by[usual] == all || (all-by[usual])*20 > all {
		return false
	}
	st.count.formula, st.count.exact, st.count.nearly = product(strconv.Itoa(usual), nodes.formula), false, true
	return true
}

// strays are the nodes that made another number of calls than all the others,
// where those are one in twenty at most: what single nodes do once is noise, as
// a comparison of logs of one type shows (PatternMiner §III-B2).
func (m *Model) strays(r *Run, t *total) string {
	var nodes []*sender
	for _, s := range r.senders {
		if s.kind == t.kind {
			nodes = append(nodes, s)
		}
	}
	expect := t.at(r.Scale)
	if len(nodes) == 0 || expect%len(nodes) != 0 {
		return ""
	}
	var odd []string
	for _, s := range nodes {
		if n := r.made(s, t.op); n != expect/len(nodes) {
			odd = append(odd, fmt.Sprintf("%d by %s", n, m.c.syms.Text[s.name]))
		}
	}
	if len(odd) == 0 || len(odd)*20 > len(nodes) {
		return ""
	}
	return fmt.Sprintf("%d by each, but %s", expect/len(nodes), strings.Join(odd, ", "))
}

// doubtful names the counts that met every run and may still be otherwise at a
// larger scale.
func (m *Model) doubtful() []Ambiguous {
	var out []Ambiguous
	type bend struct{ kind, before, after int }
	growing := map[bend]string{} // a bend behind which some count still grows, by what
	for _, grows := range []bool{true, false} {
		for _, t := range m.totals {
			before, after, bent := t.bend()
			if !bent || t.growing() != grows {
				continue
			}
			a, at := m.doubt(t), bend{t.kind, before, after}
			a.Why = fmt.Sprintf("it changed its course between n = %d and %d and may do so again", before, after)
			switch {
			case grows:
				growing[at] = a.Method
				a.Formulas = append(a.Formulas, fmt.Sprintf("min(%d, %s)", t.largest(), t.count.formula))
			case growing[at] != "":
				a.Why = fmt.Sprintf("it changed its course between n = %d and %d together with %s", before, after, growing[at])
			default:
				continue // it came to a bound, and stays there
			}
			out = append(out, a)
		}
	}
	for _, t := range m.totals {
		if t.nature == logical && t.count.exact && len(m.Program.Scales) == 3 && !plain(t.count.formula) && !t.explained() {
			a := m.doubt(t)
			a.Why = "three scales prove no more than a line"
			out = append(out, a)
		}
		i := slices.IndexFunc(t.sites, (*site).paced)
		if t.nature == logical && i >= 0 {
			a := m.doubt(t)
			a.Why = fmt.Sprintf("the calls keep time, %.1f s apart: it may be the clock that decides, and not the scale", float64(t.sites[i].period)/1e9)
			out = append(out, a)
		}
	}
	return out
}

func (m *Model) doubt(t *total) Ambiguous {
	op := m.c.opOf[t.op]
	return Ambiguous{NodeType: m.types[t.kind].name, Target: op.target, Method: op.method, What: "calls",
		Formulas: []string{t.count.formula.String()}, Next: 2 * m.largest(), of: t.callType}
}

// bend is where a count that the scale decides last changed its course.
func (t *total) bend() (before, after int, ok bool) {
	text := t.count.formula.String()
	if t.nature != logical || !t.count.exact || !strings.Contains(text, "min(") && !strings.Contains(text, "max(") {
		return 0, 0, false
	}
	return ladder.Break(t.count.points)
}

// growing: the count is larger at the largest scale than at the one before.
func (t *total) growing() bool {
	top, below := 0, 0
	for i, p := range t.count.points {
		if p.N > t.count.points[top].N {
			below, top = top, i
		}
	}
	return t.count.points[top].V > t.count.points[below].V
}

func (t *total) largest() int {
	return slices.MaxFunc(t.count.points, func(a, b ladder.Point) int { return a.V - b.V }).V
}

// paced: as often at every scale, at regular intervals of a length that no
// node's work takes by chance.
func (st *site) paced() bool {
	return st.nature == logical && st.period > 5e8 && st.count.formula.Constant()
}
