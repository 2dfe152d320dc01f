package replay

import (
	"sync/atomic"
	"time"

	"gleaner/trace"
	"gleaner/trace/program"
	"gleaner/trace/replay/memory"
	"gleaner/trace/replay/plan"
	"gleaner/trace/value"
)

// A redoing is the state of a lane that makes the calls of a reaction.
type redoing struct {
	rule  *plan.Reaction
	going atomic.Bool  // it is under way
	ended atomic.Int64 // when it was last done
	at    int          // in the rule's calls
	all   int          // in those made before, of a call with all
	held  []*lane      // that make their call again once it is done; guarded by the player
}

// A heeding counts how often a reaction was made.
type heeding struct {
	replies, begun atomic.Int64
	first, last    atomic.Int64 // reply that asked for it
}

// A Reacted is how often nodes of a type reacted to one kind of reply.
type Reacted struct {
	NodeType string   `json:"node_type"`
	To       []string `json:"to"` // methods
	When     string   `json:"when"`
	Replies  int      `json:"replies"` // that asked for it
	Begun    int      `json:"begun"`   // how often the calls of the reaction were made: not again while they are under way
	First    float64  `json:"first_s"` // when the first such reply came, in seconds into the run
	Last     float64  `json:"last_s"`
}

// asked is the reaction to a reply; nil for none. A call that was made again until patience
// ended is a refusal like others.
func (r *controller) asked(l *lane, reply *Reply, now int64) *plan.Reaction {
	for _, rule := range l.site.Reactions {
		if rule.Heeds(reply.Status, reply.Message, reply.Leaves) {
			if rule.Again && l.try.asking != 0 && now-l.try.asking > int64(r.Patience) {
				return nil
			}
			return rule
		}
	}
	return nil
}

// heed reacts to the reply to a call, and reports whether its lane makes the call again.
func (r *controller) heed(l *lane, rule *plan.Reaction, call *trace.Call, rec *memory.Record, now int64) bool {
	h := &r.heedings[rule.ID]
	h.replies.Add(1)
	h.first.CompareAndSwap(0, now)
	h.last.Store(now)
	if rule.Local >= 0 {
		r.react(l.player, rule, call.Start, now)
	}
	if !rule.Again {
		return false
	}
	if l.try.asking == 0 {
		l.try.asking = now
	}
	g := &r.gauges[l.site.ID]
	g.mu.Lock()
	g.retries++
	g.mu.Unlock()
	p := l.player
	p.mu.Lock()
	l.try.again, l.try.same = nil, nil
	if rule.Local < 0 { // nothing has changed but the target
		l.try.again = &attempt{&trace.Call{Run: call.Run, Scale: call.Scale, Sender: call.Sender, Address: call.Address, Target: call.Target,
			Method: call.Method, Request: call.Request}, rec}
	} else if l.nature != plan.InReaction {
		p.Made[l.site.Local]-- // all tries are one call
	}
	if rule.Local >= 0 && l.nature != plan.InReaction { // two reactions might wait for each other
		if redo := p.reaction(rule).redo; redo.going.Load() {
			l.state.Store(waiting)
			redo.held = append(redo.held, l)
			p.mu.Unlock()
			return true
		}
	}
	wait := r.pause(rule.Wait)
	wait += p.Chance.Int64N(wait/4 + 1) // so that players do not ask again all at once
	p.mu.Unlock()
	r.schedule(l, now+wait)
	return true
}

// pause is the time that a reaction waits. It is not compressed: the target comes back by
// its own clock.
func (r *controller) pause(wait program.Interval) int64 {
	return max(value.Millis(wait.Formula, r.plan.Scale, 0), int64(time.Millisecond))
}

// react begins the calls of a reaction, unless the player makes them already, or has made
// them since the call that got the reply was sent.
func (r *controller) react(p *player, rule *plan.Reaction, sent, now int64) {
	l := p.reaction(rule)
	if sent < l.redo.ended.Load() || l.redo.going.Load() {
		return
	}
	r.left.Add(1)
	r.lanes.Add(1)
	if !l.redo.going.CompareAndSwap(false, true) { // by another lane
		r.lanes.Add(-1)
		r.finish(1)
		return
	}
	if p.open.Load() < 0 {
		r.stopRedo(l)
		return
	}
	r.heedings[rule.ID].begun.Add(1)
	l.redo.at, l.redo.all, l.site = 0, 0, rule.Calls[0].Site
	l.try = try{}
	r.schedule(l, now+r.pause(rule.Wait))
}

