package replay

import "sync"

// A queue hands lanes that are due to workers. Workers are started as needed,
// up to a limit: one is busy as long as its call is under way.
type queue struct {
	mu      sync.Mutex
	more    sync.Cond
	lanes   []*lane
	head    int
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
	q.lanes = append(q.lanes, l)
	if q.idle >= len(q.lanes)-q.head || q.workers == q.limit {
		q.more.Signal()
		return
	}
	q.workers++
	q.done.Go(func() { q.work(q.next) })
}

// next waits for a lane; nil after the queue was closed.
func (q *queue) next() *lane {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.idle++
	for q.head == len(q.lanes) && !q.closed {
		q.more.Wait()
	}
	q.idle--
	if q.closed {
		return nil
	}
	l := q.lanes[q.head]
	q.lanes[q.head] = nil
	if q.head++; q.head == len(q.lanes) {
		q.lanes, q.head = q.lanes[:0], 0
	} else if q.head > 1024 && q.head > len(q.lanes)/2 {
		n := copy(q.lanes, q.lanes[q.head:])
		clear(q.lanes[n:])
		q.lanes, q.head = q.lanes[:n], 0
	}
	q.most = max(q.most, q.workers-q.idle)
	return l
}

// forget restarts the count of workers busy at once.
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
