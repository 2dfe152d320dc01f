package mine

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gleaner/input"
	"gleaner/trace"
	"gleaner/trace/mine/ladder"
	"gleaner/trace/program"
)

// A Model is what was learned from the runs of a corpus.
type Model struct {
	c       *Corpus
	runs    []*Run
	types   []*nodeType
	nodes   []count
	sites   *sites
	totals  []*total
	shapes  []*structure
	timing  *timing
	lists   map[siteID]lengths
	Program *program.Program
}

// Learn mines the runs that were added to the corpus.
func Learn(ctx context.Context, c *Corpus) (*Model, error) {
	m := &Model{c: c, runs: c.runs}
	for _, step := range []func(){
		func() {
			for _, r := range m.runs {
				r.sort()
			}
			m.types = c.findTypes(m.runs)
			m.sites = c.findSites(m.runs)
		},
		m.learnCounts,
		func() {
			m.sites.solve(m.runs)
			for _, st := range m.sites.all {
				m.sites.findReach(st, m.runs)
			}
		},
		func() {
			m.shapes = m.sites.structures(m.nodes, m.runs)
			for _, st := range m.sites.all {
				st.learnReach()
			}
			m.totals = m.sites.totals(m.runs)
		},
		func() {
			m.timing = m.sites.times(m.runs, len(m.types))
			m.lists = m.sites.listLengths(m.runs)
		},
		func() { m.Program = m.write() },
	} {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		step()
	}
	return m, nil
}

// Conflicts are runs that claim one scale but are not of one shape: other
// numbers of nodes, or other calls. No program explains both.
func (m *Model) Conflicts() []error {
	var out []error
	for i, a := range m.runs {
		for _, b := range m.runs[:i] {
			if a.Scale != b.Scale {
				continue
			}
			if why := m.differ(a, b); why != "" {
				out = append(out, input.Errorf(a.File, "claims the scale %d as %s does, but %s", a.Scale, b.File, why))
			}
		}
	}
	return out
}

func (m *Model) differ(a, b *Run) string {
	of := func(r *Run) ([]int, map[opID]float64) {
		nodes, all := make([]int, len(m.types)), map[opID]float64{}
		for _, s := range r.senders {
			nodes[s.kind]++
			for op, v := range r.profile(s) {
				all[op] += v
			}
		}
		return nodes, all
	}
	nodesA, callsA := of(a)
	nodesB, callsB := of(b)
	for k := range m.types {
		if nodesA[k] != nodesB[k] {
			return fmt.Sprintf("has %d nodes of type %s and not %d", nodesA[k], m.types[k].name, nodesB[k])
		}
	}
	if cosine(callsA, callsB) < alike {
		return "makes other calls"
	}
	return ""
}

func (m *Model) learnCounts() {
	for k := range m.types {
		m.nodes = append(m.nodes, nodesOf(k, m.runs))
	}
	m.sites.counts(m.nodes, m.runs)
	for _, st := range m.sites.all {
		switch st.nature {
		case realtime:
			m.sites.keepTime(st, m.nodes[st.kind], m.runs)
		case varying:
			if st.count.nearly {
				continue
			}
			st.count = perNode(st.count, m.nodes[st.kind])
		}
	}
}

// A Report is what mining and checking tell, as docs/trace.md describes it.
type Report struct {
	Runs        []RunReport  `json:"runs"`
	NodeTypes   []TypeReport `json:"node_types"`
	Arguments   Arguments    `json:"arguments"`
	Unknown     []Unknown    `json:"unknown"`
	CountsExact bool         `json:"counts_exact"`
	Ambiguous   []Ambiguous  `json:"ambiguous"`
	Varying     []Varying    `json:"varying"`
	Throttled   []Throttled  `json:"throttled"`
	Check       *Check       `json:"check,omitempty"`
}

// A RunReport is one file that was read.
type RunReport struct {
	File    string `json:"file"`
	Scale   int    `json:"scale"`
	Calls   int    `json:"calls"`
	Senders int    `json:"senders"`
}

// A TypeReport is one type of node that was found.
type TypeReport struct {
	Name         string         `json:"name"`
	NodesByScale map[string]int `json:"nodes_by_scale"`
	Calls        int            `json:"calls"` // different calls it makes
	Loops        int            `json:"loops"`
	Realtime     []string       `json:"realtime"`
}

// Arguments says how the arguments of all call sites are known (Table IV).
type Arguments struct {
	Total    int `json:"total"`
	Constant int `json:"constant"`
	Regular  int `json:"regular"`
	Flow     int `json:"flow"`
	Unknown  int `json:"unknown"`
}

// Unknown is an argument whose value nothing explains, and what fills it instead.
type Unknown struct {
	NodeType  string `json:"node_type"`
	Target    string `json:"target"`
	Method    string `json:"method"`
	Call      string `json:"call"`
	Argument  string `json:"argument"`
	Example   string `json:"example"`
	Generator string `json:"generator"`
}

// Ambiguous is a count that more than one formula fits, or that may be another
// at a larger scale for the reason given.
type Ambiguous struct {
	NodeType string   `json:"node_type"`
	Target   string   `json:"target,omitempty"`
	Method   string   `json:"method,omitempty"`
	What     string   `json:"what"`
	Formulas []string `json:"formulas"`
	Next     int      `json:"next_scale"` // the scale that would tell them apart
	Why      string   `json:"why,omitempty"`

	of callType
}

