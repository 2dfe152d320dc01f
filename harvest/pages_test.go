package harvest

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gleaner/cluster"
)

// A million tasks of which a few run take the memory of a few, from their
// submission to their cancellation.
func TestAMillionTasksTakeTheMemoryOfAFew(t *testing.T) {
	policy, err := PolicyNamed("stock")
	if err != nil {
		t.Fatal(err)
	}
	core := New(Options{Policy: policy, Rand: rand.New(rand.NewPCG(1, 0))})
	at := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	step := func(ev cluster.Event) []cluster.Action {
		at = at.Add(time.Second)
		ev.At = at
		return core.Step(ev)
	}
	step(cluster.Event{Kind: cluster.ServerJoined, Server: &cluster.Server{ID: "s1", CPU: 12 * cluster.Core, Memory: 32 * cluster.GB}})
	before := heap()
	job := &cluster.Job{ID: 1, Name: "wide", Stages: []cluster.Stage{{Name: "map", Tasks: cluster.MaxTasks, Request: cluster.Resources{CPU: cluster.Core}}}}
	var running []cluster.Action
	running = append(running, step(cluster.Event{Kind: cluster.JobSubmitted, Job: job})...)
	const most = 1 << 20
	if cost := heap() - before; cost > most {
		t.Errorf("submitted: %d bytes", cost)
	}
	for i := range 100_000 {
		kind := cluster.TaskFinished
		if i%1000 == 0 {
			kind = cluster.TaskKilled
		}
		first := running[0]
		running = append(running[1:], step(cluster.Event{Kind: kind, Task: first.Task, On: first.On})...)
	}
	if len(running) != 12 || running[11].Task.Index < 99_000 {
		t.Errorf("%d tasks run, the last is %s", len(running), running[len(running)-1].Task)
	}
	if cost := heap() - before; cost > most {
		t.Errorf("after 100,000 tasks: %d bytes", cost)
	}
	step(cluster.Event{Kind: cluster.JobCancelled, ID: 1})
	for _, a := range running {
		step(cluster.Event{Kind: cluster.TaskKilled, Task: a.Task, On: a.On})
	}
	if cost := heap() - before; cost > most/4 || len(core.jobs) > 0 {
		t.Errorf("cancelled: %d bytes, %d jobs", cost, len(core.jobs))
	}
	runtime.KeepAlive(core)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Pages hold what a map would.
func TestPages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := int32(rapid.IntRange(1, 3*pageSize).Draw(t, "tasks"))
		p, want := newPages(int(n)), map[int32]int32{}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			i := rapid.Int32Range(0, n-1).Draw(t, "task")
			switch _, held := want[i]; {
			case held && rapid.Bool().Draw(t, "drop"):
				p.drop(i)
				delete(want, i)
			default:
				server := rapid.Int32Range(-1, 3).Draw(t, "server")
				p.hold(i).server = server
				want[i] = server
			}
		}
		last := int32(-1)
		for i, task := range p.running() {
			if server, held := want[i]; !held || server != task.server || i <= last {
				t.Fatalf("task %d on server %d, want %d; the one before is %d", i, task.server, server, last)
			}
			last = i
		}
		for i := int32(-1); i <= n+pageSize; i++ {
			server, held := want[i]
			if task := p.get(i); (task != nil) != held || held && task.server != server {
				t.Fatalf("task %d: %+v, want %d, %v", i, task, server, held)
			}
		}
		for i, page := range p {
			count := 0
			for k := range want {
				if int(k/pageSize) == i {
					count++
				}
			}
			if (page != nil) != (count > 0) {
				t.Fatalf("page %d is kept for %d tasks", i, count)
			}
		}
	})
}

// BenchmarkTask lets a wide job run on a small cluster: the cost of one task
// from its start to its end.
func BenchmarkTask(b *testing.B) {
	policy, err := PolicyNamed("primary")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		core := New(Options{Policy: policy, Rand: rand.New(rand.NewPCG(1, 0))})
		for _, id := range []cluster.ServerID{"s1", "s2", "s3", "s4"} {
			core.Step(cluster.Event{Kind: cluster.ServerJoined, Server: &cluster.Server{ID: id, CPU: 12 * cluster.Core, Memory: 32 * cluster.GB}})
		}
		job := &cluster.Job{ID: 1, Name: "wide", Stages: []cluster.Stage{{Name: "map", Tasks: 10_000, Request: cluster.Resources{CPU: cluster.Core}}}}
		running := append([]cluster.Action{}, core.Step(cluster.Event{Kind: cluster.JobSubmitted, Job: job})...)
		for len(running) > 0 && running[0].Kind == cluster.StartTask {
			first := running[0]
			running = append(running[1:], core.Step(cluster.Event{Kind: cluster.TaskFinished, Task: first.Task, On: first.On})...)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N*10_000), "ns/task")
}
