package compute

import (
	"slices"
	"time"

	"gleaner/cluster"
)

// meter adds up the figures of a Result.
type meter struct {
	cores     float64
	took      []time.Duration // of each arrival; 0: not finished
	started   int
	killed    int
	held      cluster.MilliCPU // by all tasks now
	since     time.Duration    // when held last changed
	harvested float64          // core-seconds
	wasted    float64
	primary   float64
	overload  time.Duration
	alone     float64 // nanoseconds that finished tasks would have taken alone
	together  float64 // and that they took
}

func (m *meter) hold(now time.Duration, amount cluster.MilliCPU) {
	m.harvested += (now - m.since).Seconds() * float64(m.held) / float64(cluster.Core)
	m.since = now
	m.held += amount
}

func (m *meter) stretch(took time.Duration, alone float64) {
	m.together += float64(took)
	m.alone += alone
}

// A Result is the outcome of a simulation.
type Result struct {
	Jobs         int           // that arrived
	Unfinished   int           // of them, when the window was over
	MeanJob      time.Duration // from submission to end; of an unfinished one, to the end of the window
	P95Job       time.Duration
	TasksStarted int
	TasksKilled  int
	Primary      float64       // mean share of all cores that primaries used
	Harvested    float64       // mean share that tasks held
	Wasted       float64       // mean share that killed tasks had held for nothing
	Overload     time.Duration // summed over servers: primary and tasks together need more than there is
	MeanStretch  float64       // by what factor finished tasks took longer than alone
	Dilated      float64       // seconds that they took beyond that
}

// Result sums up the simulation until now.
func (w *World) Result() Result {
	m := &w.meter
	m.hold(w.now, 0)
	for i := range w.servers {
		if s := &w.servers[i]; s.over >= 0 {
			m.overload += w.now - s.over
			s.over = w.now
		}
	}
	res := Result{Jobs: w.arrival, Unfinished: len(w.jobs), TasksStarted: m.started, TasksKilled: m.killed, Overload: m.overload,
		MeanStretch: 1, Dilated: (m.together - m.alone) / 1e9}
	all := m.cores * w.now.Seconds()
	res.Primary, res.Harvested, res.Wasted = m.primary/all, m.harvested/all, m.wasted/all
	if m.alone > 0 {
		res.MeanStretch = m.together / m.alone
	}
	sum := 0.0
	var times []time.Duration
	for i := range w.arrival {
		took := m.took[i]
		if _, open := w.jobs[w.Arrivals[i].Job.ID]; open {
			took = w.now - w.Arrivals[i].At
		}
		times = append(times, took)
		sum += float64(took)
	}
	if n := len(times); n > 0 {
		slices.Sort(times)
		res.MeanJob = time.Duration(sum / float64(n))
		res.P95Job = times[min(n*95/100, n-1)]
	}
	return res
}
