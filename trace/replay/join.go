package replay

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"gleaner/trace/replay/plan"
)

// A gate holds calls back until enough nodes have had an answer to each of some other
// calls (the controller's join, PatternMiner §III-C).
type gate struct {
	mu    sync.Mutex
	locks []*lock
	held  []*lane
	open  bool
}

// A lock is one call that a gate waits for.
type lock struct {
	after  *plan.Site
	enough int
	passed map[*player]bool
}

// newGates makes a gate for each site that waits for another.
func newGates(pl *plan.Plan) []*gate {
	out := make([]*gate, len(pl.Sites))
	for _, after := range pl.Sites {
		for _, st := range after.Opens {
			g := out[st.ID]
			if g == nil {
				g = &gate{open: true}
				out[st.ID] = g
			}
			for _, j := range st.Joins {
				if j.After == after.Name && j.Same == "" && after.Kind.Count > 0 {
					enough := max(1, int(math.Ceil(j.Share*float64(after.Kind.Count))))
					g.locks, g.open = append(g.locks, &lock{after, enough, map[*player]bool{}}), false
				}
			}
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

// pass counts a node that had its answer to a call, and gives the lanes to release.
func (g *gate) pass(after *plan.Site, p *player) []*lane {
	return g.unlock(func(l *lock) bool {
		if l.after == after {
			l.passed[p] = true
		}
		return len(l.passed) >= l.enough
	})
}

// unlock takes off the locks that are done, and gives the lanes to release after the last.
func (g *gate) unlock(done func(*lock) bool) []*lane {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.locks = slices.DeleteFunc(g.locks, done); len(g.locks) > 0 {
		return nil
	}
	g.open = true
	held := g.held
	g.held = nil
	return held
}

// throw opens the gate, whoever has passed, and gives the lanes to release, and what they
// waited for.
func (g *gate) throw() (held []*lane, after []string) {
	held = g.unlock(func(l *lock) bool {
		after = append(after, l.after.Name)
		return true
	})
	return held, after
}

// passed tells the gates that a player is done with a call.
func (r *controller) passed(st *plan.Site, p *player) {
	for _, held := range st.Opens {
		r.release(r.gates[held.ID].pass(st, p))
	}
}

// openGates opens the gates that wait for calls of a type that is done.
func (r *controller) openGates(k *plan.Kind) {
	for _, st := range k.Sites {
		for _, waits := range st.Opens {
			r.release(r.gates[waits.ID].unlock(func(l *lock) bool { return l.after == st }))
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
		held, after := gate.throw()
		g := &r.gauges[st.ID]
		g.mu.Lock()
		for range held {
			g.unmet++
			why := fmt.Sprintf("%s waited for others to make %s, which they did not", st.Name, strings.Join(after, " and "))
			note(&g.missing, why, r.into(now))
			g.fault(absent, st, nil, r.into(now), why)
		}
		g.mu.Unlock()
		r.release(held)
	}
}
