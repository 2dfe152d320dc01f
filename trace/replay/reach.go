package replay

import (
	"gleaner/trace"
)

// deliver passes a reply on to the nodes that make a call because of it: as
// many as the program says, those first that the reply names by address or by
// name, the others by lot. The memory is locked.
func (r *controller) deliver(from *site, rec *record, leaves []trace.Leaf) {
	for _, st := range from.feeds {
		for _, reach := range st.Reach {
			if reach.From != from.Name {
				continue
			}
			n := min(reach.Nodes.At(r.plan.scale), st.kind.count)
			for _, p := range r.chosen(st.kind, n, leaves) {
				r.deliverTo(p, st, delivery{from, rec})
			}
		}
	}
}

func (r *controller) chosen(k *kind, n int, leaves []trace.Leaf) []*player {
	picked := make([]*player, 0, n)
	seen := map[*player]bool{}
	for _, l := range leaves {
		if p := r.named(k, l.Value); p != nil && !seen[p] && len(picked) < n {
			picked, seen[p] = append(picked, p), true
		}
	}
	players := r.players[k.at]
	for len(picked) < n {
		p := players[r.lots.IntN(len(players))]
		if !seen[p] {
			picked, seen[p] = append(picked, p), true
		}
	}
	return picked
}

// named finds the node of a type with a name or an address.
func (r *controller) named(k *kind, text string) *player {
	if r.names[k.at] == nil {
		r.names[k.at] = map[string]*player{}
		for _, p := range r.players[k.at] {
			r.names[k.at][p.sender] = p
			if p.address != "" {
				r.names[k.at][p.address] = p
			}
		}
	}
	return r.names[k.at][text]
}

// deliverTo leaves a call to be made with a player. Several that come before it
// is made go into one, where the call takes a list.
func (r *controller) deliverTo(p *player, st *site, d delivery) {
	for i := range p.lanes {
		l := &p.lanes[i]
		if l.nature != byReach || l.site != st {
			continue
		}
		l.coming = append(l.coming, d)
		if l.begun && !l.going {
			r.callFor(l)
		}
		return
	}
}

// callFor makes a lane call for what was left with it. The memory is locked.
func (r *controller) callFor(l *lane) {
	l.going = true
	r.left.Add(1)
	r.lanes.Add(1)
	r.schedule(l, r.now())
}

// beginReach makes a lane heed what is left with it, and has been.
func (r *controller) beginReach(l *lane) {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	if l.begun = true; len(l.coming) > 0 {
		r.callFor(l)
	}
}

// collect takes what a lane is to call for: all of it where the call takes a
// list, and one otherwise. The memory is locked.
func (l *lane) collect() {
	if l.nature != byReach || len(l.inbox) > 0 {
		return
	}
	n := len(l.coming)
	if len(l.site.lists) == 0 {
		n = min(n, 1)
	}
	l.inbox, l.coming = l.coming[:n:n], l.coming[n:]
}

// stopReach ends a lane for good. The memory is locked.
func (r *controller) stopReach(l *lane) {
	if l.begun = false; l.going {
		r.rest(l)
	}
}

// nextReach makes the next call of a lane that is called for, if any.
func (r *controller) nextReach(l *lane, now int64) {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	if len(l.coming) > 0 {
		r.schedule(l, now)
		return
	}
	if l.going {
		r.rest(l)
	}
}

// rest ends the calls of a lane that was called for. The memory is locked.
func (r *controller) rest(l *lane) {
	l.going = false
	r.lanes.Add(-1)
	r.finish(1)
}
