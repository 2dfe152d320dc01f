package volume

import (
	"context"
	"errors"
	"fmt"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
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
	groups, writes := map[disk.GroupID]*liveGroup{}, map[disk.GroupID]uint64{}
	for id, u := range v.dirty { // they stay there until they are synced: others may flush meanwhile
		groups[id], writes[id] = u.group, u.writes
	}
	v.mu.Unlock()
	if err := v.space.sync(ctx, groups); err != nil {
		return err
	}
	for _, g := range groups {
		if err := v.ripen(ctx, g); err != nil {
			return err
		}
	}
	v.mu.Lock()
	for id, n := range writes {
		if u := v.dirty[id]; u != nil && u.writes == n {
			delete(v.dirty, id)
		}
	}
	v.mu.Unlock()
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

// sync makes all replicas of the groups durable. Those that cannot be are dropped, where another could be.
func (s *Space) sync(ctx context.Context, groups map[disk.GroupID]*liveGroup) error {
	for _, g := range groups {
		if err := g.prepare(ctx, nil); err != nil && !errors.Is(err, maps.ErrNotFound) {
			return err
		}
	}
	for pause := newBackoff(s.o.Patience); len(groups) > 0; {
		failed := s.trySync(ctx, groups)
		groups = map[disk.GroupID]*liveGroup{}
		stuck := error(nil)
		for _, all := range failed {
			g := all[0].group
			groups[g.id] = g
			if err := g.dropUnsynced(ctx, all); errors.Is(err, group.ErrLast) {
				stuck = all[0].err
			} else if err != nil {
				return err
			}
		}
		if stuck != nil && !pause.wait(ctx) {
			return fmt.Errorf("fabric: no replica can be synced: %w", stuck)
		}
	}
	return nil
}

// dropUnsynced drops the replicas of a group that were not synced, or none if that is all of them.
func (g *liveGroup) dropUnsynced(ctx context.Context, failed []failure) error {
	var disks []cluster.DiskID
	for _, f := range failed {
		disks = append(disks, f.disk)
	}
	return g.drop(ctx, failed[0].generation, disks...)
}

// trySync syncs all disks that have replicas of the groups, and gives the replicas that could not be, by group.
func (s *Space) trySync(ctx context.Context, groups map[disk.GroupID]*liveGroup) map[disk.GroupID][]failure {
	failed := map[disk.GroupID][]failure{}
	on, disks := map[cluster.DiskID][]failure{}, []cluster.DiskID(nil)
	for _, g := range groups {
		g.mu.RLock()
		for _, d := range g.rec.Good {
			if !g.rec.Dead {
				if on[d] == nil {
					disks = append(disks, d)
				}
				on[d] = append(on[d], failure{g, g.rec.Generation, d, nil})
			}
		}
		g.mu.RUnlock()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Patience)
	defer cancel()
	errs := s.askAll(disks, func(d Beginner) func() error { return d.BeginSync(ctx) }, func(d Disk) error { return d.Sync(ctx) })
	for i, err := range errs {
		if err == nil {
			continue
		}
		for _, r := range on[disks[i]] {
			r.err = err
			failed[r.group.id] = append(failed[r.group.id], r)
		}
	}
	return failed
}
