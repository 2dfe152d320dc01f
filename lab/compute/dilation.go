package compute

import (
	"context"
	"fmt"

	"gleaner/chart"
	"gleaner/cluster"
	"gleaner/dilation"
	"gleaner/harvest"
	"gleaner/lab"
	"gleaner/sim/compute"
	"gleaner/sim/datacenter"
	"gleaner/simulation"
)

// disks is how many a server of the experiment has beside its cores.
const disks = 2

// coresAndDisks are the resources of loading vectors: the server's cores and its
// disks (PEVA'16 eq. 14).
func coresAndDisks(size cluster.Resources) dilation.Machine {
	return dilation.Machine{int(size.CPU / cluster.Core), disks}
}

// loadings are the shares of time that a task spends on a core and on a disk: for
// one that computes, one that reads and writes, and one that does both.
var loadings = [][]float64{{0.9, 0.05}, {0.2, 0.75}, {0.5, 0.4}}

// dilationChoice compares the ways to choose a server when tasks slow each
// other down: the same jobs, with tasks of three kinds of load.
func dilationChoice(ctx context.Context, o lab.Options) ([]lab.Table, []chart.Figure, error) {
	size := sizeOf(o)
	if !o.Quick && !o.Full {
		size.servers = 500 // every change on a server changes the speed of all its tasks
	}
	profile, err := datacenter.Find("DC-9")
	if err != nil {
		return nil, nil, err
	}
	d := datacenter.Generate(profile, datacenter.Options{Servers: size.servers, Past: size.past, Days: size.days, Seed: 1})
	if d, err = d.Scaled("linear", 0.30); err != nil {
		return nil, nil, err
	}
	names := []string{"by room", "by least dilation", "least dilation of four drawn by room"}
	results := make([]compute.Result, len(names))
	classes := simulation.Classes(d, 1)
	err = inParallel(ctx, len(names), func(ctx context.Context, i int) (err error) {
		results[i], err = simulation.Compute{Policy: "history", Classes: classes, Seed: 1, Choice: harvest.Choice(i), Machine: coresAndDisks, Loadings: loadings}.Run(ctx, d, nil)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	t := lab.Table{Name: "choice", Title: "Server choice when tasks slow each other down, DC-9 at 30%", Columns: []string{"choice", "mean job s", "p95 job s", "mean dilation of a task", "total dilation, task hours", "tasks killed"}}
	for i, name := range names {
		r := results[i]
		t.Add(name, seconds(r.MeanJob.Seconds()), seconds(r.P95Job.Seconds()), fmt.Sprintf("%.3f", r.MeanStretch), fmt.Sprintf("%.0f", r.Dilated/3600), r.TasksKilled)
	}
	size.seeds = 1
	t.Notes = []string{
		"Total dilation is the time that tasks took beyond what they take alone.",
		fmt.Sprintf("Tasks load (cores, %d disks) by %v; a query's stages take turns.", disks, loadings), size.String(),
	}
	return one(t)
}
