package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gleaner/chart"
	"gleaner/cluster"
	"gleaner/trace/replay"
	"gleaner/trace/replay/judge"
	"gleaner/web/page"
)

//go:embed trace_replay_page.html
var replayTemplate string

// A replayPage is the result of a replay: on the terminal, as JSON, and as a page.
type replayPage struct {
	Program string   `json:"program"`
	Targets []string `json:"targets"`
	*replay.Report
	Check *replay.Comparison `json:"check,omitempty"`
}

// save writes report.html and report.json.
func (p *replayPage) save(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	figures, err := p.figures()
	if err != nil {
		return err
	}
	report, err := template.New("report").Funcs(template.FuncMap{"ms": millis, "summary": func() string { return p.sentence() }}).Parse(replayTemplate)
	if err != nil {
		return err
	}
	var html bytes.Buffer
	if err := report.Execute(&html, map[string]any{"Style": page.Style(), "Page": p, "Figures": figures, "Last": p.Runs[len(p.Runs)-1]}); err != nil {
		return err
	}
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "report.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "report.html"), html.Bytes(), 0o644)
}

func millis(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// figures are the panels as parts of a page.
func (p *replayPage) figures() ([]template.HTML, error) {
	var out []template.HTML
	for _, panel := range p.panels() {
		figure, err := page.Chart(panel)
		if err != nil {
			return nil, fmt.Errorf("draw %s: %w", panel.Title, err)
		}
		out = append(out, figure)
	}
	return out, nil
}

// panels show calls a second, latency of the call types that were made most, and how late calls were sent, over the
// scale. A run at one scale has no curve: there the latencies are compared.
func (p *replayPage) panels() []chart.Panel {
	names := p.busiest()
	if len(p.Runs) == 1 {
		return []chart.Panel{latencies(p.Runs[0], names)}
	}
	var scales, rate, lag []float64
	var latency []chart.Line
	for _, r := range p.Runs {
		scales, rate, lag = append(scales, float64(r.Scale)), append(rate, r.PerSecond), append(lag, r.Lag.P99)
	}
	for _, name := range names {
		line := chart.Line{Name: name}
		for _, r := range p.Runs {
			for _, c := range r.Calls {
				if c.NodeType+" "+c.Method == name && c.Answered > 0 {
					line.X, line.Y = append(line.X, float64(r.Scale)), append(line.Y, c.Latency.P99)
				}
			}
		}
		latency = append(latency, line)
	}
	return []chart.Panel{
		{Title: "Calls answered a second", X: "scale n", Y: "calls a second", Lines: []chart.Line{{X: scales, Y: rate}}},
		{Title: "How late calls were sent, p99", X: "scale n", Y: "ms", Lines: []chart.Line{{X: scales, Y: lag}}},
		{Title: "Latency, p99", X: "scale n", Y: "ms", Lines: latency},
	}
}

// latencies compare the call types of one run.
func latencies(r replay.Verdict, names []string) chart.Panel {
	bars := chart.Bars{Names: []string{"p50", "p99"}, Values: [][]float64{nil, nil}}
	for i, name := range names {
		for _, c := range r.Calls {
			if c.NodeType+" "+c.Method == name && c.Answered > 0 {
				bars.Groups = append(bars.Groups, strconv.Itoa(i+1)+" "+brief(c.Method, 12))
				bars.Values[0], bars.Values[1] = append(bars.Values[0], c.Latency.P50), append(bars.Values[1], c.Latency.P99)
				break
			}
		}
	}
	return chart.Panel{Title: fmt.Sprintf("Latency at n = %d, of the calls made most", r.Scale), X: "call", Y: "ms", Bars: bars}
}

// busiest are the call types that were made most.
func (p *replayPage) busiest() []string {
	made := map[string]int{}
	for _, r := range p.Runs {
		for _, c := range r.Calls {
			made[c.NodeType+" "+c.Method] += c.Made
		}
	}
	names := slices.SortedFunc(maps.Keys(made), func(a, b string) int {
		return cmp.Or(cmp.Compare(made[b], made[a]), strings.Compare(a, b))
	})
	return names[:min(len(names), 6)]
}

// sentence sums up the result.
func (p *replayPage) sentence() string {
	var out []string
	switch {
	case p.GaveIn > 0 && p.Held > 0:
		out = append(out, fmt.Sprintf("The target held n = %d and gave in at n = %d: %s.", p.Held, p.GaveIn, p.Why))
	case p.GaveIn > 0:
		out = append(out, fmt.Sprintf("The target gave in at n = %d: %s.", p.GaveIn, p.Why))
	case p.Held > 0:
		out = append(out, fmt.Sprintf("The target held n = %d.", p.Held))
	}
	for _, r := range p.Runs {
		switch says := fmt.Sprintf("n = %d does not count: ", r.Scale); {
		case r.Verdict == judge.Cut:
			out = append(out, fmt.Sprintf("n = %d was cut short, and does not count: %s.", r.Scale, r.Why))
		case r.Verdict == judge.Broken && r.Scale == p.Broken:
			out = append(out, says+"the program is broken: "+r.Why+".")
		case r.Verdict == judge.Late && r.Scale == p.PlayerLimit:
			out = append(out, says+"the players were late: "+r.Why+".")
		case r.Verdict == judge.Full && r.Scale == p.PlayerLimit:
			out = append(out, says+"the machine was full: "+r.Why+".")
		}
	}
	return strings.Join(out, " ")
}

func (p *replayPage) print(cmd *cobra.Command) error {
	if wantJSON(cmd) {
		return printJSON(cmd, p)
	}
	out := cmd.OutOrStdout()
	for _, r := range p.Runs {
		if err := printRun(cmd, r); err != nil {
			return err
		}
	}
	if len(p.Runs) > 1 {
		t := newTable(">n", ">calls", ">calls/s", ">p50 ms", ">p99 ms", ">refused", ">no reply", ">lag p99 ms", "", "")
		for _, r := range p.Runs {
			t.row(strconv.Itoa(r.Scale), strconv.Itoa(r.Made), fmt.Sprintf("%.0f", r.PerSecond), millis(r.Latency.P50), millis(r.Latency.P99),
				strconv.Itoa(r.Refused), strconv.Itoa(r.Failed), millis(r.Lag.P99), string(r.Verdict), r.Why)
		}
		if err := t.print(out); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, p.sentence())
	for _, s := range p.Said {
		fmt.Fprintln(out, "  "+s)
	}
	return p.printCheck(cmd)
}

func (p *replayPage) printCheck(cmd *cobra.Command) error {
	if p.Check == nil {
		return nil
	}
	t := newTable("node type", "call", ">recorded", ">played", "")
	for _, r := range p.Check.Rows {
		says := r.Aside
		if says == "" && r.Recorded != r.Played {
			says = "differs"
		}
		t.row(r.NodeType, r.Method, strconv.Itoa(r.Recorded), strconv.Itoa(r.Played), says)
	}
	if err := t.print(cmd.OutOrStdout()); err != nil {
		return err
	}
	if p.Check.Equal {
		fmt.Fprintln(cmd.OutOrStdout(), "All counts per call type equal the recorded ones, except those that the clock or replies decide.")
	}
	return nil
}

// verdict is an error if the run failed its purpose: counts that differ, or a program
// that does not fit its target.
func (p *replayPage) verdict() error {
	if p.Check != nil && !p.Check.Equal {
		return fmt.Errorf("the counts per call type differ from the recorded ones")
	}
	for _, r := range p.Runs {
		if r.Verdict == judge.Broken {
			return fmt.Errorf("n = %d: the program does not fit the target: %s", r.Scale, r.Why)
		}
	}
	return nil
}

func printRun(cmd *cobra.Command, r replay.Verdict) error {
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "n = %d: %s in %.1f s, %.0f/s answered, %d refused, %d without a reply; lag p99 %.1f ms\n",
		r.Scale, counted(r.Made, "call"), r.Seconds, r.PerSecond, r.Refused, r.Failed, r.Lag.P99)
	t := newTable("node type", "target", "call", "why", ">made", ">answered", ">refused", ">no reply", ">again", ">not made", ">p50 ms", ">p99 ms", ">lag p99")
	for _, c := range r.Calls {
		t.row(c.NodeType, c.Target, c.Method, c.Nature, strconv.Itoa(c.Made), strconv.Itoa(c.Answered), strconv.Itoa(c.Refused), strconv.Itoa(c.Failed),
			strconv.Itoa(c.Retries), strconv.Itoa(c.Skipped+c.Unsent+c.Unsendable), millis(c.Latency.P50), millis(c.Latency.P99), millis(c.Lag.P99))
	}
	if err := t.print(out); err != nil {
		return err
	}
	for _, line := range notes(r.Result) {
		fmt.Fprintln(out, line)
	}
	fmt.Fprintln(out)
	return nil
}

