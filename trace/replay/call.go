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
	"gleaner/trace/value"
)

// play fills in a call and makes it, or lets its lane wait for a missing value.
func (r *controller) play(f *filling, l *lane) {
	p, st, now := l.player, l.site, r.now()
	if st.gate != nil && st.gate.hold(r, l) {
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
			patience = min(patience, r.Timeout) // no target waits for it
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
	l.since, l.meant, l.tried = 0, l.due, false
	first := p.made[st.local] == 0
	p.made[st.local]++
	rec := &record{}
	rec.parts[inRequest] = st.kept(inRequest, request)
	r.publish(p, st, rec, false)
	unlock()
	if st.sent {
		r.noteMadeUp(f, st)
	}
	if first {
		r.reached(st, p)
	}
	call := &trace.Call{Run: r.Setting.Run, Scale: r.plan.scale, Sender: p.sender, Address: p.address, Target: st.Target, Method: st.Method, Request: request}
	r.send(l, call, rec)
}

// park lets a lane wait until a value comes or patience ends. The player is locked,
// and the memory too if the value comes from others.
func (r *controller) park(f *filling, l *lane, until int64) {
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

// cannot skips a call for which a value is missing.
func (r *controller) cannot(f *filling, l *lane, now int64) {
	g, why := &r.gauges[l.site.id], r.lacks(f, l.site)
	g.mu.Lock()
	g.skipped++
	note(&g.missing, why, r.into(now))
	g.fault(absent, l.site, &trace.Call{Sender: l.player.sender}, r.into(now), why)
	g.mu.Unlock()
	l.since, l.inbox = 0, nil
	r.reached(l.site, l.player)
	r.goOn(l, now, now)
}

// lacks tells which value of a call is missing.
func (r *controller) lacks(f *filling, st *site) string {
	if f.lost != nil {
		return fmt.Sprintf("%s needs %s, and no reply had it", st.Name, f.lost.Alt)
	}
	from := "some call"
	if s := f.wants[0].index.scope; s.site != nil {
		from = s.site.Name
	} else if s.method != "" {
		from = s.method
	}
	return fmt.Sprintf("%s waited for a value from %s that did not come", st.Name, from)
}

func (r *controller) into(now int64) float64 { return float64((now-r.begun)/1e6) / 1e3 }

func (r *controller) noteMadeUp(f *filling, st *site) {
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
func (r *controller) send(l *lane, call *trace.Call, rec *record) {
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
		return // the run is over: this is no error of the target
	}
	if errors.Is(err, ErrUnsendable) {
		r.unsendable(l, call, err, end)
		return
	}
	if sent(err) {
		late := call.Start - max(l.meant, l.ready)
		if late > int64(r.Limits.Lag) && l.retry == nil {
			r.troubled(call.Start)
		}
		g.mu.Lock()
		g.made++
		if !l.tried && l.asking == 0 {
			g.sent++
		}
		l.tried = true
		if l.retry == nil && r.warm(call.Start) {
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
func (r *controller) answered(l *lane, call *trace.Call, rec *record, reply Reply, end int64) {
	st := l.site
	call.End = max(cmp.Or(call.End, end), call.Start)
	call.Response, call.Status = reply.Leaves, reply.Status
	r.measure(l, call, &reply)
	l.player.silent.Store(false)
	if r.Record != nil {
		r.Record(call)
	}
	r.remember(l, rec, call)
	l.retry, l.since, l.inbox = nil, 0, nil
	if st.Until != nil && r.again(l, call, reply) {
		return
	}
	l.asking = 0
	r.goOn(l, call.Start, end)
}

// listen waits for a push of the target, without a worker. It reports whether the
// connection can do that.
func (r *controller) listen(ctx context.Context, l *lane, call *trace.Call, rec *record) bool {
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

// hear takes the push that came, or goes on if none did.
func (r *controller) hear(l *lane) {
	e, now := l.ear, r.now()
	l.ear = nil
	g := &r.gauges[l.site.id]
	g.mu.Lock()
	if reply := e.heard.Load(); reply != nil {
		g.made++
		g.sent++
		g.mu.Unlock()
		e.call.Start = l.due
		r.answered(l, e.call, e.rec, *reply, l.due)
		return
	}
	g.skipped++
	note(&g.missing, l.site.Name+" did not come", r.into(now))
	g.fault(absent, l.site, e.call, r.into(now), "it did not come")
	g.mu.Unlock()
	e.cancel()
	r.goOn(l, now, now)
}

// warm reports whether a time is after the warm-up.
func (r *controller) warm(at int64) bool { return at >= r.begun+int64(r.Warmup) }

func (r *controller) measure(l *lane, call *trace.Call, reply *Reply) {
	g := &r.gauges[l.site.id]
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answered++
	if l.site.push {
		return
	}
	if call.End-call.Start > int64(r.Limits.Latency) {
		r.troubled(call.End)
	}
	if r.warm(call.Start) {
		observe(&g.latency, call.End-min(l.meant, call.Start))
		observe(&g.service, call.End-call.Start)
	}
	if reply.refused() {
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
func (r *controller) remember(l *lane, rec *record, call *trace.Call) {
	p, st := l.player, l.site
	if len(st.enters) == 0 && len(st.feeds) == 0 {
		return
	}
	p.mu.Lock()
	others := st.tells[inReply] || len(st.feeds) > 0
	if others {
		r.memory.mu.Lock()
	}
	rec.parts[inReply], rec.refused = st.kept(inReply, call.Response), trace.Refused(call.Status)
	r.publish(p, st, rec, true)
	if others {
		r.deliver(st, rec, call)
		r.memory.mu.Unlock()
	}
	p.mu.Unlock()
}

// unanswered handles a call without a reply, by the policy.
func (r *controller) unanswered(l *lane, call *trace.Call, rec *record, err error, now int64) {
	var lost *notYet
	again := l.nature != inBeats && r.OnError == Retry && (l.since == 0 || now-l.since < int64(r.Patience))
	if errors.As(err, &lost) && again {
		r.tryAgain(l, call, rec, now, lost.wait)
		return
	}
	l.player.silent.Store(true)
	r.troubled(now)
	g := &r.gauges[l.site.id]
	g.mu.Lock()
	g.failed++
	if starved(err) {
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
		l.retry, l.since, l.inbox = nil, 0, nil
		r.goOn(l, call.Start, now)
	}
}

// unsendable skips a call whose arguments do not fit. It would not fit later either.
func (r *controller) unsendable(l *lane, call *trace.Call, err error, now int64) {
	g := &r.gauges[l.site.id]
	g.mu.Lock()
	g.unsendable++
	note(&g.errors, complaint(err), r.into(now))
	g.fault(unfit, l.site, call, r.into(now), err.Error())
	g.mu.Unlock()
	l.retry, l.since, l.inbox = nil, 0, nil
	r.goOn(l, now, now)
}

// sent reports whether a call that got this error was sent.
func sent(err error) bool {
	var unsent *notSent
	return !errors.As(err, &unsent)
}

// troubled notes when something was wrong for the first time.
func (r *controller) troubled(at int64) { r.trouble.CompareAndSwap(0, at) }

// starved reports whether an error is this machine's and not the target's: no more
// files may be opened, or no local port is left.
func starved(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

// tryAgain makes a call again after a wait. A random part keeps players from retrying
// all at once.
func (r *controller) tryAgain(l *lane, call *trace.Call, rec *record, now int64, wait time.Duration) {
	if l.since == 0 {
		l.since = now
	}
	l.retry = &attempt{call, rec}
	l.player.mu.Lock()
	wait += firstBackoff + time.Duration(l.player.rand.Int64N(int64(4*firstBackoff)))
	l.player.mu.Unlock()
	r.schedule(l, now+int64(wait))
}

// again repeats a call until its reply meets the condition, and reports whether it
// does.
func (r *controller) again(l *lane, call *trace.Call, reply Reply) bool {
	until := l.site.Until
	now := r.now()
	if v, ok := trace.Get(reply.Leaves, until.Path); ok && v == until.Value || reply.refused() {
		return false
	}
	if l.asking == 0 {
		l.asking = now
	}
	g := &r.gauges[l.site.id]
	g.mu.Lock()
	defer g.mu.Unlock()
	if now-l.asking > int64(r.Patience) {
		g.unmet++
		why := fmt.Sprintf("%s never said %s is %q", l.site.Name, until.Path, until.Value)
		note(&g.missing, why, r.into(now))
		g.fault(unmet, l.site, call, r.into(now), why)
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
