package web_test

import (
	"context"
	"fmt"
	"testing"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/harvest"
	"gleaner/web"
)

// A slow machine takes its time to find the last runs, and counts how many outcomes it is asked for.
type slow struct {
	machine
	asked    chan struct{} // for the last runs
	further  chan struct{}
	outcomes int
}

func (m *slow) LastRuns(cluster.JobID) map[string][]int32 {
	m.asked <- struct{}{}
	<-m.further
	return map[string][]int32{"first": {1, 1, 1}}
}

func (m *slow) Outcome(cluster.TaskID) (cluster.Outcome, bool) {
	m.outcomes++
	return cluster.Outcome{}, false
}

// Those who look at tasks wait for each other, and tasks of stages that say all of them are not looked at one by one.
func TestListsOfTasksAreMadeOneAtATime(t *testing.T) {
	b := board.New(harvest.Reserve{})
	job := &cluster.Job{ID: 1, Name: "wide"}
	for i := range 1000 {
		st := cluster.Stage{Name: fmt.Sprint("stage", i), Tasks: 1000, Request: cluster.Resources{CPU: 1, Memory: 1}}
		if i > 0 {
			st.After = []string{"first"}
		} else {
			st.Name = "first"
		}
		job.Stages = append(job.Stages, st)
	}
	if err := b.Event(cluster.Event{Kind: cluster.JobSubmitted, Job: job}); err != nil {
		t.Fatal(err)
	}
	m := &slow{asked: make(chan struct{}), further: make(chan struct{})}
	a := &web.API{Board: b, Machine: m}
	j, _ := b.Job(1)
	first := make(chan []board.Task)
	go func() { first <- a.TasksOf(t.Context(), &j, board.Choice{State: board.Failed, Most: 10}) }()
	<-m.asked
	gone, leave := context.WithCancel(t.Context())
	leave()
	if got := a.TasksOf(gone, &j, board.Choice{Most: 10}); len(got) != 0 { // the machine would be asked, and wait
		t.Errorf("%v", got)
	}
	close(m.further)
	if got := <-first; len(got) != 0 || m.outcomes != 3 {
		t.Errorf("%v, and %d outcomes were looked up for 3 runs", got, m.outcomes)
	}
	go func() { <-m.asked }()
	if got := a.TasksOf(t.Context(), &j, board.Choice{State: board.Blocked, Skip: 998_999, Most: 10}); len(got) != 1 || got[0].Task != "job-1/stage999-999" || got[0].Reason != "comes after first" {
		t.Errorf("%+v", got)
	}
}
