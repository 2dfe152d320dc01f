package harvester

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/harvest"
	"gleaner/history"
	"gleaner/kv/mem"
)

// A staged world returns given events, runs tasks at once, and records the calls.
type staged struct {
	events chan cluster.Event
	notes  []string
	pruned time.Time
}

func (s *staged) Next(ctx context.Context) (cluster.Event, error) {
	select {
	case ev := <-s.events:
		ev.At = time.Now()
		return ev, nil
	case <-ctx.Done():
		return cluster.Event{}, ctx.Err()
	}
}

func (s *staged) Do(a cluster.Action) error {
	s.notes = append(s.notes, a.String())
	if a.Kind == cluster.StartTask {
		s.events <- cluster.Event{Kind: cluster.TaskStarted, Task: a.Task, On: a.On, Request: a.Request}
	}
	return nil
}

func (s *staged) Publish([]cluster.Class)      {}
func (s *staged) Prune(before time.Time) error { s.pruned = before; return nil }

func (s *staged) Spent(cluster.TaskID) (cluster.Spent, bool) {
	return cluster.Spent{Start: time.Now().Add(-10 * time.Second), Took: 10 * time.Second, CPU: 5 * time.Second, Waited: -1, Stalled: -1}, true
}

func (s *staged) Stop(string) []cluster.TaskID {
	s.notes = append(s.notes, "stop")
	return nil
}

// A job runs, its load is learned and stored, and the next job of its name has it.
// The first part to end ends the rest: requests are no longer served when tasks are
// ended.
func TestAHarvesterLearnsAndEndsInOrder(t *testing.T) {
	store, err := history.Open(t.Context(), mem.New(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := harvest.PolicyNamed("history")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		server := cluster.Server{ID: "here", CPU: 4 * cluster.Core, Memory: 8 * cluster.GB}
		job := &cluster.Job{ID: 1, Name: "sort", Stages: []cluster.Stage{{Name: "map", Tasks: 1, Request: cluster.Resources{CPU: cluster.Core, Memory: cluster.GB}}}}
		world := &staged{events: make(chan cluster.Event, 10)}
		o := Options{World: world, Server: server, Isolated: true, Policy: policy, Reserve: harvest.ReserveFor(server.Size(), true), Keep: time.Hour,
			History: store, Board: board.New(harvest.Reserve{}), Log: slog.New(slog.DiscardHandler)}
		h, err := New(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		broken, let := errors.New("the network is gone"), make(chan struct{})
		ended := make(chan error)
		go func() {
			ended <- h.Run(t.Context(), func(context.Context) error {
				<-let
				world.notes = append(world.notes, "nobody is let in")
				return broken
			})
		}()
		task := cluster.TaskID{Job: 1, Stage: "map"}
		for _, ev := range []cluster.Event{
			{Kind: cluster.ServerJoined, Server: &server},
			{Kind: cluster.UseReported, Use: []cluster.Use{{On: "here"}}},
			{Kind: cluster.JobSubmitted, Job: job},
		} {
			world.events <- ev
		}
		time.Sleep(10 * time.Second)
		if s := o.Board.Status(); s.Running != 1 || s.Reserve != o.Reserve.Of(server.Size()) {
			t.Errorf("the board shows %+v", s)
		}
		world.events <- cluster.Event{Kind: cluster.TaskFinished, Task: task, On: "here"}
		synctest.Wait()
		close(let)
		if err := <-ended; err != broken {
			t.Errorf("it ended with %v", err)
		}
		if want := []string{"start job-1/map-0 on here", "finish job-1", "nobody is let in", "stop"}; !slices.Equal(world.notes, want) {
			t.Errorf("%q, want %q", world.notes, want)
		}
		if age := time.Since(world.pruned); age < time.Hour {
			t.Errorf("jobs that ended %v ago are forgotten", age)
		}
		next, err := New(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if load := next.Known(job).Stages[0].Loading; len(load) != 2 || load[0] < 0.4 || load[0] > 0.6 || job.Stages[0].Loading != nil {
			t.Errorf("half of the time on a core was learned as %v", load)
		}
	})
}
