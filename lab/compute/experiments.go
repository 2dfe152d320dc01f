// Package compute holds the experiments on harvested cycles: how long batch
// jobs take and how many of their tasks are killed under each policy (Figures
// 13 and 14 of OSDI'16, and our own).
package compute

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"gleaner/chart"
	"gleaner/lab"
)

// Experiments are those on harvested cycles.
func Experiments() []lab.Experiment {
	return []lab.Experiment{
		{Name: "fig13", Short: "job times in DC-9 against utilisation, history-based and primary-aware", Paper: "OSDI'16, Figure 13", Run: fig13},
		{Name: "fig14", Short: "gains in job time in all ten datacenters", Paper: "OSDI'16, Figure 14", Run: fig14},
		{Name: "micro", Short: "time for clustering, class selection and placement", Paper: "OSDI'16, Section 6.2", Run: micro},
		{Name: "policies", Short: "all policies in DC-9 at 45%", Run: policies},
		{Name: "bitbrains", Short: "all policies on recorded machines: July teaches, August is simulated", Run: bitbrains},
		{Name: "supply", Short: "harvested capacity promised by July, delivered in August, on recorded machines", Run: supply},
		{Name: "choice", Short: "servers chosen by room, by least dilation, or both", Run: dilationChoice},
	}
}

// A size is how large an experiment is.
type size struct {
	servers  int // of each datacenter; 0: as many as its profile has
	past     int // days to learn from
	days     int // to simulate
	seeds    int // runs of each point
	done     func(done, of int)
	spectrum []float64
}

// sizeOf is a quick size that shows the effects, or the paper's: whole datacenters,
// a month, and five runs a point if requested.
func sizeOf(o lab.Options) size {
	s := size{servers: 1000, past: 14, days: 3, seeds: max(o.Seeds, 1), done: o.Done, spectrum: []float64{0.25, 0.35, 0.45, 0.50, 0.55, 0.60}}
	switch {
	case o.Quick:
		s.servers, s.past, s.days, s.spectrum = 500, 7, 1, []float64{0.35, 0.45, 0.55}
	case o.Full:
		s.servers, s.past, s.days = 0, 30, 30
	}
	if o.Days > 0 {
		s.days = o.Days
	}
	return s
}

func (s size) String() string {
	servers, remark := "as many servers as the datacenters have", ""
	if s.servers > 0 {
		servers = fmt.Sprintf("%d servers a datacenter", s.servers)
		remark = " Jobs are as wide as the datacenter is large, and the wider a stage, the likelier a kill delays it: --full shows larger gains."
	}
	return fmt.Sprintf("%s, %d days of which %d are learned from, runs a point: %d.%s", servers, s.past+s.days, s.past, s.seeds, remark)
}

// one wraps up a single table.
func one(t lab.Table, figures ...chart.Figure) ([]lab.Table, []chart.Figure, error) {
	return []lab.Table{t}, figures, nil
}

// inParallel calls do for 0 to n-1 on all cores. Their order does not matter: each
// call writes to its own place. It returns the first error.
func inParallel(ctx context.Context, n int, do func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	group.Wait()
	return context.Cause(ctx)
}

func percent(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }
func seconds(s float64) string     { return fmt.Sprintf("%.0f", s) }
func hours(d time.Duration) string { return fmt.Sprintf("%.1f", d.Hours()) }

func ratio(a, b float64) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1fx", a/b)
}
