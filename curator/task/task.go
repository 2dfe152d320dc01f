// Package task has what upkeep proposes, and the queue in which it waits to be done (NSDI'17 §3.1, §3.3).
//
// A Queue has a class for each kind of task. Tasks of a synchronous class are quick and are done while they
// are handed over; the others wait. Next gives a batch of the most urgent: by the priority of the class, and within it by
// the priority of the task. A class that has waited for its turn for longer than its patience goes
// before all others, so that none is starved.
//
// A queue is not kept over restarts and has a limit: the next scan proposes again what is lost, refused or
// left out. So a task is in the queue at most once, and what is under way is not queued again.
package task

import (
	"bytes"
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"slices"
	"time"
)

// A Task is work that a job proposes. It may be refused, and may be done twice.
type Task struct {
	Job      string // set by the curator
	Priority int64  // larger first
	Kind     string // what to do
	What     []byte // to what, as the owner can read it
	Why      string // for people
	Seen     []byte // what it was decided on, to be compared before it is done
}

// A Class says how tasks of a kind are queued.
type Class struct {
	Kind        string
	Synchronous bool          // done while tasks are handed over, and never queued
	Priority    int           // larger first
	Batch       int           // tasks at a time; at least 1
	Most        int           // tasks waiting; at least 1
	Patience    time.Duration // how long it lets more urgent classes go first; 0: for ever
}

// A Queue has the tasks that wait to be done, and those that are under way.
type Queue struct {
	classes []*class // by priority
	byKind  map[string]*class
}

type class struct {
	Class
	waiting waiting
	turn    time.Time         // since when it waits for its turn, if anything waits
	known   map[string]*entry // that wait or are under way, by What
	count   Backlog
	pace    pace
}

type entry struct {
	task  Task
	since time.Time
	index int // in waiting; -1 under way
}

// New gives an empty queue for tasks of these classes.
func New(classes []Class) (*Queue, error) {
	q := &Queue{byKind: map[string]*class{}}
	for _, c := range classes {
		if c.Kind == "" || q.byKind[c.Kind] != nil {
			return nil, fmt.Errorf("task: every class needs a kind of its own, not %q", c.Kind)
		}
		if !c.Synchronous && (c.Batch < 1 || c.Most < 1 || c.Patience < 0) {
			return nil, fmt.Errorf("task: class %s needs a batch and a limit of at least 1", c.Kind)
		}
		made := &class{Class: c, known: map[string]*entry{}}
		q.classes, q.byKind[c.Kind] = append(q.classes, made), made
	}
	slices.SortStableFunc(q.classes, func(a, b *class) int { return cmp.Compare(b.Priority, a.Priority) })
	return q, nil
}

// A Verdict is what became of a task that was added.
type Verdict int

// What becomes of a task.
const (
	Queued   Verdict = iota
	DoNow            // it is synchronous: it is under way
	UnderWay         // already: it is forgotten
	NoRoom           // it is forgotten
)

// Add queues a task. One that waits for the same is replaced.
func (q *Queue) Add(now time.Time, t Task) (Verdict, error) {
	c := q.byKind[t.Kind]
	if c == nil {
		return NoRoom, fmt.Errorf("task: job %s proposes %q, which is no kind of task", t.Job, t.Kind)
	}
	known := c.known[string(t.What)]
	switch {
	case known != nil && known.index < 0:
		return UnderWay, nil
	case known != nil:
		known.task = t
		heap.Fix(&c.waiting, known.index)
		return Queued, nil
	case c.Synchronous:
		c.begin(now, &entry{task: t, since: now})
		return DoNow, nil
	case len(c.waiting) == c.Most:
		c.count.LeftOut++
		return NoRoom, nil
	}
	if len(c.waiting) == 0 {
		c.turn = now
	}
	made := &entry{task: t, since: now}
	c.known[string(t.What)] = made
	heap.Push(&c.waiting, made)
	return Queued, nil
}

// begin puts a task under way.
func (c *class) begin(now time.Time, e *entry) {
	c.pace.begin(now)
	e.index = -1
	c.known[string(e.task.What)] = e
	c.count.UnderWay++
}

