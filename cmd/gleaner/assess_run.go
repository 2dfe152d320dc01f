package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"gleaner/cluster"
	"gleaner/harvest"
	"gleaner/history"
	"gleaner/input"
	"gleaner/placement"
	"gleaner/plan"
	"gleaner/sim/datacenter"
	"gleaner/simulation"
)

// An assessment is what assess found: on the terminal, as JSON, and as a page.
type assessment struct {
	Version string         `json:"version"`
	Source  assessSource   `json:"source"`
	Classes assessClasses  `json:"predictable"`
	Runs    []assessRun    `json:"harvest"`
	Best    *assessRun     `json:"most_at_low_risk"`
	Price   float64        `json:"price_per_core_hour"`
	Worth   *assessWorth   `json:"worth,omitempty"`
	Blocks  []assessBlocks `json:"storage"`
	First   []string       `json:"try_first"`
	Seconds float64        `json:"seconds"`

	flags  *assessFlags
	now    classified
	future *datacenter.Datacenter
}

type assessSource struct {
	Files      []string  `json:"files"`
	Prometheus string    `json:"prometheus,omitempty"`
	Servers    int       `json:"servers"`
	Cores      float64   `json:"cores"`
	Assumed    int       `json:"servers_of_assumed_size"`
	From       time.Time `json:"from"`
	To         time.Time `json:"to"`
	Days       int       `json:"days_simulated"`
	Taught     float64   `json:"days_taught"`
}

// assessClasses is what 'gleaner classify' prints.
type assessClasses struct {
	Command string     `json:"command"`
	Result  classesOut `json:"result"`
}

// An assessRun is what 'gleaner simulate compute' prints, and how it is judged.
type assessRun struct {
	Load    float64    `json:"load"`
	Command string     `json:"command"`
	Result  computeOut `json:"result"`
	Killed  float64    `json:"share_killed"`         // of tasks started
	Over    float64    `json:"share_overloaded"`     // of the servers' time
	Slower  float64    `json:"slower_than_lightest"` // mean job time over that of the policy's least load
	Risks   []string   `json:"risks"`
}

// Risk is the risks in words.
func (r assessRun) Risk() string { return cmp.Or(strings.Join(r.Risks, ", "), "low") }

type assessWorth struct {
	Week float64 `json:"per_week"`
	Year float64 `json:"per_year"`
}

// assessBlocks is what 'gleaner simulate storage' prints.
type assessBlocks struct {
	Command string      `json:"command"`
	Result  *storageOut `json:"result,omitempty"`
	Why     string      `json:"refused,omitempty"` // why blocks cannot be placed so
}

// Kept counts the blocks that keep a replica.
func (b assessBlocks) Kept() int { return b.Result.Blocks - b.Result.Lost }

// A run has a low risk below these. They are rules of thumb, which the page states:
// youngest-first kills of a twentieth of the tasks cost far less than that of the
// work, and a primary that lacks cores for a second in three hours is not noticed.
const (
	riskKilled = 0.05
	riskOver   = 0.0001
	riskSlower = 2.0
)

// read classifies the history, and makes a datacenter of it.
func (a *assessment) read(cmd *cobra.Command, store *history.Store) (err error) {
	f := a.flags
	where := f.source.where(cmd)
	asked := classifyFlags{window: history.Month, seed: f.seed}
	if a.now, err = classifyLast(cmd, asked, where, store); err != nil {
		return err
	}
	a.Classes.Result = classesJSON(a.now, nil)
	servers, err := f.source.listed(cmd.Context(), store)
	if err != nil {
		return err
	}
	assumed := f.assume(servers)
	if a.future, err = lastDays(cmd.Context(), store, where, servers, f.days); err != nil {
		return err
	}
	d := a.future
	if have := d.Window.To().Sub(d.Window.From).Hours() / 24; have < float64(f.days)-0.1 {
		return input.Errorf("--days", "the history has %.1f days, fewer than the %d to be simulated", have, f.days)
	}
	a.Source = assessSource{Files: append([]string{}, f.source.files...), Prometheus: a.Source.Prometheus, Servers: len(d.Servers), Cores: simulation.Cores(d),
		Assumed: len(assumed), From: d.Window.From.UTC(), To: d.Window.To().UTC(), Days: f.days, Taught: d.Now.Sub(d.Window.From).Hours() / 24}
	a.Classes.Command = a.command(cmd, "classify", f.source.servers)
	if len(assumed) == 0 {
		return nil
	}
	path := filepath.Join(f.out, "assumed.csv")
	f.source.servers = append(slices.Clip(f.source.servers), path)
	return saveTo("--out", path, func(w io.Writer) error { return writeServers(w, assumed) })
}

