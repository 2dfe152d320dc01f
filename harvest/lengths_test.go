package harvest

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gleaner/cluster"
)

// shared splits capacity between the patterns: a class each, idle, no reserve.
func shared(unpredictable, periodic, constant int) []ClassState {
	var out []ClassState
	for i, cores := range []int{unpredictable, periodic, constant} {
		out = append(out, ClassState{Pattern: []cluster.Pattern{cluster.Unpredictable, cluster.Periodic, cluster.Constant}[i],
			Size: cluster.Resources{CPU: cluster.MilliCPU(cores) * cluster.Core}})
	}
	return out
}

func TestThresholdsGiveEachLengthTheWorkItsClassesCanDo(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var runs []JobRun
	total := 0.0
	for range 2000 {
		took := time.Duration((10 + 2000*r.Float64()) * float64(time.Second))
		runs = append(runs, JobRun{Took: took, Work: took.Seconds() * float64(1+r.IntN(50))})
		total += runs[len(runs)-1].Work
	}
	thresholds, ok := ThresholdsFrom(runs, shared(200, 500, 300))
	if !ok {
		t.Fatal("no thresholds from 2,000 runs")
	}
	var work [3]float64
	for _, run := range runs {
		work[thresholds.Length(run.Took, true)] += run.Work / total
	}
	for kind, want := range []float64{0.2, 0.5, 0.3} {
		if math.Abs(work[kind]-want) > 0.01 {
			t.Errorf("%s jobs do %.3f of the work, want %.2f", Length(kind), work[kind], want)
		}
	}
}

func TestNoThresholdsWithoutHistoryOrCapacity(t *testing.T) {
	few := make([]JobRun, enoughRuns-1)
	if got, ok := ThresholdsFrom(few, shared(1, 1, 1)); ok {
		t.Errorf("%d runs gave %v", len(few), got)
	}
	if got, ok := ThresholdsFrom(make([]JobRun, enoughRuns), nil); ok {
		t.Errorf("no classes gave %v", got)
	}
	busy := shared(10, 10, 10)
	for i := range busy {
		busy[i].Mean, busy[i].Peak = 1, 1
	}
	if got, ok := ThresholdsFrom(make([]JobRun, enoughRuns), busy); ok {
		t.Errorf("classes without room gave %v", got)
	}
}

func TestPastForgetsByHalvesEveryTwelveHours(t *testing.T) {
	at := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	var p Past
	p.Note(at, 0.8)
	for range 24 * 30 { // a month at 80%, then twelve hours at 20%
		at = at.Add(time.Hour)
		p.Note(at, 0.8)
	}
	p.Note(at, 0.2)
	for range 12 {
		at = at.Add(time.Hour)
		p.Note(at, 0.2)
	}
	mean, deviation := p.Sigma()
	if math.Abs(mean-0.5) > 0.03 || math.Abs(deviation-0.3) > 0.03 {
		t.Errorf("mean %.3f and deviation %.3f, want about 0.5 and 0.3", mean, deviation)
	}
	if low, high := p.Percentile(0.4), p.Percentile(0.95); low != 0.2 || high != 0.8 {
		t.Errorf("40th percentile %g, 95th %g, want 0.2 and 0.8", low, high)
	}
}

func TestReserveOfThePaper(t *testing.T) {
	got := PaperReserve.Of(cluster.Resources{CPU: 12 * cluster.Core, Memory: 32 * cluster.GB})
	if want := (cluster.Resources{CPU: 4 * cluster.Core, Memory: 10 * cluster.GB}); got != want {
		t.Errorf("reserve %v, want %v", got, want)
	}
}

func TestWhatRanBeforeIsRemembered(t *testing.T) {
	c := New(Options{Policy: history{}, Reserve: PaperReserve, Rand: rand.New(rand.NewPCG(1, 1))})
	began := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	nightly := &cluster.Job{ID: 1, Name: "nightly", Stages: []cluster.Stage{{Name: "map", Tasks: 1, Request: cluster.Resources{CPU: cluster.Core}}}}
	c.Step(cluster.Event{At: began.Add(2 * time.Hour), Kind: cluster.Resumed, Past: []cluster.PastJob{{Job: nightly, Submitted: began, Account: cluster.Account{Started: began}, Ended: began.Add(time.Hour)}}})
	for name, want := range map[string]Length{"nightly": Long, "new": Medium} {
		if got := c.length(&job{spec: &cluster.Job{Name: name}}); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
