package volume

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/fabric/tiering"
)

// accesses are when groups were used since that was last kept.
type accesses struct {
	keeping sync.Mutex // held by the one who keeps them

	mu   sync.Mutex
	used map[disk.GroupID]tiering.Access
	gone []disk.GroupID // removed since
}

// maxAccesses is how many groups are noted until they are kept, in about 5 MiB of memory. What is beyond is lost: requests do not wait for it.
const maxAccesses = 64 << 10

// used notes that a group is read or written now: as first if that is not known to have been done before, else as again. All but the first request
// of a period look at last only, which is the group's own.
func (g *liveGroup) used(last *atomic.Uint32, first, again func(tiering.Period) tiering.Access) {
	now := tiering.PeriodOf(g.space.o.Now())
	before := last.Load()
	if before == uint32(now) {
		return
	}
	last.Store(uint32(now))
	if before == 0 {
		again = first
	}
	g.space.accesses.note(g.id, again(now))
}

func (a *accesses) note(id disk.GroupID, use tiering.Access) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if before, known := a.used[id]; known || len(a.used) < maxAccesses {
		a.used[id] = before.And(use)
	}
}

// forget is called for a group that is removed.
func (a *accesses) forget(id disk.GroupID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.used, id)
	if len(a.gone) < maxAccesses {
		a.gone = append(a.gone, id)
	}
}

// take empties the notes.
func (a *accesses) take() (used map[disk.GroupID]tiering.Access, gone []disk.GroupID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	used, gone = a.used, a.gone
	a.used, a.gone = map[disk.GroupID]tiering.Access{}, nil
	return used, gone
}

// KeepAccess writes to the maps which groups were used since it was last called, and gives all that is known of the use of those.
func (s *Space) KeepAccess(ctx context.Context) (map[disk.GroupID]tiering.Access, error) {
	s.accesses.keeping.Lock()
	defer s.accesses.keeping.Unlock()
	used, gone := s.accesses.take()
	for id, now := range used {
		before, err := s.kept(ctx, id)
		if err != nil {
			return nil, err
		}
		used[id] = before.And(now)
	}
	if err := s.maps.SetAccess(ctx, used); err != nil {
		return nil, err
	}
	return used, s.maps.DeleteAccess(ctx, gone...)
}

// Access says when a group was last used.
func (s *Space) Access(ctx context.Context, id disk.GroupID) (tiering.Access, error) {
	kept, err := s.kept(ctx, id)
	s.accesses.mu.Lock()
	defer s.accesses.mu.Unlock()
	return kept.And(s.accesses.used[id]), err
}

// kept is what the maps have of the use of a group. An unreadable record is as good as none: it is written anew.
func (s *Space) kept(ctx context.Context, id disk.GroupID) (tiering.Access, error) {
	kept, err := s.maps.Access(ctx, id)
	if errors.Is(err, maps.ErrDamaged) {
		return tiering.Access{}, nil
	}
	return kept, err
}
