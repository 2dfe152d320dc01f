package compute

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"gleaner/chart"
	"gleaner/lab"
	"gleaner/sim/compute"
	"gleaner/sim/datacenter"
	"gleaner/simulation"
)

// A point is one utilisation of one datacenter, run with several seeds under
// several policies: results[policy][seed].
type point struct {
	datacenter  string
	scaling     string
	utilisation float64
	policies    []string
	results     [][]compute.Result
}

// do simulates a point. All policies get the same primaries, the same jobs and, if
// they use classes, the same classes.
func (p *point) do(ctx context.Context, size size) error {
	profile, err := datacenter.Find(p.datacenter)
	if err != nil {
		return err
	}
	p.results = make([][]compute.Result, len(p.policies))
	for seed := range uint64(size.seeds) {
		d := datacenter.Generate(profile, datacenter.Options{Servers: size.servers, Past: size.past, Days: size.days, Seed: seed + 1})
		if d, err = d.Scaled(p.scaling, p.utilisation); err != nil {
			return err
		}
		classes := simulation.Classes(d, seed+1)
		for i, policy := range p.policies {
			res, err := simulation.Compute{Policy: policy, Classes: classes, Seed: seed + 1}.Run(ctx, d, nil)
			if err != nil {
				return err
			}
			p.results[i] = append(p.results[i], res)
		}
	}
	return nil
}

func sweep(ctx context.Context, points []point, size size) error {
	var finished atomic.Int64
	return inParallel(ctx, len(points), func(ctx context.Context, i int) error {
		defer func() { size.done(int(finished.Add(1)), len(points)) }()
		return points[i].do(ctx, size)
	})
}

// job is the mean, over seeds, of the mean job times in seconds, and the least and the most.
func (p *point) job(policy int) (mean, least, most float64) {
	least = math.Inf(1)
	for _, r := range p.results[policy] {
		s := r.MeanJob.Seconds()
		mean += s / float64(len(p.results[policy]))
		least, most = min(least, s), max(most, s)
	}
	return mean, least, most
}

// killed is the mean, over seeds, of tasks killed.
func (p *point) killed(policy int) float64 {
	sum := 0.0
	for _, r := range p.results[policy] {
		sum += float64(r.TasksKilled)
	}
	return sum / float64(len(p.results[policy]))
}

// gain is by how much job times under a policy are below those under primary.
func (p *point) gain(policy int) float64 {
	ours, _, _ := p.job(policy)
	theirs, _, _ := p.job(versus)
	return 1 - ours/theirs
}

// compared are the policies of Figures 13 and 14: ours, the paper's as written,
// and the paper's baseline.
var compared = []string{"history", "osdi16", "primary"}

const (
	asWritten = 1
	versus    = 2
)

// publishedGains are the gains in the paper's Figures 13 and 14, by scaling.
var publishedGains = map[string]struct{ inDC9, mean, most string }{
	"linear": {inDC9: "0% to 55%", mean: "12% to 56%", most: "~90%"},
	"root":   {inDC9: "3% to 41%", mean: "5% to 45%", most: "~70%"},
}

// fig13 is Figure 13: mean job times in DC-9 against utilisation.
func fig13(ctx context.Context, o lab.Options) ([]lab.Table, []chart.Figure, error) {
	size := sizeOf(o)
	var points []point
	for _, scaling := range datacenter.Scalings {
		for _, u := range size.spectrum {
			points = append(points, point{datacenter: "DC-9", scaling: scaling, utilisation: u, policies: compared})
		}
	}
	if err := sweep(ctx, points, size); err != nil {
		return nil, nil, err
	}
	t := lab.Table{Name: "fig13", Title: "Figure 13: mean job time in DC-9", Columns: []string{"scaling", "utilisation", "history s", "osdi16 s", "primary s",
		"gain", "gain osdi16", "paper: gain", "kills history", "kills osdi16", "kills primary", "ratio", "paper: ratio"}}
	for i := range points {
		p := &points[i]
		times, kills := make([]string, len(compared)), make([]string, len(compared))
		for k := range compared {
			mean, _, _ := p.job(k)
			times[k], kills[k] = seconds(mean), fmt.Sprintf("%.0f", p.killed(k))
		}
		published := "" // the paper compares kills at one point only
		if p.scaling == "linear" && p.utilisation == 0.45 {
			published = "4x"
		}
		t.Add(p.scaling, percent(p.utilisation), times[0], times[1], times[2], percent(p.gain(0)), percent(p.gain(asWritten)),
			publishedGains[p.scaling].inDC9, kills[0], kills[1], kills[2], ratio(p.killed(versus), p.killed(0)), published)
	}
	t.Notes = []string{
		"The paper gives its gains from the least to the most of all utilisations. The ratio is that of kills, primary over history.",
		"osdi16 is the paper's algorithm as written, history is ours, primary is the paper's YARN-PT.",
		size.String(),
	}
	return one(t, fig13Chart(points))
}

