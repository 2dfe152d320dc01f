package volume

import "sync"

// spans lets requests to slices of one block overlap only if all of them read. It knows which slices were trimmed since, and not written.
type spans struct {
	mu      sync.Mutex
	held    []span
	changed *sync.Cond
	trimmed [slicesPerBlock / 64]uint64
}

type span struct {
	first, last int64 // slices
	write       bool
	same        bool // slices that were trimmed stay so
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
	if s.write && !s.same {
		for slice := s.first; slice <= s.last; slice++ {
			l.trimmed[slice/64] &^= 1 << (slice % 64)
		}
	}
}

// trim notes that slices were trimmed. It says whether those up to n are all so.
func (l *spans) trim(first, last, n int64) (all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for slice := first; slice <= last; slice++ {
		l.trimmed[slice/64] |= 1 << (slice % 64)
	}
	return l.empty(n)
}

// empty says whether all slices up to n were trimmed. It is locked.
func (l *spans) empty(n int64) bool {
	for slice := range n {
		if l.trimmed[slice/64]&(1<<(slice%64)) == 0 {
			return false
		}
	}
	return true
}

// isEmpty is empty for one who has all slices for itself.
func (l *spans) isEmpty(n int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.empty(n)
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