// Throttled is a call that comes at the interval of a rate limit once there are
// many: a regime that larger scales stay in.
type Throttled struct {
	NodeType string  `json:"node_type"`
	Target   string  `json:"target,omitempty"`
	Method   string  `json:"method"`
	Interval float64 `json:"interval_ms"`
	From     int     `json:"from_scale"`
}

func (m *Model) throttled() []Throttled {
	out := []Throttled{}
	for _, st := range m.sites.all {
		if l, ok := m.timing.limits[gap{site: st.id}]; ok {
			op := m.c.opOf[st.op]
			out = append(out, Throttled{m.types[st.kind].name, op.target, op.method, math.Round(10*l.ms) / 10, l.from})
		}
	}
	return out
}

// Report says what was learned.
func (m *Model) Report() *Report {
	out := &Report{Unknown: []Unknown{}, Ambiguous: []Ambiguous{}, CountsExact: true}
	for _, r := range m.runs {
		out.Runs = append(out.Runs, RunReport{r.File, r.Scale, len(r.calls), len(r.senders)})
	}
	for k := range m.types {
		out.NodeTypes = append(out.NodeTypes, m.typeReport(k))
	}
	for _, st := range m.sites.all {
		for _, a := range st.args {
			out.Arguments.add(a.class())
			if a.class() == unknown {
				out.Unknown = append(out.Unknown, m.unknown(st, a))
			}
		}
	}
	out.Ambiguous, out.Varying, out.Throttled = m.Ambiguous(), m.varying(), m.throttled()
	out.CountsExact = len(out.Ambiguous) == 0 && !slices.ContainsFunc(out.Varying, func(v Varying) bool { return !v.chance })
	return out
}

func (m *Model) largest() int {
	return slices.MaxFunc(m.runs, func(a, b *Run) int { return cmp.Compare(a.Scale, b.Scale) }).Scale
}

func (m *Model) typeReport(k int) TypeReport {
	t := TypeReport{Name: m.types[k].name, NodesByScale: map[string]int{}, Loops: m.shapes[k].loops(), Realtime: []string{}}
	for _, p := range m.nodes[k].points {
		t.NodesByScale[strconv.Itoa(p.N)] = p.V
	}
	for _, st := range m.sites.all {
		if st.kind == k {
			t.Calls++
			if method := m.c.opOf[st.op].method; st.nature == realtime && !slices.Contains(t.Realtime, method) {
				t.Realtime = append(t.Realtime, method)
			}
		}
	}
	return t
}

func (a *Arguments) add(c class) {
	a.Total++
	switch c {
	case constant:
		a.Constant++
	case regular:
		a.Regular++
	case flow:
		a.Flow++
	default:
		a.Unknown++
	}
}

// Targets is Table IV for each target by itself. As in the paper, a loop
// counts once and a type of nodes counts once.
func (m *Model) Targets() map[string]Arguments {
	out := map[string]Arguments{}
	for _, st := range m.sites.all {
		target := m.c.opOf[st.op].target
		t := out[target]
		for _, a := range st.args {
			t.add(a.class())
		}
		out[target] = t
	}
	return out
}

func (m *Model) unknown(st *site, a *arg) Unknown {
	op := m.c.opOf[st.op]
	return Unknown{NodeType: m.types[st.kind].name, Target: op.target, Method: op.method, Call: st.label, Argument: a.name,
		Example: shorten(m.c.syms.Text[a.value]), Generator: m.template(a).String()}
}

func shorten(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}

// Ambiguous lists the counts that are not sure beyond the scales seen.
func (m *Model) Ambiguous() []Ambiguous {
	out := m.alternatives(16 * m.largest())
	if n := len(m.Program.Scales); n < 3 {
		out = append(out, Ambiguous{What: "all counts", Formulas: []string{}, Next: 2 * m.largest(), Why: fmt.Sprintf("a line takes three scales to show, and there are %d", n)})
	}
	for _, a := range m.doubtful() {
		if !slices.ContainsFunc(out, func(b Ambiguous) bool { return b.What == a.What && b.of == a.of }) {
			out = append(out, a)
		}
	}
	return out
}

// alternatives lists the counts of which two formulas say different things at a scale.
func (m *Model) alternatives(scale int) []Ambiguous {
	out := []Ambiguous{}
	add := func(a Ambiguous, c count) {
		seen := map[int]bool{}
		for _, f := range c.forms {
			if v := f.At(scale); !seen[v] {
				seen[v] = true
				a.Formulas = append(a.Formulas, f.String())
			}
		}
		if len(a.Formulas) > 1 {
			a.Next = ladder.Separating(c.forms, m.largest(), scale)
			out = append(out, a)
		}
	}
	for k, t := range m.types {
		add(Ambiguous{NodeType: t.name, What: "nodes"}, m.nodes[k])
	}
	for k, st := range m.shapes {
		eachLoop(st.steps, func(loop *step) {
			add(Ambiguous{NodeType: m.types[k].name, Method: m.c.opOf[loop.first().op].method, What: "iterations"}, loop.repeat)
		})
	}
	for _, t := range m.totals {
		if t.nature == logical && !t.explained() {
			op := m.c.opOf[t.op]
			add(Ambiguous{NodeType: m.types[t.kind].name, Target: op.target, Method: op.method, What: "calls", of: t.callType}, t.count)
		}
	}
	return out
}

// isNumber reports whether leaves of a kind are written without quotes.
func isNumber(k trace.Kind) bool { return k != trace.String }
