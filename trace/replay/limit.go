package replay

import (
	"context"
	"time"

	"gleaner/trace/replay/memory"
)

// A worker plays one lane after another.
type worker struct {
	*memory.Filling
	limit limit
}

// A limit ends calls that take too long, one after another. They share a context and its
// timer: one of each for every call would take as long as to fill it in.
type limit struct {
	of     context.Context
	time   time.Duration
	ctx    context.Context // of the calls until one is ended; nil if there is none
	cancel context.CancelFunc
	timer  *time.Timer
}

// begin returns the context of the next call.
func (l *limit) begin() context.Context {
	until := time.Now().Add(l.time)
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancel(l.of)
		l.timer = time.AfterFunc(l.time, l.cancel)
	} else {
		l.timer.Reset(l.time)
	}
	return limited{l.ctx, until}
}

// end ends the call, and reports whether it took too long.
func (l *limit) end() (late bool) {
	if l.timer.Stop() {
		return false
	}
	l.close()
	return true
}

func (l *limit) close() {
	if l.ctx != nil {
		l.timer.Stop()
		l.cancel()
		l.ctx = nil
	}
}

// limited is a context that says when it ends.
type limited struct {
	context.Context
	until time.Time
}

func (c limited) Deadline() (time.Time, bool) { return c.until, true }
