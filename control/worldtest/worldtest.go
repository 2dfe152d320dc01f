// Package worldtest is the test suite of every control.World, simulated or real.
package worldtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/control"
	"gleaner/harvest"
)

// A Scene is what happens in a world that is made for a test.
type Scene struct {
	// Jobs come in once the world has begun, numbered 1, 2 and so on. Tasks of a stage
	// named "short" finish soon, those of one named "long" run until they are killed.
	Jobs []*cluster.Job
	// Primary is what the primary of every server uses now. It may be called at any
	// time, concurrently.
	Primary func() cluster.Resources
}

// Make returns a world that plays a scene, on servers of a core or more, and ends it
// with the test.
type Make func(t *testing.T, scene Scene) control.World

// Run tests the worlds of make against the promises of control.World.
func Run(t *testing.T, make Make) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Make)
	}{
		{"TasksStartAndEndOnce", startAndEndOnce},
		{"AKillIsToldOnce", killedOnce},
		{"WhatCannotStartIsTold", notStarted},
		{"UseIsReported", useIsReported},
		{"NextEndsWithItsContext", endsWithContext},
		{"GuardsAndCoreRuleIt", ruled},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, make) })
	}
}

// request is so small that any server can hold all tasks of a scene.
var request = cluster.Resources{CPU: cluster.Core / 10, Memory: cluster.MB}

func job(id cluster.JobID, stage string, tasks int) *cluster.Job {
	return &cluster.Job{ID: id, Name: stage, Stages: []cluster.Stage{{Name: stage, Tasks: tasks, Request: request}}}
}

// patience is how long a real world may take for one test.
const patience = time.Minute

// A stage is a world under test.
type stage struct {
	*testing.T
	ctx     context.Context
	world   control.World
	referee referee
	primary atomic.Int64 // milli CPU
}

func open(t *testing.T, make Make, jobs ...*cluster.Job) *stage {
	t.Helper()
	s := &stage{T: t}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	s.ctx = ctx
	s.world = make(t, Scene{Jobs: jobs, Primary: func() cluster.Resources {
		return cluster.Resources{CPU: cluster.MilliCPU(s.primary.Load())}
	}})
	return s
}

// until reads events until seen returns true.
func (s *stage) until(what string, seen func(cluster.Event) bool) {
	s.Helper()
	for {
		ev, err := s.world.Next(s.ctx)
		if errors.Is(err, io.EOF) {
			s.Fatalf("the events end before %s", what)
		}
		if err != nil {
			s.Fatalf("waiting for %s: %v", what, err)
		}
		if err := s.referee.event(ev); err != nil {
			s.Fatal(err)
		}
		if seen(ev) {
			return
		}
	}
}

// quiet waits for some reports, so that unexpected events would be seen.
func (s *stage) quiet() {
	s.Helper()
	reports := 0
	s.until("a few reports", func(ev cluster.Event) bool {
		if ev.Kind == cluster.UseReported {
			reports++
		}
		return reports == 5
	})
}

func (s *stage) do(a cluster.Action) {
	s.Helper()
	s.referee.action(a)
	if err := s.world.Do(a); err != nil {
		s.Fatalf("%s: %v", a, err)
	}
}

// start waits for a job and starts its tasks on the first server.
func (s *stage) start() (tasks []cluster.TaskID) {
	s.Helper()
	s.until("a job", func(ev cluster.Event) bool {
		if ev.Kind != cluster.JobSubmitted {
			return false
		}
		for i := range ev.Job.Stages[0].Tasks {
			id := cluster.TaskID{Job: ev.Job.ID, Stage: ev.Job.Stages[0].Name, Index: int32(i)}
			s.startOn(s.referee.servers[0], id)
			tasks = append(tasks, id)
		}
		return true
	})
	return tasks
}

func (s *stage) startOn(on cluster.ServerID, id cluster.TaskID) {
	s.Helper()
	s.do(cluster.Action{Kind: cluster.StartTask, Task: id, On: on, Request: request})
}

func (s *stage) kill(id cluster.TaskID, reason string) {
	s.Helper()
	s.do(cluster.Action{Kind: cluster.KillTask, Task: id, On: s.referee.servers[0], Reason: reason})
}

// ended waits until tasks have ended in one way.
func (s *stage) ended(how cluster.EventKind, tasks ...cluster.TaskID) {
	s.Helper()
	left := len(tasks)
	s.until("all tasks to end: "+how.String(), func(ev cluster.Event) bool {
		if slices.Contains(tasks, ev.Task) && ev.Kind != cluster.TaskStarted {
			if ev.Kind != how {
				s.Fatalf("%s: %s (%s), want %s", ev.Task, ev.Kind, ev.Reason, how)
			}
			left--
		}
		return left == 0
	})
}

func startAndEndOnce(t *testing.T, make Make) {
	s := open(t, make, job(1, "short", 4), job(2, "short", 1))
	s.ended(cluster.TaskFinished, s.start()...)
	s.do(cluster.Action{Kind: cluster.FinishJob, ID: 1})
	s.do(cluster.Action{Kind: cluster.FinishJob, ID: 1}) // changes nothing
	s.quiet()
	s.referee.over(s)
}

