package extrapolate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gleaner/chart"
	"gleaner/lab"
	"gleaner/trace/replay"
)

// A PaperFigure is what one of the paper's figures shows, and what it is here.
type PaperFigure struct {
	Figure, Shows, Paper string
	Ours                 func(*experiment) string
}

// eight is our side of the figures with eight containers a node.
func eight(*experiment) string { return "not played: the recorded job has one container a node" }

// nameNodeFigures are those of the NameNode (§V-C); the paper's job is TeraSort.
func nameNodeFigures() []PaperFigure {
	return []PaperFigure{
		{"5", "throughput against scale, one container a node", "NameNode holds about 20,000 nodes (8 machines, 4 cores each)", (*experiment).knee},
		{"6", "the same, eight containers a node", "NameNode peaks at about 11,000 nodes", eight},
		{"7", "latency of each call, one container a node", "blockReceived, complete and heartbeat are the slowest", (*experiment).slowest},
		{"8", "the same, eight containers a node", "the same three", eight},
		{"9", "start-up latency against scale", "Resource Manager: see --target resourcemanager", (*experiment).startups},
		{"10", "start-up latency against containers a node", "Resource Manager: more containers a node, longer start-up", eight},
	}
}

// resourceManagerFigures are those of the Resource Manager (§V-D), and our
// counterparts of the NameNode's.
func resourceManagerFigures() []PaperFigure {
	all := nameNodeFigures()
	all[0].Paper, all[2].Paper = "of the NameNode: see --target namenode", "of the NameNode"
	all[4].Paper = "grows steadily, 10 s at medium scale, and sharply from 60,000 containers on"
	return all
}

// otherFigures are the paper's, for a target that the paper does not have, with our
// counterparts.
func otherFigures() []PaperFigure {
	all := nameNodeFigures()
	for _, i := range []int{1, 3, 5} {
		all[i].Ours = func(*experiment) string { return "not for this target: a node has one task at a time" }
	}
	all[4].Paper = "Resource Manager saturates at 60,000 containers"
	return all
}

func (e *experiment) knee() string {
	r := e.swept
	text := fmt.Sprintf("%s holds %d %s", e.Name, r.Held, e.Unit)
	if r.GaveIn > 0 {
		text += fmt.Sprintf(" and gives in at %d: %s", r.GaveIn, r.Why)
	}
	if r.PlayerLimit > 0 {
		text += fmt.Sprintf("; %d says nothing about it: %s: %s", r.PlayerLimit, e.at(r.PlayerLimit).Verdict, e.at(r.PlayerLimit).Why)
	}
	if r.Broken > 0 {
		text += fmt.Sprintf("; %d says nothing about it: %s: %s", r.Broken, e.at(r.Broken).Verdict, e.at(r.Broken).Why)
	}
	return text + " (this machine plays, and runs the target)"
}

// held is the verdict at the largest scale that was held, or the first.
func (e *experiment) held() replay.Verdict { return e.at(e.swept.Held) }

// at is the verdict at a scale, or the first.
func (e *experiment) at(scale int) replay.Verdict {
	i := slices.IndexFunc(e.swept.Runs, func(v replay.Verdict) bool { return v.Scale == scale })
	return e.swept.Runs[max(i, 0)]
}

func (e *experiment) slowest() string {
	calls := slices.DeleteFunc(slices.Clone(e.held().Calls), func(c replay.CallResult) bool { return c.Service.Mean == 0 })
	slices.SortStableFunc(calls, func(a, b replay.CallResult) int { return int(1000 * (b.Service.Mean - a.Service.Mean)) })
	var names []string
	for _, c := range calls[:min(3, len(calls))] {
		names = append(names, fmt.Sprintf("%s of %s (%.1f ms)", short(c.Method), c.NodeType, c.Service.Mean))
	}
	return fmt.Sprintf("at %d %s: %s", e.held().Scale, e.Unit, strings.Join(names, ", "))
}

func (e *experiment) startups() string {
	first, last := e.swept.Runs[0].Scale, e.swept.Runs[len(e.swept.Runs)-1].Scale
	return fmt.Sprintf("%.0f ms at %d %s, %.0f ms at %d", e.extra[first].startupMillis(), first, e.Unit, e.extra[last].startupMillis(), last)
}

// short is a method without its package.
func short(method string) string { return method[strings.LastIndexAny(method, "./")+1:] }

func (e *experiment) results() ([]lab.Table, []chart.Figure) {
	tables := []lab.Table{e.learned(), e.playedBack()}
	if e.extra[e.Check].logged.calls != nil {
		tables = append(tables, e.counted())
	}
	return append(tables, e.scaled(), e.latencies(), e.beside()), []chart.Figure{e.throughputFigure(), e.latencyFigure()}
}

