// Package repair decides which lost replicas are rebuilt next, and which server
// sends them.
//
// Of the servers that still hold a block which has lost a replica, the one with the
// least to send sends it. A server sends blocks with the fewest replicas left first,
// as in HDFS, and among them the one that has waited longest. It sends one block, then
// waits for its next turn: the caller says how long that is, and so how many blocks it
// sends in an hour. A block is rebuilt one replica at a time.
//
// The queue only decides: it neither stores where replicas are nor copies them. The
// simulated and the real storage share it.
package repair

import (
	"slices"
	"time"

	"gleaner/placement"
)

// PerHour is how many blocks a server sends in an hour (OSDI'16 §5.1).
const PerHour = 30

// An Answer is the outcome of an attempt to start a rebuild.
type Answer uint8

const (
	Started  Answer = iota + 1
	NotNow          // another replica of the block is being rebuilt
	NoTarget        // no server can take the replica; it is tried again after an hour at most
	NoNeed          // the block has all its replicas again: a server has come back
)

// retry is the interval at which blocks are tried again that found no server to be rebuilt on.
const retry = time.Hour

// A Queue is the pending rebuilds. B names a block.
type Queue[B comparable] struct {
	holders func(B) []placement.ServerIndex

	noticed []notice[B]             // in order of time
	senders []sender[B]             // of each server
	active  []placement.ServerIndex // those that have something to send, in the order they began to have it
	refused []B                     // found no server to be rebuilt on
	retryAt time.Time
}

// A notice is the blocks whose loss of a replica is noticed at some time.
type notice[B comparable] struct {
	at     time.Time
	blocks []B
}

// A sender is the blocks that a server must send, by how many replicas they had left.
type sender[B comparable] struct {
	waiting []fifo[B]
	length  int
	active  bool
	sent    time.Time // when it last sent
}

// New returns an empty queue. holders returns the servers that hold a good replica of a
// block now; a block that has none is lost, and is forgotten.
func New[B comparable](holders func(B) []placement.ServerIndex) *Queue[B] {
	return &Queue[B]{holders: holders}
}

// Add queues the rebuild of one replica of a block.
func (q *Queue[B]) Add(b B) {
	at := q.holders(b)
	if len(at) == 0 {
		return
	}
	least := at[0]
	for _, s := range at[1:] {
		if q.length(s) < q.length(least) {
			least = s
		}
	}
	q.push(least, b, len(at))
}

// AddAt queues the rebuild of one replica of each block for the time at which its loss
// is noticed. The queue keeps the slice.
func (q *Queue[B]) AddAt(noticed time.Time, blocks []B) {
	i := len(q.noticed)
	for i > 0 && q.noticed[i-1].at.After(noticed) {
		i--
	}
	q.noticed = slices.Insert(q.noticed, i, notice[B]{noticed, blocks})
}

// Leave removes and returns the blocks that a server was to send, because it cannot any
// more. The caller adds them again once that is noticed.
func (q *Queue[B]) Leave(s placement.ServerIndex) (left []B) {
	if int(s) >= len(q.senders) {
		return nil
	}
	for b, ok := q.pop(s); ok; b, ok = q.pop(s) {
		left = append(left, b)
	}
	return left
}

// Start starts the rebuilds that are due, one of each server whose turn it is: it calls
// start with the blocks that the server must send until one is started. turn is how long
// the server waits after the last it has sent, as things are now. Neither function may call the queue.
func (q *Queue[B]) Start(now time.Time, turn func(placement.ServerIndex) time.Duration, start func(b B, source placement.ServerIndex) Answer) {
	for len(q.noticed) > 0 && !q.noticed[0].at.After(now) {
		for _, b := range q.noticed[0].blocks {
			q.Add(b)
		}
		q.noticed = q.noticed[1:]
	}
	if !now.Before(q.retryAt) {
		again := q.refused
		q.refused, q.retryAt = nil, now.Add(retry)
		for _, b := range again {
			q.Add(b)
		}
	}
	still := q.active[:0]
	for _, s := range q.active {
		sender := &q.senders[s]
		if !now.Before(sender.sent.Add(turn(s))) && q.send(s, start) {
			sender.sent = now
		}
		if sender.active = sender.length > 0; sender.active {
			still = append(still, s)
		}
	}
	q.active = still
}

// send starts the most urgent rebuild that a server can do now.
func (q *Queue[B]) send(s placement.ServerIndex, start func(B, placement.ServerIndex) Answer) (started bool) {
	var later []B
	for !started {
		b, ok := q.pop(s)
		if !ok {
			break
		}
		if len(q.holders(b)) == 0 {
			continue // the block was lost meanwhile
		}
		switch start(b, s) { // on NoNeed it is forgotten
		case Started:
			started = true
		case NotNow:
			later = append(later, b)
		case NoTarget:
			q.refused = append(q.refused, b)
		}
	}
	for _, b := range later {
		q.push(s, b, len(q.holders(b)))
	}
	return started
}

func (q *Queue[B]) length(s placement.ServerIndex) int {
	if int(s) >= len(q.senders) {
		return 0
	}
	return q.senders[s].length
}

// push adds a block with left replicas to those that a server must send.
func (q *Queue[B]) push(s placement.ServerIndex, b B, left int) {
	if more := int(s) + 1 - len(q.senders); more > 0 {
		q.senders = append(q.senders, make([]sender[B], more)...)
	}
	sender := &q.senders[s]
	if more := left + 1 - len(sender.waiting); more > 0 {
		sender.waiting = append(sender.waiting, make([]fifo[B], more)...)
	}
	sender.waiting[left].push(b)
	sender.length++
	if !sender.active {
		sender.active = true
		q.active = append(q.active, s)
	}
}

// pop takes the most urgent of the blocks that a server must send.
func (q *Queue[B]) pop(s placement.ServerIndex) (b B, ok bool) {
	sender := &q.senders[s]
	for left := range sender.waiting {
		if b, ok := sender.waiting[left].pop(); ok {
			sender.length--
			return b, true
		}
	}
	return b, false
}

// A fifo is a first-in, first-out queue.
type fifo[B any] struct {
	items []B
	head  int
}

func (f *fifo[B]) push(b B) {
	if len(f.items) == cap(f.items) && 2*f.head >= len(f.items) { // a queue may never be empty
		f.items, f.head = f.items[:copy(f.items, f.items[f.head:])], 0
	}
	f.items = append(f.items, b)
}

func (f *fifo[B]) pop() (b B, ok bool) {
	if f.head == len(f.items) {
		return b, false
	}
	b = f.items[f.head]
	if f.head++; f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	}
	return b, true
}
