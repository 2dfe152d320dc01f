package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/history"
	"gleaner/input"
)

func newHistoryShow() *cobra.Command {
	var list bool
	cmd := &cobra.Command{
		Use:   "show [SERVER...]",
		Short: "Show what history there is",
		Long: `Show what history there is: in all, server by server (--list), or one server
with its utilisation over time and its gaps.`,
		Example: `  gleaner history show
  gleaner history show --list
  gleaner history show vm001 --json`,
		RunE: func(cmd *cobra.Command, servers []string) error {
			return withOldHistory(cmd, func(s *history.Store) error { return showHistory(cmd, s, servers, list) })
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "list every server")
	addStoreFlag(cmd)
	return cmd
}

func showHistory(cmd *cobra.Command, s *history.Store, servers []string, list bool) error {
	all, err := s.Summaries(cmd.Context())
	if err != nil {
		return err
	}
	step, err := s.Step(cmd.Context(), all)
	if errors.Is(err, history.ErrTooFew) {
		step, err = time.Minute, nil
	}
	if err != nil {
		return err
	}
	switch {
	case len(servers) > 0:
		return showServers(cmd, s, all, step, servers)
	case list:
		return listServers(cmd, all, step)
	}
	reimages, err := s.Reimages(cmd.Context())
	if err != nil {
		return err
	}
	return total(all, step, len(reimages)).print(cmd)
}

// gapShare is the share of the slots between a server's first and last sample
// that have no sample.
func gapShare(sum history.Summary, step time.Duration) float64 {
	if sum.Samples == 0 {
		return 0
	}
	return max(0, 1-float64(sum.Samples)/slots(sum, step))
}

func slots(sum history.Summary, step time.Duration) float64 {
	return math.Round(float64(sum.Last.Sub(sum.First))/float64(step)) + 1
}

// held is the result of 'history show'.
type held struct {
	Servers        int       `json:"servers"`
	Tenants        int       `json:"tenants"`
	Samples        int64     `json:"samples"`
	From           time.Time `json:"from,omitzero"`
	To             time.Time `json:"to,omitzero"`
	StepSeconds    float64   `json:"step_seconds"` // 0 if no server has two samples
	Gaps           float64   `json:"gaps"`
	Bytes          int64     `json:"bytes"`
	BytesPerSample float64   `json:"bytes_per_sample"`
	Reimages       int       `json:"reimages"`
}

func total(all []history.Summary, step time.Duration, reimages int) held {
	h := held{Servers: len(all), Reimages: reimages}
	tenants := map[cluster.TenantID]bool{}
	missing, want := 0.0, 0.0
	for _, sum := range all {
		tenants[sum.Tenant()] = true
		if sum.Samples == 0 {
			continue
		}
		h.Samples += sum.Samples
		h.Bytes += sum.Bytes
		if sum.Samples > 1 {
			h.StepSeconds = step.Seconds()
		}
		if h.From.IsZero() || sum.First.Before(h.From) {
			h.From = sum.First
		}
		if sum.Last.After(h.To) {
			h.To = sum.Last
		}
		want += slots(sum, step)
		missing += gapShare(sum, step) * slots(sum, step)
	}
	h.Tenants = len(tenants)
	if h.Samples > 0 {
		h.Gaps, h.BytesPerSample = missing/want, float64(h.Bytes)/float64(h.Samples)
	}
	return h
}

// every says how often samples come, if that is known.
func every(seconds float64) string {
	if seconds == 0 {
		return ""
	}
	return ", about every " + spell(time.Duration(seconds*float64(time.Second)))
}

func (h held) print(cmd *cobra.Command) error {
	if wantJSON(cmd) {
		return printJSON(cmd, h)
	}
	t := newTable("what", "how much")
	t.row("servers", fmt.Sprint(h.Servers))
	t.row("tenants", fmt.Sprint(h.Tenants))
	if h.Samples > 0 {
		t.row("samples", fmt.Sprint(h.Samples)+every(h.StepSeconds))
		t.row("from", clock(h.From))
		t.row("to", clock(h.To))
		t.row("gaps", fmt.Sprintf("%.1f%% of the slots", 100*h.Gaps))
		t.row("size", fmt.Sprintf("%s, %.2f bytes a sample", cluster.Bytes(h.Bytes).Text(), h.BytesPerSample))
	} else {
		t.row("samples", "none")
	}
	t.row("reimages", fmt.Sprint(h.Reimages))
	return t.print(cmd.OutOrStdout())
}

// listed is a line of 'history show --list'.
type listed struct {
	Server  cluster.ServerID `json:"server"`
	Tenant  cluster.TenantID `json:"tenant"`
	Samples int64            `json:"samples"`
	From    time.Time        `json:"from,omitzero"`
	To      time.Time        `json:"to,omitzero"`
	Gaps    float64          `json:"gaps"`
}

func line(sum history.Summary, step time.Duration) listed {
	return listed{sum.ID, sum.Tenant(), sum.Samples, sum.First, sum.Last, gapShare(sum, step)}
}

func listServers(cmd *cobra.Command, all []history.Summary, step time.Duration) error {
	lines := []listed{}
	t := newTable("server", "tenant", ">samples", "from (UTC)", "to (UTC)", ">gaps")
	for _, sum := range all {
		l := line(sum, step)
		lines = append(lines, l)
		if l.Samples == 0 {
			t.row(string(l.Server), string(l.Tenant), "0")
			continue
		}
		t.row(string(l.Server), string(l.Tenant), fmt.Sprint(l.Samples), l.From.Format(time.DateTime), l.To.Format(time.DateTime),
			fmt.Sprintf("%.1f%%", 100*l.Gaps))
	}
	if wantJSON(cmd) {
		return printJSON(cmd, lines)
	}
	return t.print(cmd.OutOrStdout())
}

// shown is one server of 'history show SERVER'.
type shown struct {
	listed
	StepSeconds float64    `json:"step_seconds"`
	CPU         []*float32 `json:"cpu"` // null where nothing was recorded
	Mem         []*float32 `json:"mem,omitempty"`
	GapList     []gap      `json:"gap_list"`
}

// A gap is a stretch without samples.
type gap struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

func showServers(cmd *cobra.Command, s *history.Store, all []history.Summary, step time.Duration, servers []string) error {
	var chosen []history.Summary
	for _, name := range servers {
		at := slices.IndexFunc(all, func(sum history.Summary) bool { return string(sum.ID) == name })
		if at < 0 {
			return input.Errorf("", "no server %q in the history; 'gleaner history show --list' lists them", name)
		}
		chosen = append(chosen, all[at])
	}
	results := []shown{}
	for _, sum := range chosen {
		w := span(sum, step)
		usage, err := s.Usage(cmd.Context(), sum.ID, w)
		if err != nil {
			return err
		}
		l := line(sum, step)
		one := shown{l, step.Seconds(), pointers(usage.CPU), pointers(usage.Mem), gaps(usage.CPU, w)}
		results = append(results, one)
		if !wantJSON(cmd) {
			if err := one.print(cmd.OutOrStdout(), usage); err != nil {
				return err
			}
		}
	}
	if wantJSON(cmd) {
		return printJSON(cmd, results)
	}
	return nil
}

// span is the window of all samples of a server.
func span(sum history.Summary, step time.Duration) cluster.Window {
	if sum.Samples == 0 {
		return cluster.Window{Step: step}
	}
	return cluster.WindowBefore(sum.Last.Truncate(step).Add(step), sum.First, math.MaxInt64, step)
}

// pointers makes a series for JSON, with null for NaN. It is nil if all are NaN.
func pointers(values []float32) []*float32 {
	var out []*float32
	some := false
	for i, v := range values {
		if v != v {
			out = append(out, nil)
			continue
		}
		some = true
		out = append(out, &values[i])
	}
	if !some {
		return nil
	}
	return out
}

func gaps(values []float32, w cluster.Window) []gap {
	out := []gap{}
	for i, v := range values {
		at := w.From.Add(time.Duration(i) * w.Step).UTC()
		switch {
		case v == v:
		case i > 0 && values[i-1] != values[i-1]:
			out[len(out)-1].To = at.Add(w.Step)
		default:
			out = append(out, gap{at, at.Add(w.Step)})
		}
	}
	return out
}

const (
	sparkWidth = 72
	gapsShown  = 5
)

func (s shown) print(out io.Writer, usage history.Usage) error {
	fmt.Fprintf(out, "%s of %s: %s", s.Server, s.Tenant, counted(s.Samples, "sample"))
	if s.Samples == 0 {
		_, err := fmt.Fprintln(out)
		return err
	}
	if s.Samples == 1 {
		fmt.Fprintf(out, " at %s\n", clock(s.From))
	} else {
		fmt.Fprintf(out, " from %s to %s%s\n", s.From.Format(time.DateTime), clock(s.To), every(s.StepSeconds))
	}
	fmt.Fprintf(out, "  cpu  %s  mean %.1f%%, peak %.1f%%\n", sparkline(usage.CPU, sparkWidth, 1), 100*meanOf(usage.CPU), 100*peakOf(usage.CPU))
	if s.Mem != nil {
		fmt.Fprintf(out, "  mem  %s  mean %.1f%%, peak %.1f%%\n", sparkline(usage.Mem, sparkWidth, 1), 100*meanOf(usage.Mem), 100*peakOf(usage.Mem))
	}
	if len(s.GapList) == 0 {
		_, err := fmt.Fprintln(out, "  no gaps")
		return err
	}
	_, err := fmt.Fprintf(out, "  %s, %.1f%% of the slots; the longest:\n", counted(len(s.GapList), "gap"), 100*s.Gaps)
	longest := slices.Clone(s.GapList)
	slices.SortStableFunc(longest, func(a, b gap) int { return cmp.Compare(b.To.Sub(b.From), a.To.Sub(a.From)) })
	for _, g := range longest[:min(len(longest), gapsShown)] {
		_, err = fmt.Fprintf(out, "    %s for %s\n", clock(g.From), spell(g.To.Sub(g.From)))
	}
	return err
}

func meanOf(values []float32) float64 {
	sum, n := 0.0, 0
	for _, v := range values {
		if v == v {
			sum, n = sum+float64(v), n+1
		}
	}
	return sum / float64(max(n, 1))
}

func peakOf(values []float32) float64 {
	peak := 0.0
	for _, v := range values {
		if v == v {
			peak = max(peak, float64(v))
		}
	}
	return peak
}
