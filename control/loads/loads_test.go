package loads

import (
	"math"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/dilation"
	"gleaner/history"
)

// Two tasks overlap for half of the first's time, beside a primary of half a core.
func TestABookSeesWhoRanBesideWhom(t *testing.T) {
	b := New(dilation.Machine{2, 1})
	seen := map[cluster.TaskID]dilation.ObservedRun{}
	b.Finished = func(task cluster.TaskID, stage string, run dilation.ObservedRun) {
		if stage != "sort/map" {
			t.Errorf("%s is of stage %q", task, stage)
		}
		seen[task] = run
	}
	from := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	one, two := cluster.TaskID{Job: 1, Stage: "map"}, cluster.TaskID{Job: 1, Stage: "map", Index: 1}
	for _, ev := range []cluster.Event{
		{Kind: cluster.JobSubmitted, Job: &cluster.Job{ID: 1, Name: "sort"}},
		{Kind: cluster.UseReported, Use: []cluster.Use{{Primary: cluster.Resources{CPU: cluster.Core / 2}}}},
		{Kind: cluster.TaskStarted, Task: one},
		{At: from.Add(10 * time.Second), Kind: cluster.TaskStarted, Task: two},
		{At: from.Add(20 * time.Second), Kind: cluster.TaskFinished, Task: one},
		{At: from.Add(30 * time.Second), Kind: cluster.TaskKilled, Task: two},
	} {
		if ev.At.IsZero() {
			ev.At = from
		}
		if err := b.Event(ev); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 1 {
		t.Fatalf("%d runs came to their end, want 1", len(seen))
	}
	run := seen[one]
	if run.Took != 20*time.Second || math.Abs(run.Beside[0]-1) > 1e-9 || run.Beside[1] != 0 {
		t.Errorf("%+v, want half a core of the primary and, half of the time, a task that computes", run)
	}

	if b.Load("sort/map") != nil {
		t.Error("a load is known before any was learned")
	}
	run.Used = dilation.Vector{0.3, 0.6}
	for range 2 * history.KeptTaskRuns {
		b.Learn("sort/map", run)
	}
	if got := b.Load("sort/map"); math.Abs(got[0]-0.3) > 0.05 || math.Abs(got[1]-0.6) > 0.05 {
		t.Errorf("learned %v, the kernel says %v", got, run.Used)
	}
	b.Learn("other/map", dilation.ObservedRun{Used: dilation.Vector{1}})
	if b.Load("other/map") != nil {
		t.Error("a run on a machine of other resources was learned from")
	}
}

// What was learned of a stage explains how long its runs took: alone a second, and
// beside a full core as its share of a core says.
func TestLearnedExplainsTheRuns(t *testing.T) {
	b := New(dilation.Machine{1, 1})
	for _, beside := range []float64{0, 0.5, 1} {
		b.Learn("sort/map", dilation.ObservedRun{Took: time.Duration((1 + 0.8*beside) * float64(time.Second)), Used: dilation.Vector{0.8, 0.2}, Beside: dilation.Vector{beside, 0}})
	}
	b.Learn("sort/a", dilation.ObservedRun{Took: time.Second, Used: dilation.Vector{1, 0}, Beside: dilation.Vector{0, 0}})
	all := b.Learned()
	if len(all) != 2 || all[0].Stage != "sort/a" || all[1].Stage != "sort/map" {
		t.Fatalf("%+v", all)
	}
	l := all[1]
	if math.Abs(l.Load[0]-0.8) > 0.01 || math.Abs(l.Alone.Seconds()-1) > 0.01 || len(l.Measured) != 3 {
		t.Errorf("%+v", l)
	}
	for i, want := range []float64{1, 1.4, 1.8} {
		if math.Abs(l.Predicted[i]-want) > 0.02 || math.Abs(l.Measured[i]-want) > 0.02 {
			t.Errorf("run %d: predicted %g, measured %g, want %g", i, l.Predicted[i], l.Measured[i], want)
		}
	}
}
