package board

import (
	"testing"
	"time"

	"gleaner/cluster"
)

func TestWaitsFor(t *testing.T) {
	small := cluster.Resources{CPU: cluster.Core, Memory: cluster.GB}
	s := Status{Usage: Usage{Size: cluster.Resources{CPU: 4 * cluster.Core, Memory: 16 * cluster.GB}, Reserve: small, Counted: cluster.Resources{CPU: 2 * cluster.Core}}}
	for _, tc := range []struct {
		request cluster.Resources
		want    string
	}{
		{cluster.Resources{CPU: 1500, Memory: cluster.GB}, "a task of merge needs 1.50 cores, and 1.00 of 4.00 cores are free: the primary uses 2.00, 1.00 are its reserve, other tasks hold 0.00"},
		{cluster.Resources{CPU: cluster.Core, Memory: 20 * cluster.GB}, "a task of merge needs 20 GiB, and 15 GiB of 16 GiB are free: the primary uses 0 GiB, 1 GiB are its reserve, other tasks hold 0 GiB"},
		{small, "there is room for a task of merge now, but the policy does not use it yet: it must stay free for a while"},
	} {
		j := &Job{Stages: []Stage{
			{Name: "report", State: Blocked, Tasks: 1},
			{Name: "map", State: Finished, Tasks: 3, Finished: 3},
			{Name: "merge", State: Waiting, Tasks: 1, Waiting: 1, Request: tc.request},
		}}
		if got := s.WaitsFor(j, time.UTC); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.request, got, tc.want)
		}
	}
	at := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	j := &Job{Stages: []Stage{{Name: "map", State: Waiting, Tasks: 1, Waiting: 1, Request: small}},
		Delayed: []Delay{{Name: "job-7/map-0#2", Until: at, Reason: "exit code 3"}}}
	if got, want := s.WaitsFor(j, time.UTC), "the last run of a task failed (exit code 3); job-7/map-0#2 starts at 12:00:00"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	s.Short = []Shortage{{Of: "the start of tasks", Because: "too many open files"}}
	if got, want := s.WaitsFor(j, time.UTC), "the start of tasks waits (too many open files) and is retried"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}
