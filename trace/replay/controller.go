package replay

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"gleaner/input"
	"gleaner/trace/replay/memory"
	"gleaner/trace/replay/plan"
	"gleaner/trace/replay/wheel"
	"gleaner/trace/value"
)

// A controller plays a program once, at one scale (PatternMiner §III-C).
//
// Whoever holds a lock may take only those behind it in this list: link, gauge,
// controller (mu), gate, player, memory, clock, queue.
type controller struct {
	Options
	plan     *plan.Plan
	memory   *memory.Shared
	queue    *queue              // lanes whose call is sent
	quiet    *queue              // lanes whose call is not sent
	gauges   []gauge             // by site
	gates    []*gate             // by site; nil for one that waits for no other
	heedings []heeding           // by reaction
	silences map[string]*silence // by role; those with a target
	ctx      context.Context
	start    time.Time
	begun    int64
	shared   map[string][]*link // by role

	clock sync.Mutex // guards the wheel
	wheel *wheel.Wheel[lane]

	players [][]*player          // by kind
	began   []atomic.Int64       // how many of them have begun, by kind
	lots    *rand.Rand           // chooses nodes at random; this and names are guarded by the memory
	names   []map[string]*player // by kind; nil until needed
	left    atomic.Int64
	lanes   atomic.Int64  // lanes that have something to do, or are about to begin
	held    atomic.Int64  // those of them that wait at a gate
	stands  int64         // since when all of them wait at a gate; 0 if they do not
	done    chan struct{} // closed when nothing is left to do
	once    sync.Once
	trouble atomic.Int64 // when a call was late, slow or without a reply for the first time; 0 for never

	mu        sync.Mutex
	groups    []group // by kind
	unstarted []string
	dials     *hdr.Histogram
}

// A group is the state of a type's nodes in the run.
type group struct {
	started bool
	long    bool // starting all of them takes longer than the run
	undone  int
	reached map[*plan.Site]map[*player]bool // the players that made a call that other types wait for
}

// Play plays a program once. If the context ends, the run ends, and what was measured
// until then is returned.
func Play(ctx context.Context, o Options) (*Result, error) {
	if err := FewEnough(o.Program, o.Setting); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	pl := plan.New(o.Program, o.Setting, func(role string) bool { return o.target(role) != nil })
	if err := playable(pl, o); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &controller{Options: o, plan: pl, memory: memory.New(pl), gauges: make([]gauge, len(pl.Sites)), gates: newGates(pl), heedings: make([]heeding, len(pl.Reactions)), silences: map[string]*silence{}, ctx: ctx,
		groups: make([]group, len(pl.Kinds)), players: make([][]*player, len(pl.Kinds)), began: make([]atomic.Int64, len(pl.Kinds)), done: make(chan struct{}), shared: map[string][]*link{},
		lots: rand.New(rand.NewPCG(o.Seed, 1)), names: make([]map[string]*player, len(pl.Kinds))}
	r.queue = newQueue(o.Workers, r.work)
	r.quiet = newQueue(max(1, runtime.GOMAXPROCS(0)/2), r.work)
	if beats := pl.BeatsOnly(); beats > 0 {
		r.For, r.Stay = cmp.Or(r.For, beats), true
	}
	r.makePlayers()
	if err := r.probe(); err != nil {
		r.hangUp()
		return nil, err
	}
	r.start = time.Now()
	r.begun = r.start.UnixNano()
	r.wheel = wheel.New[lane](r.begun)
	for _, st := range pl.Sites {
		if st.Sent && r.silences[st.Target] == nil {
			r.silences[st.Target] = &silence{}
			r.silences[st.Target].answered.Store(r.begun)
		}
	}
	r.populate()
	ended := r.turn(ctx)
	dead := r.dead(context.WithoutCancel(ctx))
	cancel()
	r.hangUp() // ends calls that are still under way
	r.queue.close()
	r.quiet.close()
	out := r.result(ended)
	out.Dead = dead
	return out, nil
}

// dead asks the targets which nodes they have declared dead, those that can tell. A
// target that does not answer is left out: it may be down itself.
func (r *controller) dead(ctx context.Context) (out []string) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	for _, role := range slices.Sorted(maps.Keys(r.Targets)) {
		if w, ok := r.Targets[role].(Witness); ok {
			if nodes, err := w.Dead(ctx); err == nil {
				out = append(out, nodes...)
			}
		}
	}
	return out
}

