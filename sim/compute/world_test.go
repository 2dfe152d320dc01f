package compute

import (
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gleaner/cluster"
)

// steps are primaries of one server whose use changes slot by slot.
type steps []float32

func (s steps) CPU(_, slot int) float32 { return s[slot] }

var begin = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

// small is a world of one server of 4 cores, in slots of two minutes, and one
// job of two tasks that take about a minute each.
func small(use steps, slow func(cluster.Resources, [][]float64, []float64)) *World {
	job := &cluster.Job{ID: 1, Name: "a", Stages: []cluster.Stage{{Name: "map", Tasks: 2, Request: cluster.Resources{CPU: cluster.Core}, Loading: []float64{1}}}}
	return New(Config{
		Servers:   []cluster.Server{{ID: "s1", CPU: 4 * cluster.Core}},
		Primaries: use,
		Window:    cluster.Window{From: begin, Step: 2 * time.Minute, Len: len(use)},
		Arrivals:  []Arrival{{At: 30 * time.Second, Job: job, Takes: []time.Duration{time.Minute}}},
		Slow:      slow,
	})
}

// play runs w to its end and calls on for each event.
func play(t *testing.T, w *World, on func(cluster.Event)) []cluster.Event {
	t.Helper()
	var all []cluster.Event
	for {
		ev, err := w.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		ev.Use = slices.Clone(ev.Use)
		all = append(all, ev)
		on(ev)
	}
}

func task(i int32) cluster.TaskID { return cluster.TaskID{Job: 1, Stage: "map", Index: i} }

func startBoth(w *World) {
	for i := range int32(2) {
		_ = w.Do(cluster.Action{Kind: cluster.StartTask, Task: task(i), On: "s1", Request: cluster.Resources{CPU: cluster.Core}})
	}
}

func TestAJobRunsAndIsTimed(t *testing.T) {
	w := small(steps{0.1, 0.1, 0.6, 0.6}, nil)
	left := 2
	events := play(t, w, func(ev cluster.Event) {
		switch ev.Kind {
		case cluster.JobSubmitted:
			startBoth(w)
		case cluster.TaskFinished:
			if left--; left == 0 {
				_ = w.Do(cluster.Action{Kind: cluster.FinishJob, ID: 1})
			}
		}
	})
	var kinds []cluster.EventKind
	var last time.Time
	for _, ev := range events {
		if ev.At.Before(last) {
			t.Errorf("%s at %v, after %v", ev.Kind, ev.At, last)
		}
		last = ev.At
		kinds = append(kinds, ev.Kind)
	}
	want := []cluster.EventKind{cluster.ServerJoined, cluster.UseReported, cluster.JobSubmitted, cluster.TaskStarted, cluster.TaskStarted,
		cluster.TaskFinished, cluster.TaskFinished, cluster.UseReported, cluster.UseReported, cluster.UseReported}
	if !slices.Equal(kinds, want) {
		t.Errorf("events %v, want %v", kinds, want)
	}
	res := w.Result()
	if res.Jobs != 1 || res.Unfinished != 0 || res.MeanJob < 48*time.Second || res.MeanJob > 72*time.Second {
		t.Errorf("%+v: want one job of about a minute", res)
	}
	if math.Abs(res.Primary-0.35) > 0.01 || res.Harvested <= 0 || res.Overload != 0 || res.Wasted != 0 {
		t.Errorf("%+v: want primaries at 35%%, something harvested, nothing overloaded or wasted", res)
	}
}

// Servers whose rounded use has not changed are reported only now and then.
func TestUnchangedServersAreReportedNowAndThen(t *testing.T) {
	use := make(steps, 2*reportEvery)
	for i := range use {
		use[i] = 0.30 + 0.1*float32(i%2) // one core and a bit, always: two cores
	}
	reports := 0
	play(t, small(use, nil), func(ev cluster.Event) { reports += len(ev.Use) })
	if reports != 2 {
		t.Errorf("%d reports, want 2", reports)
	}
}

func TestKilledTasksWasteAndBusyPrimariesAreOverloaded(t *testing.T) {
	w := small(steps{0.1, 0.9, 0.9, 0.1}, nil)
	w.Arrivals[0].Takes[0] = time.Hour
	play(t, w, func(ev cluster.Event) {
		if ev.Kind == cluster.JobSubmitted {
			startBoth(w)
		}
		if ev.Kind == cluster.UseReported && ev.At.Equal(begin.Add(4*time.Minute)) {
			_ = w.Do(cluster.Action{Kind: cluster.KillTask, Task: task(0), On: "s1"})
		}
	})
	res := w.Result()
	// From 2 min on the primary counts 4 cores of 4: overloaded until it falls at 6 min.
	if res.Overload != 4*time.Minute || res.TasksKilled != 1 || res.Unfinished != 1 {
		t.Errorf("%+v: want 4 minutes of overload, one kill and an unfinished job", res)
	}
	if got, want := res.Wasted*4*8*60, 3.5*60; math.Abs(got-want) > 0.01 {
		t.Errorf("wasted %v core-seconds, want %v", got, want)
	}
	if want := 8*time.Minute - 30*time.Second; res.MeanJob != want {
		t.Errorf("the unfinished job counts %v, want %v", res.MeanJob, want)
	}
}

