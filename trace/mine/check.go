package mine

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/count"
	"gleaner/trace/mine/kind"
	"gleaner/trace/mine/order"
	"gleaner/trace/mine/pace"
	"gleaner/trace/program"
)

// A Check is how well a run that was not learned from was predicted.
type Check struct {
	CallsExpected  int         `json:"calls_expected"` // recorded
	CallsPredicted int         `json:"calls_predicted"`
	SequenceMatch  float64     `json:"sequence_match"`
	ArgumentsMatch float64     `json:"arguments_match"`
	Intervals      float64     `json:"intervals_within_10pct"`
	AtBest         float64     `json:"intervals_at_best"` // with the best interval for each call, taken from the checked run itself
	Sequences      []Sequence  `json:"sequences"`         // by node type, worst first
	ByType         []TypeCheck `json:"by_type"`
}

// A Sequence compares the calls that the nodes of a type made with those predicted:
// Common is the length of their longest common subsequences.
type Sequence struct {
	NodeType  string `json:"node_type"`
	Nodes     int    `json:"nodes"`
	Expected  int    `json:"expected"` // calls recorded
	Predicted int    `json:"predicted"`
	Common    int    `json:"common"`
}

func (q Sequence) missed() int { return q.Expected + q.Predicted - 2*q.Common }

// A TypeCheck is one row of the check: a type of node and what it calls.
type TypeCheck struct {
	NodeType         string `json:"node_type"`
	Target           string `json:"target"`
	Method           string `json:"method"`
	Expected         int    `json:"expected"`
	Predicted        int    `json:"predicted"`
	Arguments        int    `json:"arguments"`
	ArgumentsMatched int    `json:"arguments_matched"`
	Nature           string `json:"count_is"`      // logical, until, realtime or varying
	Why              string `json:"why,omitempty"` // the prediction is wrong, if known

	named bool // among the ambiguous
}

// Check compares a recorded run with what was learned. Arguments are compared by
// value: a value from a reply is looked up in the replies of this run.
func (m *Model) Check(r *corpus.Recording) *Check {
	m.c.WriteLists([]*corpus.Recording{r})
	r.Sort()
	kind.Assign(m.c, r, m.types, m.rules)
	m.sites.Sites.Place(r)
	rows := m.countRows(r)
	m.args.Compare(r, func(c *corpus.Call, matched int) {
		row := rows[count.CallType{Kind: c.Sender.Kind, Op: c.Op}]
		row.Arguments += len(c.Request.Values)
		row.ArgumentsMatched += matched
	})
	sequences := m.checkSequences(r)
	out := &Check{SequenceMatch: match(sequences), Sequences: sequences, Intervals: m.checkIntervals(r), AtBest: shareOf(pace.Repeat(m.sites, r, r))}
	var arguments, matched int
	for _, row := range rows {
		out.CallsExpected += row.Expected
		out.CallsPredicted += row.Predicted
		arguments += row.Arguments
		matched += row.ArgumentsMatched
		out.ByType = append(out.ByType, *row)
	}
	out.ArgumentsMatch = share(matched, arguments)
	slices.SortFunc(out.ByType, func(a, b TypeCheck) int {
		return cmp.Or(cmp.Compare(b.miss(), a.miss()), cmp.Compare(b.Arguments-b.ArgumentsMatched, a.Arguments-a.ArgumentsMatched),
			cmp.Compare(a.NodeType, b.NodeType), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Method, b.Method))
	})
	return out
}

// Exact reports whether every count that the scale decides, and not the clock,
// a reply or chance, was predicted exactly or named as ambiguous.
func (c *Check) Exact() bool {
	return !slices.ContainsFunc(c.ByType, func(t TypeCheck) bool {
		return t.Expected != t.Predicted && t.Nature == count.Logical.String() && !t.named
	})
}

// miss is how wrong a count is, as a share.
func (t TypeCheck) miss() float64 {
	return math.Abs(float64(t.Expected-t.Predicted)) / float64(max(t.Expected, t.Predicted, 1))
}

func shareOf(s pace.Share) float64 { return share(s.Part, s.Of) }

func share(part, whole int) float64 {
	if whole == 0 {
		return 1
	}
	return float64(part) / float64(whole)
}

func (m *Model) countRows(r *corpus.Recording) map[count.CallType]*TypeCheck {
	rows := map[count.CallType]*TypeCheck{}
	row := func(ct count.CallType) *TypeCheck {
		if rows[ct] == nil {
			op := m.c.OpOf[ct.Op]
			rows[ct] = &TypeCheck{NodeType: m.types[ct.Kind].Name, Target: op.Target, Method: op.Method, Nature: count.Varying.String()}
		}
		return rows[ct]
	}
	for _, t := range m.totals {
		w := row(t.CallType)
		w.Predicted, w.Nature = t.At(r.Scale), t.Nature.String()
	}
	for i := range r.Calls {
		row(count.CallType{Kind: r.Calls[i].Sender.Kind, Op: r.Calls[i].Op}).Expected++
	}
	for ct, w := range rows {
		if w.Expected == 0 && w.Predicted == 0 {
			delete(rows, ct)
		}
	}
	m.explainMisses(r, rows)
	return rows
}

