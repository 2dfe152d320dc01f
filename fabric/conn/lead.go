package conn

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"gleaner/fabric/hands"
)

const (
	// patience is how long one request may keep a connection from being read.
	// It is well above what a disk takes, so that the lead seldom passes.
	patience = 5 * time.Millisecond

	// handOver is the average time of a request from which on each gets a goroutine of its
	// own where there are others, and handOverAlone that from which on each does. Starting
	// and waking one costs a few microseconds.
	handOver      = 100 * time.Microsecond
	handOverAlone = 5 * handOver
)

// Requests are what a client asks for over one connection.
type Requests[R any] interface {
	// Next reads a request. Its error ends the connection.
	Next() (R, error)
	// More reports whether some of another request has come already.
	More() bool
	// Kind is what requests that take about as long have in common.
	Kind(R) int
	// Execute carries out a request, answers it, and tells the Lead how long that Took.
	Execute(R)
	// Flush sends the answers.
	Flush() error
}

// A Lead carries out the requests of one connection; see the package comment.
type Lead[R any] struct {
	requests Requests[R]
	most     int32          // requests under way
	busy     sync.WaitGroup // the lead, and each request under way
	aside    atomic.Int32   // requests that are executed by others than the leader
	hands    *hands.Pool    // who they are
	watch    watch
	pace     []atomic.Int64 // the average time that each kind of request took of late, in nanoseconds
	ended    error          // why the lead ended
}

// NewLead makes one for requests of so many kinds, of which so many are under way at most.
func NewLead[R any](requests Requests[R], kinds, most int) *Lead[R] {
	return &Lead[R]{requests: requests, most: int32(most), hands: hands.New(), pace: make([]atomic.Int64, kinds)}
}

// Run carries out requests until Next fails and all that came before are done.
// It gives the error of Next.
func (l *Lead[R]) Run() error {
	l.watch.timer = time.AfterFunc(math.MaxInt64, l.tick)
	defer l.watch.timer.Stop()
	l.busy.Add(1)
	l.lead()
	l.busy.Wait()
	l.hands.Close()
	return l.ended
}

// lead reads requests and sees to their execution until the client leaves or another leads.
func (l *Lead[R]) lead() {
	for {
		r, err := l.requests.Next()
		if err != nil {
			l.ended = err
			l.busy.Done()
			return
		}
		l.busy.Add(1)
		if l.slow(r) && l.stepAside() {
			l.hands.Go(func() {
				l.requests.Execute(r)
				l.finishAside()
			})
			continue
		}
		turn := l.watch.begin()
		l.requests.Execute(r)
		if !l.watch.end(turn) {
			l.finishAside()
			return
		}
		l.busy.Done()
	}
}

// stepAside counts a request that the leader does not wait for, if there may be another.
func (l *Lead[R]) stepAside() bool {
	if l.aside.Add(1) < l.most {
		return true
	}
	l.aside.Add(-1)
	return false
}

// finishAside ends such a request. Nobody else may be there to send its reply.
func (l *Lead[R]) finishAside() {
	if l.aside.Load() > 1 {
		runtime.Gosched() // who is about to answer as well does so with this
	}
	l.requests.Flush() // a failure is met again by who reads on
	l.aside.Add(-1)
	l.busy.Done()
}

// Took says how long a request of a kind took. The time to answer need not count.
func (l *Lead[R]) Took(kind int, d time.Duration) {
	old := l.pace[kind].Load()
	l.pace[kind].Store(old + (int64(d)-old)/8)
}

// slow reports whether a request is expected to take too long for the leader. A kind that does not exist is refused fast.
func (l *Lead[R]) slow(r R) bool {
	kind := l.requests.Kind(r)
	if kind >= len(l.pace) {
		return false
	}
	took := time.Duration(l.pace[kind].Load())
	return took > handOverAlone || took > handOver && (l.aside.Load() > 0 || l.requests.More())
}

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
func (l *Lead[R]) tick() {
	w := &l.watch
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
	case same && l.stepAside():
		if w.turn.CompareAndSwap(turn, turn+1) {
			go l.lead()
		} else {
			l.aside.Add(-1)
		}
	}
	w.timer.Reset(patience)
}
