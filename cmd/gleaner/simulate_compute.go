package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gleaner/classify"
	"gleaner/cluster"
	"gleaner/control"
	"gleaner/harvest"
	"gleaner/history"
	"gleaner/input"
	"gleaner/input/compressed"
	"gleaner/kv/mem"
	"gleaner/plan"
	"gleaner/sim/compute"
	"gleaner/sim/datacenter"
	"gleaner/simulation"
)

type computeFlags struct {
	datacenterFlags
	history []string
	teach   []string
	jobs    string
	record  string
	skipBad bool
	days    int
	run     simulation.Compute
}

func newSimulateCompute() *cobra.Command {
	var f computeFlags
	cmd := &cobra.Command{
		Use:   "compute [--datacenter NAME | --history FILE --servers FILE | --data DIR]",
		Short: "Simulate batch jobs on the spare cycles of a datacenter",
		Long: `Compute simulates batch jobs that arrive for some days in a datacenter whose servers
belong to primary tenants, and run on what these leave free. The policy decides on
which servers tasks start; on each server a guard kills tasks, the youngest first,
when the primary uses its reserve (a third of the server).

Policies: history is ours, osdi16 the paper's as written; primary decides by what
primaries use now, stock ignores them; koordinator, borg, nsigma and max predict a
server's use from its recent past. See docs/compute-simulation.md.

Classes are learned from --teach or, without it, from the days before the simulated
ones, never from the simulated ones. With --data or --store the history that
'gleaner history import' stored is simulated.`,
		Example: `  gleaner simulate compute --datacenter DC-9 --utilisation 0.45
  gleaner simulate compute --datacenter DC-9 --utilisation 0.45 --policy primary
  gleaner simulate compute --history august.csv.gz --servers servers.csv --teach july.csv.gz`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.simulate(cmd) },
	}
	f.register(cmd, "server,environment,function,rack,cores,memory_mb,…")
	cmd.Flags().StringArrayVar(&f.history, "history", nil, "history files (time,server,cpu), whose last --days are simulated; may be given again")
	cmd.Flags().StringArrayVar(&f.teach, "teach", nil, "history files to learn the classes from, up to the simulated days; may be given again")
	cmd.Flags().StringVar(&f.run.Policy, "policy", "history", strings.Join(harvest.PolicyNames(), ", "))
	cmd.Flags().IntVar(&f.days, "days", 30, "days to simulate")
	cmd.Flags().Uint64Var(&f.run.Seed, "seed", 1, "seed of all random numbers")
	cmd.Flags().Float64Var(&f.run.Load, "load", simulation.Load, "the share of all cores that the scaled queries keep busy, between 0 and 1")
	cmd.Flags().StringVar(&f.jobs, "jobs", "", "a YAML file of jobs that arrive instead of the 52 scaled queries")
	cmd.Flags().StringVar(&f.record, "record", "", "write every event and action to this file as JSON lines")
	cmd.Flags().BoolVar(&f.skipBad, "skip-bad", false, "skip bad rows of histories, and count them")
	addStoreFlag(cmd)
	return cmd
}

// computeOut is the JSON of simulate compute.
type computeOut struct {
	Policy           string  `json:"policy"`
	Utilisation      float64 `json:"utilisation"`
	Servers          int     `json:"servers"`
	Cores            float64 `json:"cores"`
	Jobs             int     `json:"jobs"`
	Unfinished       int     `json:"jobs_unfinished"`
	MeanJobSeconds   float64 `json:"mean_job_seconds"`
	P95JobSeconds    float64 `json:"p95_job_seconds"`
	TasksStarted     int     `json:"tasks_started"`
	TasksKilled      int     `json:"tasks_killed"`
	TotalUtilisation float64 `json:"mean_total_utilisation"`
	HarvestedWeekly  float64 `json:"harvested_core_hours_per_week"`
	WastedWeekly     float64 `json:"wasted_core_hours_per_week"`
	OverloadSeconds  float64 `json:"primary_overload_seconds"`
	WallSeconds      float64 `json:"wall_seconds"`
}

// computeOf sums up one simulation. Harvested is what was not spent on tasks that
// were killed later.
func computeOf(policy string, d *datacenter.Datacenter, res compute.Result, took time.Duration) computeOut {
	cores := simulation.Cores(d)
	weekly := cores * week.Hours()
	return computeOut{
		Policy: policy, Utilisation: res.Primary, Servers: len(d.Servers), Cores: cores, Jobs: res.Jobs, Unfinished: res.Unfinished,
		MeanJobSeconds: res.MeanJob.Seconds(), P95JobSeconds: res.P95Job.Seconds(),
		TasksStarted: res.TasksStarted, TasksKilled: res.TasksKilled, TotalUtilisation: res.Primary + res.Harvested,
		HarvestedWeekly: weekly * (res.Harvested - res.Wasted), WastedWeekly: weekly * res.Wasted,
		OverloadSeconds: res.Overload.Seconds(), WallSeconds: took.Seconds(),
	}
}

