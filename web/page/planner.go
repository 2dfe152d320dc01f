package page

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"gleaner/input"
	"gleaner/plan"
	"gleaner/plan/examples"
	"gleaner/plan/spec"
)

// The multiples of the SLA that are planned for, and the one that is shown at first.
var (
	multiples = plan.Scales(0.1, 100, 25)
	asGiven   = slices.IndexFunc(multiples, func(m float64) bool { return m > 0.99 })
)

// How long the search for one plan may take, after which the best so far is shown, and how many
// packings it may try: a curve has many points.
const (
	longestPlan = 2 * time.Second
	mostNodes   = 60
)

// A subject is what is planned for: an application with its SLA, and the hardware lists to
// choose from.
type subject struct {
	Name, Text string
	Own        int    // the number of one's own documents; 0 for an example
	Path       string // of its views
	Lists      []list // the first is used unless another is chosen
	app        spec.Application
	sla        spec.SLA
	turns      []*Turn // taken in this order to plan: of the login, then of the machine
	ctx        context.Context

	mu       sync.Mutex
	planners map[string]*planner // by hardware list
}

// A list is hardware that can be bought.
type list struct {
	Name, Text string
	hw         spec.Hardware
}

// list is the one with a name.
func (s *subject) list(name string) (list, bool) {
	i := slices.IndexFunc(s.Lists, func(l list) bool { return l.Name == name })
	if i < 0 {
		return list{}, false
	}
	return s.Lists[i], true
}

// on is the planner for a hardware list.
func (s *subject) on(l list) *planner {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.planners[l.Name] == nil {
		s.planners[l.Name] = &planner{in: plan.Input{App: s.app, HW: l.hw, SLA: s.sla}, ctx: s.ctx, turns: s.turns, points: map[int]planned{}, robust: map[int]*robustness{}}
	}
	return s.planners[l.Name]
}

// A planner plans each multiple of an SLA once. Nothing else is planned meanwhile: it takes a
// core of the machine that is harvested.
type planner struct {
	in    plan.Input
	turns []*Turn
	ctx   context.Context // of what goes on when nobody waits for it
	rest  sync.Once       // plans all multiples

	mu     sync.Mutex
	points map[int]planned
	robust map[int]*robustness
}

// A planned point is a plan, or why there is none.
type planned struct {
	plan.Plan
	err error
}

// alone runs f while nothing else is planned.
func (p *planner) alone(ctx context.Context, f func()) error {
	for i, t := range p.turns {
		if err := t.Take(ctx); err != nil {
			for _, had := range p.turns[:i] {
				had.Give()
			}
			return err
		}
	}
	defer func() {
		for _, t := range p.turns {
			t.Give()
		}
	}()
	f()
	return nil
}

// search runs one search for at most so long, or until ctx is done. Documents are anybody's: if
// they meet a bug of the planner, they get no plan, and the machine is harvested as before.
func search(ctx context.Context, longest time.Duration, f func(plan.Options) error) (err error) {
	defer func() {
		if bug := recover(); bug != nil {
			err = fmt.Errorf("the planner has a bug: %v", bug)
		}
	}()
	start := time.Now()
	return f(plan.Options{Nodes: mostNodes, Stop: func() bool { return time.Since(start) > longest || ctx.Err() != nil }})
}

// at plans for a multiple, unless that was done before. It fails only if ctx is done.
func (p *planner) at(ctx context.Context, level int) (point planned, err error) {
	if point, done := p.done()[level]; done {
		return point, nil
	}
	err = p.alone(ctx, func() {
		var done bool
		if point, done = p.done()[level]; done {
			return
		}
		point.err = search(ctx, longestPlan, func(o plan.Options) error {
			o.Nodes = 0 // as many as a point of a curve may have
			found, err := plan.At(p.in, o, multiples[level])
			point.Plan = found.Plan
			return err
		})
		if ctx.Err() != nil {
			return
		}
		if errors.Is(point.err, plan.ErrStopped) {
			point.err = nil
			if point.Packing.Servers() == 0 {
				point.err = fmt.Errorf("no cluster was found within %v", longestPlan)
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.points[level] = point
	})
	if err == nil {
		err = ctx.Err()
	}
	return point, err
}

// done has the points that were planned, each at least as good as those for more load show that it can be.
func (p *planner) done() map[int]planned {
	p.mu.Lock()
	all := maps.Clone(p.points)
	p.mu.Unlock()
	var levels []int
	var found []plan.Point
	for level, scale := range multiples {
		if point, done := all[level]; done && point.err == nil {
			levels, found = append(levels, level), append(found, plan.Point{Scale: scale, Plan: point.Plan})
		}
	}
	plan.Even(found)
	for i, level := range levels {
		all[level] = planned{Plan: found[i].Plan}
	}
	return all
}

// all plans the other multiples, in the background.
func (p *planner) all() {
	p.rest.Do(func() {
		go func() {
			for level := range multiples {
				if _, err := p.at(p.ctx, level); err != nil {
					return
				}
			}
		}()
	})
}

// planning is what all views of plans share.
type planning struct {
	examples []*subject
	lists    []list
	machine  *Turn
	brought  brought
}

// newPlanning reads the bundled documents.
func newPlanning() (*planning, error) {
	p := &planning{machine: new(Turn), brought: brought{turns: map[string]*Turn{}}}
	for _, l := range []struct {
		name, text, file string
		read             func(string) ([]byte, error)
	}{
		{"server1", "Server1 of the paper's Table 1", "server1.xml", examples.Read},
		{"table1", "All of the paper's Table 1", "table1.xml", examples.Read},
		{"start", "The list to start from", "hardware.yaml", examples.ReadNew},
	} {
		text, err := l.read(l.file)
		if err != nil {
			return nil, err
		}
		hw, err := spec.ReadHardware(l.file, text)
		if err != nil {
			return nil, err
		}
		p.lists = append(p.lists, list{l.name, l.text, hw})
	}
	shared := new(Turn)
	for _, e := range []struct{ name, text, app, sla string }{
		{"photoshare", "Photo sharing", "photoshare.xml", "photoshare-sla.xml"},
		{"productsearch", "Product search", "productsearch.xml", "productsearch-sla.xml"},
	} {
		in, err := examples.Load(e.app, "server1.xml", e.sla)
		if err != nil {
			return nil, err
		}
		p.examples = append(p.examples, &subject{Name: e.name, Text: e.text, Path: "/plan", Lists: p.lists, app: in.App, sla: in.SLA,
			turns: []*Turn{shared, p.machine}, ctx: context.Background(), planners: map[string]*planner{}})
	}
	return p, nil
}

// wrongs are what is wrong with input, a line each.
func wrongs(err error) []string {
	var one *input.Error
	var many input.Errors
	switch {
	case errors.As(err, &many):
		var all []string
		for _, e := range many {
			all = append(all, e.Error())
		}
		return all
	case errors.As(err, &one):
		return []string{one.Error()}
	}
	return []string{err.Error()}
}