// playable is an error for a program of which no call has a target, or that calls a
// method that its target does not have.
func playable(pl *plan.Plan, o Options) error {
	var roles []string
	sent := false
	for _, st := range pl.Sites {
		if st.Sent {
			sent = true
			if c, ok := o.target(st.Target).(Checker); ok {
				if err := c.Check(st.Method); err != nil {
					return err
				}
			}
			continue
		}
		if !slices.Contains(roles, st.Target) {
			roles = append(roles, st.Target)
		}
	}
	if sent {
		return nil
	}
	return input.Fieldf("target", "no role that the program calls has one: %s", strings.Join(roles, ", "))
}

func (r *controller) now() int64 { return r.begun + int64(time.Since(r.start)) }

func (r *controller) makePlayers() {
	for i, k := range r.plan.Kinds {
		for rank := r.Part; rank < k.Count; rank += max(r.Parts, 1) {
			r.players[i] = append(r.players[i], newPlayer(r, k, rank))
		}
	}
}

// probe connects the first node that calls each role, so that a target that cannot
// be reached is reported before sixty thousand nodes try.
func (r *controller) probe() error {
	seen := map[string]bool{}
	for _, k := range r.plan.Kinds {
		if len(r.players[k.At]) == 0 {
			continue
		}
		p := r.players[k.At][0]
		for _, role := range k.Roles {
			if seen[role] || r.target(role) == nil {
				continue
			}
			seen[role] = true
			ctx, cancel := context.WithTimeout(r.ctx, r.Timeout)
			_, err := r.linkOf(p, role).get(ctx, r.dialled)
			cancel()
			if err != nil {
				return fmt.Errorf("%s: %w", cmp.Or(role, "the target"), err)
			}
		}
	}
	return nil
}

// populate starts the types that wait for no other.
func (r *controller) populate() {
	total := int64(1) // for this function, so that the run does not end before all are counted
	for i, k := range r.plan.Kinds {
		n := len(r.players[k.At])
		total += int64(n)
		r.groups[i] = group{undone: n, reached: map[*plan.Site]map[*player]bool{}}
	}
	r.left.Store(total)
	now := r.now()
	for _, k := range r.plan.Kinds {
		if k.Start == nil {
			r.launch(k, now)
		}
	}
	r.mu.Lock()
	for _, k := range r.plan.Kinds {
		if len(r.players[k.At]) == 0 {
			r.closeGroup(k)
		}
	}
	r.mu.Unlock()
	r.finish(1)
}

// launch starts the nodes of a type, the first at a time and the others over the ramp.
func (r *controller) launch(k *plan.Kind, at int64) {
	ramp := r.rampOf(k)
	r.mu.Lock()
	g := &r.groups[k.At]
	started := g.started
	g.started, g.long = true, r.For > 0 && ramp >= int64(r.For)
	r.mu.Unlock()
	if started {
		return
	}
	r.lanes.Add(int64(len(r.players[k.At])))
	for _, p := range r.players[k.At] {
		l := &lane{player: p}
		l.timer.Of = l
		r.schedule(l, at+int64(float64(ramp)*float64(p.Rank)/float64(k.Count)))
	}
}

// rampOf is how long it takes to start all nodes of a type.
func (r *controller) rampOf(k *plan.Kind) int64 {
	ramp := int64(max(r.Ramp, 0))
	switch {
	case !k.Sent:
		return 0 // no target has to cope with them
	case r.Ramp == 0:
		for _, b := range k.Lanes.Beats {
			ramp = max(ramp, value.Millis(b.Every, r.plan.Scale, 0))
		}
	}
	return ramp
}

// turn turns the wheel until the run ends, and gives the reason.
func (r *controller) turn(ctx context.Context) string {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	var limit <-chan time.Time
	if r.For > 0 {
		timer := time.NewTimer(r.For)
		defer timer.Stop()
		limit = timer.C
	}
	var warm <-chan time.Time
	if r.Warmup > 0 {
		timer := time.NewTimer(r.Warmup)
		defer timer.Stop()
		warm = timer.C
	}
	done := r.done
	for {
		select {
		case <-warm:
			r.queue.forget()
		case <-ticker.C:
			r.clock.Lock()
			r.wheel.Turn(r.now(), func(l *lane) {
				if l.state.CompareAndSwap(scheduled, playing) || l.state.CompareAndSwap(waiting, playing) {
					r.push(l)
				}
			})
			r.clock.Unlock()
			r.standstill(r.now())
		case <-limit:
			return "time"
		case <-done:
			if r.For == 0 || !r.Stay {
				return "done"
			}
			done = nil // beats go on
		case <-ctx.Done():
			return "interrupted"
		}
	}
}

