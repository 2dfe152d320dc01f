package page

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"gleaner/plan"
)

// How long one number may be varied, and all of them together.
const (
	longestRange  = 5 * time.Second
	longestRobust = 2 * time.Minute
	// unseen is after what time nobody looks any more: a view that is open asks every few seconds.
	unseen = time.Minute
)

// A robustness is how far each number may move before the cheapest cluster has another architecture.
// It is found in the background.
type robustness struct {
	mu        sync.Mutex
	rows      []rangeRow
	sensitive []dropRow
	of        int  // numbers to vary
	tried     int  // of them
	ended     bool // no more follow
	wrong     []string
	seen      time.Time // last, by somebody
}

// A rangeRow is a number of the documents and how far it may move.
type rangeRow struct{ Of, Name, Low, Given, High string }

// A dropRow is the smallest drop in a price that moves a dataset.
type dropRow struct{ Dataset, Drop, To string }

// robustData is what the view of a plan's robustness shows.
type robustData struct {
	planChoice
	Scale     string
	Cost      string
	Where     string
	Rows      []rangeRow
	Sensitive []dropRow
	Tried, Of int
	Ended     bool
	Wrong     []string
	Most      float64 // seconds that it may take
}

func (s *Site) robust(w http.ResponseWriter, r *http.Request) {
	c, ok := s.choice(r)
	if !ok {
		missing(w, forgotten)
		return
	}
	p := c.Chosen.on(c.List)
	point, err := p.at(r.Context(), c.Level)
	if err != nil {
		return // who asked is gone
	}
	d := robustData{planChoice: c, Scale: c.scale(), Most: longestRobust.Seconds(), Ended: true}
	if point.err != nil {
		d.Wrong = wrongs(point.err)
	} else {
		d.Cost, d.Where = money(p.in, point.Cost), point.Needs.Architecture.Describe(p.in)
		p.vary(c.Level, point).tell(&d)
	}
	show(w, http.StatusOK, "robust", view{Title: "Robustness of a plan", At: "/plan", Live: !d.Ended, Data: d})
}

// vary begins to find how robust a plan is, unless that was done before.
func (p *planner) vary(level int, base planned) *robustness {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.robust[level] == nil {
		in := p.in
		in.SLA = in.SLA.Scaled(multiples[level])
		r := &robustness{of: len(plan.Attributes(in)), seen: time.Now()}
		p.robust[level] = r
		go func() {
			if !r.find(p, in, base.Needs.Architecture) {
				p.mu.Lock()
				defer p.mu.Unlock()
				delete(p.robust, level) // who asks again begins again
			}
		}()
	}
	return p.robust[level]
}

// tell writes down what was found so far.
func (r *robustness) tell(d *robustData) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = time.Now()
	d.Rows, d.Sensitive, d.Tried, d.Of, d.Ended, d.Wrong = r.rows, r.sensitive, r.tried, r.of, r.ended, r.wrong
}

// find varies prices first, because that is soon done, and then every number. Between two numbers others have their turn. It reports false if
// it ended because nobody looks.
func (r *robustness) find(p *planner, in plan.Input, base plan.Architecture) bool {
	defer r.note(func() { r.ended = true })
	left := longestRobust
	step := func(longest time.Duration, f func(plan.Options) error) (err error) {
		if alone := p.alone(p.ctx, func() {
			start := time.Now()
			err = search(p.ctx, min(longest, left), f)
			left -= time.Since(start)
		}); alone != nil {
			return alone
		}
		return err
	}
	var drops []plan.Sensitivity
	err := step(4*longestRange, func(o plan.Options) (err error) { drops, err = plan.Sensitivities(in, o, base); return err })
	if !r.goesOn(err) {
		return true
	}
	r.note(func() {
		for _, s := range drops {
			r.sensitive = append(r.sensitive, dropOf(in, s))
		}
	})
	for _, a := range plan.Attributes(in) {
		switch {
		case left <= 0:
			return true
		case r.forsaken():
			return false
		}
		var found plan.Range
		err := step(longestRange, func(o plan.Options) (err error) { found, err = plan.Keeps(in, o, base, a); return err })
		if !r.goesOn(err) {
			return true
		}
		if err != nil && left <= 0 {
			return true // it was cut short by the limit of all
		}
		r.note(func() {
			r.tried++
			r.rows = append(r.rows, rangeOf(found, a, err != nil))
		})
	}
	return true
}

// forsaken reports whether nobody has looked for a while.
func (r *robustness) forsaken() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.seen) > unseen
}

// goesOn reports whether there is more to find after err, and keeps what is wrong.
func (r *robustness) goesOn(err error) bool {
	if err == nil || errors.Is(err, plan.ErrStopped) {
		return true
	}
	if !errors.Is(err, context.Canceled) {
		r.note(func() { r.wrong = wrongs(err) })
	}
	return false
}

func (r *robustness) note(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// rangeOf writes a range; cut if it was not found in time.
func rangeOf(r plan.Range, a plan.Attribute, cut bool) rangeRow {
	row := rangeRow{Of: a.Of, Name: a.Name, Given: amount(a.Value, a.Unit), Low: amount(r.Low, a.Unit), High: amount(r.High, a.Unit)}
	if r.LowOpen {
		row.Low = "any"
	}
	if r.HighOpen {
		row.High = "any"
	}
	if cut {
		row.Low, row.High = "not found in time", "not found in time"
	}
	return row
}

func dropOf(in plan.Input, s plan.Sensitivity) dropRow {
	row := dropRow{Dataset: in.App.Datasets[s.Dataset].Name, Drop: "no price of storage", To: "–"}
	if s.Unit >= 0 {
		row.Drop, row.To = fmt.Sprintf("%.0f%% drop in the price of %s", 100*s.Drop, in.HW.Units[s.Unit].Name), s.To.Names(in.HW)
	}
	return row
}

// amount writes a value with four digits and its unit, with a magnitude where that makes it shorter.
func amount(v float64, unit string) string {
	magnitude := ""
	for _, m := range []struct {
		worth float64
		mark  string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}, {1e-3, "m"}, {1e-6, "µ"}, {1e-9, "n"}, {1e-12, "p"}} {
		scaled := unit == "B" || unit == "B/s" || unit == "s" && m.worth <= 1
		if scaled && math.Abs(v) >= m.worth {
			v, magnitude = v/m.worth, m.mark
			break
		}
	}
	text := fmt.Sprintf("%.4g", v)
	if unit == "" {
		return text
	}
	return text + " " + magnitude + unit
}
