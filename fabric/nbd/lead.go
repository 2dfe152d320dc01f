package nbd

import (
	"sync/atomic"
	"time"
)

const (
	// patience is how long one request may keep a connection from being read.
	// It is well above what a disk takes, so that the lead seldom passes.
	patience = 5 * time.Millisecond

	// handOver is the average time of a request from which on each gets a
	// goroutine of its own. Starting and waking one costs a few microseconds.
	handOver = 100 * time.Microsecond
)

// A watch notices that the leader is held up. It looks now and then whether the leader is
// still in the same request, since a timer for each would cost more than
// many a request does.
type watch struct {
	turn  atomic.Uint64 // counts up when the leader begins a request, and when it ends it: odd while it is in one
	armed atomic.Bool
	timer *time.Timer
	seen  uint64 // turn at the last look
}

// begin says that the leader is about to execute a request.
func (w *watch) begin() uint64 {
	turn := w.turn.Add(1)
	w.arm()
	return turn
}

// end reports whether who began that turn still leads.
func (w *watch) end(turn uint64) bool { return w.turn.CompareAndSwap(turn, turn+1) }

func (w *watch) arm() {
	if !w.armed.Load() && w.armed.CompareAndSwap(false, true) {
		w.timer.Reset(patience)
	}
}

// tick looks at the leader: one that is still in the request of the last look loses the lead.
// When nothing has happened since, it stops looking until the next request.
func (t *transmission) tick() {
	w := &t.watch
	turn := w.turn.Load()
	same := turn == w.seen
	w.seen = turn
	switch {
	case same && turn%2 == 0:
		w.armed.Store(false)
		if w.turn.Load() != turn {
			w.arm() // a request began before it could see that nobody looks
		}
		return
	case same && t.stepAside():
		if w.turn.CompareAndSwap(turn, turn+1) {
			go t.lead()
		} else {
			t.aside.Add(-1)
		}
	}
	w.timer.Reset(patience)
}

// A pace is the average time that each kind of request took of late, in nanoseconds.
type pace [cmdBlockStatus + 1]atomic.Int64

func (p *pace) took(kind uint16, d time.Duration) {
	old := p[kind].Load()
	p[kind].Store(old + (int64(d)-old)/8)
}

// slow reports whether requests of a kind take long. A kind that does not exist is refused fast.
func (p *pace) slow(kind uint16) bool {
	return int(kind) < len(p) && time.Duration(p[kind].Load()) > handOver
}
