// Package compute is a world in virtual time: the servers of a datacenter,
// primary tenants that use them as a history says, and batch jobs that arrive
// and run on what is left. It decides nothing; a task that was started runs at
// full speed until it ends or is killed.
//
// The same configuration gives the same events on any machine.
package compute

import (
	"context"
	"io"
	"time"

	"gleaner/cluster"
)

// Primaries are what the owners of servers use: the share of a server's CPU,
// 0 to 1, in a slot.
type Primaries interface {
	CPU(server, slot int) float32
}

// A Config is everything that will happen in a world.
type Config struct {
	Servers   []cluster.Server
	Primaries Primaries
	Window    cluster.Window // to simulate
	Slot      int            // of Primaries in which the window begins
	Classes   []cluster.Class
	Arrivals  []Arrival // in order of time
	// Slow computes, for tasks that run together on a server of that size, the
	// factor by which each takes longer than alone. Nil: always 1.
	Slow func(size cluster.Resources, loadings [][]float64, factors []float64)
}

// A server is reported when its rounded use has changed, and at least once in
// reportEvery slots.
const reportEvery = 15

// A World is a datacenter in virtual time.
type World struct {
	Config
	now     time.Duration // since the window began
	slot    int           // the next to begin
	arrival int           // the next
	servers []simServer
	byID    map[cluster.ServerID]int32
	tasks   []simTask
	idle    []int32 // indices of tasks that are free
	ends    ends
	soon    []cluster.Event // of the present moment, in order
	told    int             // how many of soon were returned
	use     []cluster.Use
	jobs    map[cluster.JobID]int // arrival of each that has not ended
	meter   meter
}

type simServer struct {
	primary cluster.MilliCPU // rounded up, as last reported
	held    cluster.MilliCPU
	size    cluster.MilliCPU
	over    time.Duration // since when it is overloaded; -1: it is not
	tasks   []int32
}

// A simTask is a running task, or a free place for one.
type simTask struct {
	id      cluster.TaskID
	server  int32
	request cluster.MilliCPU
	loading []float64
	started time.Duration
	since   time.Duration // when left and factor last changed
	left    float64       // of the task alone, in nanoseconds
	factor  float64       // by which it takes longer
	version int32         // of its end in ends
	work    float64       // of the task alone, in nanoseconds
}

// New returns a world at the beginning of its window.
func New(cfg Config) *World {
	w := &World{Config: cfg, servers: make([]simServer, len(cfg.Servers)), byID: make(map[cluster.ServerID]int32, len(cfg.Servers)),
		jobs: map[cluster.JobID]int{}}
	for i := range cfg.Servers {
		s := &cfg.Servers[i]
		w.byID[s.ID] = int32(i)
		w.servers[i] = simServer{primary: -1, size: s.CPU, over: -1}
		w.meter.cores += float64(s.CPU) / float64(cluster.Core)
		w.soon = append(w.soon, cluster.Event{At: cfg.Window.From, Kind: cluster.ServerJoined, Server: s})
	}
	if len(cfg.Classes) > 0 {
		w.soon = append(w.soon, cluster.Event{At: cfg.Window.From, Kind: cluster.ClassesPublished, Classes: cfg.Classes})
	}
	w.meter.took = make([]time.Duration, len(cfg.Arrivals))
	return w
}

// Next returns the next event; io.EOF when the window is over.
func (w *World) Next(ctx context.Context) (cluster.Event, error) {
	if w.told < len(w.soon) {
		w.told++
		return w.soon[w.told-1], nil
	}
	w.soon, w.told = w.soon[:0], 0
	for {
		end := w.ends.first()
		switch tick, arrives := w.tick(), w.arrives(); {
		case end <= tick && end <= arrives && end <= w.length():
			if e := w.ends.pop(); w.tasks[e.task].version == e.version {
				w.now = e.at
				return w.finish(e.task), nil
			}
		case tick <= arrives && tick < w.length():
			w.now = tick
			return w.report(), ctx.Err()
		case arrives < w.length():
			w.now = arrives
			a := &w.Arrivals[w.arrival]
			w.jobs[a.Job.ID] = w.arrival
			w.arrival++
			return cluster.Event{At: w.at(), Kind: cluster.JobSubmitted, Job: a.Job}, nil
		default:
			w.now = w.length()
			return cluster.Event{}, io.EOF
		}
	}
}

const never = time.Duration(1 << 62)

func (w *World) length() time.Duration { return time.Duration(w.Window.Len) * w.Window.Step }
func (w *World) at() time.Time         { return w.Window.From.Add(w.now) }
func (w *World) tick() time.Duration   { return time.Duration(w.slot) * w.Window.Step }

func (w *World) arrives() time.Duration {
	if w.arrival == len(w.Arrivals) {
		return never
	}
	return w.Arrivals[w.arrival].At
}

