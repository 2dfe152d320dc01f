package mine

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"gleaner/trace/mine/intern"
	"gleaner/trace/program"
)

// A Check is how well a run that was not learned from was predicted.
type Check struct {
	CallsExpected  int         `json:"calls_expected"`  // recorded
	CallsPredicted int         `json:"calls_predicted"` // foretold
	SequenceMatch  float64     `json:"sequence_match"`
	ArgumentsMatch float64     `json:"arguments_match"`
	Intervals      float64     `json:"intervals_within_10pct"`
	ByType         []TypeCheck `json:"by_type"`
}

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
	Why              string `json:"why,omitempty"` // a count was not foretold, where that is known

	named bool // among the ambiguous
}

// Check holds a recorded run against what was learned. Arguments are compared
// by value: what comes from a reply is looked up in the replies of this run.
func (m *Model) Check(r *Run) *Check {
	r.sort()
	m.c.assign(r, m.types)
	m.sites.place(r)
	rows := m.countRows(r)
	m.checkArguments(r, rows)
	out := &Check{SequenceMatch: m.checkSequences(r), Intervals: m.checkIntervals(r)}
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
// a reply or chance, was foretold exactly or named as ambiguous.
func (c *Check) Exact() bool {
	return !slices.ContainsFunc(c.ByType, func(t TypeCheck) bool {
		return t.Expected != t.Predicted && t.Nature == logical.String() && !t.named
	})
}

// miss is how wrong a count is, as a share.
func (t TypeCheck) miss() float64 {
	return math.Abs(float64(t.Expected-t.Predicted)) / float64(max(t.Expected, t.Predicted, 1))
}

func share(part, whole int) float64 {
	if whole == 0 {
		return 1
	}
	return float64(part) / float64(whole)
}

func (m *Model) countRows(r *Run) map[callType]*TypeCheck {
	rows := map[callType]*TypeCheck{}
	row := func(ct callType) *TypeCheck {
		if rows[ct] == nil {
			op := m.c.opOf[ct.op]
			rows[ct] = &TypeCheck{NodeType: m.types[ct.kind].name, Target: op.target, Method: op.method, Nature: varying.String()}
		}
		return rows[ct]
	}
	for _, t := range m.totals {
		w := row(t.callType)
		w.Predicted, w.Nature = t.at(r.Scale), t.nature.String()
	}
	for i := range r.calls {
		row(callType{r.calls[i].sender.kind, r.calls[i].op}).Expected++
	}
	for ct, w := range rows {
		if w.Expected == 0 && w.Predicted == 0 {
			delete(rows, ct)
		}
	}
	m.explainMisses(r, rows)
	return rows
}

// explainMisses says of every count that was foretold wrong what is known of it.
func (m *Model) explainMisses(r *Run, rows map[callType]*TypeCheck) {
	doubts := m.doubts()
	for _, t := range m.totals {
		w := rows[t.callType]
		if w == nil || w.Expected == w.Predicted {
			continue
		}
		switch {
		case t.nature == varying:
			w.Why, _ = m.whyVarying(t)
		case t.nature == logical:
			w.Why, w.named = doubts[t.callType], doubts[t.callType] != ""
			if odd := m.strays(r, t); odd != "" {
				w.Why, w.Nature = odd, varying.String()
			}
		}
	}
}

// doubts says of every call type why its count is not sure, if it is not: by
// itself, by a loop it is in, or by the number of nodes.
func (m *Model) doubts() map[callType]string {
	out := map[callType]string{}
	for k := range m.types {
		if len(m.others(m.nodes[k])) > 0 {
			for _, t := range m.totals {
				if t.kind == k {
					out[t.callType] = "the number of nodes is ambiguous"
				}
			}
		}
		eachLoop(m.shapes[k].steps, func(loop *step) {
			if len(m.others(loop.repeat)) > 0 {
				eachCall(loop.body, func(st *site) { out[callType{k, st.op}] = "the iterations of a loop are ambiguous" })
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

// checkArguments compares every argument of the run with its rule's value.
func (m *Model) checkArguments(r *Run, rows map[callType]*TypeCheck) {
	e := newEvaluator(m.sites)
	for _, st := range m.sites.all {
		for _, a := range st.args {
			for _, s := range a.slots() {
				for _, rule := range s.best() {
					if src, ok := rule.(source); ok {
						e.need(src)
					}
				}
			}
		}
	}
	e.walk(r, func(i int32) {
		call := &r.calls[i]
		row := rows[callType{call.sender.kind, call.op}]
		row.Arguments += len(call.req.values)
		if call.site == noSite {
			return
		}
		st := m.sites.all[call.site]
		for pos, p := range st.plan(m.c, call.req.shape) {
			if st.args[p.arg].foretold(e, occ{r, i, int32(pos), p.star}) {
				row.ArgumentsMatched++
			}
		}
	})
}

// foretold reports whether the argument's rules give the value recorded.
func (a *arg) foretold(e *evaluator, o occ) bool {
	switch {
	case a.constant:
		return o.raw() == a.value
	case a.whole == nil:
		return false
	case a.whole.solved != unknown || len(a.words) == 0 || a.class() == unknown && a.whole.guess != nil:
		return a.whole.foretold(e, o)
	}
	if intern.Separators(e.c.syms.Text[o.raw()]) != a.pattern {
		return false
	}
	for _, s := range a.words {
		if !s.foretold(e, o) {
			return false
		}
	}
	return true
}

func (s *slot) foretold(e *evaluator, o occ) bool {
	want, ok := s.value(e.c, o)
	if !ok {
		return false
	}
	for _, r := range s.best() {
		if t, isTime := r.(now); isTime {
			return t.meets(e.c, o, want)
		}
		if set, isSet := r.(shuffled); isSet {
			return set.set[want]
		}
		if src, isSource := r.(source); isSource && src.sel == each {
			if src.among(e, o, want) {
				return true
			}
			continue
		}
		if v, known := r.value(e, o); known {
			return v == want
		}
	}
	return false
}

// checkSequences compares, for every sender, the calls foretold and the calls
// made, as far as they follow the program: the share of both that is common
// and in the same order.
func (m *Model) checkSequences(r *Run) float64 {
	foretold := map[int][]opID{}
	both, all := 0, 0
	for _, snd := range r.senders {
		st := m.shapes[snd.kind]
		if len(st.steps) == 0 {
			continue
		}
		if foretold[snd.kind] == nil {
			foretold[snd.kind] = []opID{}
			for _, site := range st.expand(r.Scale) {
				foretold[snd.kind] = append(foretold[snd.kind], m.sites.all[site].op)
			}
		}
		var made []opID
		for _, sym := range m.sites.log(r, snd, logical) {
			made = append(made, m.sites.all[sym].op)
		}
		both += 2 * commonLength(foretold[snd.kind], made)
		all += len(foretold[snd.kind]) + len(made)
	}
	return share(both, all)
}

// commonLength is the length of the longest common subsequence; of very long
// sequences, how much their counts have in common.
func commonLength(a, b []opID) int {
	if len(a)*len(b) < 4e7 {
		return len(common2(a, b))
	}
	counts := map[opID]int{}
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

// checkIntervals is the share of intervals within 10% of the foretold ones.
func (m *Model) checkIntervals(r *Run) float64 {
	near, all := 0, 0
	m.sites.eachGap(r, func(g gap, ms float64) {
		all++
		f, ok := m.timing.gaps[g]
		if !ok {
			return
		}
		if want := f.Eval(program.Vars{"n": float64(r.Scale)}); math.Abs(want-ms) <= 0.1*ms {
			near++
		}
	})
	return share(near, all)
}