func killedOnce(t *testing.T, make Make) {
	s := open(t, make, job(1, "long", 3))
	tasks := s.start()
	s.kill(tasks[1], "first")
	s.kill(tasks[1], "second")
	s.ended(cluster.TaskKilled, tasks[1])
	s.kill(tasks[1], "it is gone")
	s.kill(cluster.TaskID{Job: 1, Stage: "long", Index: 7}, "it never was")
	s.quiet()

	again := tasks[1]
	again.Attempt++
	s.startOn(s.referee.servers[0], again)
	s.kill(tasks[1], "another run of it is")
	s.quiet()
	for _, id := range []cluster.TaskID{tasks[0], again, tasks[2]} {
		s.kill(id, "enough")
	}
	s.ended(cluster.TaskKilled, tasks[0], again, tasks[2])
	s.referee.over(s)
}

func notStarted(t *testing.T, make Make) {
	s := open(t, make, job(1, "long", 3))
	tasks := s.start()
	lost := tasks[0]
	lost.Attempt = 5
	s.startOn("no such server", lost)
	s.ended(cluster.TaskNotStarted, lost)
	late := cluster.TaskID{Job: 99, Stage: "long"}
	s.startOn(s.referee.servers[0], late)
	s.ended(cluster.TaskNotStarted, late)
	for _, id := range tasks {
		s.kill(id, "enough")
	}
	s.ended(cluster.TaskKilled, tasks...)
	s.referee.over(s)
}

func useIsReported(t *testing.T, make Make) {
	s := open(t, make)
	for _, cpu := range []cluster.MilliCPU{0, 700, 200} {
		s.primary.Store(int64(cpu))
		seen := map[cluster.ServerID]bool{}
		s.until("every server's use of "+cluster.Resources{CPU: cpu}.String(), func(ev cluster.Event) bool {
			for _, use := range ev.Use {
				// A simulated world has shares of a server in single precision.
				seen[use.On] = max(use.Primary.CPU-cpu, cpu-use.Primary.CPU) <= 1
			}
			return len(seen) == len(s.referee.servers) && !slices.ContainsFunc(s.referee.servers, func(id cluster.ServerID) bool { return !seen[id] })
		})
	}
}

func endsWithContext(t *testing.T, make Make) {
	s := open(t, make)
	s.quiet()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100_000 {
		if _, err := s.world.Next(ctx); err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("ended with %v", err)
			}
			return
		}
	}
	t.Error("events go on after the context is done")
}

// ruled lets guards and core control the world: a short job finishes; a long one is
// killed when the primary needs its server and runs again later. A replay of the
// recording decides the same.
func ruled(t *testing.T, make Make) {
	s := open(t, make, job(1, "short", 4), job(2, "long", 2))
	var tape bytes.Buffer
	r := &ruler{stage: s, tape: control.NewRecording(&tape), again: map[int32]bool{}}
	if err := control.Run(s.ctx, r, brain(), r); !errors.Is(err, errEnough) {
		t.Fatalf("ended with %v: %d started, %d killed, %d started again, finished %v", err, r.started, r.killed, len(r.again), r.finished)
	}
	if err := r.tape.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Replay("the recording", &tape, brain()); err != nil {
		t.Error(err)
	}
}

func brain() *control.Brain {
	policy, err := harvest.PolicyNamed("primary")
	if err != nil {
		panic(err)
	}
	reserve := harvest.Reserve{Fixed: request, Step: request.CPU}
	return control.NewBrain(harvest.Options{Policy: policy, Reserve: reserve, Rand: rand.New(rand.NewPCG(1, 1))})
}

// A ruler is a world that passes calls on to another, and records them.
type ruler struct {
	*stage
	tape            *control.Recording
	size            cluster.MilliCPU
	started, killed int            // of the long tasks
	again           map[int32]bool // those that were started again; more than once where servers do not report at the same time
	finished        bool
}

var errEnough = errors.New("everything was seen")

func (r *ruler) Next(ctx context.Context) (cluster.Event, error) {
	if r.finished && len(r.again) == 2 {
		return cluster.Event{}, errEnough
	}
	ev, err := r.world.Next(ctx)
	if err != nil {
		return ev, err
	}
	if ev.Kind == cluster.ServerJoined {
		r.size = max(r.size, ev.Server.CPU)
	}
	if ev.Task.Stage == "long" {
		r.long(ev)
	}
	return ev, r.referee.event(ev)
}

func (r *ruler) long(ev cluster.Event) {
	switch {
	case ev.Kind == cluster.TaskStarted && ev.Task.Attempt > 0:
		r.again[ev.Task.Index] = true
	case ev.Kind == cluster.TaskStarted:
		if r.started++; r.started == 2 {
			r.primary.Store(int64(r.size)) // all of it
		}
	case ev.Kind == cluster.TaskKilled:
		if r.killed++; r.killed == 2 {
			r.primary.Store(0)
		}
	}
}

func (r *ruler) Do(a cluster.Action) error {
	if a.Kind == cluster.FinishJob && a.ID == 1 {
		r.finished = a.Reason == ""
	}
	r.referee.action(a)
	return r.world.Do(a)
}

func (r *ruler) Event(ev cluster.Event) error  { return r.tape.Event(ev) }
func (r *ruler) Action(a cluster.Action) error { return r.tape.Action(a) }
