package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/kv"
)

// Sweep removes replicas from a disk that no group has: those that were dropped while the disk was away, and what a crash left
// of groups that were never finished. It gives their number. Replicas that the disk has lost are dropped from their groups.
func (s *Space) Sweep(ctx context.Context, id cluster.DiskID) (removed int, err error) {
	d, err := s.pool.Disk(id)
	if err != nil {
		return 0, err
	}
	var all []disk.GroupID
	err = d.List(ctx, func(found disk.GroupID) error {
		all = append(all, found)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("fabric: list groups of disk %s: %w", id, err)
	}
	for _, found := range all {
		if rec, _, err := s.maps.Group(ctx, found); err == nil && (slices.Contains(rec.Good, id) || rec.Building == id) {
			continue // as nearly all are: one read for each, and no lock
		}
		if err := s.unmarkGone(ctx, d, found); err != nil {
			return removed, err
		}
		was, err := s.sweep(ctx, d, id, found)
		if err != nil && !errors.Is(err, disk.ErrNotFound) {
			return removed, fmt.Errorf("fabric: remove replica of group %s from disk %s: %w", found, id, err)
		}
		if was && err == nil {
			removed++
		}
	}
	return removed, s.dropMissing(ctx, d, id, all)
}

// unmarkGone takes away the mark of a group that was never made, and whose vDisk is gone: nobody opens that any more.
func (s *Space) unmarkGone(ctx context.Context, d Disk, id disk.GroupID) error {
	info, err := d.Stat(ctx, id)
	if err != nil {
		return nil // sweep says so
	}
	if _, marked, err := s.maps.Marked(ctx, info.VDisk, id); err != nil || !marked {
		return err
	}
	if _, _, err := s.maps.Group(ctx, id); !errors.Is(err, maps.ErrNotFound) {
		return err
	}
	if _, _, err := s.maps.VDisk(ctx, info.VDisk); !errors.Is(err, maps.ErrNotFound) {
		return err
	}
	_, done, err := s.authority(ctx, info.VDisk)
	if errors.Is(err, kv.ErrTaken) { // by one who packs
		return nil
	}
	if err != nil {
		return err
	}
	defer done()
	return s.unmarkUnmade(ctx, info.VDisk)
}

// dropMissing drops replicas that a disk should have and does not.
func (s *Space) dropMissing(ctx context.Context, d Disk, on cluster.DiskID, found []disk.GroupID) error {
	slices.Sort(found)
	for g, err := range s.maps.Groups(ctx) {
		if err != nil {
			return err
		}
		if _, there := slices.BinarySearch(found, g.ID); there || !slices.Contains(g.Good, on) {
			continue
		}
		if _, err := d.Stat(ctx, g.ID); !errors.Is(err, disk.ErrNotFound) {
			continue // made since, or the disk is away
		}
		if err := s.dropLost(ctx, g.ID, g.VDisk, on); err != nil {
			return err
		}
	}
	return nil
}

// dropLost drops a replica that its disk has lost. Where a group was never synced, or a writer that is gone may have been changing
// it, the replicas are compared instead, by who opens the vDisk.
func (s *Space) dropLost(ctx context.Context, id disk.GroupID, v disk.VDiskID, on cluster.DiskID) error {
	g := s.pin(id)
	defer s.unpin(g)
	g.mu.Lock()
	defer g.mu.Unlock()
	_, marked, err := s.maps.Marked(ctx, v, id)
	if err != nil || marked && (!g.marked || g.fresh) {
		return err
	}
	return g.dropUnlessLast(ctx, on)
}

func (s *Space) sweep(ctx context.Context, d Disk, on cluster.DiskID, id disk.GroupID) (removed bool, err error) {
	g := s.pin(id)
	defer s.unpin(g)
	g.mu.Lock() // nobody makes or rebuilds it meanwhile
	defer g.mu.Unlock()
	info, err := d.Stat(ctx, id)
	if err != nil {
		return false, err
	}
	// It was marked before it was made, and is unmarked after its record is written. So the mark is read first.
	_, marked, err := s.maps.Marked(ctx, info.VDisk, id)
	if err != nil {
		return false, err
	}
	rec, _, err := s.maps.Group(ctx, id)
	switch {
	case errors.Is(err, maps.ErrNotFound) && marked: // it is being made
		return false, nil
	case errors.Is(err, maps.ErrNotFound):
	case err != nil:
		return false, err
	case slices.Contains(rec.Good, on) || rec.Building == on || rec.Generation < info.Generation:
		return false, nil
	}
	return true, d.Remove(ctx, id, max(info.Generation, rec.Generation))
}
