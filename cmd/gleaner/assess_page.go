package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"time"

	"gleaner/chart"
	"gleaner/cluster"
	"gleaner/lab/patterns"
	"gleaner/plan"
	"gleaner/web/page"
)

//go:embed assess.html
var assessTemplate string

// Most of what the page shows; the JSON has all.
const (
	pageTenants = 500
	pageClasses = 12
)

// save writes assess.html and assess.json.
func (a *assessment) save() error {
	weeks, err := a.weeks()
	if err != nil {
		return err
	}
	curves, err := a.curves()
	if err != nil {
		return err
	}
	tenants := a.Classes.Result.Tenants
	return saveReport(a.flags.out, "assess", assessTemplate, template.FuncMap{
		"whole":    plan.Grouped,
		"percent":  pagePercent,
		"times100": func(v float64) string { return strconv.FormatFloat(100*v, 'f', 0, 64) },
		"moment":   clock,
		"counted":  counted[int],
		"took":     func(s float64) string { return time.Duration(s * float64(time.Second)).Round(time.Second).String() },
		"weeks":    func() []template.HTML { return weeks },
		"curves":   func() []template.HTML { return curves },
		"shown":    func() []tenantOut { return tenants[:min(pageTenants, len(tenants))] },
		"hidden":   func() int { return max(len(tenants)-pageTenants, 0) },
		"patterns": a.patternRows,
		"limits":   func() any { return struct{ Killed, Over, Slower float64 }{riskKilled, riskOver, riskSlower} },
	}, a)
}

// pagePercent writes a share with as many decimals as a small one needs.
func pagePercent(v float64) string {
	if v != 0 && v < 0.001 {
		return strconv.FormatFloat(100*v, 'f', 3, 64) + "%"
	}
	return strconv.FormatFloat(100*v, 'f', 1, 64) + "%"
}

type patternRow struct {
	Name string
	patternCount
}

func (a *assessment) patternRows() (rows []patternRow) {
	for _, p := range cluster.Patterns {
		rows = append(rows, patternRow{p.String(), a.Classes.Result.Patterns[p.String()]})
	}
	return rows
}

// weeks are the classes as bands over the week.
func (a *assessment) weeks() (out []template.HTML, err error) {
	for _, f := range patterns.Classes(a.now.window, a.now.series, a.now.result) {
		if f.Name != "classes" {
			continue
		}
		for _, panel := range f.Panels[:min(pageClasses, len(f.Panels))] {
			one, err := page.Chart(panel)
			if err != nil {
				return nil, err
			}
			out = append(out, one)
		}
	}
	return out, nil
}

// curves are what the work brings and what it costs, by how much is asked for.
func (a *assessment) curves() (out []template.HTML, err error) {
	var load, hours, killed, slower []float64
	for _, r := range a.Loads() {
		load = append(load, 100*r.Load)
		hours = append(hours, r.Result.HarvestedWeekly)
		killed = append(killed, 100*r.Killed)
		slower = append(slower, r.Slower)
	}
	const x = "work asked for, % of all cores"
	for _, panel := range []chart.Panel{
		{Title: "Core-hours a week", X: x, Y: "core-hours", Lines: []chart.Line{{X: load, Y: hours}}},
		{Title: "Tasks killed", X: x, Y: "% of tasks started", Lines: []chart.Line{{X: load, Y: killed}}},
		{Title: "Mean job time, over that at the least load", X: x, Y: "times", Lines: []chart.Line{{X: load, Y: slower}}},
	} {
		panel.YRange = &[2]float64{0, 1.05 * max(slices.Max(panel.Lines[0].Y), 1e-9)}
		one, err := page.Chart(panel)
		if err != nil {
			return nil, fmt.Errorf("assess: %w", err)
		}
		out = append(out, one)
	}
	return out, nil
}
