package local

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"gleaner/cluster"
)

// leave writes a run with the given end into a world's directory.
func leave(t testing.TB, dir string, id cluster.TaskID, how exit) {
	t.Helper()
	at := runPath(dir, id)
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	r := runSpec{Task: id, Job: "j", At: how.At.Add(-time.Second), Request: cluster.Resources{CPU: cluster.Core, Memory: cluster.MB}, Command: []string{"true"}}
	for name, v := range map[string]any{runFile: r, exitFile: how} {
		if err := noteFile(filepath.Join(at, name), v); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(at, lockFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func leaveJob(t testing.TB, dir string, tasks int) *cluster.Job {
	t.Helper()
	job := &cluster.Job{ID: 1, Name: "j", Stages: []cluster.Stage{{Name: "a-b.c", Tasks: tasks, Request: cluster.Resources{CPU: cluster.Core, Memory: cluster.MB}, Command: []string{"true"}}}}
	if err := makeDir(jobPath(dir, 1)); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(filepath.Join(jobPath(dir, 1), jobFile), submitted{time.Now(), job}); err != nil {
		t.Fatal(err)
	}
	return job
}

// Runs come in no order. Of a task, the past has only that it has finished, or how
// its last run ended.
func TestScanTellsWhatMatters(t *testing.T) {
	dir, at := t.TempDir(), time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	leaveJob(t, dir, 9)
	for _, r := range []struct {
		index, attempt int32
		how            exit
	}{
		{0, 0, exit{}}, {1, 0, exit{}}, {3, 1, exit{}},
		{3, 0, exit{Code: 1}}, // and finished the second time
		{4, 0, exit{Code: 1}}, {4, 1, exit{Code: 2}}, {4, 2, exit{Lost: true}},
	} {
		r.how.At = at
		leave(t, dir, cluster.TaskID{Job: 1, Stage: "a-b.c", Index: r.index, Attempt: r.attempt}, r.how)
	}
	w := &World{Options: Options{Dir: dir, Server: "here"}, jobs: map[cluster.JobID]*cluster.Job{}, tasks: map[cluster.TaskID]*task{}}
	past, adopted, _, err := w.scan()
	if err != nil || len(adopted) != 0 || len(past) != 1 {
		t.Fatal(past, adopted, err)
	}
	p := past[0]
	if want := []cluster.PastStage{{Name: "a-b.c", Finished: cluster.Indices{{First: 0, Last: 1}, {First: 3, Last: 3}}, Failures: 3}}; !reflect.DeepEqual(p.Stages, want) {
		t.Errorf("stages %+v, want %+v", p.Stages, want)
	}
	want := []cluster.PastRun{{Task: cluster.TaskID{Job: 1, Stage: "a-b.c", Index: 4, Attempt: 2}, On: "here", State: cluster.Stopped, Since: at.Add(-time.Second), Failures: 2, Reason: "exit code 2"}}
	if !reflect.DeepEqual(p.Runs, want) {
		t.Errorf("runs %+v, want %+v", p.Runs, want)
	}
	if p.Kills != 1 || p.Work != 3 || !p.Started.Equal(at.Add(-time.Second)) {
		t.Errorf("%d kills, %g of work, started %s", p.Kills, p.Work, p.Started)
	}
	if last, ran := w.LastRun(cluster.TaskID{Job: 1, Stage: "a-b.c", Index: 4}); last.Attempt != 2 || !ran {
		t.Errorf("last run %s", last)
	}
	if last, ran := w.LastRun(cluster.TaskID{Job: 1, Stage: "a-b.c", Index: 5}); ran {
		t.Errorf("%s has not run", last)
	}
}

func BenchmarkScan(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("%druns", n), func(b *testing.B) {
			dir := b.TempDir()
			leaveJob(b, dir, n)
			for i := range n {
				leave(b, dir, cluster.TaskID{Job: 1, Stage: "a-b.c", Index: int32(i)}, exit{At: time.Now()})
			}
			w := &World{Options: Options{Dir: dir, Server: "here"}, jobs: map[cluster.JobID]*cluster.Job{}, tasks: map[cluster.TaskID]*task{}}
			for b.Loop() {
				past, _, _, err := w.scan()
				if err != nil || past[0].Stages[0].Finished.Len() != n {
					b.Fatal(past, err)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(b.N*n), "us/run")
		})
	}
}
