package replay

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"gleaner/trace"
	"gleaner/trace/program"
	"gleaner/trace/replay/plan"
)

// A Comparison compares what was played with what was recorded.
type Comparison struct {
	Rows []CountRow `json:"rows"`
	// Equal is whether all counts are the same, except those that the clock or the
	// replies decide.
	Equal bool `json:"equal"`
}

// A CountRow is how often one type of node made one call.
type CountRow struct {
	NodeType string `json:"node_type"`
	Method   string `json:"method"`
	Recorded int    `json:"recorded"`
	Played   int    `json:"played"`
	Aside    string `json:"aside,omitempty"` // why the two need not be the same
}

// A Counter counts the calls of a recorded trace by the types of a program.
type Counter struct {
	types  []senders
	counts map[[2]string]int
}

type senders struct {
	name    string
	pattern *regexp.Regexp
	fixed   int // characters of the name that are the same for all nodes
}

// NewCounter returns a counter for a program's types. It recognises them by the names of
// their nodes.
func NewCounter(p *program.Program) *Counter {
	c := &Counter{counts: map[[2]string]int{}}
	for _, t := range p.Types {
		pattern, fixed := "", 0
		for text, hole := range t.Sender.Pieces() {
			if hole != nil {
				pattern += ".+"
				continue
			}
			pattern += regexp.QuoteMeta(text)
			fixed += len(text)
		}
		c.types = append(c.types, senders{t.Name, regexp.MustCompile("^" + pattern + "$"), fixed})
	}
	slices.SortStableFunc(c.types, func(a, b senders) int { return b.fixed - a.fixed })
	return c
}

// Add counts a recorded call.
func (c *Counter) Add(call *trace.Call) {
	c.counts[[2]string{c.typeOf(call.Sender), strings.Clone(call.Method)}]++
}

// Of is how often nodes of a type made a call.
func (c *Counter) Of(nodeType, method string) int { return c.counts[[2]string{nodeType, method}] }

func (c *Counter) typeOf(sender string) string {
	for _, t := range c.types {
		if t.pattern.MatchString(sender) {
			return t.name
		}
	}
	return unknown
}

// unknown is the type of senders that no type of the program has.
const unknown = "?"

// Compare compares a result with the counts. Only calls that were sent count, and each
// once, however often it was tried. Counts that the clock or a reply decides need not be
// equal, nor those of calls to roles without a target or of senders that are not played.
func (c *Counter) Compare(r *Result) Comparison {
	rows := map[[2]string]*CountRow{}
	row := func(key [2]string) *CountRow {
		if rows[key] == nil {
			rows[key] = &CountRow{NodeType: key[0], Method: key[1]}
		}
		return rows[key]
	}
	for key, n := range c.counts {
		row(key).Recorded = n
		if key[0] == unknown {
			row(key).Aside = "of no type of the program"
		}
	}
	for _, call := range r.Calls {
		w := row([2]string{call.NodeType, call.Method})
		w.Played += call.Sent
		if call.Unsent > 0 {
			w.Aside = "not sent, for lack of a target"
		}
		switch call.Nature {
		case plan.InBeats.String():
			w.Aside = "by the clock"
		case "until":
			w.Aside = "until the reply meets a condition"
		case plan.ByReach.String():
			w.Aside = "several may be merged into one"
		}
	}
	out := Comparison{Equal: true, Rows: []CountRow{}}
	for _, w := range rows {
		out.Rows = append(out.Rows, *w)
		out.Equal = out.Equal && (w.Aside != "" || w.Recorded == w.Played)
	}
	slices.SortFunc(out.Rows, func(a, b CountRow) int {
		return cmp.Or(cmp.Compare(a.NodeType, b.NodeType), cmp.Compare(a.Method, b.Method))
	})
	return out
}