// schedule sets when a lane is played next.
func (r *controller) schedule(l *lane, due int64) {
	if l.player.open.Load() < 0 || l.beat.ended.Load() {
		return // it was taken out of the run
	}
	l.due = due
	if due <= r.now() { // no need to wait for the wheel
		l.state.Store(playing)
		r.push(l)
		return
	}
	l.state.Store(scheduled)
	r.clock.Lock()
	r.wheel.Set(&l.timer, due)
	r.clock.Unlock()
}

// push queues a lane to be played. Calls that are not sent have a few workers of their
// own: a thousand of them at once would delay those that are sent.
func (r *controller) push(l *lane) {
	sends := l.player.Kind.Sent
	if l.site != nil { // it has begun
		sends = l.site.Sent
	}
	if sends {
		r.queue.push(l)
	} else {
		r.quiet.push(l)
	}
}

// wake plays a lane that waited for a value.
func (r *controller) wake(l *lane) {
	if !l.state.CompareAndSwap(waiting, playing) {
		return
	}
	r.clock.Lock()
	r.wheel.Stop(&l.timer)
	r.clock.Unlock()
	l.due = r.now()
	r.push(l)
}

// finish counts things that are done, and ends the run after the last.
func (r *controller) finish(n int64) {
	if r.left.Add(-n) == 0 {
		r.once.Do(func() { close(r.done) })
	}
}

// work plays lanes until there are no more.
func (r *controller) work(next func() *lane) {
	w := &worker{Filling: memory.NewFilling(r.plan, r.memory, r.grace(), r.Share > 0), limit: limit{of: r.ctx, time: r.Timeout}}
	defer w.limit.close()
	for l := next(); l != nil; l = next() {
		switch {
		case l.site == nil:
			r.begin(l.player)
		case l.try.ear != nil:
			r.hear(l)
		case l.try.again != nil:
			r.send(w, l, l.try.again.call, l.try.again.rec)
		default:
			r.play(w, l)
		}
	}
}

// grace is how long a node waits for an unused value before it takes one that another
// has used.
func (r *controller) grace() int64 { return int64(r.Patience) / 10 }

// begin connects a player and starts its lanes.
func (r *controller) begin(p *player) {
	r.connect(p)
	r.began[p.Kind.At].Add(1)
	now, scale := r.now(), r.plan.Scale
	p.open.Store(1)
	at := now
	for i := range p.lanes {
		l := &p.lanes[i]
		switch l.nature {
		case plan.InBeats:
			r.schedule(l, now)
		case plan.ByReach:
			r.beginReach(l)
		case plan.InReaction: // begins with a reply
		default:
			if p.open.Add(1) > 0 {
				r.lanes.Add(1)
			}
			p.mu.Lock()
			l.site = l.next(scale)
			p.mu.Unlock()
			if l.site == nil {
				r.closed(p)
				continue
			}
			due := now
			if l.nature == plan.InAside { // one after another, like calls of one thread
				due = at
				at = later(at, r.wait(l.site), 1+l.cursor[0].left)
			}
			r.schedule(l, due)
		}
	}
	r.closed(p)
}

// later is a time plus a number of waits; never, if that overflows.
func later(at, wait int64, times int) int64 {
	const never = math.MaxInt64 / 2
	return at + int64(min(float64(wait)*float64(times), float64(never-min(at, never))))
}

func (r *controller) wait(st *plan.Site) int64 {
	return int64(float64(value.Millis(st.Wait.Formula, r.plan.Scale, 0)) / r.Compress)
}

// goOn moves a lane to its next call. The call before began and ended at the times
// given: the next one is due its wait after began, and not before ended.
func (r *controller) goOn(l *lane, began, ended int64) {
	l.try.same = nil
	was := l.site
	if l.nature != plan.InAside && l.nature != plan.InReaction {
		r.passed(was, l.player)
	}
	switch l.nature {
	case plan.InBeats:
		r.nextBeat(l, ended)
		return
	case plan.ByReach:
		r.nextReach(l, ended)
		return
	case plan.InReaction:
		r.nextRedo(l, ended)
		return
	}
	p := l.player
	p.mu.Lock()
	l.site = l.next(r.plan.Scale)
	p.mu.Unlock()
	if l.nature == plan.InAside && l.site != was { // that was its last time
		r.passed(was, p)
	}
	switch {
	case l.site == nil:
		r.closed(p)
		return
	case l.site.Push:
		r.schedule(l, ended)
		return
	case p.Kind.Leaves && l.nature == plan.InSteps && l.atLast():
		r.stopBeats(p)
	}
	r.schedule(l, max(min(l.due, began)+r.wait(l.site), ended))
}

