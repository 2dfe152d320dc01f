package volume

import (
	"context"
	"errors"
	"sync"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/kv"
)

// recoverParent compares the replicas of a snapshot's groups that its writer had under way when it crashed.
func (s *Space) recoverParent(ctx context.Context, id disk.VDiskID) error {
	marks, err := s.maps.Marks(ctx, id)
	if err != nil || len(marks) == 0 {
		return err
	}
	defer s.leasing.lock(id)()
	lease, err := s.awaitLease(ctx, id)
	if err != nil {
		return err
	}
	defer s.yield(ctx, id, lease)
	return s.finishAll(ctx, id, lease.Token)
}

// finishAll compares the replicas of all marked groups of a vDisk and takes the marks away. The lease is ours.
func (s *Space) finishAll(ctx context.Context, id disk.VDiskID, token uint64) error {
	groups, err := s.recover(ctx, id, token)
	if err != nil {
		return err
	}
	for _, g := range groups {
		err = errors.Join(err, g.finish(ctx, id))
		s.unpin(g)
	}
	return err
}

// unmarkUnmade takes away marks of groups that one who died was about to make. The lease is ours; a volume that has the vDisk open did so when it was opened.
func (s *Space) unmarkUnmade(ctx context.Context, id disk.VDiskID) error {
	if s.opened(id) != nil {
		return nil
	}
	marks, err := s.maps.Marks(ctx, id)
	for _, mark := range marks {
		if err != nil {
			return err
		}
		if _, _, err = s.maps.Group(ctx, mark.Group); errors.Is(err, maps.ErrNotFound) {
			err = s.maps.Unmark(ctx, id, mark.Group, s.marksOf(id), mark.Version)
		}
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
	return g.unmark(ctx, id)
}

// mark says in the maps that a group is about to be written. The group is locked.
func (v *Volume) mark(ctx context.Context, g *liveGroup, on []cluster.DiskID) error {
	opened := g.identify(on)
	if err := g.setMark(ctx, v.id, !g.fresh, opened); err != nil {
		return err
	}
	g.marked = true
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, known := v.marked[g.id]; !known {
		v.marked[g.id] = v.space.pin(g.id)
	}
	return nil
}

// setMark writes the mark of a group. The group is locked.
func (g *liveGroup) setMark(ctx context.Context, v disk.VDiskID, synced bool, opened map[cluster.DiskID]uint64) error {
	mark, err := g.space.maps.SetMark(ctx, v, maps.Mark{Group: g.id, Synced: synced, Opened: opened}, g.space.marksOf(v), g.mark)
	if err != nil {
		return err
	}
	g.mark, g.opened = mark, opened
	return nil
}

// unmark removes the mark of a group. The group is locked.
func (g *liveGroup) unmark(ctx context.Context, v disk.VDiskID) error {
	g.marked = false // if it fails as well, for all that is known: a writer marks it again
	if err := g.space.maps.Unmark(ctx, v, g.id, g.space.marksOf(v), g.mark); err != nil {
		return err
	}
	g.mark = kv.Version{}
	return nil
}

// identify asks disks when they were opened. One that cannot be reached now is not in the answer.
func (g *liveGroup) identify(disks []cluster.DiskID) map[cluster.DiskID]uint64 {
	opened := map[cluster.DiskID]uint64{}
	var mu sync.Mutex
	g.each(disks, func(ctx context.Context, d Disk) error {
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
	if err := g.unmark(ctx, v.id); err != nil {
		return err
	}
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
	fresh := g.fresh && g.marked
	g.mu.RUnlock()
	if !fresh {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.setMark(ctx, v.id, true, g.opened); err != nil {
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
