// Package hands runs functions on goroutines that are used again. A new goroutine has a small stack, which a request of the fabric makes
// grow several times: that costs more than many a request does.
package hands

import "sync/atomic"

// mostIdle is how many goroutines wait for something to do at most.
const mostIdle = 64

// A Pool has goroutines that wait for something to do.
type Pool struct {
	work chan func()
	idle atomic.Int32
}

// New gives a pool, in which nobody waits yet.
func New() *Pool { return &Pool{work: make(chan func())} }

// Go does something on a goroutine of its own: one that waits, or a new one.
func (p *Pool) Go(do func()) {
	select {
	case p.work <- do:
	default:
		go p.serve(do)
	}
}

func (p *Pool) serve(do func()) {
	for do != nil {
		do()
		if p.idle.Add(1) > mostIdle {
			p.idle.Add(-1)
			return
		}
		do = <-p.work
		p.idle.Add(-1)
	}
}

// Close ends the goroutines that wait, and those that do something once that is done. Nothing more may be begun.
func (p *Pool) Close() { close(p.work) }