// stopBeats ends the beats of a player before its last step.
func (r *controller) stopBeats(p *player) {
	r.clock.Lock()
	defer r.clock.Unlock()
	for i := range p.lanes {
		if l := &p.lanes[i]; l.nature == plan.InBeats {
			l.beat.ended.Store(true)
			r.wheel.Stop(&l.timer)
		}
	}
}

// nextBeat schedules the next beat by the clock. Beats that were missed are counted
// and not made.
func (r *controller) nextBeat(l *lane, now int64) {
	if !l.site.Sent {
		return // once is enough for the types that wait for it
	}
	due := l.due + l.beat.every
	l.beat.ready = now
	if late := now - due; late > l.beat.every {
		missed := late / l.beat.every
		due += missed * l.beat.every
		g := &r.gauges[l.site.ID]
		g.mu.Lock()
		g.missed += int(missed)
		g.mu.Unlock()
	}
	r.schedule(l, due)
}

// closed counts a lane of a player as done, and after the last the player.
func (r *controller) closed(p *player) {
	open := p.open.Add(-1)
	if open >= 0 {
		r.lanes.Add(-1)
	}
	if open == 0 {
		r.playerDone(p)
	}
}

func (r *controller) playerDone(p *player) {
	if k := p.Kind; r.Share == 0 && (k.Leaves || len(k.Lanes.Beats)+len(k.Lanes.Reach) == 0) && !p.reacts() {
		p.hangUp() // it has no more calls, and does not share its connections
	}
	r.mu.Lock()
	g := &r.groups[p.Kind.At]
	g.undone--
	if g.undone == 0 {
		r.closeGroup(p.Kind)
	}
	r.mu.Unlock()
	r.finish(1)
}

// endPlayer takes a player out of the run.
func (r *controller) endPlayer(p *player) {
	if open := p.open.Swap(math.MinInt32 / 2); open > 0 {
		r.lanes.Add(-int64(open))
		r.playerDone(p)
	}
	for _, st := range p.Kind.Sites {
		if g := r.gates[st.ID]; g != nil {
			g.forget(r, p)
		}
	}
	r.memory.Lock()
	defer r.memory.Unlock()
	r.clock.Lock()
	defer r.clock.Unlock()
	for i := range p.lanes {
		r.wheel.Stop(&p.lanes[i].timer)
		r.stopReach(&p.lanes[i])
		r.stopRedo(&p.lanes[i])
	}
}

// closeGroup is for a type whose nodes are all done: types that still wait for one of
// its calls will never start. The controller is locked.
func (r *controller) closeGroup(k *plan.Kind) {
	r.openGates(k)
	for _, w := range k.Starts {
		g := &r.groups[w.At]
		if g.started {
			continue
		}
		g.started = true
		if w.Count > 0 {
			r.unstarted = append(r.unstarted, fmt.Sprintf("%s: of %d nodes of %s too few made %s", w.Name, k.Count, k.Name, w.Start.After))
			n := int64(g.undone)
			g.undone = 0
			r.finish(n)
		}
		r.closeGroup(w)
	}
}

// reached counts a node that made a call for the first time, and starts the types
// that waited for it: after the first node, or after a share of all.
func (r *controller) reached(st *plan.Site, p *player) {
	if len(st.Starts) == 0 {
		return
	}
	var ready []*plan.Kind
	r.mu.Lock()
	g := &r.groups[st.Kind.At]
	if g.reached[st] == nil {
		g.reached[st] = map[*player]bool{}
	}
	g.reached[st][p] = true
	for _, w := range st.Starts {
		enough := max(1, int(math.Ceil(w.Start.Share*float64(st.Kind.Count))))
		if len(g.reached[st]) >= enough && !r.groups[w.At].started {
			ready = append(ready, w)
		}
	}
	r.mu.Unlock()
	for _, w := range ready {
		r.launch(w, r.now()+int64(float64(value.Millis(w.Start.Wait.Formula, r.plan.Scale, 0))/r.Compress))
	}
}
