package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"gleaner/trace"
	"gleaner/trace/program"
	"gleaner/trace/replay/memory"
	"gleaner/trace/replay/plan"
	"gleaner/trace/value"
)

// play fills in a call and makes it, or lets its lane wait for a missing value.
func (r *controller) play(w *worker, l *lane) {
	p, st, f, now := l.player, l.site, w.Filling, r.now()
	if g := r.gates[st.ID]; g != nil && l.nature != plan.InReaction && g.hold(r, l) {
		return
	}
	p.mu.Lock()
	if l.nothing() {
		p.mu.Unlock()
		r.goOn(l, now, now)
		return
	}
	others := st.Global || st.Tells[program.Request] || l.nature == plan.ByReach
	if others {
		r.memory.Lock()
	}
	unlock := func() {
		if others {
			r.memory.Unlock()
		}
		p.mu.Unlock()
	}
	l.collect()
	var request []trace.Leaf
	var ok bool
	repeated := l.try.asking != 0 && l.try.same != nil
	switch {
	case repeated:
		request, ok = l.try.same, true
	case l.nature == plan.InReaction:
		request, ok = l.refill(f, now)
	default:
		request, ok = f.Fill(&p.Node, st, l.try.inbox, l.try.since, now)
	}
	if !ok {
		if l.try.since == 0 {
			l.try.since = now
		}
		patience := r.gauges[st.ID].patience.of(r.Patience, l.try.since)
		if !st.Sent {
			patience = min(patience, int64(r.Timeout)) // no target waits for it
		}
		if left := l.try.since + patience - now; f.Lost() == nil && left > 0 {
			if f.Grace() {
				left = min(left, l.try.since+r.grace()-now)
			}
			r.park(f, l, now+left)
			unlock()
			return
		}
		unlock()
		r.cannot(f, l, now)
		return
	}
	if l.try.since != 0 {
		r.gauges[st.ID].patience.met()
	}
	l.try.since, l.try.meant, l.try.sent = 0, l.due, false
	first := p.Made[st.Local] == 0
	rec := &memory.Record{}
	if l.said() {
		rec = nil // it is known already
	} else {
		rec.Keep(st, program.Request, request)
		if !repeated { // all tries are one call
			r.memory.Publish(&p.Node, st, rec, false)
			p.keep(st, request)
		}
	}
	if l.nature != plan.InReaction {
		p.Made[st.Local]++
	}
	unlock()
	if st.Sent && !repeated {
		r.noteMadeUp(f, st)
	}
	if first && l.nature != plan.InReaction {
		r.reached(st, p)
	}
	call := &trace.Call{Run: r.Setting.Run, Scale: r.plan.Scale, Sender: p.Sender, Address: p.Address, Target: st.Target, Method: st.Method, Request: request}
	r.send(w, l, call, rec)
}

// park lets a lane wait until a value comes or patience ends. The player is locked,
// and the memory too if the value comes from others.
func (r *controller) park(f *memory.Filling, l *lane, until int64) {
	l.state.Store(waiting)
	f.Park(l)
	r.clock.Lock()
	r.wheel.Set(&l.timer, until)
	r.clock.Unlock()
}

// cannot skips a call for which a value is missing.
func (r *controller) cannot(f *memory.Filling, l *lane, now int64) {
	g, why := &r.gauges[l.site.ID], r.lacks(f, l.site)
	g.mu.Lock()
	g.skipped++
	if f.Lost() == nil {
		g.patience.end(l.try.since, now)
	}
	note(&g.missing, why, r.into(now))
	g.fault(absent, l.site, &trace.Call{Sender: l.player.Sender}, r.into(now), why)
	g.mu.Unlock()
	l.try.settle()
	r.reached(l.site, l.player)
	r.goOn(l, now, now)
}

// lacks tells which value of a call is missing.
func (r *controller) lacks(f *memory.Filling, st *plan.Site) string {
	if lost := f.Lost(); lost != nil {
		return fmt.Sprintf("%s needs %s, and no reply had it", st.Name, lost.Past)
	}
	from := "some call"
	if s := f.Scope(); s.Site != nil {
		from = s.Site.Name
	} else if s.Method != "" {
		from = s.Method
	}
	return fmt.Sprintf("%s waited for a value from %s that did not come", st.Name, from)
}

func (r *controller) into(now int64) float64 { return float64((now-r.begun)/1e6) / 1e3 }

func (r *controller) noteMadeUp(f *memory.Filling, st *plan.Site) {
	if len(f.MadeUp()) == 0 {
		return
	}
	g := &r.gauges[st.ID]
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, path := range f.MadeUp() {
		if g.madeUp == nil {
			g.madeUp = map[string]int{}
		}
		g.madeUp[path]++
	}
}