// counted compares what was recorded with what the target itself logged while it was played
// to: calls that the program decides, and refusals of all calls.
func (e *experiment) counted() lab.Table {
	t := lab.Table{Name: "counted", Title: fmt.Sprintf("%d %s recorded, and what %s itself logged when they were played to it", e.Check, e.Unit, e.Name),
		Columns: []string{"node type", "call", "decided by", "recorded", "logged", "refused, recorded", "refused, logged", "equal"}}
	equal, of, ambiguous := 0, 0, 0
	x := e.extra[e.Check].logged
	for _, row := range e.report.Check.ByType {
		logged := x.calls.Of(row.NodeType, row.Method)
		is := "-"
		switch {
		case row.Nature != "logical":
		case row.Why != "":
			is = "named as ambiguous"
			ambiguous++
		default:
			is = yes(logged == row.Expected)
			of++
			if logged == row.Expected {
				equal++
			}
		}
		t.Add(row.NodeType, row.Method, decidedBy(row.Nature), row.Expected, logged, e.refused.Of(row.NodeType, row.Method), x.refused.Of(row.NodeType, row.Method), is)
	}
	t.Notes = []string{fmt.Sprintf("%d of %d counts that the program decides are equal; %d more were named as ambiguous when they were learned. %d calls were refused more often than recorded.", equal, of, ambiguous, e.played.Unexpected)}
	return t
}

// learned compares what mining found with what the paper reports.
func (e *experiment) learned() lab.Table {
	t := lab.Table{Name: "learned", Title: fmt.Sprintf("What is learned of %s from %s %v, checked at %d", e.Name, e.Unit, e.Learn, e.Check),
		Columns: []string{"what", "NameNode (paper)", "Resource Manager (paper)", e.Name + " (ours)"}}
	a, c := e.report.Arguments, e.report.Check
	t.Add("arguments known, of those of all call sites", "98%", "83%", fmt.Sprintf("%s (%d of %d)", percent(share(a.Total-a.Unknown, a.Total)), a.Total-a.Unknown, a.Total))
	t.Add("counts of calls predicted exactly", "not said", "not said", yes(c.Exact()))
	t.Add("sequences as recorded", "but for failed nodes", "100%", percent(c.SequenceMatch))
	t.Add("arguments as recorded", "match", "match", percent(c.ArgumentsMatch))
	t.Add("intervals within 10%", "90%", "99%", percent(c.Intervals))
	t.Add(fmt.Sprintf("intervals within 10%% or %d ms", noise), "not said", "not said", percent(e.near))
	t.Notes = []string{fmt.Sprintf("The paper learns from 3, 6 and 12 nodes and checks at 500; %d calls were recorded here at %d %s.", c.CallsExpected, e.Check, e.Unit),
		"Counts that the clock or a reply decides need not be exact."}
	return t
}

// playedBack compares what was recorded with what was played.
func (e *experiment) playedBack() lab.Table {
	t := lab.Table{Name: "played", Title: fmt.Sprintf("%d %s recorded, and played to %s", e.Check, e.Unit, e.Name),
		Columns: []string{"node type", "call", "decided by", "recorded", "played", "refused", "no reply", "equal"}}
	unequal := 0
	for _, row := range e.report.Check.ByType {
		if !slices.Contains(e.roles, row.Target) {
			continue // that role was not played
		}
		c := find(e.played.Calls, row.NodeType, row.Method)
		equal := yes(c.Made == row.Expected)
		if row.Nature != "logical" {
			equal = "-"
		} else if c.Made != row.Expected {
			unequal++
		}
		t.Add(row.NodeType, short(row.Method), decidedBy(row.Nature), row.Expected, c.Made, c.Refused, c.Failed, equal)
	}
	x := e.extra[e.Check]
	t.Notes = []string{fmt.Sprintf("%d call types that the program decides are not as often played as recorded; %d calls refused, %d without a reply, %d denied, %d nodes declared dead.",
		unequal, e.played.Refused, e.played.Failed, x.denied, len(x.lost)),
		"Decided by chance: no two runs of the recorded system make the same number of these calls, because it depends on where work is placed and on what goes into one call."}
	if x.says != "" {
		t.Notes = append(t.Notes, fmt.Sprintf("What %s says at the end: %s.", e.Name, x.says))
	}
	return t
}

func decidedBy(nature string) string {
	return map[string]string{"logical": "the program", "realtime": "the clock", "until": "a reply", "varying": "chance"}[nature]
}

func find(calls []replay.CallResult, node, method string) replay.CallResult {
	for _, c := range calls {
		if c.NodeType == node && c.Method == method {
			return c
		}
	}
	return replay.CallResult{}
}

