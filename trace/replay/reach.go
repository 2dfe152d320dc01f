package replay

import (
	"strings"

	"gleaner/trace"
	"gleaner/trace/replay/memory"
	"gleaner/trace/replay/plan"
)

// deliver delivers a reply to the nodes that make a call for it: as many as the program
// says, first those that the reply or the request names by address or name, then others at
// random. The memory is locked.
func (r *controller) deliver(from *plan.Site, rec *memory.Record, call *trace.Call) {
	for _, st := range from.Feeds {
		for _, reach := range st.Reach {
			if reach.From != from.Name {
				continue
			}
			n := min(reach.Nodes.At(r.plan.Scale), st.Kind.Count)
			for _, p := range r.chosen(st.Kind, n, call) {
				r.deliverTo(p, st, memory.Delivery{From: from, Rec: rec})
			}
		}
	}
}

func (r *controller) chosen(k *plan.Kind, n int, call *trace.Call) []*player {
	picked := make([]*player, 0, n)
	seen := map[*player]bool{}
	for _, leaves := range [][]trace.Leaf{call.Response, call.Request} {
		for _, l := range leaves {
			if p := r.named(k, l.Value); p != nil && !seen[p] && len(picked) < n {
				picked, seen[p] = append(picked, p), true
			}
		}
	}
	players := r.players[k.At]
	for len(picked) < n {
		p := players[r.lots.IntN(len(players))]
		if !seen[p] {
			picked, seen[p] = append(picked, p), true
		}
	}
	return picked
}

// named finds the node of a type with a name or an address.
func (r *controller) named(k *plan.Kind, text string) *player {
	if r.names[k.At] == nil {
		names := map[string]*player{}
		for _, p := range r.players[k.At] {
			names[p.Sender], names[plainName(p.Sender)] = p, p
			if _, shared := names[p.Address]; shared {
				names[p.Address] = nil // it tells nothing of one of them
			} else if p.Address != "" {
				names[p.Address] = p
			}
		}
		r.names[k.At] = names
	}
	return r.names[k.At][text]
}

// plainName is a node's name without what its user's name has before it: node-3 for
// system:node:node-3.
func plainName(sender string) string { return sender[strings.LastIndexByte(sender, ':')+1:] }

// deliverTo adds a delivery for a player's call. Several deliveries before the call is
// made go into one call, if it has a list.
func (r *controller) deliverTo(p *player, st *plan.Site, d memory.Delivery) {
	for i := range p.lanes {
		l := &p.lanes[i]
		if l.nature != plan.ByReach || l.site != st {
			continue
		}
		l.mail.coming = append(l.mail.coming, d)
		if l.mail.begun && !l.mail.going {
			r.callFor(l)
		}
		return
	}
}

// callFor schedules a call for a lane's deliveries. The memory is locked.
func (r *controller) callFor(l *lane) {
	l.mail.going = true
	r.left.Add(1)
	r.lanes.Add(1)
	r.schedule(l, r.now())
}

// beginReach starts a lane, with the deliveries that came before.
func (r *controller) beginReach(l *lane) {
	r.memory.Lock()
	defer r.memory.Unlock()
	if l.mail.begun = true; len(l.mail.coming) > 0 {
		r.callFor(l)
	}
}

// collect takes the deliveries for a lane's next call: all of them if the call has a
// list, otherwise one. The memory is locked.
func (l *lane) collect() {
	if l.nature != plan.ByReach || len(l.try.inbox) > 0 {
		return
	}
	n := len(l.mail.coming)
	if len(l.site.Request.Lists) == 0 {
		n = min(n, 1)
	}
	l.try.inbox, l.mail.coming = l.mail.coming[:n:n], l.mail.coming[n:]
}

// stopReach ends a lane, if it makes calls for others. The memory is locked.
func (r *controller) stopReach(l *lane) {
	if l.mail == nil {
		return
	}
	if l.mail.begun = false; l.mail.going {
		r.rest(l)
	}
}

// nextReach schedules the next call of a lane, if there are deliveries for one.
func (r *controller) nextReach(l *lane, now int64) {
	r.memory.Lock()
	defer r.memory.Unlock()
	if len(l.mail.coming) > 0 {
		r.schedule(l, now)
		return
	}
	if l.mail.going {
		r.rest(l)
	}
}

// rest counts a lane as without calls to make. The memory is locked.
func (r *controller) rest(l *lane) {
	l.mail.going = false
	r.lanes.Add(-1)
	r.finish(1)
}