// reaction is the lane that makes the calls of a reaction.
func (p *player) reaction(rule *plan.Reaction) *lane {
	return &p.lanes[len(p.lanes)-len(p.Kind.Lanes.Reactions)+rule.Local] // they are the last
}

// refill fills in the call of a reaction that is due; not ok if a value is missing. The player
// is locked, and the memory too if values come from others.
func (l *lane) refill(f *memory.Filling, now int64) ([]trace.Leaf, bool) {
	redo, said := l.redo.rule.Calls[l.redo.at], l.player.said[l.site.Local]
	if redo.All {
		return said[l.redo.all], true
	}
	var before []trace.Leaf
	if len(said) > 0 {
		before = said[len(said)-1]
	}
	return f.Refill(&l.player.Node, redo, before, l.try.since, now)
}

// nothing reports whether the call of a reaction that is due was never made before, and so
// is not made again. The player is locked.
func (l *lane) nothing() bool {
	return l.said() && l.redo.all >= len(l.player.said[l.site.Local])
}

// said reports whether the call of a lane is one that was made before, as it was.
func (l *lane) said() bool { return l.nature == plan.InReaction && l.redo.rule.Calls[l.redo.at].All }

// keep keeps what a node sends, if a reaction sends it again. The player is locked.
func (p *player) keep(st *plan.Site, request []trace.Leaf) {
	if !st.Redone {
		return
	}
	if p.said == nil {
		p.said = map[int][][]trace.Leaf{}
	}
	if said := p.said[st.Local]; st.RedoneAll || len(said) == 0 {
		p.said[st.Local] = append(said, request)
	} else {
		said[0] = request
	}
}

// nextRedo goes on with a reaction after one of its calls.
func (r *controller) nextRedo(l *lane, now int64) {
	if !l.redo.going.Load() {
		return // its player was taken out of the run
	}
	calls := l.redo.rule.Calls
	l.player.mu.Lock()
	if l.redo.all++; !calls[l.redo.at].All || l.nothing() {
		l.redo.at, l.redo.all = l.redo.at+1, 0
	}
	l.player.mu.Unlock()
	if l.redo.at == len(calls) {
		r.endRedo(l, now)
		return
	}
	redo := calls[l.redo.at]
	l.site = redo.Site
	if redo.Wait.IsZero() {
		r.schedule(l, now)
		return
	}
	r.schedule(l, now+r.pause(redo.Wait))
}

// endRedo ends a reaction whose calls are made, and makes those again that led to it.
func (r *controller) endRedo(l *lane, now int64) {
	l.player.mu.Lock()
	held := l.redo.held
	l.redo.held = nil
	l.redo.ended.Store(now)
	r.stopRedo(l)
	l.player.mu.Unlock()
	for _, one := range held {
		r.schedule(one, now)
	}
}

// stopRedo ends a reaction, if it is under way.
func (r *controller) stopRedo(l *lane) {
	if l.redo != nil && l.redo.going.CompareAndSwap(true, false) {
		r.lanes.Add(-1)
		r.finish(1)
	}
}

// reacts reports whether a reaction of the player is under way.
func (p *player) reacts() bool {
	for _, rule := range p.Kind.Lanes.Reactions {
		if p.reaction(rule).redo.going.Load() {
			return true
		}
	}
	return false
}

// reacted are the reactions that were made.
func (r *controller) reacted() (out []Reacted) {
	for i := range r.heedings {
		h, rule := &r.heedings[i], r.plan.Reactions[i]
		if n := h.replies.Load(); n > 0 {
			out = append(out, Reacted{rule.Kind.Name, rule.To, rule.When(), int(n), int(h.begun.Load()), r.into(h.first.Load()), r.into(h.last.Load())})
		}
	}
	return out
}
