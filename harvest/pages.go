package harvest

import (
	"iter"
	"time"
)

// A task has started and not finished.
type task struct {
	held     bool  // false: a free place on a page
	server   int32 // -1: not running
	attempt  int32
	failures int32
	since    time.Time
}

// pages hold tasks by number. A page exists as long as one of its tasks is held,
// so that a million tasks of which a few run take the memory of a few.
type pages []*page

type page struct {
	tasks []task
	held  int
}

// pageSize is how many tasks a page has; a single held task keeps its page.
const pageSize = 64

func newPages(tasks int) pages { return make(pages, (tasks+pageSize-1)/pageSize) }

// get is task n; nil if it is not held.
func (p pages) get(n int32) *task {
	if n < 0 || int(n/pageSize) >= len(p) || p[n/pageSize] == nil {
		return nil
	}
	if t := &p[n/pageSize].tasks[n%pageSize]; t.held {
		return t
	}
	return nil
}

// hold makes task n held and returns it.
func (p pages) hold(n int32) *task {
	if t := p.get(n); t != nil {
		return t
	}
	at := &p[n/pageSize]
	if *at == nil {
		*at = &page{tasks: make([]task, pageSize)}
	}
	(*at).held++
	t := &(*at).tasks[n%pageSize]
	*t = task{held: true, server: -1}
	return t
}

// drop forgets task n.
func (p pages) drop(n int32) {
	at := &p[n/pageSize]
	(*at).tasks[n%pageSize].held = false
	if (*at).held--; (*at).held == 0 {
		*at = nil
	}
}

// running returns the tasks that run, in order.
func (p pages) running() iter.Seq2[int32, *task] {
	return func(yield func(int32, *task) bool) {
		for i, page := range p {
			if page == nil {
				continue
			}
			for k := range page.tasks {
				if t := &page.tasks[k]; t.held && t.server >= 0 && !yield(int32(i*pageSize+k), t) {
					return
				}
			}
		}
	}
}
