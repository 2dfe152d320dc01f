package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"gleaner/trace"
	"gleaner/trace/grow"
	"gleaner/trace/program"
	"gleaner/trace/replay/wheel"
	"gleaner/trace/value"
)

// Options say how a program is played.
type Options struct {
	Program *program.Program
	Setting grow.Setting // resolved; see grow.Resolve
	// Targets are the executors of the roles the program calls; "" stands for
	// every role that is not named. A call to a role without a target is not
	// sent, and counts as made.
	Targets map[string]Executor
	// Compress divides all waits but those of beats: what the target does by
	// the clock, such as declaring a node dead, it does not do faster.
	Compress float64 // 0: 1
	// Ramp spreads the starts of a type's nodes. 0: over its longest beat, so
	// that beats do not come all at once; negative: not at all.
	Ramp     time.Duration
	For      time.Duration // end after this time; 0: when all steps are done
	Timeout  time.Duration // of a call without a reply; 0: 10 s
	Patience time.Duration // with a value that does not come, or a connection; 0: 30 s
	OnError  Policy        // what a player does when a call gets no reply
	Share    int           // connections that all nodes share for a role; 0: each has its own
	Workers  int           // calls under way at once; 0: 4096
	Seed     uint64
	// Part of Parts plays only every Parts-th node, so that several processes
	// can share a program whose nodes have nothing to do with each other (see
	// Apart). Parts 0 plays all.
	Part, Parts int
	// Record is told every call that was sent, from many goroutines at once. The
	// call is its own to keep.
	Record func(*trace.Call)
}

// Policy is what a player does when a call gets no reply.
type Policy uint8

// The policies. A beat is never made again: the next one is.
const (
	Retry Policy = iota // make it again, until patience runs out, and then go on
	Skip                // go on
	End                 // make no more calls
)

// ParsePolicy reads a policy.
func ParsePolicy(s string) (Policy, error) {
	at := slices.Index([]string{"retry", "skip", "end"}, s)
	if at < 0 {
		return 0, fmt.Errorf("%q is not a policy: one of retry, skip, end", s)
	}
	return Policy(at), nil
}

func (o Options) withDefaults() Options {
	o.Compress = cmp.Or(o.Compress, 1)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.Patience = cmp.Or(o.Patience, 30*time.Second)
	o.Workers = cmp.Or(o.Workers, 4096)
	o.Targets = maps.Clone(o.Targets)
	for role, e := range o.Targets {
		if s, ok := e.(Sharer); ok && o.Share > 0 {
			o.Targets[role] = s.Share(o.Share)
		}
	}
	return o
}

// A run is one play at one scale: the controller.
type run struct {
	Options
	plan   *plan
	memory *memory
	queue  *queue
	gauges []gauge // by site
	ctx    context.Context
	start  time.Time
	begun  int64
	shared map[string][]*link // by role

	clock  sync.Mutex // guards the wheel
	wheel  *wheel.Wheel[lane]
	endsAt int64

	players [][]*player          // by kind
	lots    *rand.Rand           // these two are guarded by the memory
	names   []map[string]*player // by kind; made when asked for
	left    atomic.Int64
	done    chan struct{} // closed when nothing is left to do
	once    sync.Once

	mu        sync.Mutex
	groups    []group // by kind
	unstarted []string
	dials     *hdr.Histogram
}

// A group is the nodes of a type on their way through the run.
type group struct {
	started bool
	undone  int
	reached map[*site]map[*player]bool // who has made a call that others wait for
}

