package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
)

// reconcile makes the replicas of a marked group equal after a crash. The group is locked.
//
// Where replicas differ, a write was under way, or was answered and then lost by a disk whose machine lost its power. Of
// a write that was answered, a disk that was not opened again since has the newest version; between others either may stand, and one must.
func (g *liveGroup) reconcile(ctx context.Context) error {
	if g.rec.Dead { // nobody reads it
		g.unsure = false
		return nil
	}
	g.forgetMask()                                           // a disk that was opened again may have lost slices
	if err := g.change(ctx, group.Group.Renew); err != nil { // a write that is still on its way comes too late
		return err
	}
	reached, err := g.gather(ctx)
	if err != nil {
		return err
	}
	sums, err := g.compare(ctx, reached)
	if err != nil {
		return err
	}
	same := make([]bool, len(reached)) // not opened again since the group was marked
	now := g.identify(reached)
	for i, id := range reached {
		was, known := g.opened[id]
		same[i] = known && now[id] == was
	}
	for slice := range disk.SlicesPerGroup {
		if err := g.level(ctx, reached, same, sums, slice); err != nil {
			return fmt.Errorf("fabric: compare replicas of group %s: slice %d: %w", g.id, slice, err)
		}
	}
	for i, err := range g.each(reached, func(ctx context.Context, d Disk) error { return d.Sync(ctx) }) {
		if err != nil {
			return fmt.Errorf("fabric: sync group %s on disk %s: %w", g.id, reached[i], err)
		}
	}
	g.unsure = false
	return nil
}

// gather fences the disks of the list, waits for those that are missing, and drops the ones that stay away or have lost the group.
func (g *liveGroup) gather(ctx context.Context) ([]cluster.DiskID, error) {
	for pause := newBackoff(0); ; {
		var missing, gone []cluster.DiskID
		errs := g.each(g.rec.Good, func(ctx context.Context, d Disk) error { return g.regain(ctx, d) })
		for i, err := range errs {
			var fence *disk.FenceError
			switch {
			case errors.As(err, &fence):
				return nil, fmt.Errorf("%w: %w", ErrFenced, err)
			case errors.Is(err, disk.ErrNotFound):
				gone = append(gone, g.rec.Good[i])
			case err != nil:
				missing = append(missing, g.rec.Good[i])
			}
		}
		pause.end = g.space.waitFor(g.rec.Good, missing)
		switch {
		case len(missing)+len(gone) == 0:
			return g.rec.Good, nil
		case len(missing)+len(gone) < len(errs) && len(gone) > 0:
			if err := g.dropLocked(ctx, gone...); err != nil {
				return nil, err
			}
		case pause.wait(ctx):
		case len(missing)+len(gone) == len(errs):
			return nil, fmt.Errorf("fabric: group %s: no replica can be reached: %w", g.id, errors.Join(errs...))
		default:
			if err := g.dropLocked(ctx, missing...); err != nil {
				return nil, err
			}
		}
	}
}

// Missed says since when a disk cannot be reached, so that who takes a vDisk over does not begin to wait for it anew; the zero time if it can.
func (s *Space) Missed(id cluster.DiskID, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since.IsZero() {
		delete(s.absent, id)
	} else {
		s.absent[id] = since
	}
}

// waitFor says until when to wait for missing disks: patience begins when one is first found missing, not anew for each group.
func (s *Space) waitFor(disks, missing []cluster.DiskID) (until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range disks {
		if !slices.Contains(missing, id) {
			delete(s.absent, id)
			continue
		}
		if _, known := s.absent[id]; !known {
			s.absent[id] = time.Now()
		}
		if end := s.absent[id].Add(s.o.Patience); end.After(until) {
			until = end
		}
	}
	return until
}

// regain fences a disk and brings its replica to the list's generation. In a group that was never synced, a replica that is not
// there is made again: what it lacks is copied to it.
func (g *liveGroup) regain(ctx context.Context, d Disk) error {
	if err := d.Fence(ctx, g.rec.VDisk, g.token); err != nil {
		return err
	}
	err := d.Raise(ctx, g.id, g.rec.Generation)
	if errors.Is(err, disk.ErrNotFound) && g.fresh {
		err = d.Create(ctx, g.id, g.rec.VDisk, g.rec.Generation)
	}
	return err
}

