package compute

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"gleaner/cluster"
	"gleaner/harvest"
	"gleaner/history"
	"gleaner/input/compressed"
	"gleaner/kv/mem"
	"gleaner/sim/compute"
	"gleaner/sim/datacenter"
)

var policyHeader = []string{"policy", ">mean job s", ">p95 job s", ">unfinished", ">tasks started", ">tasks killed", ">killed",
	">harvested", ">wasted", ">overload, server hours"}

func policyRow(name string, r compute.Result) []string {
	return []string{name, seconds(r.MeanJob.Seconds()), seconds(r.P95Job.Seconds()), fmt.Sprint(r.Unfinished), fmt.Sprint(r.TasksStarted),
		fmt.Sprint(r.TasksKilled), percent(float64(r.TasksKilled) / float64(max(r.TasksStarted, 1))), percent(r.Harvested), percent(r.Wasted), hours(r.Overload)}
}

// Policies compares all policies in DC-9 at 45%, linear scaling.
func Policies(ctx context.Context, size Size) (Report, error) {
	profile, err := datacenter.Find("DC-9")
	if err != nil {
		return Report{}, err
	}
	d := datacenter.Generate(profile, datacenter.Options{Servers: size.Servers, Past: size.Past, Days: size.Days, Seed: 1})
	if d, err = d.Scaled("linear", 0.45); err != nil {
		return Report{}, err
	}
	results, err := everyPolicy(ctx, d)
	if err != nil {
		return Report{}, err
	}
	r := Report{Title: "All policies in DC-9 at 45%, linear", Header: policyHeader}
	for i, name := range harvest.PolicyNames() {
		r.Rows = append(r.Rows, policyRow(name, results[i]))
	}
	return r, nil
}

// ErrNoData says that the recorded traces an experiment needs are not there.
var ErrNoData = errors.New("the recorded traces are not there")

// august is where the second month of the Bitbrains traces begins (midnight in
// the time zone they were recorded in).
var august = time.Date(2013, time.July, 31, 22, 0, 0, 0, time.UTC)

// Bitbrains compares all policies on 500 recorded machines: July 2013 teaches
// the classes, days of August are simulated, as recorded and scaled to 45%.
// dir holds the two months as history files.
func Bitbrains(ctx context.Context, dir string, days int) (Report, error) {
	window, series, err := recorded(ctx, filepath.Join(dir, "2013-07.csv.gz"), filepath.Join(dir, "2013-08.csv.gz"))
	if err != nil {
		return Report{}, err
	}
	window.Len = min(window.Len, int(august.AddDate(0, 0, days).Sub(window.From)/window.Step))
	var servers []cluster.Server
	for i := range series {
		series[i].CPU = series[i].CPU[:window.Len]
		servers = append(servers, cluster.Server{ID: cluster.ServerID(series[i].Tenant), CPU: 12 * cluster.Core, Memory: 32 * cluster.GB})
	}
	plain, err := datacenter.New("bitbrains", servers, window, series, nil, august)
	if err != nil {
		return Report{}, err
	}
	scaled, err := plain.Scaled("linear", 0.45)
	if err != nil {
		return Report{}, err
	}
	r := Report{Title: "Bitbrains: July teaches, August is simulated", Header: append([]string{"utilisation"}, policyHeader...)}
	for _, d := range []*datacenter.Datacenter{plain, scaled} {
		label := "as recorded"
		if d == scaled {
			label = "linear, 45%"
		}
		results, err := everyPolicy(ctx, d)
		if err != nil {
			return Report{}, err
		}
		for i, name := range harvest.PolicyNames() {
			r.Rows = append(r.Rows, append([]string{label}, policyRow(name, results[i])...))
		}
	}
	r.Notes = []string{"Utilisation is recorded in percent of a machine; machines are simulated with the testbed's 12 cores and 32 GB."}
	return r, nil
}

func everyPolicy(ctx context.Context, d *datacenter.Datacenter) ([]compute.Result, error) {
	classes := Learn(d, 1)
	names := harvest.PolicyNames()
	results := make([]compute.Result, len(names))
	err := inParallel(ctx, len(names), func(ctx context.Context, i int) (err error) {
		results[i], err = Run{Policy: names[i], Classes: classes, Seed: 1}.Do(ctx, d, nil)
		return err
	})
	return results, err
}

// recorded reads history files and gives all of what they hold.
func recorded(ctx context.Context, paths ...string) (cluster.Window, []cluster.Series, error) {
	store, err := history.Open(ctx, mem.New())
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
	first, last, err := store.Range(ctx)
	if err != nil {
		return cluster.Window{}, nil, err
	}
	step, err := store.Step(ctx)
	if err != nil {
		return cluster.Window{}, nil, err
	}
	from := first.Truncate(step)
	w := cluster.Window{From: from, Step: step, Len: int(last.Sub(from)/step) + 1}
	series, err := store.Window(ctx, w)
	return w, series, err
}

func addFile(ctx context.Context, im *history.Import, path string) error {
	f, err := compressed.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s", ErrNoData, path)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = history.ReadSamples(path, f, history.ReadOptions{}, func(s history.Sample) error { return im.Add(ctx, s) })
	return err
}
