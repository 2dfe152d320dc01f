package replay

import "sync"

// A queue hands lanes that are due to workers. Workers are started as needed,
// up to a limit: one is busy as long as its call is under way. Calls that are
// not sent come after those that are: nobody measures how late they were.
type queue struct {
	mu      sync.Mutex
	more    sync.Cond
	sent    fifo
	unsent  fifo
	limit   int
	idle    int
	workers int
	most    int // workers busy at once
	closed  bool
	done    sync.WaitGroup
	work    func(next func() *lane)
}

func newQueue(limit int, work func(next func() *lane)) *queue {
	q := &queue{limit: limit, work: work}
	q.more.L = &q.mu
	return q
}

func (q *queue) push(l *lane) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	if l.sends() {
		q.sent.push(l)
	} else {
		q.unsent.push(l)
	}
	if q.idle >= q.sent.len()+q.unsent.len() || q.workers == q.limit {
		q.more.Signal()
		return
	}
	q.workers++
	q.done.Go(func() { q.work(q.next) })
}

// sends reports whether playing a lane speaks to a target.
func (l *lane) sends() bool {
	if l.site == nil { // it begins
		return l.player.kind.sent
	}
	return l.site.sent
}

// next waits for a lane; nil when there will be no more.
func (q *queue) next() *lane {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.idle++
	for q.sent.len()+q.unsent.len() == 0 && !q.closed {
		q.more.Wait()
	}
	q.idle--
	if q.closed {
		return nil
	}
	q.most = max(q.most, q.workers-q.idle)
	if q.sent.len() > 0 {
		return q.sent.pop()
	}
	return q.unsent.pop()
}

// forget counts the busy workers anew.
func (q *queue) forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.most = q.workers - q.idle
}

// close ends the workers, and waits for them.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.more.Broadcast()
	q.mu.Unlock()
	q.done.Wait()
}

// A fifo gives lanes in the order they came.
type fifo struct {
	lanes []*lane
	head  int
}

func (f *fifo) len() int { return len(f.lanes) - f.head }

func (f *fifo) push(l *lane) { f.lanes = append(f.lanes, l) }

func (f *fifo) pop() *lane {
	l := f.lanes[f.head]
	f.lanes[f.head] = nil
	if f.head++; f.head == len(f.lanes) {
		f.lanes, f.head = f.lanes[:0], 0
	} else if f.head > 1024 && f.head > len(f.lanes)/2 {
		n := copy(f.lanes, f.lanes[f.head:])
		clear(f.lanes[n:])
		f.lanes, f.head = f.lanes[:n], 0
	}
	return l
}