func (f *computeFlags) simulate(cmd *cobra.Command) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	begun := time.Now()
	d, err := f.prepare(cmd)
	if err != nil {
		return err
	}
	bar := newProgress(cmd, "days", int64(f.days))
	defer bar.finish()
	var res compute.Result
	err = f.recorded(func() (err error) {
		res, err = f.run.Run(cmd.Context(), d, func(share float64) error {
			bar.add(int64(share*float64(f.days)) - bar.done)
			return cmd.Context().Err()
		})
		return err
	})
	if err != nil {
		return err
	}
	bar.finish()
	out := computeOf(f.run.Policy, d, res, time.Since(begun))
	out.Utilisation = cmp.Or(f.utilisation, out.Utilisation)
	return printCompute(cmd, res, out)
}

// prepare gives the datacenter to simulate, and reads the jobs.
func (f *computeFlags) prepare(cmd *cobra.Command) (*datacenter.Datacenter, error) {
	d, err := f.open(cmd)
	if err == nil {
		d, err = f.scaled(d)
	}
	if err != nil {
		return nil, err
	}
	return d, f.readJobs(d.Servers)
}

func (f *computeFlags) check(cmd *cobra.Command) error {
	if _, err := harvest.PolicyNamed(f.run.Policy); err != nil {
		return input.Errorf("--policy", "%v", err)
	}
	flag, stored := given(cmd, "data", "store")
	switch {
	case stored && len(f.history) > 0:
		return input.Errorf(flag, "is not read when history files are named; leave one of them out")
	case stored && f.name != "":
		return input.Errorf("--datacenter", "give either a datacenter or %s", flag)
	case len(f.history) == 0 && !stored && len(f.teach) > 0:
		return input.Errorf("--teach", "is for --history; a generated datacenter has its own past")
	case !(f.run.Load > 0 && f.run.Load < 1):
		return input.Errorf("--load", "%v is not between 0 and 1", f.run.Load)
	case f.jobs != "" && cmd.Flags().Changed("load"):
		return input.Errorf("--load", "scales the 52 queries; jobs of --jobs arrive unchanged")
	case f.days < 1 || f.days > 366:
		return input.Errorf("--days", "%d is not between 1 and 366", f.days)
	}
	if stored {
		return f.datacenterFlags.check(cmd, flag, len(f.servers))
	}
	return f.datacenterFlags.check(cmd, "--history", len(f.history))
}

func (f *computeFlags) open(cmd *cobra.Command) (*datacenter.Datacenter, error) {
	if _, stored := given(cmd, "data", "store"); stored || len(f.history) > 0 {
		return f.openHistory(cmd)
	}
	return f.generate(datacenter.Options{Past: 30, Days: f.days, Seed: f.run.Seed})
}

// openHistory makes a datacenter of recorded histories. The last days of
// --history are simulated; what lies before them teaches, unless --teach does.
func (f *computeFlags) openHistory(cmd *cobra.Command) (d *datacenter.Datacenter, err error) {
	source := historyFlags{files: f.history, servers: f.servers, skipBad: f.skipBad}
	err = source.with(cmd, func(store *history.Store) error {
		d, err = f.openStore(cmd, source, store)
		return err
	})
	return d, err
}

func (f *computeFlags) openStore(cmd *cobra.Command, source historyFlags, store *history.Store) (*datacenter.Datacenter, error) {
	servers, err := source.listed(cmd.Context(), store)
	if err != nil {
		return nil, err
	}
	d, err := lastDays(cmd.Context(), store, source.where(cmd), servers, f.days)
	if err != nil {
		return nil, err
	}
	policy, err := harvest.PolicyNamed(f.run.Policy)
	if err != nil {
		return nil, err
	}
	_, learns := policy.(harvest.ClassPicker)
	switch {
	case len(f.teach) > 0:
		return d, f.learn(cmd, servers, d.Now)
	case learns && d.Now.Equal(d.Window.From):
		fmt.Fprintf(cmd.ErrOrStderr(), "the history is no longer than the %s to simulate: there is nothing to learn from (see --days and --teach)\n", counted(f.days, "day"))
	}
	return d, nil
}

