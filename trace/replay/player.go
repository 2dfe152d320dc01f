package replay

import (
	"slices"
	"sync"
	"sync/atomic"

	"gleaner/trace"
	"gleaner/trace/replay/memory"
	"gleaner/trace/replay/plan"
	"gleaner/trace/replay/wheel"
	"gleaner/trace/value"
)

// A player stands for one node (PatternMiner §III-C). It has no goroutine of
// its own: its lanes sleep on the wheel, and a worker plays each when it is due.
type player struct {
	mu sync.Mutex // guards the node
	memory.Node
	run    *controller
	links  []*link // by role
	lanes  []lane
	open   atomic.Int32           // lanes that are not done
	silent atomic.Bool            // the last call got no reply
	said   map[int][][]trace.Leaf // by plan.Site.Local: what it sent, of calls that a reaction makes again
}

func newPlayer(r *controller, k *plan.Kind, rank int) *player {
	p := &player{run: r}
	p.Init(k, rank, r.plan.Scale, r.Seed)
	p.layLanes()
	return p
}

func (p *player) layLanes() {
	k := p.Kind
	p.lanes = make([]lane, 0, 1+len(k.Lanes.Aside)+len(k.Lanes.Beats)+len(k.Lanes.Reach)+len(k.Lanes.Reactions))
	add := func(n plan.Nature) *lane {
		p.lanes = append(p.lanes, lane{player: p, nature: n})
		l := &p.lanes[len(p.lanes)-1]
		l.timer.Of = l
		return l
	}
	if len(k.Lanes.Steps) > 0 {
		add(plan.InSteps).cursor = []frame{{steps: k.Lanes.Steps, left: -1}}
	}
	for i := range k.Lanes.Aside {
		add(plan.InAside).cursor = []frame{{steps: k.Lanes.Aside[i : i+1], left: -1}}
	}
	for _, b := range k.Lanes.Beats {
		l := add(plan.InBeats)
		l.site, l.beat.every = b.Site, b.Period(p.run.plan.Scale, p.Rank)
	}
	for _, st := range k.Lanes.Reach {
		l := add(plan.ByReach)
		l.site, l.mail = st, &mailbox{}
	}
	for _, rule := range k.Lanes.Reactions {
		add(plan.InReaction).redo = &redoing{rule: rule}
	}
}

// A lane is a sequence of calls of a player: its steps, one call aside, one beat, the
// calls that it makes for calls of others, or those of a reaction.
type lane struct {
	timer  wheel.Timer[lane]
	player *player
	site   *plan.Site // to be called next
	nature plan.Nature
	state  atomic.Int32
	due    int64 // when its next call is due
	try    try
	cursor []frame  // of steps, and of a call aside
	beat   beating  // of a beat
	mail   *mailbox // of calls for calls of others
	redo   *redoing // of a reaction
}

// A try is the call of a lane that is under way.
type try struct {
	meant  int64             // when it was due
	since  int64             // when it began to wait for a value, or to retry; 0 if it does not
	asking int64             // when it began to be repeated until the reply meets its condition; 0 if it is not
	same   []trace.Leaf      // the request that is repeated
	sent   bool              // to the target
	inbox  []memory.Delivery // the calls that it is made for
	again  *attempt          // it got no reply and is made again
	ear    *ear              // while it waits for a push
}

// settle ends a try, but for its being repeated until a reply meets a condition.
func (t *try) settle() { t.again, t.since, t.inbox = nil, 0, nil }

// A beating is the state of a beat.
type beating struct {
	every int64 // the interval
	ready int64 // when the one before was answered, and the next could be made
	ended atomic.Bool
}

// A mailbox has the calls that the next calls of a lane are made for. It is guarded by
// the shared memory.
type mailbox struct {
	coming []memory.Delivery
	going  bool // the lane has calls to make
	begun  bool // its player has begun
}

// Wake plays a lane that waited for a value.
func (l *lane) Wake() { l.player.run.wake(l) }

// The states of a lane.
const (
	playing   = iota // or done
	scheduled        // until it is due
	waiting          // for a value, or until patience ends
)

// An attempt is a call that is made again, or waits for a push.
type attempt struct {
	call *trace.Call
	rec  *memory.Record
}

// An ear waits for a push.
type ear struct {
	attempt
	since  int64
	heard  atomic.Pointer[Reply] // nil: nothing yet
	cancel func()
}

// A frame is where a lane stands in a list of steps.
type frame struct {
	steps []plan.Step
	at    int
	left  int // how often the step is still to be made; -1 if not decided yet
}

// next moves to the next call of the steps; nil after the last.
func (l *lane) next(scale int) *plan.Site {
	for len(l.cursor) > 0 {
		f := &l.cursor[len(l.cursor)-1]
		if f.at == len(f.steps) {
			l.cursor = l.cursor[:len(l.cursor)-1]
			continue
		}
		s := &f.steps[f.at]
		if f.left < 0 {
			f.left = l.times(s, scale)
		}
		if f.left == 0 {
			f.at, f.left = f.at+1, -1
			continue
		}
		f.left--
		if s.Site != nil {
			return s.Site
		}
		l.cursor = append(l.cursor, frame{steps: s.Body, left: -1})
	}
	l.cursor = nil
	return nil
}

// atLast reports whether the call that next returned is the last of the steps.
func (l *lane) atLast() bool {
	return !slices.ContainsFunc(l.cursor, func(f frame) bool { return f.left > 0 || f.at+1 < len(f.steps) })
}

// times is how often a player makes a step.
func (l *lane) times(s *plan.Step, scale int) int {
	p := l.player
	if s.Share > 0 && p.Chance.Float64() >= s.Share || value.Idle(&s.Step, scale, p.Rank) {
		return 0
	}
	if l.nature == plan.InAside && s.Repeat != nil && len(l.cursor) == 1 {
		return value.Portion(s.Repeat, scale, p.Rank)
	}
	return value.Times(s.Repeat, scale, p.Rank, &p.Chance)
}
