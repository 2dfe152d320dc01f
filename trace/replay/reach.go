package replay

import (
	"strings"

	"gleaner/trace"
)

// deliver delivers a reply to the nodes that make a call for it: as many as the program
// says, first those that the reply or the request names by address or name, then others at
// random. The memory is locked.
func (r *controller) deliver(from *site, rec *record, call *trace.Call) {
	for _, st := range from.feeds {
		for _, reach := range st.Reach {
			if reach.From != from.Name {
				continue
			}
			n := min(reach.Nodes.At(r.plan.scale), st.kind.count)
			for _, p := range r.chosen(st.kind, n, call) {
				r.deliverTo(p, st, delivery{from, rec})
			}
		}
	}
}

func (r *controller) chosen(k *kind, n int, call *trace.Call) []*player {
	picked := make([]*player, 0, n)
	seen := map[*player]bool{}
	for _, leaves := range [][]trace.Leaf{call.Response, call.Request} {
		for _, l := range leaves {
			if p := r.named(k, l.Value); p != nil && !seen[p] && len(picked) < n {
				picked, seen[p] = append(picked, p), true
			}
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
		names := map[string]*player{}
		for _, p := range r.players[k.at] {
			names[p.sender], names[plainName(p.sender)] = p, p
			if _, shared := names[p.address]; shared {
				names[p.address] = nil // it tells nothing of one of them
			} else if p.address != "" {
				names[p.address] = p
			}
		}
		r.names[k.at] = names
	}
	return r.names[k.at][text]
}

// plainName is a node's name without what its user's name has before it: node-3 for
// system:node:node-3.
func plainName(sender string) string { return sender[strings.LastIndexByte(sender, ':')+1:] }

// deliverTo adds a delivery for a player's call. Several deliveries before the call is
// made go into one call, if it has a list.
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

// callFor schedules a call for a lane's deliveries. The memory is locked.
func (r *controller) callFor(l *lane) {
	l.going = true
	r.left.Add(1)
	r.lanes.Add(1)
	r.schedule(l, r.now())
}

// beginReach starts a lane, with the deliveries that came before.
func (r *controller) beginReach(l *lane) {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	if l.begun = true; len(l.coming) > 0 {
		r.callFor(l)
	}
}

// collect takes the deliveries for a lane's next call: all of them if the call has a
// list, otherwise one. The memory is locked.
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

// stopReach ends a lane. The memory is locked.
func (r *controller) stopReach(l *lane) {
	if l.begun = false; l.going {
		r.rest(l)
	}
}

// nextReach schedules the next call of a lane, if there are deliveries for one.
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

// rest counts a lane as without calls to make. The memory is locked.
func (r *controller) rest(l *lane) {
	l.going = false
	r.lanes.Add(-1)
	r.finish(1)
}