// scaled is Figure 5 as a table: what the target does at every scale.
func (e *experiment) scaled() lab.Table {
	t := lab.Table{Name: "scaled", Title: fmt.Sprintf("%s against scale (Figures 5 and 9)", e.Name),
		Columns: []string{e.Unit, "calls/s", "p50 ms", "p99 ms", "lag p99 ms", "refused", "no reply", "declared dead", "start-up ms", "cores: players, target, others", "it says", "verdict"}}
	for _, v := range e.swept.Runs {
		x := e.extra[v.Scale]
		verdict := string(v.Verdict)
		if v.Why != "" {
			verdict += ": " + v.Why
		}
		t.Add(v.Scale, fmt.Sprintf("%.0f", v.PerSecond), fmt.Sprintf("%.1f", v.Service.P50), fmt.Sprintf("%.1f", v.Service.P99), fmt.Sprintf("%.1f", v.Lag.P99),
			v.Refused, v.Failed, len(x.lost), fmt.Sprintf("%.0f", x.startupMillis()),
			fmt.Sprintf("%.1f, %.1f, %.1f", v.CPU.Players, v.CPU.Target, v.CPU.Others), x.says, verdict)
	}
	if e.Time > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("Each scale is played for %v to a fresh target.", e.Time))
	}
	if e.Pace > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("Before that its nodes start, %v after one another and over 3 s at least; errors during that time count, latencies do not.", e.Pace))
	}
	if e.Own > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("Up to %d %s have connections of their own; more share %d, because a process may not have one for each.", e.Own, e.Unit, e.Share))
	}
	if e.swept.PlayerLimit > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%d %s say nothing about the target: %s: %s.", e.swept.PlayerLimit, e.Unit, e.at(e.swept.PlayerLimit).Verdict, e.at(e.swept.PlayerLimit).Why))
	}
	t.Notes = append(t.Notes, fmt.Sprintf("It gives in when a hundredth of the replies take %v, a hundredth of the calls fail or of the beats are missed; players are late when a hundredth of calls are sent %v late.",
		cmp.Or(e.Limits.Latency, time.Second), cmp.Or(e.Limits.Lag, 50*time.Millisecond)))
	t.Notes = append(t.Notes, fmt.Sprintf("Start-up is from %s.", e.StartUp))
	for _, said := range e.swept.Said {
		t.Notes = append(t.Notes, "When it gave in: "+said)
	}
	return t
}

// latencies is Figure 7 as a table.
func (e *experiment) latencies() lab.Table {
	t := lab.Table{Name: "latency", Title: "Mean latency of each call in ms, by scale (Figure 7)", Columns: []string{"node type", "call"}}
	for _, v := range e.swept.Runs {
		t.Columns = append(t.Columns, fmt.Sprint(v.Scale))
	}
	for _, c := range e.callTypes() {
		cells := []any{c.NodeType, short(c.Method)}
		for _, v := range e.swept.Runs {
			if at := find(v.Calls, c.NodeType, c.Method); at.Service.Mean > 0 {
				cells = append(cells, fmt.Sprintf("%.1f", at.Service.Mean))
			} else {
				cells = append(cells, "-") // not called while it was measured
			}
		}
		t.Add(cells...)
	}
	return t
}

// callTypes are those that were called at the smallest scale; what the target sends
// unasked has no latency.
func (e *experiment) callTypes() []replay.CallResult {
	return slices.DeleteFunc(slices.Clone(e.swept.Runs[0].Calls), func(c replay.CallResult) bool { return c.Nature == "push" || c.Made == 0 })
}

// beside compares the paper's figures with ours.
func (e *experiment) beside() lab.Table {
	t := lab.Table{Name: "figures", Title: "The paper's figures, and ours", Columns: []string{"figure", "shows", "paper", "ours"}}
	for _, f := range e.Paper {
		t.Add(f.Figure, f.Shows, f.Paper, f.Ours(e))
	}
	return t
}

func (e *experiment) throughputFigure() chart.Figure {
	var n, rate, p99, start []float64
	for _, v := range e.swept.Runs {
		n, rate, p99 = append(n, float64(v.Scale)), append(rate, v.PerSecond), append(p99, v.Service.P99)
		start = append(start, e.extra[v.Scale].startupMillis())
	}
	return chart.Figure{Name: "scaled", Columns: 1, Panels: []chart.Panel{
		{Title: e.Name + ": throughput (as Figure 5)", X: e.Unit, Y: "calls/s", Lines: []chart.Line{{Name: "answered", X: n, Y: rate}}},
		{Title: "latency", X: e.Unit, Y: "ms", LogY: true, Lines: []chart.Line{{Name: "p99", X: n, Y: p99}, {Name: "start-up, mean (as Figure 9)", X: n, Y: start}}},
	}}
}

func (e *experiment) latencyFigure() chart.Figure {
	p := chart.Panel{Title: e.Name + ": mean latency of each call (as Figure 7)", X: e.Unit, Y: "ms", LogY: true}
	for _, c := range e.callTypes() {
		l := chart.Line{Name: c.NodeType + " " + short(c.Method)}
		for _, v := range e.swept.Runs {
			if at := find(v.Calls, c.NodeType, c.Method); at.Service.Mean > 0 {
				l.X, l.Y = append(l.X, float64(v.Scale)), append(l.Y, at.Service.Mean)
			}
		}
		if len(l.X) > 0 {
			p.Lines = append(p.Lines, l)
		}
	}
	return chart.Figure{Name: "latency", Columns: 1, Height: 5, Panels: []chart.Panel{p}}
}

func percent(v float64) string { return fmt.Sprintf("%.1f%%", 100*v) }

func share(part, whole int) float64 { return float64(part) / float64(max(whole, 1)) }

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
