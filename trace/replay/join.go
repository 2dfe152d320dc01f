package replay

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"gleaner/trace/replay/plan"
)

// A gate holds calls back until enough nodes have had an answer to another call
// (the controller's join, PatternMiner §III-C).
type gate struct {
	mu     sync.Mutex
	enough int
	passed map[*player]bool
	held   []*lane
	open   bool
}

// newGates makes a gate for each site that waits for another.
func newGates(pl *plan.Plan) []*gate {
	out := make([]*gate, len(pl.Sites))
	for _, after := range pl.Sites {
		for _, st := range after.Opens {
			enough := max(1, int(math.Ceil(st.Join.Share*float64(after.Kind.Count))))
			out[st.ID] = &gate{enough: enough, passed: map[*player]bool{}, open: after.Kind.Count == 0}
		}
	}
	return out
}

// hold makes a lane wait while the gate is closed, and reports whether it does.
func (g *gate) hold(r *controller, l *lane) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open {
		return false
	}
	if l.player.open.Load() < 0 {
		return true // forever: it was taken out of the run
	}
	l.state.Store(waiting)
	g.held = append(g.held, l)
	if l.nature != plan.InBeats {
		r.held.Add(1)
	}
	return true
}

// release plays the lanes that waited at a gate.
func (r *controller) release(held []*lane) {
	for _, l := range held {
		if l.nature != plan.InBeats {
			r.held.Add(-1)
		}
		r.wake(l)
	}
}

// forget removes the lanes of a player.
func (g *gate) forget(r *controller, p *player) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = slices.DeleteFunc(g.held, func(l *lane) bool {
		if l.player == p && l.nature != plan.InBeats {
			r.held.Add(-1)
		}
		return l.player == p
	})
}

// pass counts a node that had its answer, and gives the lanes to release.
func (g *gate) pass(p *player) []*lane {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open {
		return nil
	}
	if g.passed[p] = true; len(g.passed) < g.enough {
		return nil
	}
	return g.swing()
}

// swing opens the gate, and gives the lanes to release. The gate is locked.
func (g *gate) swing() []*lane {
	g.open = true
	held := g.held
	g.passed, g.held = nil, nil
	return held
}

// throw opens the gate, whoever has passed, and gives the lanes to release.
func (g *gate) throw() []*lane {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.swing()
}

// passed tells the gates that a player is done with a call.
func (r *controller) passed(st *plan.Site, p *player) {
	for _, held := range st.Opens {
		r.release(r.gates[held.ID].pass(p))
	}
}

// openGates opens the gates that wait for calls of a type that is done.
func (r *controller) openGates(k *plan.Kind) {
	for _, st := range k.Sites {
		for _, waits := range st.Opens {
			r.release(r.gates[waits.ID].throw())
		}
	}
}

// standstill opens all gates once every lane that has something to do has waited at a
// gate until patience ends: they wait for each other.
func (r *controller) standstill(now int64) {
	held := r.held.Load()
	if held == 0 || held < r.lanes.Load() {
		r.stands = 0
		return
	}
	if r.stands == 0 {
		r.stands = now
	}
	if now-r.stands < int64(r.Patience) {
		return
	}
	for _, st := range r.plan.Sites {
		gate := r.gates[st.ID]
		if gate == nil {
			continue
		}
		held := gate.throw()
		g := &r.gauges[st.ID]
		g.mu.Lock()
		for range held {
			g.unmet++
			why := fmt.Sprintf("%s waited for others to make %s, which they did not", st.Name, st.Join.After)
			note(&g.missing, why, r.into(now))
			g.fault(absent, st, nil, r.into(now), why)
		}
		g.mu.Unlock()
		r.release(held)
	}
}
