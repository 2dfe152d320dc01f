package compute

import (
	"context"
	"fmt"
	"math"
	"time"

	"gleaner/chart"
	"gleaner/sim/compute"
	"gleaner/sim/datacenter"
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

// do simulates a point. All policies see the same primaries, the same jobs and,
// if they ask for them, the same classes.
func (p *point) do(ctx context.Context, size Size) error {
	profile, err := datacenter.Find(p.datacenter)
	if err != nil {
		return err
	}
	p.results = make([][]compute.Result, len(p.policies))
	for seed := range uint64(size.Seeds) {
		d := datacenter.Generate(profile, datacenter.Options{Servers: size.Servers, Past: size.Past, Days: size.Days, Seed: seed + 1})
		if d, err = d.Scaled(p.scaling, p.utilisation); err != nil {
			return err
		}
		classes := Learn(d, seed+1)
		for i, policy := range p.policies {
			res, err := Run{Policy: policy, Classes: classes, Seed: seed + 1}.Do(ctx, d, nil)
			if err != nil {
				return err
			}
			p.results[i] = append(p.results[i], res)
		}
	}
	return nil
}

func sweep(ctx context.Context, points []point, size Size) error {
	return inParallel(ctx, len(points), func(ctx context.Context, i int) error { return points[i].do(ctx, size) })
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

func (p *point) killed(policy int) (kills, started float64) {
	for _, r := range p.results[policy] {
		kills += float64(r.TasksKilled) / float64(len(p.results[policy]))
		started += float64(r.TasksStarted) / float64(len(p.results[policy]))
	}
	return kills, started
}

// gain is by how much job times under the first policy are below those under another.
func (p *point) gain(other int) float64 {
	ours, _, _ := p.job(0)
	theirs, _, _ := p.job(other)
	return 1 - ours/theirs
}

var (
	spectrum   = []float64{0.25, 0.35, 0.45, 0.50, 0.55, 0.60} // utilisations of Figures 13 and 14
	compared   = []string{"history", "osdi16", "primary"}
	versus     = 2 // primary, in compared
	asWritten  = 1 // osdi16
	paperRange = map[string][2]string{"linear": {"12-56%", "~90%"}, "root": {"5-45%", "~70%"}}
)

// Fig13 is Figure 13: mean job times in DC-9 against utilisation.
func Fig13(ctx context.Context, size Size) (Report, error) {
	var points []point
	for _, scaling := range datacenter.Scalings {
		for _, u := range spectrum {
			points = append(points, point{datacenter: "DC-9", scaling: scaling, utilisation: u, policies: compared})
		}
	}
	if err := sweep(ctx, points, size); err != nil {
		return Report{}, err
	}
	r := Report{Title: "Figure 13: mean job time in DC-9", Header: []string{"scaling", ">utilisation", ">history s", ">osdi16 s", ">primary s",
		">gain", ">gain osdi16", ">kills history", ">kills osdi16", ">kills primary", ">primary/history"}}
	for i := range points {
		p := &points[i]
		h, _, _ := p.job(0)
		o, _, _ := p.job(asWritten)
		y, _, _ := p.job(versus)
		kh, _ := p.killed(0)
		ko, _ := p.killed(asWritten)
		ky, _ := p.killed(versus)
		r.row(p.scaling, percent(p.utilisation), seconds(h), seconds(o), seconds(y), percent(p.gain(versus)), percent(1-o/y),
			fmt.Sprintf("%.0f", kh), fmt.Sprintf("%.0f", ko), fmt.Sprintf("%.0f", ky), ratio(ky, kh))
	}
	r.Notes = []string{
		"Paper: gains of 0-55% (linear) and 3-41% (root); primary kills 4x as many tasks at 45% linear.",
		"osdi16 is the paper's algorithm as written; history is ours.",
	}
	r.Figures = []chart.Figure{fig13Chart(points)}
	return r, nil
}

func fig13Chart(points []point) chart.Figure {
	panel := chart.Panel{Title: "Mean job time in DC-9", X: "primaries' utilisation", Y: "seconds"}
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

// Fig14 is Figure 14: the least, mean and largest gain over utilisations in
// each datacenter.
func Fig14(ctx context.Context, size Size) (Report, error) {
	var points []point
	profiles := datacenter.Profiles()
	for _, profile := range profiles {
		for _, scaling := range datacenter.Scalings {
			for _, u := range spectrum {
				points = append(points, point{datacenter: profile.Name, scaling: scaling, utilisation: u, policies: compared})
			}
		}
	}
	if err := sweep(ctx, points, size); err != nil {
		return Report{}, err
	}
	r := Report{Title: "Figure 14: gains in job time, history over primary", Header: []string{"datacenter", "scaling", ">least", ">mean", ">most", ">mean osdi16", ">paper's means", ">paper's most"}}
	bars := chart.Bars{Names: datacenter.Scalings, Values: make([][]float64, len(datacenter.Scalings))}
	for at := 0; at < len(points); at += len(spectrum) {
		some := points[at : at+len(spectrum)]
		least, mean, most, written := math.Inf(1), 0.0, math.Inf(-1), 0.0
		for i := range some {
			g := some[i].gain(versus)
			least, most = min(least, g), max(most, g)
			mean += g / float64(len(some))
			o, _, _ := some[i].job(asWritten)
			y, _, _ := some[i].job(versus)
			written += (1 - o/y) / float64(len(some))
		}
		paper := paperRange[some[0].scaling]
		r.row(some[0].datacenter, some[0].scaling, percent(least), percent(mean), percent(most), percent(written), paper[0], paper[1])
		k := at / len(spectrum) % len(datacenter.Scalings)
		bars.Values[k] = append(bars.Values[k], 100*mean)
	}
	for _, profile := range profiles {
		bars.Groups = append(bars.Groups, profile.Name)
	}
	r.Notes = []string{"The paper's ranges are of the means and the largest gains over all ten datacenters; the least varying are DC-0 and DC-2, the most DC-1 and DC-4."}
	r.Figures = []chart.Figure{{Name: "fig14", Width: 8, Panels: []chart.Panel{{Title: "Mean gain over primary", Y: "%", Bars: bars}}}}
	return r, nil
}

func percent(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }
func seconds(s float64) string     { return fmt.Sprintf("%.0f", s) }

func ratio(a, b float64) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1fx", a/b)
}

func hours(d time.Duration) string { return fmt.Sprintf("%.1f", d.Hours()) }