// Next gives the batch to do now, of one class, nil if nothing waits. Its tasks are under way
// until End is called for each.
func (q *Queue) Next(now time.Time) []Task {
	var next *class
	for _, c := range q.classes {
		if len(c.waiting) == 0 {
			continue
		}
		if next == nil || c.impatient(now) && (!next.impatient(now) || c.turn.Before(next.turn)) {
			next = c
		}
	}
	if next == nil {
		return nil
	}
	var batch []Task
	for len(batch) < next.Batch && len(next.waiting) > 0 {
		e := heap.Pop(&next.waiting).(*entry)
		next.begin(now, e)
		batch = append(batch, e.task)
	}
	next.turn = now
	return batch
}

func (c *class) impatient(now time.Time) bool { return c.Patience > 0 && now.Sub(c.turn) >= c.Patience }

// An Outcome is how a task ended.
type Outcome int

// How a task ends.
const (
	Done    Outcome = iota
	Refused         // it was not needed any more, or not welcome
	Failed
)

// End says how a task that was under way ended.
func (q *Queue) End(now time.Time, t Task, how Outcome) error {
	c := q.byKind[t.Kind]
	if c == nil || c.known[string(t.What)] == nil || c.known[string(t.What)].index >= 0 {
		return fmt.Errorf("task: %s of %x is not under way", t.Kind, t.What)
	}
	delete(c.known, string(t.What))
	c.count.UnderWay--
	*[]*int64{&c.count.Done, &c.count.Refused, &c.count.Failed}[how]++
	c.pace.end(now, c.count.UnderWay > 0 || len(c.waiting) > 0)
	return nil
}

// A Backlog says how much of a class is to be done, and was.
type Backlog struct {
	Kind                  string
	Waiting, UnderWay     int
	Done, Refused, Failed int64
	LeftOut               int64         // because there was no room
	Oldest                time.Duration // how long the task has waited that waits longest
	ToFinish              time.Duration // for what waits and is under way, at the pace of late; -1 if not known
}

// Backlog gives the backlog of every class, the most urgent first.
func (q *Queue) Backlog(now time.Time) []Backlog {
	var out []Backlog
	for _, c := range q.classes {
		b := c.count
		b.Kind, b.Waiting = c.Kind, len(c.waiting)
		for _, e := range c.waiting {
			b.Oldest = max(b.Oldest, now.Sub(e.since))
		}
		b.ToFinish = c.pace.toFinish(b.Waiting + b.UnderWay)
		out = append(out, b)
	}
	return out
}

// waiting is a heap: larger priorities first, then what has waited longest, then by What.
type waiting []*entry

func (w waiting) Len() int { return len(w) }

func (w waiting) Less(i, j int) bool {
	a, b := w[i], w[j]
	return cmp.Or(cmp.Compare(b.task.Priority, a.task.Priority), a.since.Compare(b.since), bytes.Compare(a.task.What, b.task.What)) < 0
}

func (w waiting) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].index, w[j].index = i, j
}

// Push implements heap.Interface.
func (w *waiting) Push(x any) {
	e := x.(*entry)
	e.index = len(*w)
	*w = append(*w, e)
}

// Pop implements heap.Interface.
func (w *waiting) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return last
}

// A pace is how fast tasks end while there are any. What was long ago counts less.
type pace struct {
	ended float64
	busy  time.Duration
	from  time.Time // since when there has been something to do, or the last task ended; zero if nothing is to do
}

// memory is the time after which what happened counts 1/e.
const memory = 10 * time.Minute

func (p *pace) begin(now time.Time) {
	if p.from.IsZero() {
		p.from = now
	}
}

func (p *pace) end(now time.Time, more bool) {
	p.begin(now)
	took := max(now.Sub(p.from), 0)
	fade := math.Exp(-took.Seconds() / memory.Seconds())
	p.ended, p.busy, p.from = p.ended*fade+1, time.Duration(float64(p.busy)*fade)+took, now
	if !more {
		p.from = time.Time{}
	}
}

func (p *pace) toFinish(tasks int) time.Duration {
	switch {
	case tasks == 0:
		return 0
	case p.busy == 0:
		return -1
	}
	return time.Duration(float64(tasks) * float64(p.busy) / p.ended)
}
