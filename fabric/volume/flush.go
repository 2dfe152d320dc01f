package volume

import (
	"context"
	"errors"
	"fmt"
	gomaps "maps"
	"sync"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
)

// Flush returns when all that returned before it was called is on stable storage of every replica.
func (v *Volume) Flush(ctx context.Context) error {
	if err := v.enter(0, 0, false); err != nil {
		return err
	}
	defer v.gate.RUnlock()
	return v.lost(v.flush(ctx))
}

func (v *Volume) flush(ctx context.Context) error {
	v.mu.Lock()
	dirty := v.dirty
	v.dirty = map[disk.GroupID]*liveGroup{}
	v.mu.Unlock()
	if err := v.space.sync(ctx, dirty); err != nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		gomaps.Copy(v.dirty, dirty)
		return err
	}
	v.unmarkSome(ctx)
	return nil
}

// A failure is a replica that was not synced.
type failure struct {
	group      *liveGroup
	generation uint64
	disk       cluster.DiskID
	err        error
}

// sync makes all replicas of the groups durable. Those that cannot be are dropped.
func (s *Space) sync(ctx context.Context, groups map[disk.GroupID]*liveGroup) error {
	for _, g := range groups {
		if err := g.prepare(ctx, nil); err != nil && !errors.Is(err, maps.ErrNotFound) {
			return err
		}
	}
	for len(groups) > 0 {
		again := map[disk.GroupID]*liveGroup{}
		for _, f := range s.trySync(ctx, groups) {
			if err := f.group.drop(ctx, f.generation, f.disk); err != nil {
				return fmt.Errorf("%w: %w", err, f.err)
			}
			again[f.group.id] = f.group
		}
		groups = again
	}
	return nil
}

// trySync syncs all disks that have replicas of the groups, and gives the replicas that could not be.
func (s *Space) trySync(ctx context.Context, groups map[disk.GroupID]*liveGroup) (failed []failure) {
	on := map[cluster.DiskID][]failure{}
	for _, g := range groups {
		g.mu.RLock()
		for _, d := range g.rec.Good {
			if !g.rec.Dead {
				on[d] = append(on[d], failure{g, g.rec.Generation, d, nil})
			}
		}
		g.mu.RUnlock()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Patience)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for id, replicas := range on {
		all.Go(func() {
			d, err := s.pool.Disk(id)
			if err == nil {
				err = d.Sync(ctx)
			}
			if err == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, r := range replicas {
				r.err = err
				failed = append(failed, r)
			}
		})
	}
	all.Wait()
	return failed
}
