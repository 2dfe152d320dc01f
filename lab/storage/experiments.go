// Package storage holds the experiments on harvested storage: how many blocks a
// year of reimages destroys (Figure 15 of OSDI'16), and how many accesses busy
// servers deny (Figure 16), under each placement policy.
package storage

import (
	"context"
	"fmt"

	"gleaner/chart"
	"gleaner/lab"
	"gleaner/sim/datacenter"
)

// A Size says how large an experiment is.
type Size struct {
	Datacenters  []string
	Servers      int // of each; 0: as many as it has
	Blocks       int
	Utilisations []float64 // for accesses
	Seeds        int       // runs of everything, with seeds from 1 on

	done func(done, of int) // may be nil
}

// ran reports how many of the runs of an experiment are done.
func (s Size) ran(done, of int) {
	if s.done != nil {
		s.done(done, of)
	}
}

// Experiments are Figures 15 and 16.
func Experiments() []lab.Experiment {
	return []lab.Experiment{
		{Name: "fig15", Short: "blocks that a year of reimages destroys, by placement", Paper: "OSDI'16, Figure 15", Run: runFig15},
		{Name: "fig16", Short: "accesses that busy servers deny, by placement and utilisation", Paper: "OSDI'16, Figure 16", Run: runFig16},
	}
}

func runFig15(ctx context.Context, o lab.Options) ([]lab.Table, []chart.Figure, error) {
	size := Size{Datacenters: allTen(), Servers: 600, Blocks: 200_000, Seeds: o.Seeds, done: o.Done}
	switch {
	case o.Quick:
		size.Datacenters, size.Servers, size.Blocks = []string{"DC-1", "DC-3", "DC-9"}, 1000, 60_000
	case o.Full:
		size.Servers, size.Blocks = 0, 4_000_000
	}
	losses, err := Fig15(ctx, size)
	if err != nil {
		return nil, nil, err
	}
	return []lab.Table{losses.Table()}, []chart.Figure{losses.Figure()}, nil
}

func runFig16(ctx context.Context, o lab.Options) ([]lab.Table, []chart.Figure, error) {
	size := Size{Datacenters: allTen(), Servers: 600, Blocks: 100_000, Utilisations: levels(0.30, 0.80), Seeds: o.Seeds, done: o.Done}
	switch {
	case o.Quick:
		size.Datacenters, size.Blocks, size.Utilisations = []string{"DC-9"}, 20_000, []float64{0.3, 0.4, 0.5, 0.6, 0.7}
	case o.Full: // as the paper's figure
		size.Datacenters, size.Servers, size.Blocks = []string{"DC-9"}, 0, 4_000_000
	}
	points, err := Fig16(ctx, size)
	if err != nil {
		return nil, nil, err
	}
	return []lab.Table{points.Table(), points.Firsts()}, []chart.Figure{points.Figure()}, nil
}

// compared are the policies of both figures: the paper's two, and ours.
var compared = []string{"history", "paper", "stock"}

func allTen() (names []string) {
	for _, p := range datacenter.Profiles() {
		names = append(names, p.Name)
	}
	return names
}

// levels go from one utilisation to another in steps of 5%.
func levels(from, to float64) (out []float64) {
	for u := from; u < to+0.001; u += 0.05 {
		out = append(out, u)
	}
	return out
}

// A Spread is the least, mean and most of several runs.
type Spread struct{ Min, Mean, Max float64 }

func spread(values []float64) Spread {
	s := Spread{Min: values[0], Max: values[0]}
	for _, v := range values {
		s.Min, s.Max = min(s.Min, v), max(s.Max, v)
		s.Mean += v / float64(len(values))
	}
	return s
}

// share returns a part of a whole as a percentage; none is just 0.
func share(part, whole float64) string {
	if part == 0 {
		return "0"
	}
	return fmt.Sprintf("%.5f%%", 100*part/whole)
}
