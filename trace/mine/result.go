package mine

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gleaner/input"
	"gleaner/trace/mine/argument"
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/count"
	"gleaner/trace/mine/join"
	"gleaner/trace/mine/kind"
	"gleaner/trace/mine/ladder"
	"gleaner/trace/mine/neighbour"
	"gleaner/trace/mine/order"
	"gleaner/trace/mine/pace"
	"gleaner/trace/mine/reaction"
	"gleaner/trace/mine/site"
	"gleaner/trace/program"
)

// A Model is what was learned from the runs of a corpus.
type Model struct {
	c       *corpus.Corpus
	runs    []*corpus.Recording
	rules   []kind.Rule
	types   []*kind.Kind
	nodes   []count.Count
	sites   *count.Sites
	args    *argument.Rules
	totals  []*count.Total
	shapes  []*order.Structure
	timing  *pace.Timing
	joins   map[corpus.SiteID][]join.Wait
	lists   argument.Lists
	reacts  []reaction.Reaction
	Program *program.Program
}

// Learn mines the recordings that were added to the corpus. Rules are the user's word
// on node types; behaviour decides on all other senders.
func Learn(ctx context.Context, c *corpus.Corpus, rules ...kind.Rule) (*Model, error) {
	m := &Model{c: c, runs: c.Recordings, rules: rules}
	for _, step := range []func(){
		func() {
			c.FindLists(m.runs)
			for _, r := range m.runs {
				r.Sort()
			}
			m.types = kind.Find(c, m.runs, rules)
			m.reacts = reaction.Find(c, m.runs, len(m.types))
			for k := range m.types {
				m.nodes = append(m.nodes, count.Nodes(k, m.runs))
			}
		},
		func() { m.sites = count.Learn(site.Find(c, m.runs), m.nodes, m.runs) },
		func() { m.args = argument.Learn(m.sites.Sites, m.runs) },
		func() {
			if neighbour.Split(m.sites, m.args, m.runs) {
				m.sites = count.Learn(m.sites.Sites, m.nodes, m.runs)
				m.args = argument.Learn(m.sites.Sites, m.runs)
			}
		},
		func() {
			for _, st := range m.sites.All {
				for users := range m.args.Users(st.Site, m.runs) {
					if m.sites.FindReach(st, users, m.runs); len(st.Reach) > 0 {
						break
					}
				}
			}
			m.shapes = order.Find(m.sites, m.nodes, m.runs, m.args.Chained)
			for _, st := range m.sites.All {
				st.LearnReach()
			}
			m.totals = m.sites.Totals(m.runs)
		},
		func() {
			m.timing = pace.Learn(m.sites, m.runs, len(m.types))
			m.joins = join.Find(m.sites, m.shapes, m.timing.Starts, m.runs)
			m.lists = argument.ListLengths(m.sites.Sites, m.runs)
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

// Conflicts lists runs that claim the same scale but have other numbers of nodes or
// make other calls. No program explains both.
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

func (m *Model) differ(a, b *corpus.Recording) string {
	of := func(r *corpus.Recording) ([]int, map[corpus.OpID]float64) {
		nodes, all := make([]int, len(m.types)), map[corpus.OpID]float64{}
		for _, s := range r.Senders {
			nodes[s.Kind]++
			for op, v := range kind.Profile(r, s) {
				all[op] += v
			}
		}
		return nodes, all
	}
	nodesA, callsA := of(a)
	nodesB, callsB := of(b)
	for k := range m.types {
		if nodesA[k] != nodesB[k] {
			return fmt.Sprintf("has %d nodes of type %s and not %d", nodesA[k], m.types[k].Name, nodesB[k])
		}
	}
	if kind.Cosine(callsA, callsB) < kind.Alike {
		return "makes other calls"
	}
	return ""
}

// A Report is the result of mining and checking; docs/trace.md describes it.
type Report struct {
	Runs        []RunReport    `json:"runs"`
	NodeTypes   []TypeReport   `json:"node_types"`
	Arguments   argument.Known `json:"arguments"`
	Unknown     []Unknown      `json:"unknown"`
	CountsExact bool           `json:"counts_exact"`
	Ambiguous   []Ambiguous    `json:"ambiguous"`
	Varying     []Varying      `json:"varying"`
	Throttled   []Throttled    `json:"throttled"`
	Repeats     []Repeated     `json:"repeats"`
	Check       *Check         `json:"check,omitempty"`
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

// Unknown is an argument that no rule explains, with the generator that fills it.
type Unknown struct {
	NodeType  string `json:"node_type"`
	Target    string `json:"target"`
	Method    string `json:"method"`
	Call      string `json:"call"`
	Argument  string `json:"argument"`
	Example   string `json:"example"`
	Generator string `json:"generator"`
}

// Ambiguous is a count that several formulas fit, or that may be wrong at a larger
// scale for the reason given; or an argument that two rules give.
type Ambiguous struct {
	NodeType string   `json:"node_type"`
	Target   string   `json:"target,omitempty"`
	Method   string   `json:"method,omitempty"`
	What     string   `json:"what"`
	Formulas []string `json:"formulas"`
	Next     int      `json:"next_scale"` // the scale that would tell them apart
	Why      string   `json:"why,omitempty"`

	of count.CallType
}

// Throttled is a call that a rate limit delays once there are many. At larger scales
// the limit decides its interval.
type Throttled struct {
	NodeType string  `json:"node_type"`
	Target   string  `json:"target,omitempty"`
	Method   string  `json:"method"`
	Interval float64 `json:"interval_ms"`
	From     int     `json:"from_scale"`
}

// Repeated is how well one run predicts another of the same scale: no more can be
// expected of a prediction from smaller scales.
type Repeated struct {
	Files     [2]string `json:"files"`
	Scale     int       `json:"scale"`
	Intervals float64   `json:"intervals_within_10pct"` // of one run, by the usual intervals of the other
}

func (m *Model) repeats() []Repeated {
	out := []Repeated{}
	for i, b := range m.runs {
		for _, a := range m.runs[:i] {
			if a.Scale == b.Scale {
				ab, ba := pace.Repeat(m.sites, b, a), pace.Repeat(m.sites, a, b)
				out = append(out, Repeated{[2]string{a.File, b.File}, a.Scale, share(ab.Part+ba.Part, ab.Of+ba.Of)})
			}
		}
	}
	return out
}

func (m *Model) throttled() []Throttled {
	out := []Throttled{}
	for _, st := range m.sites.All {
		if l, ok := m.timing.Limits[pace.Gap{Site: st.ID}]; ok {
			op := m.c.OpOf[st.Op]
			out = append(out, Throttled{m.types[st.Kind].Name, op.Target, op.Method, math.Round(10*l.Millis) / 10, l.From})
		}
	}
	return out
}

// Report reports what was learned.
func (m *Model) Report() *Report {
	out := &Report{Unknown: []Unknown{}, Ambiguous: []Ambiguous{}, CountsExact: true}
	for _, r := range m.runs {
		out.Runs = append(out.Runs, RunReport{r.File, r.Scale, len(r.Calls), len(r.Senders)})
	}
	for k := range m.types {
		out.NodeTypes = append(out.NodeTypes, m.typeReport(k))
	}
	for _, st := range m.sites.All {
		out.Arguments.Add(m.args.Count(st.Site))
		for _, u := range m.args.Unknown(st.Site) {
			op := m.c.OpOf[st.Op]
			out.Unknown = append(out.Unknown, Unknown{NodeType: m.types[st.Kind].Name, Target: op.Target, Method: op.Method, Call: st.Label,
				Argument: u.Name, Example: shorten(u.Example), Generator: u.Generator})
		}
	}
	out.Ambiguous, out.Varying, out.Throttled, out.Repeats = m.Ambiguous(), m.varying(), m.throttled(), m.repeats()
	counts := slices.ContainsFunc(out.Ambiguous, func(a Ambiguous) bool { return !strings.HasPrefix(a.What, argumentWord) })
	out.CountsExact = !counts && !slices.ContainsFunc(out.Varying, func(v Varying) bool { return !v.chance })
	return out
}

func (m *Model) largest() int {
	return slices.MaxFunc(m.runs, func(a, b *corpus.Recording) int { return cmp.Compare(a.Scale, b.Scale) }).Scale
}

func (m *Model) typeReport(k int) TypeReport {
	t := TypeReport{Name: m.types[k].Name, NodesByScale: map[string]int{}, Loops: m.shapes[k].Loops(), Realtime: []string{}}
	for _, p := range m.nodes[k].Points {
		t.NodesByScale[strconv.Itoa(p.N)] = p.V
	}
	for _, st := range m.sites.All {
		if st.Kind == k {
			t.Calls++
			if method := m.c.OpOf[st.Op].Method; st.Nature == count.Realtime && !slices.Contains(t.Realtime, method) {
				t.Realtime = append(t.Realtime, method)
			}
		}
	}
	return t
}

// Targets is Table IV for each target. As in the paper, the calls of a loop and of a
// type of nodes count once.
func (m *Model) Targets() map[string]argument.Known {
	out := map[string]argument.Known{}
	for _, st := range m.sites.All {
		target := m.c.OpOf[st.Op].Target
		t := out[target]
		t.Add(m.args.Count(st.Site))
		out[target] = t
	}
	return out
}

func shorten(s string) string {
	const line = 80 // characters of a terminal
	if len(s) > line {
		return s[:line] + "..."
	}
	return s
}

// horizon is how far beyond the largest scale formulas are compared, as a factor. Two
// formulas that agree so far differ later, if at all, by a bound that no recording
// could show.
const horizon = 16

// Ambiguous lists what is not certain beyond the scales seen.
func (m *Model) Ambiguous() []Ambiguous {
	out := m.alternatives(horizon * m.largest())
	if n := len(m.Program.Scales); n < 3 {
		out = append(out, Ambiguous{What: "all counts", Formulas: []string{}, Next: 2 * m.largest(), Why: fmt.Sprintf("a line takes three scales to show, and there are %d", n)})
	}
	for _, a := range m.doubtful() {
		if !slices.ContainsFunc(out, func(b Ambiguous) bool { return b.What == a.What && b.of == a.of }) {
			out = append(out, a)
		}
	}
	return append(out, m.listed()...)
}

// listed lists the arguments that either count calls or come from a list.
func (m *Model) listed() []Ambiguous {
	var out []Ambiguous
	for _, st := range m.sites.All {
		for _, l := range m.args.Listed(st.Site) {
			op := m.c.OpOf[st.Op]
			a := Ambiguous{NodeType: m.types[st.Kind].Name, Target: op.Target, Method: op.Method, What: argumentWord + l.Name, Formulas: l.Either[:],
				Why: "as text, 10 comes before 2"}
			each := m.each(st)
			for a.Next = range program.Scales(m.largest(), horizon*m.largest()) {
				if each.At(a.Next) >= l.Calls {
					break
				}
			}
			out = append(out, a)
		}
	}
	return out
}

// argumentWord is how Ambiguous.What begins for an argument.
const argumentWord = "argument "

// alternatives lists the counts for which two formulas differ at a scale.
func (m *Model) alternatives(scale int) []Ambiguous {
	out := []Ambiguous{}
	add := func(a Ambiguous, c count.Count) {
		seen := map[int]bool{}
		for _, f := range c.Forms {
			if v := f.At(scale); !seen[v] {
				seen[v] = true
				a.Formulas = append(a.Formulas, f.String())
			}
		}
		if len(a.Formulas) > 1 {
			a.Next = ladder.Separating(c.Forms, m.largest(), scale)
			out = append(out, a)
		}
	}
	for k, t := range m.types {
		add(Ambiguous{NodeType: t.Name, What: "nodes"}, m.nodes[k])
	}
	for k, st := range m.shapes {
		order.EachLoop(st.Steps, func(loop *order.Step) {
			add(Ambiguous{NodeType: m.types[k].Name, Method: m.c.OpOf[loop.First().Op].Method, What: "iterations"}, loop.Repeat)
		})
	}
	for _, t := range m.totals {
		if t.Nature == count.Logical && !t.Explained() {
			op := m.c.OpOf[t.Op]
			add(Ambiguous{NodeType: m.types[t.Kind].Name, Target: op.Target, Method: op.Method, What: "calls", of: t.CallType}, t.Count)
		}
	}
	return out
}