// few names the first of several.
func few(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// begun says how often the calls of a reaction were made, if it has some.
func begun(n int) string {
	if n == 0 {
		return ""
	}
	return ", and made its calls " + counted(n, "time")
}

// notes are the remarks on a run beyond its numbers.
func notes(r *replay.Result) (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if f := r.Fault; f != nil {
		say("first fault, after %.1f s: %s", f.At, strings.Join(slices.DeleteFunc([]string{f.Sender, f.Call, f.What}, func(s string) bool { return s == "" }), " "))
		if f.Sent != "" {
			say("  sent: %s", f.Sent)
		}
		say("  came back: %s", f.Back)
	}
	for _, c := range r.Calls {
		for _, e := range c.Errors {
			say("%s %s, %s from %.1f s on: %s", c.NodeType, c.Method, counted(e.Count, "time"), e.First, e.What)
		}
	}
	for _, g := range r.Gaps {
		say("%s answered nothing for %.1f s, from %.1f s on", cmp.Or(g.Role, "the target"), g.Seconds, g.From)
	}
	for _, a := range r.Reactions {
		say("%s reacted to %s of %s (%s), from %.1f s to %.1f s%s", a.NodeType, counted(a.Replies, "answer"), few(a.To), a.When, a.First, a.Last, begun(a.Begun))
	}
	for _, m := range r.Missing {
		say("missing: %s (%s)", m.What, counted(m.Count, "time"))
	}
	for _, m := range r.MadeUp {
		say("made up: %s of %s (%s)", m.Argument, m.Call, counted(m.Count, "time"))
	}
	for _, u := range r.Unstart {
		say("never started: %s", u)
	}
	if len(r.Dead) > 0 {
		say("declared dead by the target: %s", strings.Join(r.Dead, ", "))
	}
	if r.Silenced > 0 {
		say("%s had no answer to the last call", counted(r.Silenced, "node"))
	}
	if len(r.Unsent) > 0 {
		say("not sent, for lack of a target: calls to %s", strings.Join(r.Unsent, ", "))
	}
	if r.CPU.Cores > 0 {
		say("CPU: %s", r.CPU)
	}
	for _, m := range r.Machines {
		used := ""
		if m.CPU.Cores > 0 {
			used = fmt.Sprintf(" of %.0f cores the players used %.1f and others %.1f;", m.CPU.Cores, m.CPU.Players, m.CPU.Target+m.CPU.Others)
		}
		say("%s (%s) played:%s they held %s", m.Name, m.Address, used, cluster.Bytes(m.Memory).Text())
	}
	if r.Memory > 0 {
		say("the players held %s", cluster.Bytes(r.Memory).Text())
	}
	if r.Ended == "interrupted" {
		say("stopped before the end")
	}
	return out
}
