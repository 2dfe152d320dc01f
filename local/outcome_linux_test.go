package local

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gleaner/cluster"
)

// The name of a run's directory is read as it was written, and nothing else is
// taken for one.
func TestNamesOfRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := cluster.TaskID{Job: 7, Stage: rapid.StringMatching(`[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}`).Draw(t, "stage"),
			Index: rapid.Int32Range(0, cluster.MaxTasks).Draw(t, "index"), Attempt: rapid.Int32Range(0, 1<<30).Draw(t, "attempt")}
		name := runPath("", id)[len("jobs/7/"):]
		if got, ok := parseRun(7, name); !ok || got != id {
			t.Fatalf("%s is read as %+v, %v", name, got, ok)
		}
	})
	for _, name := range []string{"", "shared", "job.json", "ended.json", ".job.json-123", "map-3", "map.1", "map-3.x", "map-x.1", "map-03.1", "map-3.99999999999", "-.", "map-+3.1"} {
		if id, ok := parseRun(7, name); ok {
			t.Errorf("%q is read as %+v", name, id)
		}
	}
}

// The last runs of a job are found, in any order, among other directories.
func TestTheLastRuns(t *testing.T) {
	w := &World{Options: Options{Dir: t.TempDir()}}
	for _, name := range []string{"map-3.1", "map-0.10", "map-0.9", "map-0.1", "merge-0.2", "shared", "map-1999999999.1", "map-2"} {
		if err := os.MkdirAll(filepath.Join(jobPath(w.Dir, 7), name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string][]int32{"map": {10, 0, 0, 1}, "merge": {2}}
	if got := w.LastRuns(7); !maps.EqualFunc(got, want, slices.Equal[[]int32]) {
		t.Errorf("%v, want %v", got, want)
	}
	for index, want := range map[int32]int32{0: 9, 3: 0} {
		if got, ran := w.LastRun(cluster.TaskID{Job: 7, Stage: "map", Index: index}); !ran || got.Attempt != want {
			t.Errorf("%+v, %v", got, ran)
		}
	}
	if got, ran := w.LastRun(cluster.TaskID{Job: 7, Stage: "map", Index: 1}); ran || got.Attempt != 0 {
		t.Errorf("%+v", got)
	}
	if got := w.LastRuns(8); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
