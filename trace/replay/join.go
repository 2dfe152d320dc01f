package replay

import (
	"math"
	"sync"
)

// A gate holds calls back until enough nodes have had an answer to another
// (the controller's join, PatternMiner §III-C).
type gate struct {
	mu     sync.Mutex
	enough int
	passed map[*player]bool
	held   []*lane
	open   bool
}

func newGate(after *site, share float64) *gate {
	enough := max(1, int(math.Ceil(share*float64(after.kind.count))))
	return &gate{enough: enough, passed: map[*player]bool{}, open: after.kind.count == 0}
}

// hold keeps a lane back while the gate is closed.
func (g *gate) hold(l *lane) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open {
		return false
	}
	l.state.Store(waiting)
	g.held = append(g.held, l)
	return true
}

// pass counts a node that had its answer; it gives the lanes to wake.
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

// swing opens the gate. It is locked.
func (g *gate) swing() []*lane {
	g.open = true
	held := g.held
	g.passed, g.held = nil, nil
	return held
}

// passed tells the gates that a player is done with a call.
func (r *run) passed(st *site, p *player) {
	for _, g := range st.opens {
		for _, l := range g.pass(p) {
			r.wake(l)
		}
	}
}

// openGates lets through what waited for a type that is done.
func (r *run) openGates(k *kind) {
	for _, st := range k.sites {
		for _, g := range st.opens {
			g.mu.Lock()
			held := g.swing()
			g.mu.Unlock()
			for _, l := range held {
				r.wake(l)
			}
		}
	}
}