func fig13Chart(points []point) chart.Figure {
	panel := chart.Panel{Title: "Mean job time in DC-9", X: "primaries' utilisation", Y: "seconds", LogY: true}
	for _, scaling := range datacenter.Scalings {
		for k, policy := range compared {
			line := chart.Line{Name: policy + ", " + scaling, Dashed: scaling == "root"}
			band := chart.Band{}
			for i := range points {
				if p := &points[i]; p.scaling == scaling {
					mean, least, most := p.job(k)
					line.X, line.Y = append(line.X, p.utilisation), append(line.Y, mean)
					band.X, band.Low, band.High = append(band.X, p.utilisation), append(band.Low, least), append(band.High, most)
				}
			}
			panel.Lines, panel.Bands = append(panel.Lines, line), append(panel.Bands, band)
		}
	}
	return chart.Figure{Name: "fig13", Panels: []chart.Panel{panel}, Width: 8, Height: 4.5}
}

// fig14 is Figure 14: the least, mean and largest gain over utilisations in
// each datacenter.
func fig14(ctx context.Context, o lab.Options) ([]lab.Table, []chart.Figure, error) {
	size := sizeOf(o)
	if o.Quick {
		size.spectrum = []float64{0.35, 0.50}
	}
	var points []point
	profiles := datacenter.Profiles()
	for _, profile := range profiles {
		for _, scaling := range datacenter.Scalings {
			for _, u := range size.spectrum {
				points = append(points, point{datacenter: profile.Name, scaling: scaling, utilisation: u, policies: compared})
			}
		}
	}
	if err := sweep(ctx, points, size); err != nil {
		return nil, nil, err
	}
	t := lab.Table{Name: "fig14", Title: "Figure 14: gains in job time over primary", Columns: []string{"datacenter", "scaling", "least", "mean", "most", "mean osdi16", "paper: mean", "paper: most", "primary/history kills"}}
	bars := chart.Bars{Names: datacenter.Scalings, Values: make([][]float64, len(datacenter.Scalings))}
	for at := 0; at < len(points); at += len(size.spectrum) {
		some := points[at : at+len(size.spectrum)]
		least, mean, most := gains(some, 0)
		_, written, _ := gains(some, asWritten)
		ours, theirs := 0.0, 0.0
		for i := range some {
			ours, theirs = ours+some[i].killed(0), theirs+some[i].killed(versus)
		}
		t.Add(some[0].datacenter, some[0].scaling, percent(least), percent(mean), percent(most), percent(written),
			publishedGains[some[0].scaling].mean, publishedGains[some[0].scaling].most, ratio(theirs, ours))
		k := at / len(size.spectrum) % len(datacenter.Scalings)
		bars.Values[k] = append(bars.Values[k], 100*mean)
	}
	for _, profile := range profiles {
		bars.Groups = append(bars.Groups, profile.Name)
	}
	t.Notes = []string{
		"The paper's means are from the lowest to the highest of its ten datacenters, and its most is that of all: lowest in DC-0 and DC-2, highest in DC-1 and DC-4.",
		size.String(),
	}
	return one(t, chart.Figure{Name: "fig14", Width: 8, Panels: []chart.Panel{{Title: "Mean gain over primary", Y: "%", Bars: bars}}})
}

func gains(points []point, policy int) (least, mean, most float64) {
	least, most = math.Inf(1), math.Inf(-1)
	for i := range points {
		g := points[i].gain(policy)
		least, most = min(least, g), max(most, g)
		mean += g / float64(len(points))
	}
	return least, mean, most
}
