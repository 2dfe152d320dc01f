package volume

import (
	"context"
	"errors"
	"sync"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
)

// recoverParent compares the replicas of a snapshot's groups that its writer had under way when it crashed.
func (s *Space) recoverParent(ctx context.Context, id disk.VDiskID) error {
	marks, err := s.maps.Marks(ctx, id)
	if err != nil || len(marks) == 0 {
		return err
	}
	defer s.leasing.lock(id)()
	lease, err := s.maps.Leases.Acquire(ctx, maps.LeaseName(id), s.o.Holder, time.Now(), s.o.Lease)
	if err != nil {
		return err
	}
	groups, err := s.recover(ctx, id, lease.Token)
	if err != nil {
		return err
	}
	for _, g := range groups {
		err = errors.Join(err, g.finish(ctx, id))
		s.unpin(g)
	}
	return err
}

// finish makes the replicas of a group equal that nobody writes to any more, and takes its mark away.
func (g *liveGroup) finish(ctx context.Context, id disk.VDiskID) error {
	if err := g.prepare(ctx, nil); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.marked = false
	return g.space.maps.Unmark(ctx, id, g.id)
}

// mark says in the maps that a group is about to be written. The group is locked.
func (v *Volume) mark(ctx context.Context, g *liveGroup, on []cluster.DiskID) error {
	opened := g.identify(ctx, on)
	if err := v.space.maps.SetMark(ctx, v.id, maps.Mark{Group: g.id, Synced: !g.fresh, Opened: opened}); err != nil {
		return err
	}
	g.marked, g.opened = true, opened
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, known := v.marked[g.id]; !known {
		v.marked[g.id] = v.space.pin(g.id)
	}
	return nil
}

// identify asks disks when they were opened. One that cannot be reached now is not in the answer.
func (g *liveGroup) identify(ctx context.Context, disks []cluster.DiskID) map[cluster.DiskID]uint64 {
	opened := map[cluster.DiskID]uint64{}
	var mu sync.Mutex
	g.each(ctx, disks, func(ctx context.Context, d Disk) error {
		id, err := d.Identity(ctx)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			opened[cluster.DiskID(id.Disk)] = id.Opened
		}
		return err
	})
	return opened
}

// unmark makes the replicas of a group equal and takes its mark away, unless it was written since it was last synced.
func (v *Volume) unmark(ctx context.Context, g *liveGroup) error {
	if err := g.prepare(ctx, nil); err != nil && !errors.Is(err, maps.ErrNotFound) {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	v.mu.Lock()
	_, dirty := v.dirty[g.id]
	v.mu.Unlock()
	if dirty || g.unsure {
		return nil
	}
	if err := v.space.maps.Unmark(ctx, v.id, g.id); err != nil {
		return err
	}
	g.marked = false
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.marked, g.id)
	v.space.unpin(g)
	return nil
}

// unsynced is a group with writes that are not synced, and how many there were.
type unsynced struct {
	group  *liveGroup
	writes uint64
}

// soil remembers that a group has a write that is not synced. The group is locked.
func (v *Volume) soil(g *liveGroup) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if u := v.dirty[g.id]; u != nil {
		u.writes++
	} else {
		v.dirty[g.id] = &unsynced{g, 1}
	}
}

// ripen says in the mark that a group was synced: from now on a disk that does not have it has lost it.
func (v *Volume) ripen(ctx context.Context, g *liveGroup) error {
	g.mu.RLock()
	fresh := g.fresh
	g.mu.RUnlock()
	if !fresh {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := v.space.maps.SetMark(ctx, v.id, maps.Mark{Group: g.id, Synced: true, Opened: g.opened}); err != nil {
		return err
	}
	g.fresh = false
	return nil
}

// maxMarks is how many groups of a vDisk may be marked: so many are compared after a crash, 4 GiB of data.
const maxMarks = 1 << 10

// unmarkSome takes marks away when there are many. A mark that stays is no harm.
func (v *Volume) unmarkSome(ctx context.Context) {
	v.mu.Lock()
	var some []*liveGroup
	if len(v.marked) > maxMarks {
		for _, g := range v.marked {
			if some = append(some, g); len(some) == maxMarks/2 {
				break
			}
		}
	}
	v.mu.Unlock()
	for _, g := range some {
		if v.unmark(ctx, g) != nil {
			return
		}
	}
}
