package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"gleaner/classify"
	"gleaner/cluster"
	"gleaner/history"
	"gleaner/input"
	"gleaner/lab/patterns"
)

type classifyFlags struct {
	source  historyFlags
	window  time.Duration
	step    time.Duration
	to      string
	seed    uint64
	against []string
	plot    string
	tenant  string
	tenants bool
}

func newClassify() *cobra.Command {
	var f classifyFlags
	cmd := &cobra.Command{
		Use:   "classify [--history FILE…]",
		Short: "Find which servers are predictable, and group them into classes",
		Long: `Classify takes the utilisation of every tenant's average server over the last
month and finds its pattern: periodic, constant or unpredictable, with the
evidence. Inside each pattern it groups the tenants into classes, each with its
mean, its peak and its period.

It works straight from files; without --history it reads the data directory
that 'gleaner history import' and 'gleaner history sample' fill.`,
		Example: `  # Straight from a file (time,server,cpu in percent; plain, .gz or .zst):
  gleaner classify --history cpu.csv.gz

  # With tenants from a servers file, and pictures:
  gleaner classify --history cpu.csv.gz --servers servers.csv --plot out

  # The last week only; every tenant with the reason for its pattern:
  gleaner classify --history cpu.csv.gz --window 1w --tenants

  # Do the classes that July taught hold in August?
  gleaner classify --history august.csv.gz --against july.csv.gz

  # For a script:
  gleaner classify --history cpu.csv.gz --json | jq .patterns`,
		RunE: func(cmd *cobra.Command, args []string) error { return runClassify(cmd, f, args) },
	}
	f.source.register(cmd)
	cmd.Flags().DurationVar(&f.window, "window", history.Month, "how much history to use, back from --to")
	cmd.Flags().StringVar(&f.to, "to", "", "use the history before this: Unix seconds or RFC 3339 (default: to the last sample, but for servers whose clocks are ahead)")
	cmd.Flags().DurationVar(&f.step, "step", 0, "length of a slot of the even grid (default: chosen from the data)")
	cmd.Flags().Uint64Var(&f.seed, "seed", 1, "seed of the clustering; the same seed gives the same classes")
	cmd.Flags().StringArrayVar(&f.against, "against", nil, "earlier history file: show how well the classes learned from it hold in this history; may be given again")
	cmd.Flags().StringVar(&f.plot, "plot", "", "write pictures (SVG and PNG) into this directory")
	cmd.Flags().StringVar(&f.tenant, "tenant", "", "with --plot: also draw this tenant in time and frequency")
	cmd.Flags().BoolVar(&f.tenants, "tenants", false, "list every tenant with the evidence for its pattern")
	return cmd
}

func runClassify(cmd *cobra.Command, f classifyFlags, args []string) error {
	if f.window <= 0 {
		return input.Errorf("--window", "must be positive, got %v", f.window)
	}
	if _, step := given(cmd, "step"); step && (f.step < time.Second || f.step%time.Millisecond != 0) {
		return input.Errorf("--step", "%v is not a second or more, in whole milliseconds", f.step)
	}
	if f.tenant != "" && f.plot == "" {
		return input.Errorf("--tenant", "needs --plot DIR")
	}
	f.source.files = append(f.source.files, args...)
	if len(f.source.files) == 0 && len(f.source.servers) > 0 {
		return input.Errorf("--servers", "goes with --history; 'gleaner history import --servers' puts servers into the data directory")
	}
	if flag, stored := given(cmd, "data", "store"); stored && len(f.source.files) > 0 {
		return input.Errorf(flag, "is not read when history files are named; leave one of them out")
	}
	return f.source.with(cmd, func(store *history.Store) error { return classifyStore(cmd, f, store) })
}