// command is the command line that reads the same history.
func (a *assessment) command(cmd *cobra.Command, name string, servers []string, more ...string) string {
	words := append([]string{"gleaner"}, strings.Fields(name)...)
	for _, path := range a.flags.source.files {
		words = append(words, "--history", path)
	}
	for _, flag := range []string{"data", "store"} {
		if cmd.Flags().Changed(flag) {
			value, _ := cmd.Flags().GetString(flag)
			words = append(words, "--"+flag, value)
		}
	}
	if len(a.flags.source.files) == 0 {
		if _, named := given(cmd, "data", "store"); !named {
			dir, _ := dataDir(cmd)
			words = append(words, "--data", dir)
		}
	}
	for _, path := range servers {
		words = append(words, "--servers", path)
	}
	if a.flags.source.skipBad {
		words = append(words, "--skip-bad")
	}
	return shellLine(append(append(words, more...), "--seed", fmt.Sprint(a.flags.seed)))
}

// shellLine quotes the words for a shell where that is needed.
func shellLine(words []string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,+@%", r)
	}
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = word
		if word == "" || strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// simulate runs every policy at one load, and ours at all loads.
func (a *assessment) simulate(cmd *cobra.Command) error {
	for _, policy := range harvest.PolicyNames() {
		a.Runs = append(a.Runs, assessRun{Load: simulation.Load, Result: computeOut{Policy: policy}})
	}
	for _, load := range assessLoads {
		a.Runs = append(a.Runs, assessRun{Load: load, Result: computeOut{Policy: ours}})
	}
	classes := simulation.Classes(a.future, a.flags.seed)
	bar := newProgress(cmd, "simulations", int64(len(a.Runs)))
	defer bar.finish()
	todo, ctx := errgroup.WithContext(cmd.Context())
	todo.SetLimit(runtime.GOMAXPROCS(0))
	done := make(chan struct{}, len(a.Runs))
	for i := range a.Runs {
		todo.Go(func() error {
			err := a.simulateOne(ctx, &a.Runs[i], classes)
			done <- struct{}{}
			bar.set(len(done), len(a.Runs))
			return err
		})
	}
	if err := todo.Wait(); err != nil {
		return err
	}
	for i := range a.Runs {
		r := &a.Runs[i]
		r.Command = a.command(cmd, "simulate compute", a.flags.source.servers,
			"--policy", r.Result.Policy, "--load", fmt.Sprint(r.Load), "--days", fmt.Sprint(a.flags.days))
	}
	a.judge()
	return nil
}

// ours is the policy that an assessment recommends.
const ours = "history"

func (a *assessment) simulateOne(ctx context.Context, r *assessRun, classes []cluster.Class) error {
	begun := time.Now()
	run := simulation.Compute{Policy: r.Result.Policy, Classes: classes, Load: r.Load, Seed: a.flags.seed}
	res, err := run.Run(ctx, a.future, nil)
	r.Result = computeOf(run.Policy, a.future, res, time.Since(begun))
	return err
}

// judge names the risks of each run, and chooses the largest load that has none.
func (a *assessment) judge() {
	lightest := a.least()
	span := a.future.Window.To().Sub(a.future.Now).Seconds()
	for i := range a.Runs {
		r := &a.Runs[i]
		r.Killed = float64(r.Result.TasksKilled) / float64(max(r.Result.TasksStarted, 1))
		r.Over = r.Result.OverloadSeconds / (span * float64(max(r.Result.Servers, 1)))
		if lightest > 0 {
			r.Slower = r.Result.MeanJobSeconds / lightest
		}
		r.Risks = []string{}
		if r.Over > riskOver {
			r.Risks = append(r.Risks, "primaries are overloaded")
		}
		if r.Killed > riskKilled {
			r.Risks = append(r.Risks, "many kills")
		}
		if r.Slower > riskSlower {
			r.Risks = append(r.Risks, "jobs wait")
		}
	}
	for _, r := range a.Loads() {
		if len(r.Risks) > 0 {
			break
		}
		a.Best = &r
	}
	if a.Best != nil && a.Price > 0 {
		perWeek := a.Price * a.Best.Result.HarvestedWeekly
		a.Worth = &assessWorth{Week: perWeek, Year: perWeek * 365 / 7}
	}
}

