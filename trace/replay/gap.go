package replay

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Gap is the longest time in which calls to a role got no reply and none was answered: how
// long a target was away that was restarted.
type Gap struct {
	Role    string  `json:"role"`
	From    float64 `json:"from_s"` // the last answer before, in seconds into the run
	Seconds float64 `json:"seconds"`
}

// leastGap is the shortest gap that is reported. A call may be lost without one.
const leastGap = int64(time.Second)

// A silence finds the longest gap of a role.
type silence struct {
	answered atomic.Int64 // when a call was answered last
	lost     atomic.Bool  // a call since then got no reply

	mu         sync.Mutex
	from, time int64
}

// heard notes an answer.
func (s *silence) heard(now int64) {
	if s.lost.Load() {
		s.end(now)
	}
	s.answered.Store(now)
}

// end ends a gap, if there is one.
func (s *silence) end(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from := s.answered.Load(); s.lost.Swap(false) && now-from > s.time {
		s.from, s.time = from, now-from
	}
}

// gaps are those of all roles.
func (r *controller) gaps() (out []Gap) {
	for _, role := range slices.Sorted(maps.Keys(r.silences)) {
		s := r.silences[role]
		s.end(r.now())
		if s.time >= leastGap {
			out = append(out, Gap{role, r.into(s.from), float64(s.time) / 1e9})
		}
	}
	return out
}