func classifyStore(cmd *cobra.Command, f classifyFlags, store *history.Store) error {
	now, err := classifyLast(cmd, f, f.source.where(cmd), store)
	if err != nil {
		return err
	}
	if f.plot != "" {
		if err := plotClasses(cmd, f, now); err != nil {
			return err
		}
	}
	carried, err := carry(cmd, f, now)
	if err != nil {
		return err
	}
	if wantJSON(cmd) {
		return printJSON(cmd, classesJSON(now, carried))
	}
	return printClasses(cmd.OutOrStdout(), now, carried, f.tenants)
}

// carry compares the classes of the earlier history, if one is named, with now.
func carry(cmd *cobra.Command, f classifyFlags, now classified) (*classify.Carried, error) {
	if len(f.against) == 0 {
		return nil, nil
	}
	f.to = "" // it is the end of the later one
	earlier := historyFlags{files: f.against, servers: f.source.servers, skipBad: f.source.skipBad}
	var carried classify.Carried
	err := earlier.with(cmd, func(store *history.Store) error {
		before, err := classifyLast(cmd, f, earlier.where(cmd), store)
		carried = classify.Carry(before.result, now.result, now.series)
		return err
	})
	return &carried, err
}

// classified is the classification of one window.
type classified struct {
	window cluster.Window
	series []cluster.Series
	result classify.Result
}

// classifyLast classifies the last window of a history that came from where.
func classifyLast(cmd *cobra.Command, f classifyFlags, where string, store *history.Store) (classified, error) {
	w, err := lastWindow(cmd, f, where, store)
	if err != nil {
		return classified{}, err
	}
	series, err := store.Window(cmd.Context(), w)
	if err != nil {
		return classified{}, err
	}
	return classified{w, series, classify.Run(w, series, classify.Options{Seed: f.seed})}, nil
}

// lastWindow is the window that ends where --to says, or with the last sample.
func lastWindow(cmd *cobra.Command, f classifyFlags, where string, store *history.Store) (cluster.Window, error) {
	none := cluster.Window{}
	to, err := timeFlag("--to", f.to, time.Time{})
	if err != nil {
		return none, err
	}
	w, later, err := store.LastWindow(cmd.Context(), history.Choice{Length: f.window, Step: f.step, To: to})
	switch {
	case errors.Is(err, history.ErrEmpty):
		return none, input.Errorf(where, "no samples; give a file, or fill the data directory with 'gleaner history import'")
	case errors.Is(err, history.ErrTooFew):
		return none, input.Errorf(where, "no server has two samples, so there is nothing to compare")
	case err != nil:
		return none, err
	case w.Step > f.window:
		return none, input.Errorf("--window", "%s is shorter than a slot of %s", spell(f.window), spell(w.Step))
	case w.Len <= 0:
		return none, input.Errorf("--to", "%s has no samples before it in %s", clock(to.Truncate(w.Step)), where)
	}
	if later > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "gleaner: the window ends at %s, since few samples are later (%s); --to chooses another end\n",
			clock(w.To()), counted(later, "server"))
	}
	return w, nil
}

func plotClasses(cmd *cobra.Command, f classifyFlags, c classified) error {
	figures := patterns.Classes(c.window, c.series, c.result)
	if f.tenant != "" {
		i := slices.IndexFunc(c.series, func(s cluster.Series) bool { return string(s.Tenant) == f.tenant })
		if i < 0 {
			return input.Errorf("--tenant", "no tenant %q in the history", f.tenant)
		}
		figures = append(figures, patterns.Tenant(c.window, c.series[i]))
	}
	return saveFigures(cmd, f.plot, figures)
}