// Two tasks halve each other's speed. When the first ends, the other runs at
// full speed again.
func TestTasksSlowEachOtherDown(t *testing.T) {
	w := small(make(steps, 4), func(_ cluster.Resources, loadings [][]float64, factors []float64) {
		for i := range factors {
			factors[i] = float64(len(loadings))
		}
	})
	a, _ := w.Arrivals[0].Task(task(0))
	b, _ := w.Arrivals[0].Task(task(1))
	var ends []time.Duration
	play(t, w, func(ev cluster.Event) {
		switch ev.Kind {
		case cluster.JobSubmitted:
			startBoth(w)
		case cluster.TaskFinished:
			ends = append(ends, ev.At.Sub(begin)-30*time.Second)
		}
	})
	want := []time.Duration{2 * min(a, b), a + b}
	for i := range want {
		if d := ends[i] - want[i]; d > time.Microsecond || d < -time.Microsecond {
			t.Errorf("ends %v, want %v", ends, want)
		}
	}
}

func TestEndsComeOutInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h ends
		var line []end
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "push") || len(line) == 0 {
				e := end{time.Duration(rapid.IntRange(0, 20).Draw(t, "at")), int32(rapid.IntRange(0, 5).Draw(t, "run")), int32(len(line))}
				h.push(e)
				line = append(line, e)
				continue
			}
			slices.SortFunc(line, func(a, b end) int {
				if a.before(b) {
					return -1
				}
				return 1
			})
			if got := h.pop(); got != line[0] {
				t.Fatalf("popped %v, want %v", got, line[0])
			}
			line = line[1:]
		}
	})
}

func TestQueriesAreLikeThePapers(t *testing.T) {
	all := Queries()
	if len(all) != 52 {
		t.Fatalf("%d queries", len(all))
	}
	var short, long int
	widest := 0
	for i := range all {
		q := &all[i]
		job := &cluster.Job{Name: q.Name, Stages: q.Stages}
		if err := job.Validate(cluster.Resources{CPU: 12 * cluster.Core, Memory: 32 * cluster.GB}); err != nil {
			t.Error(err)
		}
		widest = max(widest, int(job.Width().CPU/cluster.Core))
		switch length := critical(q, job); {
		case length < 173*time.Second:
			short++
		case length > 433*time.Second:
			long++
		}
	}
	if q19 := (&cluster.Job{Name: all[18].Name, Stages: all[18].Stages}); all[18].Name != "query19" || q19.Width() != container.Times(469) || widest != 469 {
		t.Errorf("query 19 is %d wide and the widest %d, want 469", q19.Width().CPU/cluster.Core, widest)
	}
	if short < 13 || long < 13 || 52-short-long < 8 {
		t.Errorf("%d short, %d medium and %d long queries", short, 52-short-long, long)
	}
}

// critical is the time of the longest path.
func critical(q *Query, job *cluster.Job) time.Duration {
	ends := map[string]time.Duration{}
	var last time.Duration
	for range q.Stages { // in waves: as often as there are stages is enough
		for i, s := range job.Stages {
			var from time.Duration
			for _, before := range s.After {
				from = max(from, ends[before])
			}
			ends[s.Name] = from + q.Takes[i]
			last = max(last, ends[s.Name])
		}
	}
	return last
}

func TestArrivalsMeetTheLoad(t *testing.T) {
	const cores = 60_000
	l := Workload{Queries: Queries(), Stretch: 6, Load: 0.1, Cores: cores}
	length := 60 * 24 * time.Hour
	arrivals := l.Arrivals(length, rand.New(rand.NewPCG(1, 1)))
	work := 0.0
	for _, a := range arrivals {
		for i, s := range a.Job.Stages {
			work += float64(s.Tasks) * a.Takes[i].Seconds()
		}
	}
	if load := work / length.Seconds() / cores; math.Abs(load-0.1) > 0.005 {
		t.Errorf("load %.4f, want 0.1", load)
	}
	if mean := length.Seconds() / float64(len(arrivals)); math.Abs(mean-300) > 10 {
		t.Errorf("mean gap %.1f s, want 300", mean)
	}
}