// least is the mean job time of our policy at its least load.
func (a *assessment) least() float64 { return a.Loads()[0].Result.MeanJobSeconds }

// Policies are the runs of all policies at one load.
func (a *assessment) Policies() []assessRun { return a.Runs[:len(harvest.PolicyNames())] }

// Loads are the runs of our policy, by load.
func (a *assessment) Loads() []assessRun {
	runs := slices.DeleteFunc(slices.Clone(a.Runs), func(r assessRun) bool { return r.Result.Policy != ours })
	slices.SortFunc(runs, func(a, b assessRun) int { return cmp.Compare(a.Load, b.Load) })
	return runs
}

// store places blocks on the servers' disks and lets the reimages of the log happen.
func (a *assessment) store(cmd *cobra.Command) error {
	f := a.flags
	a.Blocks = []assessBlocks{}
	if len(f.reimages) == 0 {
		return nil
	}
	listed := f.source.servers
	if a.Source.Assumed > 0 {
		listed = listed[:len(listed)-1] // sizes that were assumed are not of disks
	}
	asked := storageFlags{datacenterFlags: datacenterFlags{servers: listed}, reimages: f.reimages, run: simulation.Storage{Placement: ours, Seed: f.seed}}
	whole, err := asked.openFiles(cmd)
	if err != nil {
		return err
	}
	asked.run.Days = min(365, max(1, int(whole.Now.Sub(whole.Reimages[0].At).Hours()/24/2))) // the first half teaches
	asked.run.Blocks = cmp.Or(f.blocks, someBlocks(whole))
	d := *whole
	d.Now = whole.Now.AddDate(0, 0, -asked.run.Days)
	for _, replicas := range []int{2, 3} {
		for _, policy := range []string{ours, "stock"} {
			asked.run.Placement, asked.run.Replicas = policy, replicas
			one, err := asked.try(cmd, &d)
			if err != nil {
				return err
			}
			a.Blocks = append(a.Blocks, one)
		}
	}
	return nil
}

func (f *storageFlags) try(cmd *cobra.Command, d *datacenter.Datacenter) (assessBlocks, error) {
	words := []string{"gleaner", "simulate", "storage"}
	for _, path := range f.servers {
		words = append(words, "--servers", path)
	}
	for _, path := range f.reimages {
		words = append(words, "--reimages", path)
	}
	out := assessBlocks{Command: shellLine(append(words, "--placement", f.run.Placement, "--replicas", fmt.Sprint(f.run.Replicas),
		"--blocks", fmt.Sprint(f.run.Blocks), "--days", fmt.Sprint(f.run.Days), "--seed", fmt.Sprint(f.run.Seed)))}
	begun := time.Now()
	result, err := f.run.Run(d, func(float64) error { return cmd.Context().Err() })
	var refused *placement.DiversityError
	if errors.As(err, &refused) {
		out.Why = err.Error()
		return out, nil
	}
	stored := storageOf(f.run, d, result, time.Since(begun))
	out.Result = &stored
	return out, err
}

// mostBlocks are enough to see a loss of one in a hundred thousand.
const mostBlocks = 100_000

// someBlocks fill a third of the disks with three replicas each.
func someBlocks(d *datacenter.Datacenter) int {
	room := 0
	for _, s := range d.Servers {
		room += int(s.Disk / simulation.BlockBytes)
	}
	return min(max(room/9, 1), mostBlocks)
}

