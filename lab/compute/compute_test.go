package compute

import (
	"os"
	"testing"

	"gleaner/harvest"
	"gleaner/lab"
	"gleaner/sim/compute"
	"gleaner/sim/datacenter"
	"gleaner/simulation"
)

func generated(t testing.TB, servers, past, days int, utilisation float64) *datacenter.Datacenter {
	t.Helper()
	profile, err := datacenter.Find("DC-9")
	if err != nil {
		t.Fatal(err)
	}
	d := datacenter.Generate(profile, datacenter.Options{Servers: servers, Past: past, Days: days, Seed: 1})
	if d, err = d.Scaled("linear", utilisation); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestHistoryKillsLessAndIsFasterThanWhatProtectsPrimaries(t *testing.T) {
	d := generated(t, 300, 7, 1, 0.45)
	results := map[string]compute.Result{}
	for _, name := range harvest.PolicyNames() {
		res, err := simulation.Compute{Policy: name, Seed: 1}.Run(t.Context(), d, nil)
		if err != nil {
			t.Fatal(err)
		}
		results[name] = res
	}
	ours := results["history"]
	for _, name := range []string{"primary", "koordinator", "borg", "nsigma", "max"} {
		if theirs := results[name]; ours.MeanJob > theirs.MeanJob {
			t.Errorf("mean job time %v, under %s %v", ours.MeanJob, name, theirs.MeanJob)
		}
	}
	if theirs := results["primary"]; 4*ours.TasksKilled > theirs.TasksKilled {
		t.Errorf("%d tasks killed, under primary %d: want a quarter at most", ours.TasksKilled, theirs.TasksKilled)
	}
	if stock := results["stock"]; stock.TasksKilled != 0 || stock.Overload == 0 || ours.Overload != 0 {
		t.Errorf("stock kills %d and overloads for %v, history for %v", stock.TasksKilled, stock.Overload, ours.Overload)
	}
}

func TestDilationAwareChoiceSlowsTasksLess(t *testing.T) {
	d := generated(t, 60, 3, 1, 0.3)
	var stretch [3]float64
	for i := range stretch {
		res, err := simulation.Compute{Policy: "history", Seed: 1, Choice: harvest.Choice(i), Machine: coresAndDisks, Loadings: loadings}.Run(t.Context(), d, nil)
		if err != nil {
			t.Fatal(err)
		}
		stretch[i] = res.MeanStretch
	}
	if !(stretch[harvest.ByWeight] > stretch[harvest.ByBoth] && stretch[harvest.ByBoth] > 1 && stretch[harvest.ByWeight] > stretch[harvest.ByDilation]) {
		t.Errorf("tasks take longer by factors of %v (by weight, by dilation, both)", stretch)
	}
}

// TestQuickExperiments runs the fast ones; GLEANER_LONG=1 runs all.
func TestQuickExperiments(t *testing.T) {
	for _, e := range Experiments() {
		if e.Name != "micro" && os.Getenv("GLEANER_LONG") == "" {
			continue
		}
		tables, _, err := e.Run(t.Context(), lab.Options{Quick: true, Seeds: 1})
		if err != nil {
			t.Fatal(e.Name, err)
		}
		for _, table := range tables {
			for _, row := range table.Rows {
				if len(row) != len(table.Columns) {
					t.Errorf("%s: a row of %d cells under %d columns", e.Name, len(row), len(table.Columns))
				}
			}
			if len(table.Rows) == 0 && len(table.Notes) == 0 {
				t.Errorf("%s: nothing to show, and no reason given", e.Name)
			}
		}
	}
}