// Play plays a program once. When the context ends, so does the run, and what
// was measured until then is returned.
func Play(ctx context.Context, o Options) (*Result, error) {
	o = o.withDefaults()
	pl := newPlan(o.Program, o.Setting, func(role string) bool { return o.target(role) != nil })
	if err := pl.playable(o); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{Options: o, plan: pl, memory: newMemory(pl), gauges: make([]gauge, len(pl.sites)), ctx: ctx,
		groups: make([]group, len(pl.kinds)), players: make([][]*player, len(pl.kinds)), done: make(chan struct{}), shared: map[string][]*link{},
		lots: rand.New(rand.NewPCG(o.Seed, 1)), names: make([]map[string]*player, len(pl.kinds))}
	r.queue = newQueue(o.Workers, r.work)
	if r.For == 0 {
		r.For = pl.beatsOnly()
	}
	r.makePlayers()
	if err := r.probe(); err != nil {
		r.hangUp()
		return nil, err
	}
	r.start = time.Now()
	r.begun = r.start.UnixNano()
	r.wheel = wheel.New[lane](r.begun)
	r.populate()
	ended := r.turn(ctx)
	dead := r.dead(context.WithoutCancel(ctx))
	cancel()
	r.hangUp() // lets calls go that are still under way
	r.queue.close()
	out := r.result(ended)
	out.Dead = dead
	return out, nil
}