// send makes a call and takes its reply.
func (r *controller) send(w *worker, l *lane, call *trace.Call, rec *memory.Record) {
	st, g := l.site, &r.gauges[l.site.ID]
	if !st.Sent {
		g.mu.Lock()
		g.unsent++
		g.mu.Unlock()
		now := r.now()
		r.goOn(l, now, now)
		return
	}
	ctx := w.limit.begin()
	call.Start, call.End = 0, 0
	began := r.now()
	if st.Push && r.listen(ctx, l, call, rec) {
		w.limit.end()
		return
	}
	reply, err := l.player.links[st.Role].call(ctx, call, r.dialled)
	if late := w.limit.end(); late && err != nil {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	end := r.now()
	if call.Start == 0 {
		call.Start = began
	}
	if r.ctx.Err() != nil && err != nil {
		return // the run is over: this is no error of the target
	}
	if errors.Is(err, ErrUnsendable) {
		r.unsendable(l, call, err, end)
		return
	}
	if sent(err) {
		late := call.Start - max(l.try.meant, l.beat.ready)
		if late > int64(r.Limits.Lag) && l.try.again == nil {
			r.troubled(call.Start)
		}
		g.mu.Lock()
		g.made++
		switch {
		case l.nature == plan.InReaction:
			g.redone++
		case !l.try.sent && l.try.asking == 0:
			g.sent++
		}
		l.try.sent = true
		if l.try.again == nil && r.warm(call.Start) {
			observe(&g.lag, late)
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
func (r *controller) answered(l *lane, call *trace.Call, rec *memory.Record, reply Reply, end int64) {
	st := l.site
	call.End = max(cmp.Or(call.End, end), call.Start)
	if st.Reads() || r.Record != nil {
		reply.Read()
	}
	call.Response, call.Status = reply.Leaves, reply.Status
	rule := r.asked(l, &reply, end)
	r.measure(l, call, &reply, rule != nil)
	r.silences[st.Target].heard(end)
	l.player.silent.Store(false)
	if r.Record != nil {
		r.Record(call)
	}
	if rule != nil && r.heed(l, rule, call, rec, end) {
		return
	}
	r.remember(l, rec, call)
	l.try.settle()
	if st.Until != nil && r.again(l, call, reply) {
		return
	}
	l.try.asking = 0
	r.goOn(l, call.Start, end)
}

// listen waits for a push of the target, without a worker. It reports whether the
// connection can do that.
func (r *controller) listen(ctx context.Context, l *lane, call *trace.Call, rec *memory.Record) bool {
	conn, err := l.player.links[l.site.Role].get(ctx, r.dialled)
	pusher, ok := conn.(Pusher)
	if err != nil || !ok {
		return false
	}
	now := r.now()
	e := &ear{attempt: attempt{call, rec}, since: now}
	l.try.ear = e
	r.clock.Lock()
	l.state.Store(waiting)
	r.wheel.Set(&l.timer, now+r.gauges[l.site.ID].patience.of(r.Patience, now))
	r.clock.Unlock()
	e.cancel = pusher.Pushed(call.Method, func(reply Reply) {
		e.heard.Store(&reply)
		r.wake(l)
	})
	return true
}

// hear takes the push that came, or goes on if none did.
func (r *controller) hear(l *lane) {
	e, now := l.try.ear, r.now()
	l.try.ear = nil
	g := &r.gauges[l.site.ID]
	g.mu.Lock()
	if reply := e.heard.Load(); reply != nil {
		g.made++
		g.sent++
		g.patience.met()
		g.mu.Unlock()
		e.call.Start = l.due
		r.answered(l, e.call, e.rec, *reply, l.due)
		return
	}
	g.skipped++
	g.patience.end(e.since, now)
	note(&g.missing, l.site.Name+" did not come", r.into(now))
	g.fault(absent, l.site, e.call, r.into(now), "it did not come")
	g.mu.Unlock()
	e.cancel()
	r.goOn(l, now, now)
}

// warm reports whether a time is after the warm-up.
func (r *controller) warm(at int64) bool { return at >= r.begun+int64(r.Warmup) }

// measure counts a reply, and a refusal unless the node reacts to it.
func (r *controller) measure(l *lane, call *trace.Call, reply *Reply, heeded bool) {
	g := &r.gauges[l.site.ID]
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answered++
	if l.site.Push {
		return
	}
	if call.End-call.Start > int64(r.Limits.Latency) {
		r.troubled(call.End)
	}
	if r.warm(call.Start) {
		observe(&g.latency, call.End-min(l.try.meant, call.Start))
		observe(&g.service, call.End-call.Start)
	}
	if heeded {
		g.heeded++
	} else if reply.refused() {
		g.refused++
		if reply.overloaded() {
			g.overloaded++
			r.troubled(call.End)
		} else {
			g.fault(refusal, l.site, call, r.into(call.End), strings.TrimSpace(reply.Status+" "+reply.Message))
		}
		note(&g.errors, strings.TrimSpace(summary(reply.Status+" "+reply.Message)), r.into(call.End))
	}
}

// remember keeps the leaves that later arguments come from, and delivers the reply to
// the nodes that make calls for it.
func (r *controller) remember(l *lane, rec *memory.Record, call *trace.Call) {
	p, st := l.player, l.site
	if rec == nil || len(st.Enters) == 0 && len(st.Feeds) == 0 {
		return
	}
	p.mu.Lock()
	others := st.Tells[program.Reply] || len(st.Feeds) > 0
	if others {
		r.memory.Lock()
	}
	rec.Keep(st, program.Reply, call.Response)
	rec.Refused = trace.Refused(call.Status)
	r.memory.Publish(&p.Node, st, rec, true)
	if l.nature == plan.InReaction && !rec.Refused {
		p.Renew(st)
	}
	if others {
		r.deliver(st, rec, call)
		r.memory.Unlock()
	}
	p.mu.Unlock()
}

// unanswered handles a call without a reply, by the policy.
func (r *controller) unanswered(l *lane, call *trace.Call, rec *memory.Record, err error, now int64) {
	var lost *notYet
	again := l.nature != plan.InBeats && r.OnError == Retry && (l.try.since == 0 || now-l.try.since < int64(r.Patience))
	if errors.As(err, &lost) && again {
		r.tryAgain(l, call, rec, now, lost.wait)
		return
	}
	l.player.silent.Store(true)
	r.silences[l.site.Target].lost.Store(true)
	r.troubled(now)
	g := &r.gauges[l.site.ID]
	g.mu.Lock()
	g.failed++
	if Starved(err) {
		g.starved++
	}
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
		l.try.settle()
		r.goOn(l, call.Start, now)
	}
}

// unsendable skips a call whose arguments do not fit. It would not fit later either.
func (r *controller) unsendable(l *lane, call *trace.Call, err error, now int64) {
	g := &r.gauges[l.site.ID]
	g.mu.Lock()
	g.unsendable++
	note(&g.errors, complaint(err), r.into(now))
	g.fault(unfit, l.site, call, r.into(now), err.Error())
	g.mu.Unlock()
	l.try.settle()
	r.goOn(l, now, now)
}

// sent reports whether a call that got this error was sent.
func sent(err error) bool {
	var unsent *notSent
	return !errors.As(err, &unsent)
}

// troubled notes when something was wrong for the first time.
func (r *controller) troubled(at int64) { r.trouble.CompareAndSwap(0, at) }

// Starved reports whether an error is this machine's and not the target's: no more
// files may be opened, or no local port is left.
func Starved(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

// tryAgain makes a call again after a wait. A random part keeps players from retrying
// all at once.
func (r *controller) tryAgain(l *lane, call *trace.Call, rec *memory.Record, now int64, wait time.Duration) {
	if l.try.since == 0 {
		l.try.since = now
	}
	l.try.again = &attempt{call, rec}
	l.player.mu.Lock()
	wait += firstBackoff + time.Duration(l.player.Chance.Int64N(int64(4*firstBackoff)))
	l.player.mu.Unlock()
	r.schedule(l, now+int64(wait))
}

// again repeats a call until its reply meets the condition, and reports whether it
// does.
func (r *controller) again(l *lane, call *trace.Call, reply Reply) bool {
	until, g := l.site.Until, &r.gauges[l.site.ID]
	now := r.now()
	if v, ok := trace.Get(reply.Leaves, until.Path); ok && v == until.Value || reply.refused() {
		g.patience.met()
		return false
	}
	if l.try.asking == 0 {
		l.try.asking = now
	}
	l.try.same = call.Request
	g.mu.Lock()
	defer g.mu.Unlock()
	if now-l.try.asking > g.patience.of(r.Patience, l.try.asking) {
		g.unmet++
		g.patience.end(l.try.asking, now)
		why := fmt.Sprintf("%s never said %s is %q", l.site.Name, until.Path, until.Value)
		note(&g.missing, why, r.into(now))
		g.fault(unmet, l.site, call, r.into(now), why)
		return false
	}
	g.retries++
	l.player.mu.Lock()
	l.player.Made[l.site.Local]-- // all tries are one call
	l.player.mu.Unlock()
	wait := r.wait(l.site)
	if !until.Every.IsZero() {
		wait = int64(float64(value.Millis(until.Every.Formula, r.plan.Scale, 0)) / r.Compress)
	}
	r.schedule(l, now+max(wait, 1e6))
	return true
}
