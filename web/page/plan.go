package page

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"gleaner/chart"
	"gleaner/plan"
)

// planChoice is what a view of a plan was asked for.
type planChoice struct {
	Chosen  *subject
	Login   string
	List    list
	Against *list // nil: it is compared with nothing
	Level   int
}

// planData is what the view of a plan shows.
type planData struct {
	planChoice
	Examples []*subject
	Owns     []*subject
	Last     int // the largest level
	Scale    string
	Seconds  float64 // that a plan may take
	solution
	Rows     []comparedRow
	Refused  string // why it is not compared
	Chart    drawing
	Done, Of int
}

// A solution is what is shown of a plan.
type solution struct {
	Wrong   []string
	Cost    string
	Proven  string
	Servers int
	Where   []string // each dataset
	Bill    []billRow
	Kinds   []plan.Server
}

type billRow struct {
	What           string
	Count          int
	Each, Together string
}

// A comparedRow is one thing that two clusters have, or one of them.
type comparedRow struct{ What, First, Second, Change string }

// choice reads an address; ok is false if it names documents that this login does not have.
func (s *Site) choice(r *http.Request) (c planChoice, ok bool) {
	c = planChoice{Chosen: s.planning.examples[0], Level: asGiven, Login: LoginOf(r).Name}
	asked := r.URL.Query()
	if id := r.PathValue("id"); id != "" {
		if c.Chosen = s.planning.brought.find(c.Login, id); c.Chosen == nil {
			return c, false
		}
	} else if i := slices.IndexFunc(s.planning.examples, func(e *subject) bool { return e.Name == asked.Get("example") }); i >= 0 {
		c.Chosen = s.planning.examples[i]
	}
	c.List = c.Chosen.Lists[0]
	if l, known := c.Chosen.list(asked.Get("hw")); known {
		c.List = l
	}
	if l, known := c.Chosen.list(asked.Get("against")); known {
		c.Against = &l
	}
	if level, err := strconv.Atoi(asked.Get("level")); err == nil {
		c.Level = min(max(level, 0), len(multiples)-1)
	}
	return c, true
}

// AgainstName is the name of the list to compare with; empty if there is none.
func (c planChoice) AgainstName() string {
	if c.Against == nil {
		return ""
	}
	return c.Against.Name
}

// Query is the choice as a part of an address.
func (c planChoice) Query() template.URL {
	v := url.Values{"hw": {c.List.Name}, "level": {strconv.Itoa(c.Level)}}
	if c.Chosen.Own == 0 {
		v.Set("example", c.Chosen.Name)
	}
	if c.Against != nil {
		v.Set("against", c.Against.Name)
	}
	return template.URL(v.Encode())
}

// scale is the chosen multiple of the SLA.
func (c planChoice) scale() string { return fmt.Sprintf("%.3g", multiples[c.Level]) }

func (s *Site) plan(w http.ResponseWriter, r *http.Request) {
	c, ok := s.choice(r)
	if !ok {
		missing(w, forgotten)
		return
	}
	d := planData{planChoice: c, Examples: s.planning.examples, Owns: s.planning.brought.of(c.Login), Last: len(multiples) - 1, Scale: c.scale(), Seconds: longestPlan.Seconds()}
	planners := []*planner{c.Chosen.on(c.List)}
	if c.Against != nil {
		planners = append(planners, c.Chosen.on(*c.Against))
	}
	var points []planned
	for _, p := range planners {
		point, err := p.at(r.Context(), c.Level)
		if err != nil {
			return // who asked is gone
		}
		p.all()
		points = append(points, point)
	}
	d.solution = solved(planners[0].in, points[0])
	if len(points) == 2 {
		d.compare(planners, points)
	}
	if err := d.draw(planners); err != nil {
		failed(w, err)
		return
	}
	show(w, http.StatusOK, "plan", view{Title: "Plan", At: "/plan", Live: d.Done < d.Of, Data: d})
}

func solved(in plan.Input, p planned) (s solution) {
	if p.err != nil {
		return solution{Wrong: wrongs(p.err)}
	}
	s = solution{Cost: money(in, p.Cost), Servers: p.Most(in), Kinds: p.Plan.Servers(in), Proven: p.Proven()}
	s.Where = strings.Split(p.Needs.Architecture.Describe(in), ", ")
	for _, l := range p.Bill(in) {
		s.Bill = append(s.Bill, billRow{l.What, l.Count, money(in, l.Each), money(in, l.Each*float64(l.Count))})
	}
	return s
}

// compare sets two clusters for the same application side by side.
func (d *planData) compare(planners []*planner, points []planned) {
	for i, l := range []list{d.List, *d.Against} {
		if points[i].err != nil {
			d.Refused = fmt.Sprintf("%s: there is no plan: %s", l.Text, points[i].err)
			return
		}
	}
	a, b := planners[0].in, planners[1].in
	row := func(what, first, second, change string) {
		d.Rows = append(d.Rows, comparedRow{what, first, second, change})
	}
	change := ""
	if a.HW.Currency == b.HW.Currency && points[0].Cost > 0 {
		change = fmt.Sprintf("%+.1f%%", 100*(points[1].Cost/points[0].Cost-1))
	}
	row("Cost", money(a, points[0].Cost), money(b, points[1].Cost), change)
	row("How good", points[0].Proven(), points[1].Proven(), "")
	for i, data := range a.App.Datasets {
		first, second := points[0].Needs.Architecture[i].Names(a.HW), points[1].Needs.Architecture[i].Names(b.HW)
		change := ""
		if first != second {
			change = "moves"
		}
		row(data.Name+" on", first, second, change)
	}
	bills := [2]map[string]int{{}, {}}
	var pieces []string
	for i, p := range points {
		for _, l := range p.Bill(planners[i].in) {
			if !slices.Contains(pieces, l.What) {
				pieces = append(pieces, l.What)
			}
			bills[i][l.What] = l.Count
		}
	}
	for _, what := range pieces {
		first, second := bills[0][what], bills[1][what]
		change := ""
		if first != second {
			change = fmt.Sprintf("%+d", second-first)
		}
		row("Pieces of "+what, strconv.Itoa(first), strconv.Itoa(second), change)
	}
}

func money(in plan.Input, amount float64) string {
	return plan.Grouped(amount) + " " + in.HW.Currency
}

// draw draws cost against SLA as far as it was planned, with the chosen point. Costs in different
// currencies are not drawn on one axis.
func (d *planData) draw(planners []*planner) (err error) {
	if len(planners) == 2 && planners[0].in.HW.Currency != planners[1].in.HW.Currency {
		planners = planners[:1]
	}
	currency := planners[0].in.HW.Currency
	panel := chart.Panel{Title: "Cost against SLA", X: "multiple of the SLA", Y: currency, LogX: true, LogY: true}
	names := []string{"cheapest cluster"}
	if len(planners) == 2 {
		names = []string{d.List.Text, d.Against.Text}
	}
	here := chart.Line{Name: "chosen", Dots: true}
	for i, p := range planners {
		curve, all := chart.Line{Name: names[i]}, p.done()
		d.Done, d.Of = d.Done+len(all), d.Of+len(multiples)
		for level, scale := range multiples {
			point, done := all[level]
			if !done || point.err != nil {
				continue
			}
			curve.X, curve.Y = append(curve.X, scale), append(curve.Y, point.Cost)
			if level == d.Level {
				here.X, here.Y = append(here.X, scale), append(here.Y, point.Cost)
			}
		}
		panel.Lines = append(panel.Lines, curve)
	}
	panel.Lines = append(panel.Lines, here)
	d.Chart, err = draw(panel, full, 3.2)
	return err
}