func printClasses(out io.Writer, c classified, carried *classify.Carried, all bool) error {
	w, series, r := c.window, c.series, c.result
	fmt.Fprintf(out, "%s to %s, every %s: %s, %s\n",
		w.From.UTC().Format(time.DateTime), clock(w.To()), spell(w.Step), counted(len(series), "tenant"), counted(serversOf(series), "server"))

	tables := []*table{patternTable(r), classTable(w, series, r)}
	if all {
		tables = append(tables, tenantTable(w, series, r))
	}
	if len(r.Tenants) == 0 {
		tables = nil
	}
	for _, t := range tables {
		fmt.Fprintln(out)
		if err := t.print(out); err != nil {
			return err
		}
	}
	if carried != nil {
		fmt.Fprintf(out, "\nAgainst the classes of the earlier history: %.1f%% of %s stay under their class's peak, %.1f%% of the %s classified in both keep their pattern.\n",
			100*carried.UnderShare(), counted(carried.Samples, "sample"), 100*carried.KeptShare(), counted(carried.Tenants, "tenant"))
	}
	return printSkipped(out, r.Skipped)
}

func serversOf(series []cluster.Series) int {
	n := 0
	for _, s := range series {
		n += s.Servers
	}
	return n
}

func patternTable(r classify.Result) *table {
	t := newTable("pattern", ">tenants", ">share", ">servers", ">share")
	total := patternCount{}
	counts := countPatterns(r)
	for _, p := range cluster.Patterns {
		total.Tenants += counts[p.String()].Tenants
		total.Servers += counts[p.String()].Servers
	}
	for _, p := range cluster.Patterns {
		c := counts[p.String()]
		t.row(p.String(), fmt.Sprint(c.Tenants), percent(c.Tenants, total.Tenants), fmt.Sprint(c.Servers), percent(c.Servers, total.Servers))
	}
	return t
}

func percent(part, whole int) string {
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(max(whole, 1)))
}

func classTable(w cluster.Window, series []cluster.Series, r classify.Result) *table {
	t := newTable("class", ">tenants", ">servers", ">mean", ">peak", ">period", "last week, to its peak")
	for _, c := range r.Classes {
		t.row(c.ID, fmt.Sprint(len(c.Tenants)), fmt.Sprint(c.Servers), fmt.Sprintf("%.1f%%", 100*c.Mean), fmt.Sprintf("%.1f%%", 100*c.Peak),
			period(c.Period), sparkline(lastWeek(w, averageOf(series, c.Tenants)), 42, c.Peak))
	}
	return t
}

func tenantTable(w cluster.Window, series []cluster.Series, r classify.Result) *table {
	t := newTable("tenant", "class", ">servers", ">mean", ">peak", ">period", "last week, to its peak", "why")
	byTenant := map[cluster.TenantID][]float32{}
	for _, s := range series {
		byTenant[s.Tenant] = s.CPU
	}
	for _, x := range r.Tenants {
		t.row(string(x.ID), x.Class, fmt.Sprint(x.Servers), fmt.Sprintf("%.1f%%", 100*x.Mean), fmt.Sprintf("%.1f%%", 100*x.Peak),
			period(x.Period), sparkline(lastWeek(w, byTenant[x.ID]), 42, x.Peak), x.Evidence.Why())
	}
	return t
}

// maxSkipped is how many skipped tenants a person is shown.
const maxSkipped = 10

func printSkipped(out io.Writer, skipped []classify.Skipped) error {
	if len(skipped) == 0 {
		return nil
	}
	fmt.Fprintf(out, "\n%s left out:\n", counted(len(skipped), "tenant"))
	t := newTable("tenant", "reason")
	for _, s := range skipped[:min(maxSkipped, len(skipped))] {
		t.row(string(s.ID), s.Reason)
	}
	return printMost(out, t, len(skipped)-maxSkipped)
}

func period(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}

// averageOf is the average server of several tenants, slot by slot.
func averageOf(series []cluster.Series, tenants []cluster.TenantID) []float32 {
	wanted := map[cluster.TenantID]bool{}
	for _, id := range tenants {
		wanted[id] = true
	}
	var sum, n []float64
	for _, s := range series {
		if !wanted[s.Tenant] {
			continue
		}
		if sum == nil {
			sum, n = make([]float64, len(s.CPU)), make([]float64, len(s.CPU))
		}
		for i, v := range s.CPU {
			if v == v { // not NaN
				sum[i] += float64(v) * float64(s.Servers)
				n[i] += float64(s.Servers)
			}
		}
	}
	mean := make([]float32, len(sum))
	for i := range sum {
		mean[i] = float32(sum[i] / n[i]) // NaN if there is no sample
	}
	return mean
}