// dead asks the targets which nodes they have given up, those that can tell. One
// that cannot say so now is left out: it may be what was killed.
func (r *run) dead(ctx context.Context) (out []string) {
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

// target is the executor of a role.
func (o *Options) target(role string) Executor {
	if e := o.Targets[role]; e != nil {
		return e
	}
	return o.Targets[""]
}

// playable reports a program that calls nobody, or what its target does not have.
func (pl *plan) playable(o Options) error {
	var roles []string
	sent := false
	for _, st := range pl.sites {
		if st.sent {
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
	return fmt.Errorf("replay: no target for any role the program calls: %s", strings.Join(roles, ", "))
}

// beatsOnly is how long a program without steps is played: three of its longest beats.
func (pl *plan) beatsOnly() time.Duration {
	longest := int64(0)
	for _, k := range pl.kinds {
		if k.count > 0 && len(k.steps)+len(k.aside) > 0 {
			return 0
		}
		for _, b := range k.beats {
			longest = max(longest, value.Millis(b.every, pl.scale, 0))
		}
	}
	return max(3*time.Duration(longest), time.Second)
}

func (r *run) now() int64 { return r.begun + int64(time.Since(r.start)) }

func (r *run) makePlayers() {
	for i, k := range r.plan.kinds {
		for rank := r.Part; rank < k.count; rank += max(r.Parts, 1) {
			r.players[i] = append(r.players[i], newPlayer(k, rank, r.plan.scale, r.Seed))
		}
	}
}

// probe connects the first node that calls each role: a target that is not
// there, or that lets nobody in, is better known before sixty thousand try.
func (r *run) probe() error {
	seen := map[string]bool{}
	for _, k := range r.plan.kinds {
		if len(r.players[k.at]) == 0 {
			continue
		}
		p := r.players[k.at][0]
		for _, role := range k.roles {
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

// populate starts the types that wait for nobody.
func (r *run) populate() {
	total := int64(1) // until everybody is here
	for i, k := range r.plan.kinds {
		n := len(r.players[k.at])
		total += int64(n)
		r.groups[i] = group{undone: n, reached: map[*site]map[*player]bool{}}
	}
	r.left.Store(total)
	now := r.now()
	for _, k := range r.plan.kinds {
		if k.Start == nil {
			r.launch(k, now)
		}
	}
	r.mu.Lock()
	for _, k := range r.plan.kinds {
		if len(r.players[k.at]) == 0 {
			r.closeGroup(k)
		}
	}
	r.mu.Unlock()
	r.finish(1)
}

// launch starts the nodes of a type, from a time on.
func (r *run) launch(k *kind, at int64) {
	r.mu.Lock()
	started := r.groups[k.at].started
	r.groups[k.at].started = true
	r.mu.Unlock()
	if started {
		return
	}
	ramp := int64(r.Ramp)
	if ramp == 0 {
		for _, b := range k.beats {
			ramp = max(ramp, value.Millis(b.every, r.plan.scale, 0))
		}
	}
	for _, p := range r.players[k.at] {
		l := &lane{player: p}
		l.timer.Of = l
		r.schedule(l, at+max(ramp, 0)*int64(p.rank)/int64(k.count))
	}
}

// turn turns the wheel until the run ends, and says why it did.
func (r *run) turn(ctx context.Context) string {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	var limit <-chan time.Time
	if r.For > 0 {
		timer := time.NewTimer(r.For)
		defer timer.Stop()
		limit = timer.C
	}
	done := r.done
	for {
		select {
		case <-ticker.C:
			r.clock.Lock()
			r.wheel.Turn(r.now(), func(l *lane) {
				if l.state.CompareAndSwap(scheduled, playing) || l.state.CompareAndSwap(waiting, playing) {
					r.queue.push(l)
				}
			})
			r.clock.Unlock()
		case <-limit:
			return "time"
		case <-done:
			if r.For == 0 {
				return "done"
			}
			done = nil // beats go on
		case <-ctx.Done():
			return "interrupted"
		}
	}
}

// schedule sets when a lane is played next.
func (r *run) schedule(l *lane, due int64) {
	if l.player.open.Load() < 0 || l.still.Load() {
		return // it was taken out of the run
	}
	l.due = due
	l.state.Store(scheduled)
	r.clock.Lock()
	r.wheel.Set(&l.timer, due)
	r.clock.Unlock()
}

// wake plays a lane that waited for a value.
func (r *run) wake(l *lane) {
	if !l.state.CompareAndSwap(waiting, playing) {
		return
	}
	r.clock.Lock()
	r.wheel.Stop(&l.timer)
	r.clock.Unlock()
	l.due = r.now()
	r.queue.push(l)
}

// finish counts things that were left to do.
func (r *run) finish(n int64) {
	if r.left.Add(-n) == 0 {
		r.once.Do(func() { close(r.done) })
	}
}

// work is what a worker does.
func (r *run) work(next func() *lane) {
	f := newFilling(r)
	for l := next(); l != nil; l = next() {
		switch {
		case l.site == nil:
			r.begin(l.player)
		case l.ear != nil:
			r.hear(l)
		case l.retry != nil:
			r.send(l, l.retry.call, l.retry.rec)
		default:
			r.play(f, l)
		}
	}
}

// begin connects a player and sets its lanes going.
func (r *run) begin(p *player) {
	r.connect(p)
	now, scale := r.now(), r.plan.scale
	p.open.Store(1)
	at := now
	for i := range p.lanes {
		l := &p.lanes[i]
		switch l.nature {
		case inBeats:
			r.schedule(l, now)
		case byReach:
			r.beginReach(l)
		default:
			p.open.Add(1)
			p.mu.Lock()
			l.site = l.next(scale)
			p.mu.Unlock()
			if l.site == nil {
				r.closed(p)
				continue
			}
			due := now
			if l.nature == inAside { // one after another, as if a thread of its own made them
				due = at
				at += r.wait(l.site) * int64(1+l.cursor[0].left)
			}
			r.schedule(l, due)
		}
	}
	r.closed(p)
}

// connect makes the player's connections; one that cannot be made is tried
// again when it is needed.
func (r *run) connect(p *player) {
	for _, role := range p.kind.roles {
		if r.target(role) == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(r.ctx, r.Timeout)
		_, _ = r.linkOf(p, role).get(ctx, r.dialled) // its error is that of the first call
		cancel()
	}
}

// linkOf gives a player's link to a role, and makes it.
func (r *run) linkOf(p *player, role string) *link {
	if p.links == nil {
		p.links = make([]*link, len(p.kind.roles))
	}
	k := &p.links[slices.Index(p.kind.roles, role)]
	if *k == nil {
		*k = r.newLinkOf(p, role)
	}
	return *k
}

func (r *run) newLinkOf(p *player, role string) *link {
	to, at := r.target(role), p.rank
	_, shares := to.(Sharer)
	if r.Share == 0 || shares {
		return newLink(to, Identity{Sender: p.sender, Address: p.address, Target: role})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	links := r.shared[role]
	for at %= r.Share; len(links) <= at; {
		links = append(links, newLink(to, Identity{Sender: fmt.Sprintf("shared-%d", len(links)), Target: role}))
	}
	r.shared[role] = links
	return links[at]
}

func (r *run) dialled(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	observe(&r.dials, int64(took))
}

func (r *run) wait(st *site) int64 {
	return int64(float64(value.Millis(st.Wait.Formula, r.plan.scale, 0)) / r.Compress)
}

// play fills in a call and makes it, or lets its lane wait for what is missing.
func (r *run) play(f *filling, l *lane) {
	p, st, now := l.player, l.site, r.now()
	if st.gate != nil && st.gate.hold(l) {
		return
	}
	p.mu.Lock()
	others := st.global || st.tells[inRequest] || l.nature == byReach
	if others {
		r.memory.mu.Lock()
	}
	unlock := func() {
		if others {
			r.memory.mu.Unlock()
		}
		p.mu.Unlock()
	}
	l.collect()
	request, ok := f.fill(l, now)
	if !ok {
		if l.since == 0 {
			l.since = now
		}
		patience := r.Patience
		if !st.sent {
			patience = min(patience, r.Timeout) // nobody but a player would notice
		}
		if left := l.since + int64(patience) - now; f.lost == nil && left > 0 {
			if f.soon && !f.spare {
				left = min(left, l.since+r.grace()-now)
			}
			r.park(f, l, now+left)
			unlock()
			return
		}
		unlock()
		r.cannot(f, l, now)
		return
	}
	l.since, l.meant = 0, l.due
	first := p.made[st.local] == 0
	p.made[st.local]++
	rec := &record{}
	rec.parts[inRequest] = st.kept(inRequest, request)
	r.publish(p, st, rec, false)
	unlock()
	r.noteMadeUp(f, st)
	if first {
		r.reached(st, p)
	}
	call := &trace.Call{Run: r.Setting.Run, Scale: r.plan.scale, Sender: p.sender, Address: p.address, Target: st.Target, Method: st.Method, Request: request}
	r.send(l, call, rec)
}

// park lets a lane wait until a value comes or patience ends. The player is
// locked, and the memory too where others are waited for.
func (r *run) park(f *filling, l *lane, until int64) {
	l.state.Store(waiting)
	l.player.parked = append(l.player.parked, l)
	for _, w := range f.wants {
		if w.index.by != "me" {
			post := r.memory.at(w.index, w.key)
			post.waiting = append(post.waiting, l)
		}
	}
	r.clock.Lock()
	r.wheel.Set(&l.timer, until)
	r.clock.Unlock()
}

// cannot gives a call up for which a value is missing.
func (r *run) cannot(f *filling, l *lane, now int64) {
	g := &r.gauges[l.site.id]
	g.mu.Lock()
	g.skipped++
	note(&g.missing, r.lacks(f, l.site), r.into(now))
	g.mu.Unlock()
	l.since, l.inbox = 0, nil
	r.reached(l.site, l.player)
	r.goOn(l, now, now)
}

// lacks says which value a call was not made for want of.
func (r *run) lacks(f *filling, st *site) string {
	if f.lost != nil {
		return fmt.Sprintf("%s needs %s, and no reply had it", st.Name, f.lost.Alt)
	}
	from := "some call"
	if s := f.wants[0].index.scope; s.site != nil {
		from = s.site.Name
	} else if s.method != "" {
		from = s.method
	}
	return fmt.Sprintf("%s waited in vain for what %s gives", st.Name, from)
}

func (r *run) into(now int64) float64 { return float64((now-r.begun)/1e6) / 1e3 }

func (r *run) noteMadeUp(f *filling, st *site) {
	if len(f.madeUp) == 0 {
		return
	}
	g := &r.gauges[st.id]
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, path := range f.madeUp {
		if g.madeUp == nil {
			g.madeUp = map[string]int{}
		}
		g.madeUp[path]++
	}
}

// send makes a call and takes its reply.
func (r *run) send(l *lane, call *trace.Call, rec *record) {
	st, g := l.site, &r.gauges[l.site.id]
	if !st.sent {
		g.mu.Lock()
		g.unsent++
		g.mu.Unlock()
		now := r.now()
		r.goOn(l, now, now)
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.Timeout)
	call.Start, call.End = 0, 0
	began := r.now()
	if st.push && r.listen(ctx, l, call, rec) {
		cancel()
		return
	}
	reply, err := l.player.links[st.role].call(ctx, call, r.dialled)
	cancel()
	end := r.now()
	if call.Start == 0 {
		call.Start = began
	}
	if r.ctx.Err() != nil && err != nil {
		return // the run is over, and nobody knows what the target would have said
	}
	var unsent *notSent
	if !errors.As(err, &unsent) {
		g.mu.Lock()
		g.made++
		if l.retry == nil {
			observe(&g.lag, call.Start-l.meant)
		}
		g.mu.Unlock()
	}
	if err != nil {
		r.unanswered(l, call, rec, err, end)
		return
	}
	r.answered(l, call, rec, reply, end)
}

// answered takes the reply to a call, and goes on.
func (r *run) answered(l *lane, call *trace.Call, rec *record, reply Reply, end int64) {
	st := l.site
	call.End = max(cmp.Or(call.End, end), call.Start)
	call.Response, call.Status = reply.Leaves, reply.Status
	r.measure(l, call, &reply)
	l.player.silent.Store(false)
	if r.Record != nil {
		r.Record(call)
	}
	r.remember(l, rec, reply.Leaves)
	l.retry, l.since, l.inbox = nil, 0, nil
	if st.Until != nil && r.again(l, reply) {
		return
	}
	l.asking = 0
	r.goOn(l, call.Start, end)
}

// listen waits for what the target says unasked, without a worker. It reports
// whether the connection can do that.
func (r *run) listen(ctx context.Context, l *lane, call *trace.Call, rec *record) bool {
	conn, err := l.player.links[l.site.role].get(ctx, r.dialled)
	pusher, ok := conn.(Pusher)
	if err != nil || !ok {
		return false
	}
	e := &ear{attempt: attempt{call, rec}}
	l.ear = e
	r.clock.Lock()
	l.state.Store(waiting)
	r.wheel.Set(&l.timer, r.now()+int64(r.Patience))
	r.clock.Unlock()
	e.cancel = pusher.Pushed(call.Method, func(reply Reply) {
		e.heard.Store(&reply)
		r.wake(l)
	})
	return true
}

// hear takes what came, or gives up when nothing did.
func (r *run) hear(l *lane) {
	e, now := l.ear, r.now()
	l.ear = nil
	g := &r.gauges[l.site.id]
	g.mu.Lock()
	if reply := e.heard.Load(); reply != nil {
		g.made++
		g.mu.Unlock()
		e.call.Start = l.due
		r.answered(l, e.call, e.rec, *reply, l.due)
		return
	}
	g.skipped++
	note(&g.missing, l.site.Name+" did not come", r.into(now))
	g.mu.Unlock()
	e.cancel()
	r.goOn(l, now, now)
}

// refused reports whether a reply is a refusal: by the words of gRPC, or by the
// numbers of HTTP, which recordings of Hadoop have too.
func refused(status string) bool {
	return status != "" && status != "OK" && !(len(status) == 3 && status[0] == '2')
}

func (r *run) measure(l *lane, call *trace.Call, reply *Reply) {
	g := &r.gauges[l.site.id]
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answered++
	if l.site.push {
		return
	}
	observe(&g.latency, call.End-min(l.meant, call.Start))
	observe(&g.service, call.End-call.Start)
	if refused(reply.Status) {
		g.refused++
		note(&g.errors, strings.TrimSpace(summary(reply.Status+" "+reply.Message)), r.into(call.End))
	}
}

// remember keeps what later arguments are taken from, and passes it on to the
// nodes that make calls for it.
func (r *run) remember(l *lane, rec *record, leaves []trace.Leaf) {
	p, st := l.player, l.site
	if len(st.enters) == 0 && len(st.feeds) == 0 {
		return
	}
	p.mu.Lock()
	others := st.tells[inReply] || len(st.feeds) > 0
	if others {
		r.memory.mu.Lock()
	}
	rec.parts[inReply] = st.kept(inReply, leaves)
	r.publish(p, st, rec, true)
	if others {
		r.deliver(st, rec, leaves)
		r.memory.mu.Unlock()
	}
	p.mu.Unlock()
}

// unanswered is what becomes of a call without a reply.
func (r *run) unanswered(l *lane, call *trace.Call, rec *record, err error, now int64) {
	var lost *notYet
	again := l.nature != inBeats && r.OnError == Retry && (l.since == 0 || now-l.since < int64(r.Patience))
	if errors.As(err, &lost) && again {
		r.tryAgain(l, call, rec, now, lost.wait)
		return
	}
	l.player.silent.Store(true)
	g := &r.gauges[l.site.id]
	g.mu.Lock()
	g.failed++
	note(&g.errors, complaint(err), r.into(now))
	if again {
		g.retries++
	}
	g.mu.Unlock()
	if r.Record != nil {
		r.Record(&trace.Call{Run: call.Run, Scale: call.Scale, Start: call.Start, Sender: call.Sender, Address: call.Address, Target: call.Target,
			Method: call.Method, Request: call.Request, Status: "no reply"})
	}
	switch {
	case again:
		r.tryAgain(l, call, rec, now, 0)
	case r.OnError == End:
		r.endPlayer(l.player)
	default:
		l.retry, l.since, l.inbox = nil, 0, nil
		r.goOn(l, call.Start, now)
	}
}

// tryAgain makes a call again after a wait, a little different for each player.
func (r *run) tryAgain(l *lane, call *trace.Call, rec *record, now int64, wait time.Duration) {
	if l.since == 0 {
		l.since = now
	}
	l.retry = &attempt{call, rec}
	l.player.mu.Lock()
	wait += firstBackoff + time.Duration(l.player.rand.Int64N(int64(4*firstBackoff)))
	l.player.mu.Unlock()
	r.schedule(l, now+int64(wait))
}

// again repeats a call that is made until its reply says enough.
func (r *run) again(l *lane, reply Reply) bool {
	until := l.site.Until
	now := r.now()
	if v, ok := trace.Get(reply.Leaves, until.Path); ok && v == until.Value || refused(reply.Status) {
		return false
	}
	if l.asking == 0 {
		l.asking = now
	}
	g := &r.gauges[l.site.id]
	g.mu.Lock()
	defer g.mu.Unlock()
	if now-l.asking > int64(r.Patience) {
		note(&g.missing, fmt.Sprintf("%s never said %s is %q", l.site.Name, until.Path, until.Value), r.into(now))
		return false
	}
	g.retries++
	l.player.mu.Lock()
	l.player.made[l.site.local]-- // all tries are one call
	l.player.mu.Unlock()
	wait := r.wait(l.site)
	if !until.Every.IsZero() {
		wait = int64(float64(value.Millis(until.Every.Formula, r.plan.scale, 0)) / r.Compress)
	}
	r.schedule(l, now+max(wait, 1e6))
	return true
}

// goOn moves a lane to its next call. began and ended are those of the call
// before: the next is due its wait after the first, and not before the second.
func (r *run) goOn(l *lane, began, ended int64) {
	was := l.site
	if l.nature != inAside {
		r.passed(was, l.player)
	}
	switch l.nature {
	case inBeats:
		r.nextBeat(l, ended)
		return
	case byReach:
		r.nextReach(l, ended)
		return
	}
	p := l.player
	p.mu.Lock()
	l.site = l.next(r.plan.scale)
	p.mu.Unlock()
	if l.nature == inAside && l.site != was { // made for the last time
		r.passed(was, p)
	}
	switch {
	case l.site == nil:
		r.closed(p)
		return
	case l.site.push:
		r.schedule(l, ended)
		return
	case p.kind.Leaves && l.nature == inSteps && l.atLast():
		r.stopBeats(p)
	}
	r.schedule(l, max(min(l.due, began)+r.wait(l.site), ended))
}

// stopBeats ends the beats of a player that is about to leave.
func (r *run) stopBeats(p *player) {
	r.clock.Lock()
	defer r.clock.Unlock()
	for i := range p.lanes {
		if l := &p.lanes[i]; l.nature == inBeats {
			l.still.Store(true)
			r.wheel.Stop(&l.timer)
		}
	}
}

// nextBeat keeps to the clock. Beats that have passed by then are not made up for.
func (r *run) nextBeat(l *lane, now int64) {
	if !l.site.sent {
		return // once is enough for those who wait for it
	}
	due := l.due + l.every
	if late := now - due; late > l.every {
		missed := late / l.every
		due += missed * l.every
		g := &r.gauges[l.site.id]
		g.mu.Lock()
		g.missed += int(missed)
		g.mu.Unlock()
	}
	r.schedule(l, due)
}

// closed counts a lane of a player as done; without any left, so is the player.
func (r *run) closed(p *player) {
	if p.open.Add(-1) != 0 {
		return
	}
	r.playerDone(p)
}

func (r *run) playerDone(p *player) {
	if p.kind.Leaves {
		p.hangUp()
	}
	r.mu.Lock()
	g := &r.groups[p.kind.at]
	g.undone--
	if g.undone == 0 {
		r.closeGroup(p.kind)
	}
	r.mu.Unlock()
	r.finish(1)
}

// endPlayer takes a player out of the run.
func (r *run) endPlayer(p *player) {
	if p.open.Swap(math.MinInt32/2) > 0 {
		r.playerDone(p)
	}
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	r.clock.Lock()
	defer r.clock.Unlock()
	for i := range p.lanes {
		r.wheel.Stop(&p.lanes[i].timer)
		r.stopReach(&p.lanes[i])
	}
}

// closeGroup gives up the types that waited for one that is done and never
// came to the call. The run is locked.
func (r *run) closeGroup(k *kind) {
	r.openGates(k)
	for _, w := range k.starts {
		g := &r.groups[w.at]
		if g.started {
			continue
		}
		g.started = true
		if w.count > 0 {
			r.unstarted = append(r.unstarted, fmt.Sprintf("%s: of %d nodes of %s too few made %s", w.Name, k.count, k.Name, w.Start.After))
			n := int64(g.undone)
			g.undone = 0
			r.finish(n)
		}
		r.closeGroup(w)
	}
}

// reached counts a node that made a call for the first time, and starts the
// types that waited for that: after the first, or after a share of all.
func (r *run) reached(st *site, p *player) {
	if len(st.starts) == 0 {
		return
	}
	var ready []*kind
	r.mu.Lock()
	g := &r.groups[st.kind.at]
	if g.reached[st] == nil {
		g.reached[st] = map[*player]bool{}
	}
	g.reached[st][p] = true
	for _, w := range st.starts {
		enough := max(1, int(math.Ceil(w.Start.Share*float64(st.kind.count))))
		if len(g.reached[st]) >= enough && !r.groups[w.at].started {
			ready = append(ready, w)
		}
	}
	r.mu.Unlock()
	for _, w := range ready {
		r.launch(w, r.now()+int64(float64(value.Millis(w.Start.Wait.Formula, r.plan.scale, 0))/r.Compress))
	}
}

// hangUp closes all connections.
func (r *run) hangUp() {
	for _, players := range r.players {
		for _, p := range players {
			p.hangUp()
		}
	}
}

func (p *player) hangUp() {
	for _, k := range p.links {
		if k != nil {
			k.close()
		}
	}
}