// report begins a slot and reports the servers whose use has changed by a core.
func (w *World) report() cluster.Event {
	w.use = w.use[:0]
	sum := 0.0
	for i := range w.servers {
		s := &w.servers[i]
		u := cluster.Resources{CPU: cluster.MilliCPU(float64(w.Primaries.CPU(i, w.Slot+w.slot))*float64(s.size) + 0.5)}
		sum += float64(u.CPU)
		if rounded := u.RoundUp().CPU; rounded != s.primary || (w.slot+i)%reportEvery == 0 {
			s.primary = rounded
			w.watch(s)
			w.use = append(w.use, cluster.Use{On: w.Servers[i].ID, Primary: u})
		}
	}
	w.meter.primary += sum / float64(cluster.Core) * w.Window.Step.Seconds()
	w.slot++
	return cluster.Event{At: w.at(), Kind: cluster.UseReported, Use: w.use}
}

// Do carries out an action at once.
func (w *World) Do(a cluster.Action) error {
	switch a.Kind {
	case cluster.StartTask:
		w.start(a)
	case cluster.KillTask:
		w.kill(a)
	case cluster.FinishJob:
		if i, known := w.jobs[a.ID]; known {
			w.meter.took[i] = w.now - w.Arrivals[i].At
			delete(w.jobs, a.ID)
		}
	}
	return nil
}

func (w *World) start(a cluster.Action) {
	arrival, known := w.jobs[a.Task.Job]
	on, there := w.byID[a.On]
	if !known || !there {
		w.soon = append(w.soon, cluster.Event{At: w.at(), Kind: cluster.TaskNotStarted, Task: a.Task, On: a.On, Reason: "there is no such job or server"})
		return
	}
	work, loading := w.Arrivals[arrival].Task(a.Task)
	r := simTask{id: a.Task, server: on, request: a.Request.CPU, loading: loading, started: w.now, since: w.now,
		work: float64(work), left: float64(work), factor: 1}
	place := int32(len(w.tasks))
	if n := len(w.idle); n > 0 {
		place, w.idle = w.idle[n-1], w.idle[:n-1]
		r.version = w.tasks[place].version + 1
		w.tasks[place] = r
	} else {
		w.tasks = append(w.tasks, r)
	}
	s := &w.servers[on]
	s.tasks = append(s.tasks, place)
	w.hold(s, a.Request.CPU)
	w.meter.started++
	if w.Slow == nil {
		w.ends.push(end{w.now + work, place, r.version})
	} else {
		w.slow(s)
	}
	w.soon = append(w.soon, cluster.Event{At: w.at(), Kind: cluster.TaskStarted, Task: a.Task, On: a.On, Request: a.Request})
}

func (w *World) kill(a cluster.Action) {
	on, there := w.byID[a.On]
	if !there {
		return
	}
	for _, place := range w.servers[on].tasks {
		if w.tasks[place].id == a.Task {
			w.meter.killed++
			w.meter.wasted += (w.now - w.tasks[place].started).Seconds() * float64(w.tasks[place].request) / float64(cluster.Core)
			w.stop(place)
			w.soon = append(w.soon, cluster.Event{At: w.at(), Kind: cluster.TaskKilled, Task: a.Task, On: a.On, Reason: a.Reason})
			return
		}
	}
}

func (w *World) finish(place int32) cluster.Event {
	r := &w.tasks[place]
	ev := cluster.Event{At: w.at(), Kind: cluster.TaskFinished, Task: r.id, On: w.Servers[r.server].ID}
	w.meter.stretch(w.now-r.started, r.work)
	w.stop(place)
	return ev
}

// stop takes a task off its server.
func (w *World) stop(place int32) {
	r := &w.tasks[place]
	s := &w.servers[r.server]
	for k, p := range s.tasks {
		if p == place {
			s.tasks = append(s.tasks[:k], s.tasks[k+1:]...)
			break
		}
	}
	r.version++
	w.idle = append(w.idle, place)
	w.hold(s, -r.request)
	if w.Slow != nil {
		w.slow(s)
	}
}

func (w *World) hold(s *simServer, amount cluster.MilliCPU) {
	s.held += amount
	w.meter.hold(w.now, amount)
	w.watch(s)
}

// watch measures the time for which a primary, rounded up, and the tasks on its
// server together need more than the server has.
func (w *World) watch(s *simServer) {
	over := s.held > 0 && s.primary+s.held > s.size
	switch {
	case over && s.over < 0:
		s.over = w.now
	case !over && s.over >= 0:
		w.meter.overload += w.now - s.over
		s.over = -1
	}
}

// slow recomputes the speed of each task on s.
func (w *World) slow(s *simServer) {
	loadings := make([][]float64, len(s.tasks))
	for k, place := range s.tasks {
		loadings[k] = w.tasks[place].loading
	}
	factors := make([]float64, len(s.tasks))
	w.Slow(cluster.Resources{CPU: s.size}, loadings, factors)
	for k, place := range s.tasks {
		r := &w.tasks[place]
		r.left -= float64(w.now-r.since) / r.factor
		r.since, r.factor = w.now, factors[k]
		r.version++
		w.ends.push(end{w.now + time.Duration(max(r.left, 0)*r.factor+0.5), place, r.version})
	}
}
