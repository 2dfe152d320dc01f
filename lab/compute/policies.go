package compute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"gleaner/chart"
	"gleaner/cluster"
	"gleaner/harvest"
	"gleaner/history"
	"gleaner/input/compressed"
	"gleaner/kv/mem"
	"gleaner/lab"
	"gleaner/sim/compute"
	"gleaner/sim/datacenter"
	"gleaner/simulation"
)

const unfinishedNote = "A job that is not finished at the end counts with the time it has taken so far. Overload: primary and tasks together need more than the server has."

var policyColumns = []string{"policy", "mean job s", "p95 job s", "unfinished", "tasks started", "tasks killed", "killed",
	"harvested", "wasted", "overload, server hours"}

func policyRow(name string, r compute.Result) []string {
	return []string{name, seconds(r.MeanJob.Seconds()), seconds(r.P95Job.Seconds()), fmt.Sprint(r.Unfinished), fmt.Sprint(r.TasksStarted),
		fmt.Sprint(r.TasksKilled), percent(float64(r.TasksKilled) / float64(max(r.TasksStarted, 1))), percent(r.Harvested), percent(r.Wasted), hours(r.Overload)}
}

// policies compares all policies in DC-9 at 45%, linear scaling.
func policies(ctx context.Context, o lab.Options) ([]lab.Table, []chart.Figure, error) {
	size := sizeOf(o)
	profile, err := datacenter.Find("DC-9")
	if err != nil {
		return nil, nil, err
	}
	d := datacenter.Generate(profile, datacenter.Options{Servers: size.servers, Past: size.past, Days: size.days, Seed: 1})
	if d, err = d.Scaled("linear", 0.45); err != nil {
		return nil, nil, err
	}
	results, err := everyPolicy(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	t := lab.Table{Name: "policies", Title: "All policies in DC-9 at 45%, linear", Columns: policyColumns}
	for i, name := range harvest.PolicyNames() {
		t.Rows = append(t.Rows, policyRow(name, results[i]))
	}
	size.seeds = 1
	t.Notes = []string{size.String(), unfinishedNote}
	return one(t)
}

// august is where the second month of the Bitbrains traces begins (midnight in
// the time zone they were recorded in).
var august = time.Date(2013, time.July, 31, 22, 0, 0, 0, time.UTC)

// bitbrainsDir is where the two months usually are, as history files.
const bitbrainsDir = "../shared/data/bitbrains"

// bitbrainsIn is where the two months are.
func bitbrainsIn(o lab.Options) string { return cmp.Or(o.Bitbrains, bitbrainsDir) }

// noBitbrains says that a result lacks them.
func noBitbrains(o lab.Options) []string {
	return []string{"Left out: 2013-07.csv.gz and 2013-08.csv.gz, the Bitbrains traces (GWA-T-12, Rnd) as history files, are not in " + bitbrainsIn(o) + "; --bitbrains names another directory."}
}

// bitbrains compares all policies on 500 recorded machines: July 2013 teaches
// the classes, August is simulated, as recorded and scaled to 45%.
func bitbrains(ctx context.Context, o lab.Options) ([]lab.Table, []chart.Figure, error) {
	t := lab.Table{Name: "bitbrains", Title: "Bitbrains: July teaches, August is simulated", Columns: append([]string{"utilisation"}, policyColumns...)}
	days := 30
	if o.Quick {
		days = 2
	}
	plain, err := bitbrainsMachines(ctx, bitbrainsIn(o), days)
	if errors.Is(err, fs.ErrNotExist) {
		t.Notes = noBitbrains(o)
		return one(t)
	}
	if err != nil {
		return nil, nil, err
	}
	scaled, err := plain.Scaled("linear", 0.45)
	if err != nil {
		return nil, nil, err
	}
	for i, d := range []*datacenter.Datacenter{plain, scaled} {
		label := []string{"as recorded", "linear, 45%"}[i]
		results, err := everyPolicy(ctx, d)
		if err != nil {
			return nil, nil, err
		}
		for k, name := range harvest.PolicyNames() {
			t.Rows = append(t.Rows, append([]string{label}, policyRow(name, results[k])...))
		}
	}
	t.Notes = []string{fmt.Sprintf("%d machines, %d days. Utilisation is recorded in percent of a machine; machines are simulated with the testbed's 12 cores and 32 GB.", len(plain.Servers), days), unfinishedNote}
	return one(t)
}

// bitbrainsMachines are the recorded machines, as a datacenter whose past is
// July and whose future is some days of August.
func bitbrainsMachines(ctx context.Context, dir string, days int) (*datacenter.Datacenter, error) {
	return bitbrainsFrom(ctx, dir, august, days)
}

// bitbrainsFrom has the days from now on as its future.
func bitbrainsFrom(ctx context.Context, dir string, now time.Time, days int) (*datacenter.Datacenter, error) {
	window, series, err := recorded(ctx, filepath.Join(dir, "2013-07.csv.gz"), filepath.Join(dir, "2013-08.csv.gz"))
	if err != nil {
		return nil, err
	}
	window = window.Until(now.AddDate(0, 0, days))
	d := datacenter.New("bitbrains", window, now)
	for _, s := range series { // each machine is its own tenant
		d.Add(cluster.Server{ID: cluster.ServerID(s.Tenant), CPU: 12 * cluster.Core, Memory: 32 * cluster.GB}, s.CPU[:window.Len])
	}
	return d, nil
}

func everyPolicy(ctx context.Context, d *datacenter.Datacenter) ([]compute.Result, error) {
	classes := simulation.Classes(d, 1)
	names := harvest.PolicyNames()
	results := make([]compute.Result, len(names))
	err := inParallel(ctx, len(names), func(ctx context.Context, i int) (err error) {
		results[i], err = simulation.Compute{Policy: names[i], Classes: classes, Seed: 1}.Run(ctx, d, nil)
		return err
	})
	return results, err
}

// recorded reads history files and returns their whole content.
func recorded(ctx context.Context, paths ...string) (cluster.Window, []cluster.Series, error) {
	store, err := history.Open(ctx, mem.New(), time.Now)
	if err != nil {
		return cluster.Window{}, nil, err
	}
	err = store.Import(ctx, func(im *history.Import) error {
		for _, path := range paths {
			if err := addFile(ctx, im, path); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return cluster.Window{}, nil, err
	}
	w, _, err := store.LastWindow(ctx, history.Choice{})
	if err != nil {
		return cluster.Window{}, nil, err
	}
	series, err := store.Window(ctx, w)
	return w, series, err
}

func addFile(ctx context.Context, im *history.Import, path string) error {
	f, err := compressed.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = history.ReadSamples(path, f, history.ReadOptions{}, func(s history.Sample) error { return im.Add(ctx, s) })
	return err
}
