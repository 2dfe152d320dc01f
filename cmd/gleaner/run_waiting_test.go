package main

import (
	"testing"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/web"
)

func TestWaitsFor(t *testing.T) {
	small := cluster.Resources{CPU: cluster.Core, Memory: cluster.GB}
	s := web.Status{Status: board.Status{Size: cluster.Resources{CPU: 4 * cluster.Core, Memory: 16 * cluster.GB}, Reserve: small, Counted: cluster.Resources{CPU: 2 * cluster.Core}}}
	for _, tc := range []struct {
		request cluster.Resources
		want    string
	}{
		{cluster.Resources{CPU: 1500, Memory: cluster.GB}, "a task of merge needs 1.50 cores, and 1.00 of 4.00 cores are free: the primary uses 2.00, 1.00 are its reserve, other tasks hold 0.00"},
		{cluster.Resources{CPU: cluster.Core, Memory: 20 * cluster.GB}, "a task of merge needs 20 GiB, and 15 GiB of 16 GiB are free: the primary uses 0 GiB, 1 GiB are its reserve, other tasks hold 0 GiB"},
		{small, "there is room for a task of merge now, which the policy does not give away yet: it must have stayed free for a while"},
	} {
		j := &board.Job{Stages: []board.Stage{
			{Name: "report", State: board.Blocked, Tasks: 1},
			{Name: "map", State: board.Finished, Tasks: 3, Finished: 3},
			{Name: "merge", State: board.Waiting, Tasks: 1, Waiting: 1, Request: tc.request},
		}}
		if got := waitsFor(j, s); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.request, got, tc.want)
		}
	}
}