// compare reads the checksums of all replicas.
func (g *liveGroup) compare(ctx context.Context, disks []cluster.DiskID) ([][]disk.Sum, error) {
	sums := make([][]disk.Sum, len(disks))
	for i, id := range disks {
		err := g.askOne(ctx, id, func(ctx context.Context, d Disk, generation uint64) (err error) {
			sums[i], err = d.Sums(ctx, g.id, generation)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("fabric: checksums of group %s on disk %s: %w", g.id, id, err)
		}
	}
	return sums, nil
}

// level copies a slice from the replica that has the best version to those that differ.
func (g *liveGroup) level(ctx context.Context, disks []cluster.DiskID, same []bool, sums [][]disk.Sum, slice int) error {
	best := 0
	for i := range disks {
		if trust(sums[i][slice], same[i]) > trust(sums[best][slice], same[best]) {
			best = i
		}
	}
	model := sums[best][slice]
	if !model.Written || model.Condition == disk.Rotten {
		return nil // there is nothing to copy
	}
	var buf []byte
	for i := range disks {
		if sums[i][slice] == model && model.Condition == 0 {
			continue
		}
		if buf == nil {
			buf = make([]byte, disk.SliceSize)
			err := g.fetch(ctx, disks[best], model, slice, buf)
			if bad := (*disk.SliceError)(nil); errors.As(err, &bad) { // it has rotted since
				sums[best][slice].Condition = disk.Rotten
				return g.level(ctx, disks, same, sums, slice)
			}
			if err != nil {
				return err
			}
		}
		err := g.askOne(ctx, disks[i], func(ctx context.Context, d Disk, generation uint64) error {
			return d.Write(ctx, g.id, generation, g.token, int64(slice)*disk.SliceSize, buf, false)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// trust orders versions of a slice. A disk that was not opened again has lost nothing that was answered. A slice that was never written
// comes last of those that can be read: that another replica has it written is a write that was not answered, which may stand,
// while a slice once written cannot become one that never was. Only an overwrite can be torn, so a torn slice was written.
func trust(s disk.Sum, same bool) int {
	switch {
	case s.Written && s.Condition == 0 && same:
		return 4
	case s.Condition == disk.Rotten:
		return 0
	case !s.Written:
		return 1
	case s.Condition == disk.Torn:
		return 2
	}
	return 3
}

// fetch reads a slice; of one that is torn everywhere, what is left.
func (g *liveGroup) fetch(ctx context.Context, id cluster.DiskID, sum disk.Sum, slice int, buf []byte) error {
	return g.askOne(ctx, id, func(ctx context.Context, d Disk, generation uint64) error {
		if sum.Condition == disk.Torn {
			return d.Salvage(ctx, g.id, generation, slice, buf)
		}
		return d.Read(ctx, g.id, generation, int64(slice)*disk.SliceSize, buf)
	})
}

// recover finds the marked groups of a vDisk. Their replicas are compared when they are first used, or by whoever unmarks them.
func (s *Space) recover(ctx context.Context, v disk.VDiskID, token uint64) ([]*liveGroup, error) {
	marks, err := s.maps.Marks(ctx, v)
	if err != nil {
		return nil, err
	}
	var marked []*liveGroup
	for _, mark := range marks {
		g := s.pin(mark.Group)
		g.mu.Lock()
		err := g.load(ctx)
		packed := err == nil && g.rec.Packed() // its replicas were synced before it had a record, and nobody writes to them
		g.unsure, g.token, g.opened, g.mark, g.fresh = err == nil && !packed, token, mark.Opened, mark.Version, !mark.Synced && !packed
		if err == nil && g.rec.Building != "" {
			err = g.change(ctx, group.Group.GiveUp)
		}
		g.mu.Unlock()
		if errors.Is(err, maps.ErrNotFound) || packed && err == nil { // a crash came before its record, or soon after
			s.unpin(g)
			err = s.maps.Unmark(ctx, v, mark.Group, s.marksOf(v), mark.Version)
		} else {
			marked = append(marked, g)
		}
		if err != nil {
			return nil, err
		}
	}
	return marked, nil
}