// advise says what to try first.
func (a *assessment) advise() {
	say := func(format string, args ...any) { a.First = append(a.First, fmt.Sprintf(format, args...)) }
	if a.Source.Taught < 21 {
		say("Collect three weeks of history before the simulated days, so that weekly patterns show: there are %.1f days.", a.Source.Taught)
	}
	if a.Best == nil {
		say("No amount of work has a low risk under %q: these servers have too little to spare, or too suddenly.", ours)
		return
	}
	where := "a server"
	if names := a.calmest(); len(names) > 0 {
		where = "one of them"
		say("Begin with servers of the tenants %s: they are predictable, and their peaks are the lowest.", strings.Join(names, ", "))
	}
	say("On %s run 'gleaner up', and submit a job with 'gleaner run'; in a Kubernetes cluster install gleaner-kube.", where)
	say("Ask for at most %.0f%% of the cores: in the simulation that kills %.2f%% of the tasks and gives %s core-hours a week.",
		100*a.Best.Load, 100*a.Best.Killed, plan.Grouped(a.Best.Result.HarvestedWeekly))
	for _, b := range a.Blocks {
		if b.Result != nil && b.Result.Placement == ours && b.Result.Lost == 0 {
			say("Keep %d replicas of data on spare disks: none of %s is lost in the %s of the log.", b.Result.Replicas, counted(b.Result.Blocks, "block"), counted(b.Result.Reimages, "reimage"))
			break
		}
	}
}

// calmest are the predictable tenants with the lowest peaks.
func (a *assessment) calmest() (names []string) {
	tenants := slices.Clone(a.Classes.Result.Tenants)
	slices.SortStableFunc(tenants, func(a, b tenantOut) int { return cmp.Compare(a.Peak, b.Peak) })
	for _, t := range tenants {
		if t.Pattern != cluster.Unpredictable && len(names) < 5 {
			names = append(names, string(t.Tenant))
		}
	}
	return names
}

// Predictable is the share of the classified servers that are periodic or constant.
func (a *assessment) Predictable() float64 {
	of, all := 0, 0
	for name, n := range a.Classes.Result.Patterns {
		all += n.Servers
		if name != cluster.Unpredictable.String() {
			of += n.Servers
		}
	}
	return float64(of) / float64(max(all, 1))
}

func (a *assessment) print(out io.Writer) error {
	s := a.Source
	fmt.Fprintf(out, "%s with %.0f cores, %s to %s; simulated: the last %s\n", counted(s.Servers, "server"), s.Cores,
		s.From.Format(time.DateTime), clock(s.To), counted(s.Days, "day"))
	if s.Assumed > 0 {
		fmt.Fprintf(out, "the size of %s is assumed: %g cores and %g GiB (see --servers, --cores)\n", counted(s.Assumed, "server"), a.flags.cores, a.flags.memoryGB)
	}
	fmt.Fprintf(out, "\n%.1f%% of the servers are predictable\n\n", 100*a.Predictable())
	if err := a.table(a.Loads()).print(out); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if err := a.table(a.Policies()).print(out); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if a.Worth != nil {
		fmt.Fprintf(out, "at %g a core-hour, the most at low risk is worth %.2f a week, %.2f a year\n\n", a.Price, a.Worth.Week, a.Worth.Year)
	}
	if len(a.Blocks) > 0 {
		if err := blocksTable(a.Blocks).print(out); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	for i, line := range a.First {
		fmt.Fprintf(out, "%d. %s\n", i+1, line)
	}
	_, err := fmt.Fprintf(out, "\nwrote %s and %s\n", filepath.Join(a.flags.out, "assess.html"), filepath.Join(a.flags.out, "assess.json"))
	return err
}

func (a *assessment) table(runs []assessRun) *table {
	t := newTable("policy", ">work asked for", ">core-hours a week", ">mean job time", ">tasks killed", ">overloaded", "risk")
	for _, r := range runs {
		t.row(r.Result.Policy, fmt.Sprintf("%.0f%% of cores", 100*r.Load), fmt.Sprintf("%.0f", r.Result.HarvestedWeekly),
			time.Duration(r.Result.MeanJobSeconds*float64(time.Second)).Round(time.Second).String(), fmt.Sprintf("%.2f%%", 100*r.Killed),
			fmt.Sprintf("%.3f%%", 100*r.Over), r.Risk())
	}
	return t
}

func blocksTable(blocks []assessBlocks) *table {
	t := newTable("placement", ">replicas", ">blocks", ">kept", ">lost", ">replicas rebuilt", "")
	for _, b := range blocks {
		if b.Result == nil {
			t.row("", "", "", "", "", "", b.Why)
			continue
		}
		t.row(b.Result.Placement, fmt.Sprint(b.Result.Replicas), fmt.Sprint(b.Result.Blocks), fmt.Sprint(b.Kept()), fmt.Sprint(b.Result.Lost), fmt.Sprint(b.Result.Rebuilt), "")
	}
	return t
}
