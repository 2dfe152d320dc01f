package control_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gleaner/cluster"
	"gleaner/control"
)

// A clockwork world is one in which events come at given times.
type clockwork struct {
	begun  time.Time
	events []cluster.Event // each a second after the one before
	told   int
	done   []string
	fails  error // of kills
}

func (w *clockwork) Next(ctx context.Context) (cluster.Event, error) {
	if w.told == len(w.events) {
		return cluster.Event{}, io.EOF
	}
	select {
	case <-ctx.Done():
		return cluster.Event{}, ctx.Err()
	case <-time.After(time.Until(w.begun.Add(time.Duration(w.told) * time.Second))):
	}
	w.told++
	ev := w.events[w.told-1]
	ev.At = time.Now()
	return ev, nil
}

func (w *clockwork) Do(a cluster.Action) error {
	if a.Kind == cluster.KillTask {
		w.done = append(w.done, fmt.Sprintf("%v: %s", time.Since(w.begun), a))
		return w.fails
	}
	return nil
}

// A server with two tasks, whose primary comes back step by step.
func burst() *clockwork {
	task := func(i int32) cluster.TaskID { return cluster.TaskID{Job: 1, Stage: "map", Index: i} }
	one := cluster.Resources{CPU: cluster.Core, Memory: cluster.GB}
	use := func(cores int) []cluster.Use {
		return []cluster.Use{{On: "s1", Primary: cluster.Resources{CPU: cluster.MilliCPU(cores) * cluster.Core}}}
	}
	return &clockwork{begun: time.Now(), events: []cluster.Event{
		{Kind: cluster.ServerJoined, Server: &cluster.Server{ID: "s1", CPU: 12 * cluster.Core, Memory: 32 * cluster.GB}},
		{Kind: cluster.UseReported, Use: use(1)},
		{Kind: cluster.TaskStarted, Task: task(0), On: "s1", Request: one},
		{Kind: cluster.TaskStarted, Task: task(1), On: "s1", Request: one},
		{Kind: cluster.UseReported, Use: use(7)},
		{Kind: cluster.TaskKilled, Task: task(1), On: "s1", Reason: "reserve short by 1 core"},
		{Kind: cluster.UseReported, Use: use(8)},
		{Kind: cluster.TaskKilled, Task: task(0), On: "s1", Reason: "reserve short by 1 core"},
	}}
}

// slow takes a minute to record anything.
type slow struct{ *control.Recording }

func (s slow) Event(ev cluster.Event) error {
	time.Sleep(time.Minute)
	return s.Recording.Event(ev)
}

func TestGuardsDoNotWaitForTheCore(t *testing.T) {
	want := []string{"4s: kill job-1/map-1 on s1: reserve short by 1 core", "6s: kill job-1/map-0 on s1: reserve short by 1 core"}
	synctest.Test(t, func(t *testing.T) {
		w := burst()
		var tape bytes.Buffer
		rec := control.NewRecording(&tape)
		if err := control.RunApart(t.Context(), w, brain(t, "history"), slow{rec}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(w.done, want) {
			t.Errorf("did %q, want %q", w.done, want)
		}
		if passed := time.Since(w.begun); passed != 8*time.Minute {
			t.Errorf("the core was handed all events after %v", passed)
		}
		if err := rec.Flush(); err != nil {
			t.Fatal(err)
		}
		// The recording has the actions on each event, as if all had waited for each other.
		events, err := control.Replay("run.jsonl", bytes.NewReader(tape.Bytes()), brain(t, "history"))
		if err != nil || events != len(w.events) {
			t.Errorf("replayed %d events: %v", events, err)
		}
		if kills := bytes.Count(tape.Bytes(), []byte(`"action":"kill task"`)); kills != 2 {
			t.Errorf("%d kills were recorded", kills)
		}
	})
}

// However it ends, no goroutine is left behind: synctest checks that.
func TestARunApartEndsAsItsWorldDoes(t *testing.T) {
	broken := errors.New("broken")
	synctest.Test(t, func(t *testing.T) {
		w := burst()
		w.fails = broken
		if err := control.RunApart(t.Context(), w, brain(t, "history"), nil); !errors.Is(err, broken) {
			t.Errorf("a kill that fails: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		w = burst()
		if err := control.RunApart(ctx, w, brain(t, "history"), nil); !errors.Is(err, context.DeadlineExceeded) || w.told != 4 {
			t.Errorf("a world that is left after %d events: %v", w.told, err)
		}
		if err := control.RunApart(t.Context(), burst(), brain(t, "history"), full{broken}); !errors.Is(err, broken) {
			t.Errorf("a recorder that fails: %v", err)
		}
	})
}

// full cannot record anything.
type full struct{ because error }

func (f full) Event(cluster.Event) error   { return f.because }
func (f full) Action(cluster.Action) error { return nil }
