package colocation

import (
	"context"
	"sync"
	"time"

	"gleaner/chart"
	"gleaner/cluster"
	"gleaner/harvest"
	"gleaner/lab"
	"gleaner/lab/search"
)

// Experiments are those on this machine. Figures 10 and 11 are two views of one
// measurement, which is made once for both.
func Experiments() []lab.Experiment {
	var shared remembered
	return []lab.Experiment{
		{Name: "fig10", Short: "a search service's tail latency beside harvested jobs, on this machine", Paper: "OSDI'16, Figure 10", Run: view(fig10).of(shared.cycles)},
		{Name: "fig11", Short: "run times of the jobs beside it", Paper: "OSDI'16, Figure 11", Run: view(fig11).of(shared.cycles)},
		{Name: "fig12", Short: "the service's tail latency beside jobs that harvest the disk", Paper: "OSDI'16, Figure 12", Run: view(fig12).of(disk)},
		{Name: "reserve", Short: "what it costs the service to keep less free for it", Run: view(reserves).of(keeping)},
	}
}

// A size is how long an experiment measures.
type size struct {
	length    time.Duration // of the day, as it is played
	windows   int           // that the day is divided into, each with a percentile
	rounds    int           // of all settings
	more      int           // times as many rounds where settings differ by little; even, since every other is played backwards
	calibrate time.Duration
}

const (
	mean   = 0.25 // average share of the machine that the primary uses
	demand = 0.60 // share that jobs would use
	plenty = 0.90 // more than any reserve leaves, so that some jobs always wait

	disturbing = 0.05 // share used by others that is too much to measure beside
)

func sizeOf(o lab.Options) size {
	s := size{length: 36 * time.Second, windows: 20, rounds: 2, more: 4, calibrate: 5 * time.Second}
	switch {
	case o.Quick:
		s = size{length: 10 * time.Second, windows: 10, rounds: 1, more: 2, calibrate: 2 * time.Second}
	case o.Full:
		s.length, s.windows, s.rounds = 2*time.Minute, 40, 3
	}
	s.rounds = max(s.rounds, o.Seeds)
	return s
}

// halved is the size for the experiment with fewer settings to compare.
func (s size) halved() size {
	s.length, s.windows = s.length*5/8, s.windows/2
	return s
}

// manyRounds is the size for the experiment whose settings differ by little:
// shorter days, and more of them to compare.
func (s size) manyRounds() size {
	s.length, s.rounds = (s.length * 2 / 3).Round(time.Second), s.more*s.rounds
	return s
}

// task is how long one task of a job computes on a core of its own.
func (s size) task() time.Duration { return s.length / 40 }

// steady is harvest.Options.Steady: an hour of the day that is played.
func (s size) steady() time.Duration { return s.length / 24 }

// A setting is one of the ways in which the day is played.
type setting struct {
	name     string
	policy   string
	harvests bool
	kept     kept
}

var (
	alone      = setting{name: "alone", policy: "history"}
	stocked    = setting{name: "stock", policy: "stock", harvests: true}
	aware      = setting{name: "primary", policy: "primary", harvests: true}
	historical = setting{name: "history", policy: "history", harvests: true}
)

// A kept is what is kept free for the primary: a share of the cores, in addition to
// its use, which is rounded up to a step. Without a step it is as in 'gleaner up'.
type kept struct {
	share float64
	step  cluster.MilliCPU
}

// reserve is what is kept of a machine.
func (k kept) reserve(size cluster.Resources, isolated bool) harvest.Reserve {
	r := harvest.ReserveFor(size, isolated)
	if k.step != 0 {
		r.Step, r.Fixed.CPU = k.step, cluster.MilliCPU(k.share*float64(size.CPU))
	}
	return r
}

// lessAndLess are the reserves to compare, between two days alone. The first is
// the paper's.
func lessAndLess() []setting {
	const third, tenth = 1.0 / 3, 0.1
	all := []setting{alone}
	for _, s := range []struct {
		name string
		kept kept
	}{
		{"a third, whole cores", kept{third, cluster.Core}},
		{"a third", kept{third, cluster.Core / 10}},
		{"a tenth", kept{tenth, cluster.Core / 10}},
		{"none", kept{0, cluster.Core / 10}},
	} {
		all = append(all, setting{s.name, "history", true, s.kept})
	}
	return append(all, alone)
}

// An outcome is the result of one day in one setting.
type outcome struct {
	queries         search.Record
	busy, stolen    float64 // shares of the machine, the second taken by its host
	primary         float64 // share used by the service and its clients
	harvested       float64 // share used by tasks
	jobs            []jobRun
	started, killed int // tasks
	moved           int // MB, by jobs that harvest the disk
	confined        bool
	isolated        bool
}

// used is the share of the machine that the primary and the jobs used.
func (o outcome) used() float64 { return o.primary + o.harvested }

// others is the share that other processes used, which disturbs the measurement.
func (o outcome) others() float64 { return max(o.busy-o.used(), 0) + o.stolen }

type jobRun struct {
	name     string
	since    time.Time
	took     time.Duration
	finished bool
	failed   string
}

// A result is the outcomes of all days in one setting.
type result struct {
	setting
	days []outcome
}

// A measurement is all results, the first of the primary alone.
type measurement struct {
	size    size
	cores   int
	results []result
	again   int    // days that were played again
	missing string // why there are no results
}

// remembered measures once for all experiments of the same size.
type remembered struct {
	mu  sync.Mutex
	has *measurement
}

func (r *remembered) cycles(ctx context.Context, o lab.Options) (*measurement, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.has != nil && r.has.size == sizeOf(o) {
		return r.has, nil
	}
	m, err := measure(ctx, sizeOf(o), []setting{alone, stocked, aware, historical}, queries, demand, o.Done)
	if err == nil {
		r.has = m
	}
	return m, err
}

func disk(ctx context.Context, o lab.Options) (*measurement, error) {
	return measure(ctx, sizeOf(o).halved(), []setting{alone, stocked, historical}, copies, demand, o.Done)
}

func keeping(ctx context.Context, o lab.Options) (*measurement, error) {
	return measure(ctx, sizeOf(o).manyRounds(), lessAndLess(), queries, plenty, o.Done)
}

// A view shows a measurement.
type view func(*measurement) (lab.Table, chart.Figure)

// of makes the experiment that measures and shows the result; if the measurement is
// not possible, the table says why.
func (show view) of(measure func(context.Context, lab.Options) (*measurement, error)) func(context.Context, lab.Options) ([]lab.Table, []chart.Figure, error) {
	return func(ctx context.Context, o lab.Options) ([]lab.Table, []chart.Figure, error) {
		m, err := measure(ctx, o)
		if err != nil {
			return nil, nil, err
		}
		t, f := show(m)
		if m.missing != "" {
			t.Notes = []string{"Left out: " + m.missing + "."}
			return []lab.Table{t}, nil, nil
		}
		return []lab.Table{t}, []chart.Figure{f}, nil
	}
}
