package replay

import (
	"strings"

	"gleaner/trace"
	"gleaner/trace/replay/judge"
	"gleaner/trace/replay/plan"
)

// A Fault is a call that shows that a program does not fit its target, with what was sent
// and what came back.
type Fault struct {
	What     string  `json:"what"`
	NodeType string  `json:"node_type,omitempty"`
	Sender   string  `json:"sender,omitempty"`
	Call     string  `json:"call,omitempty"` // its name in the program
	Method   string  `json:"method,omitempty"`
	At       float64 `json:"at_s"`
	Sent     string  `json:"sent,omitempty"` // the arguments, also of a call that could not be sent
	Back     string  `json:"back,omitempty"` // the refusal, or why it was not sent
}

// The kinds of fault.
const (
	unfit = iota
	absent
	unmet
	refusal
	faultKinds
)

var faultNames = [faultKinds]string{"could not be sent", "is missing", "was never completed", "was refused, as recorded calls were not"}

// longest is how much of a message a fault shows.
const longest = 600

// fault keeps the first fault of a kind. The gauge is locked. A call without a target
// cannot be wrong.
func (g *gauge) fault(kind int, st *plan.Site, call *trace.Call, at float64, back string) {
	if g.faults[kind] != nil || !st.Sent {
		return
	}
	f := &Fault{What: faultNames[kind], NodeType: st.Kind.Name, Call: st.Name, Method: st.Method, At: at, Back: cut(back)}
	if call != nil {
		f.Sender, f.Sent = call.Sender, cut(arguments(call.Request))
	}
	g.faults[kind] = f
}

func arguments(leaves []trace.Leaf) string {
	var out []string
	for _, l := range leaves {
		out = append(out, l.Path+"="+l.Value)
	}
	return strings.Join(out, " ")
}

func cut(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > longest {
		text = text[:longest] + "..."
	}
	return text
}

// addFaults adds what the gauge of a site says about the program. Refusals are a fault
// beyond the share that was recorded.
func (r *Result) addFaults(g *gauge, st *plan.Site) {
	r.Starved += g.starved
	if !st.Sent {
		return
	}
	r.Overloaded += judge.Unexpected(g.overloaded, g.answered, st.Refused)
	unexpected := judge.Unexpected(g.refused-g.overloaded, g.answered, st.Refused)
	r.Unsendable += g.unsendable
	r.Lacking += g.skipped + g.unmet
	r.Unexpected += unexpected
	for kind, f := range g.faults {
		if kind != refusal || unexpected > 0 {
			r.Fault = earlier(r.Fault, f)
		}
	}
}

// earlier is the first of two faults, either of which may be missing.
func earlier(a, b *Fault) *Fault {
	if a == nil || b != nil && b.At < a.At {
		return b
	}
	return a
}

// facts are what a verdict is made of.
func (r *Result) facts() judge.Facts {
	f := judge.Facts{
		Calls: max(r.Made, r.Answered+r.Failed), Nodes: r.nodes(),
		Unsendable: r.Unsendable, Missing: r.Lacking, Unexpected: r.Unexpected, TroubleAt: r.TroubleAt,
		Failed: r.Failed + r.Overloaded, Starved: r.Starved, Dead: len(r.Dead), Service: r.Service.P99, Lag: r.Lag.P99,
		Busy: r.Busy, Workers: r.Workers, CPU: r.CPU, Behind: r.Behind, Cold: r.Cold, Interrupted: r.Ended == "interrupted",
	}
	for _, m := range r.Machines {
		f.Elsewhere = append(f.Elsewhere, judge.Machine{Name: m.Name, CPU: m.CPU})
	}
	if r.Fault != nil {
		f.FaultAt = r.Fault.At
	}
	for _, c := range r.Calls {
		f.Missed += c.Missed
	}
	return f
}

// nodes is how many were played.
func (r *Result) nodes() (n int) {
	for _, of := range r.Nodes {
		n += of
	}
	return n
}