func lastWeek(w cluster.Window, cpu []float32) []float32 {
	return cpu[max(0, len(cpu)-int(week/w.Step)):]
}

type patternCount struct {
	Tenants int `json:"tenants"`
	Servers int `json:"servers"`
}

func countPatterns(r classify.Result) map[string]patternCount {
	counts := map[string]patternCount{}
	for _, p := range cluster.Patterns {
		counts[p.String()] = patternCount{}
	}
	for _, t := range r.Tenants {
		c := counts[t.Pattern.String()]
		counts[t.Pattern.String()] = patternCount{c.Tenants + 1, c.Servers + t.Servers}
	}
	return counts
}

// The JSON of classify; utilisations are 0 to 1.
type (
	classesOut struct {
		Window struct {
			From        time.Time `json:"from"`
			To          time.Time `json:"to"`
			StepSeconds float64   `json:"step_seconds"`
		} `json:"window"`
		Servers      int                     `json:"servers"`
		TenantsTotal int                     `json:"tenants_total"`
		Skipped      []skippedOut            `json:"skipped"`
		Patterns     map[string]patternCount `json:"patterns"`
		Classes      []classOut              `json:"classes"`
		Tenants      []tenantOut             `json:"tenants"`
		Against      *carriedOut             `json:"against,omitempty"`
	}
	carriedOut struct {
		Samples   int     `json:"samples"`
		UnderPeak float64 `json:"under_class_peak"`
		Tenants   int     `json:"tenants"`
		Kept      float64 `json:"kept_pattern"`
	}
	skippedOut struct {
		Tenant cluster.TenantID `json:"tenant"`
		Reason string           `json:"reason"`
	}
	classOut struct {
		ID          string          `json:"id"`
		Pattern     cluster.Pattern `json:"pattern"`
		Tenants     int             `json:"tenants"`
		Servers     int             `json:"servers"`
		Mean        float64         `json:"mean"`
		Peak        float64         `json:"peak"`
		PeriodHours float64         `json:"period_hours"`
	}
	tenantOut struct {
		Tenant      cluster.TenantID `json:"tenant"`
		Class       string           `json:"class"`
		Pattern     cluster.Pattern  `json:"pattern"`
		Servers     int              `json:"servers"`
		Mean        float64          `json:"mean"`
		Peak        float64          `json:"peak"`
		PeriodHours float64          `json:"period_hours"`
		Why         string           `json:"why"`
	}
)

func classesJSON(c classified, carried *classify.Carried) classesOut {
	w, series, r := c.window, c.series, c.result
	out := classesOut{TenantsTotal: len(series), Patterns: countPatterns(r),
		Skipped: []skippedOut{}, Classes: []classOut{}, Tenants: []tenantOut{}}
	out.Window.From, out.Window.To, out.Window.StepSeconds = w.From.UTC(), w.To().UTC(), w.Step.Seconds()
	out.Servers = serversOf(series)
	for _, s := range r.Skipped {
		out.Skipped = append(out.Skipped, skippedOut{s.ID, s.Reason})
	}
	for _, c := range r.Classes {
		out.Classes = append(out.Classes, classOut{c.ID, c.Pattern, len(c.Tenants), c.Servers, c.Mean, c.Peak, c.Period.Hours()})
	}
	for _, t := range r.Tenants {
		out.Tenants = append(out.Tenants, tenantOut{t.ID, t.Class, t.Pattern, t.Servers, t.Mean, t.Peak, t.Period.Hours(), t.Evidence.Why()})
	}
	if carried != nil {
		out.Against = &carriedOut{carried.Samples, carried.UnderShare(), carried.Tenants, carried.KeptShare()}
	}
	return out
}
