package compute

import (
	"context"
	"runtime"
	"sync"

	"gleaner/chart"
)

// A Report is what an experiment found: a table, ours beside the paper's where
// it has a value, remarks below it, and pictures.
type Report struct {
	Title   string
	Header  []string
	Rows    [][]string
	Notes   []string
	Figures []chart.Figure
}

func (r *Report) row(cells ...string) { r.Rows = append(r.Rows, cells) }

// Size is how large an experiment is.
type Size struct {
	Servers int // of each datacenter; 0: as many as its profile has
	Past    int // days that teach
	Days    int // that are simulated
	Seeds   int // runs of each point
}

// Quick is large enough to see the effects, Full is the paper's size: whole
// datacenters, a month, five runs a point.
var (
	Quick = Size{Servers: 600, Past: 14, Days: 2, Seeds: 1}
	Full  = Size{Past: 30, Days: 30, Seeds: 5}
)

// inParallel does n independent things on all cores. The order they are done
// in decides nothing: each writes to its own place. It returns the first error.
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