// explainMisses adds to every count that was predicted wrong what is known about it.
func (m *Model) explainMisses(r *corpus.Recording, rows map[count.CallType]*TypeCheck) {
	doubts := m.doubts()
	for _, t := range m.totals {
		w := rows[t.CallType]
		if w == nil || w.Expected == w.Predicted {
			continue
		}
		switch {
		case t.Nature == count.Varying:
			w.Why, _ = m.whyVarying(t)
		case t.Nature == count.Logical:
			w.Why, w.named = doubts[t.CallType], doubts[t.CallType] != ""
			if odd := m.strays(r, t); odd != "" {
				w.Why, w.Nature = odd, count.Varying.String()
			}
		}
	}
}

// doubts gives the reason why the count of a call type is not certain, if so: the
// count itself, a loop it is in, or the number of nodes.
func (m *Model) doubts() map[count.CallType]string {
	out := map[count.CallType]string{}
	for k := range m.types {
		if len(m.others(m.nodes[k])) > 0 {
			for _, t := range m.totals {
				if t.Kind == k {
					out[t.CallType] = "the number of nodes is ambiguous"
				}
			}
		}
		order.EachLoop(m.shapes[k].Steps, func(loop *order.Step) {
			if len(m.others(loop.Repeat)) > 0 {
				order.EachCall(loop.Body, func(st *count.Site) {
					out[count.CallType{Kind: k, Op: st.Op}] = "the iterations of a loop are ambiguous"
				})
			}
		})
	}
	for _, a := range m.Ambiguous() {
		if a.What == "calls" {
			out[a.of] = cmp.Or(a.Why, "ambiguous: "+strings.Join(a.Formulas, " or "))
		}
	}
	return out
}

// checkSequences compares the calls that each sender made with those predicted, as far
// as the program decides them. Which nodes of a type make a step that not all make is
// chance, so the nodes that made most calls are compared with those predicted to make
// most.
func (m *Model) checkSequences(r *corpus.Recording) []Sequence {
	made := make([][][]corpus.OpID, len(m.types))
	for _, snd := range r.Senders {
		st := m.shapes[snd.Kind]
		if len(st.Steps) > 0 {
			made[snd.Kind] = append(made[snd.Kind], m.ops(st.Log(m.sites, r, snd)))
		}
	}
	out := []Sequence{}
	for k, logs := range made {
		slices.SortStableFunc(logs, func(a, b []corpus.OpID) int { return cmp.Compare(len(b), len(a)) })
		q := Sequence{NodeType: m.types[k].Name, Nodes: len(logs)}
		predicted := map[int][]corpus.OpID{} // by how many of the steps a node makes
		for i, log := range logs {
			share := (float64(i) + 0.5) / float64(len(logs))
			steps := m.shapes[k].Reached(share)
			if predicted[steps] == nil {
				predicted[steps] = m.ops(m.shapes[k].Expand(r.Scale, share))
			}
			q.Common += commonLength(predicted[steps], log)
			q.Predicted += len(predicted[steps])
			q.Expected += len(log)
		}
		if len(logs) > 0 {
			out = append(out, q)
		}
	}
	slices.SortStableFunc(out, func(a, b Sequence) int { return cmp.Compare(b.missed(), a.missed()) })
	return out
}

// match is the share of calls, both predicted and made, that are common to the two.
func match(all []Sequence) float64 {
	both, sum := 0, 0
	for _, q := range all {
		both += 2 * q.Common
		sum += q.Expected + q.Predicted
	}
	return share(both, sum)
}

// ops gives what each site calls.
func (m *Model) ops(sites []corpus.SiteID) []corpus.OpID {
	out := make([]corpus.OpID, len(sites))
	for i, site := range sites {
		out[i] = m.sites.All[site].Op
	}
	return out
}

// longestTable bounds the table for a longest common subsequence: 160 MB. Sequences of
// 6,000 calls each stay below.
const longestTable = 4e7

// commonLength is the length of the longest common subsequence; for very long
// sequences, the number of calls that both have in any order.
func commonLength(a, b []corpus.OpID) int {
	if len(a)*len(b) < longestTable {
		return len(order.Common(a, b))
	}
	counts := map[corpus.OpID]int{}
	for _, op := range a {
		counts[op]++
	}
	n := 0
	for _, op := range b {
		if counts[op] > 0 {
			counts[op]--
			n++
		}
	}
	return n
}

// checkIntervals is the share of intervals within 10% of the predicted ones.
func (m *Model) checkIntervals(r *corpus.Recording) float64 {
	near, all := 0, 0
	pace.EachGap(m.sites, r, func(g pace.Gap, ms float64) {
		all++
		f, ok := m.timing.Gaps[g]
		if !ok {
			return
		}
		if want := f.Eval(program.Vars{program.N: float64(r.Scale)}); math.Abs(want-ms) <= 0.1*ms {
			near++
		}
	})
	return share(near, all)
}