// lastDays makes a datacenter of all that a history holds, whose last days are
// still to come. Servers without cores or without samples are left out.
func lastDays(ctx context.Context, store *history.Store, where string, servers []cluster.Server, days int) (*datacenter.Datacenter, error) {
	window, err := whole(ctx, store, where)
	if err != nil {
		return nil, err
	}
	now := window.To().AddDate(0, 0, -days)
	if now.Before(window.From) {
		now = window.From
	}
	d := datacenter.New(where, window, now)
	for _, s := range servers {
		if s.CPU <= 0 {
			continue
		}
		cpu, err := store.CPU(ctx, s.ID, window)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(cpu, func(u float32) bool { return u == u }) { // not NaN
			d.Add(s, cpu)
		}
	}
	return d, nil
}

// learn takes the classes from --teach, as far as it lies before now.
func (f *computeFlags) learn(cmd *cobra.Command, servers []cluster.Server, now time.Time) error {
	ctx := cmd.Context()
	store, err := history.Open(ctx, mem.New(), time.Now)
	if err != nil {
		return err
	}
	if err := importFiles(ctx, cmd, store, f.teach, servers, history.ReadOptions{SkipBad: f.skipBad}); err != nil {
		return err
	}
	past, err := whole(ctx, store, "--teach")
	if err != nil {
		return err
	}
	if past = past.Until(now); past.Len == 0 {
		return input.Errorf("--teach", "begins at %s, but the days from %s on are simulated", clock(past.From), clock(now))
	}
	lessons, err := store.Window(ctx, past)
	if err != nil {
		return err
	}
	f.run.Classes = classify.Run(past, lessons, classify.Options{Seed: f.run.Seed}).Classes
	return nil
}

// whole is the window of all that a history holds.
func whole(ctx context.Context, store *history.Store, where string) (cluster.Window, error) {
	window, _, err := store.LastWindow(ctx, history.Choice{})
	switch {
	case errors.Is(err, history.ErrEmpty):
		return cluster.Window{}, input.Errorf(where, "holds no samples")
	case errors.Is(err, history.ErrTooFew):
		return cluster.Window{}, input.Errorf(where, "no server has two samples")
	}
	return window, err
}

func (f *computeFlags) readJobs(servers []cluster.Server) error {
	if len(servers) == 0 {
		return input.Errorf("--servers", "no server has both cores and a history")
	}
	if f.jobs == "" {
		return nil
	}
	var sizes []cluster.Resources
	for _, s := range servers {
		if size := s.Size(); !slices.Contains(sizes, size) {
			sizes = append(sizes, size)
		}
	}
	file, err := compressed.Open(f.jobs)
	if err != nil {
		return err
	}
	defer file.Close()
	f.run.Queries, err = compute.ReadQueries(f.jobs, file, sizes...)
	return err
}

// recorded calls do, and writes the recording if one is wanted.
func (f *computeFlags) recorded(do func() error) error {
	if f.record == "" {
		return do()
	}
	return saveTo("--record", f.record, func(w io.Writer) error {
		rec := control.NewRecording(w)
		f.run.Record = rec
		return cmp.Or(do(), rec.Flush())
	})
}

func printCompute(cmd *cobra.Command, res compute.Result, r computeOut) error {
	if wantJSON(cmd) {
		return printJSON(cmd, r)
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s on %s, scheduled by %s\n", counted(r.Jobs, "job"), counted(r.Servers, "server"), r.Policy)
	seconds := func(s float64) string { return time.Duration(s * float64(time.Second)).Round(time.Second).String() }
	t := newTable("", ">")
	t.row("mean job time", seconds(r.MeanJobSeconds))
	t.row("95th percentile", seconds(r.P95JobSeconds))
	t.row("jobs not finished", fmt.Sprint(res.Unfinished))
	t.row("tasks started", fmt.Sprint(r.TasksStarted))
	t.row("tasks killed", fmt.Sprint(r.TasksKilled))
	t.row("primaries' use", fmt.Sprintf("%.1f%%", 100*r.Utilisation))
	t.row("with harvested tasks", fmt.Sprintf("%.1f%%", 100*r.TotalUtilisation))
	t.row("of it spent on tasks killed later", fmt.Sprintf("%.1f%%", 100*res.Wasted))
	t.row("core-hours a week, of tasks not killed", plan.Grouped(r.HarvestedWeekly))
	t.row("primaries overloaded, servers x time", seconds(r.OverloadSeconds))
	return t.print(out)
}
