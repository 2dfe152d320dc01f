package volume

import "sync"

// spans lets requests to slices of one block overlap only if all of them read.
type spans struct {
	mu      sync.Mutex
	held    []span
	changed *sync.Cond
}

type span struct {
	first, last int64 // bytes, rounded to slices by the caller
	write       bool
}

// take waits until nothing held conflicts with s, and holds it.
func (l *spans) take(s span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.conflict(s) {
		if l.changed == nil {
			l.changed = sync.NewCond(&l.mu)
		}
		l.changed.Wait()
	}
	l.held = append(l.held, s)
}

func (l *spans) conflict(s span) bool {
	for _, h := range l.held {
		if h.first <= s.last && s.first <= h.last && (h.write || s.write) {
			return true
		}
	}
	return false
}

func (l *spans) give(s span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, h := range l.held {
		if h == s {
			last := len(l.held) - 1
			l.held[i] = l.held[last]
			l.held = l.held[:last]
			break
		}
	}
	if l.changed != nil {
		l.changed.Broadcast()
	}
}
