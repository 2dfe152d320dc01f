package check

import "math"

// An engine is virtual time and its future events, in order of time and, at the same
// time, in the order they were added.
type engine struct {
	now    float64
	seq    int
	events eventHeap
}

type event struct {
	at   float64
	seq  int
	what func()
}

// eventHeap is a binary heap. container/heap would box every event.
type eventHeap []event

func (e event) before(f event) bool { return e.at < f.at || e.at == f.at && e.seq < f.seq }

func (h *eventHeap) push(e event) {
	*h = append(*h, e)
	s := *h
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(s[up]) {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = e
}

func (h *eventHeap) pop() event {
	s := *h
	first, last := s[0], s[len(s)-1]
	s[len(s)-1] = event{}
	s = s[:len(s)-1]
	*h = s
	i := 0
	for len(s) > 0 {
		down := 2*i + 1
		if down >= len(s) {
			break
		}
		if right := down + 1; right < len(s) && s[right].before(s[down]) {
			down = right
		}
		if !s[down].before(last) {
			break
		}
		s[i] = s[down]
		i = down
	}
	if len(s) > 0 {
		s[i] = last
	}
	return first
}

// after calls what in that many seconds.
func (e *engine) after(seconds float64, what func()) {
	e.seq++
	e.events.push(event{e.now + seconds, e.seq, what})
}

// run continues until no event is left, or done returns true.
func (e *engine) run(done func() bool) {
	for len(e.events) > 0 && !done() {
		next := e.events.pop()
		e.now = next.at
		next.what()
	}
}

// A station serves jobs in the order they come, as many at once as it has
// servers: a disk one, a CPU as many as it has cores.
type station struct {
	e       *engine
	name    string
	have    int     // servers in all
	own     float64 // of them, those that the machine keeps busy for itself
	servers int     // those that serve jobs
	slow    float64 // how much longer service takes, because a part of a server is the machine's own
	serving int
	waiting []job
	head    int
	worked  float64 // seconds of service given
	most    float64 // share of the time that it may be busy
}

type job struct {
	seconds float64
	done    func()
}

// keep takes some of a station's servers for the machine itself, and makes the others as many as they are at
// their speed. If that is not a whole number, all are slower by as much.
func (s *station) keep(own, speed float64) {
	left := float64(s.have) - own
	s.own = own
	if s.servers = max(0, int(math.Ceil(left/speed-1e-9))); s.servers > 0 {
		s.slow = float64(s.servers) / left
	}
}

// busy is the share of some seconds in which a station worked, with what it does for itself.
func (s *station) busy(worked, seconds float64) float64 {
	return (worked/seconds + s.own) / float64(max(1, s.have))
}

// use requests service; done is called when it is over. A service of 0 seconds is
// over at once.
func (s *station) use(seconds float64, done func()) {
	if seconds <= 0 {
		done()
		return
	}
	if s.serving < s.servers {
		s.start(job{seconds, done})
		return
	}
	s.waiting = append(s.waiting, job{seconds, done})
}

func (s *station) start(j job) {
	s.serving++
	s.e.after(j.seconds*s.slow, func() {
		s.serving--
		s.worked += j.seconds
		if s.head < len(s.waiting) {
			next := s.waiting[s.head]
			s.waiting[s.head] = job{}
			if s.head++; s.head > 1024 && s.head*2 > len(s.waiting) {
				s.waiting = append(s.waiting[:0], s.waiting[s.head:]...)
				s.head = 0
			}
			s.start(next)
		}
		j.done()
	})
}
