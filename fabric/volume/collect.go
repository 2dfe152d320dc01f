package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	gomaps "maps"
	"slices"

	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/kv"
)

// ErrUnfinished is returned by ReapVDisk, Merge and Adopt when there is more to do.
var ErrUnfinished = errors.New("there is more to do")

// ReapVDisk removes data of a vDisk that was removed and that no other is read through, for as long as Options.Piece: others wait for it. It is ErrMoot if
// there is no such vDisk, and ErrUnfinished if not all of it is removed yet.
func (s *Space) ReapVDisk(ctx context.Context, id disk.VDiskID) error {
	s.reaping.Lock()
	defer s.reaping.Unlock()
	needless, err := s.needless(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(needless, func(v maps.VDisk) bool { return v.ID == id })
	if i < 0 {
		return fmt.Errorf("fabric: remove the data of vDisk %d: %w", id, ErrMoot)
	}
	reaped, err := s.reap(ctx, needless[i], s.o.Piece)
	if err == nil && !reaped { // another front does, or has found its name
		err = ErrMoot
	}
	return err
}

// RemoveBeyond removes blocks beyond the end of a vDisk: a shrink that was interrupted leaves some.
func (s *Space) RemoveBeyond(ctx context.Context, id disk.VDiskID) error {
	return s.alone(ctx, id, func() error {
		v, _, err := s.maps.VDisk(ctx, id)
		if errors.Is(err, maps.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return s.empty(ctx, id, blocksOf(v.Size), blocksOf(v.Most))
	})
}

// alone calls do while no request to a vDisk is under way, nor begins. The vDisk may be open.
func (s *Space) alone(ctx context.Context, id disk.VDiskID, do func() error) error {
	for {
		unlock := s.leasing.lock(id) // whoever opens it waits for this
		open := s.opened(id)
		if open == nil {
			defer unlock()
			lease, err := s.lease(ctx, id)
			if err != nil {
				return err
			}
			defer s.yield(ctx, id, lease)
			return do()
		}
		unlock()
		open.gate.Lock()
		if s.opened(id) == open { // else it was closed, or is a snapshot by now
			defer open.gate.Unlock()
			return do()
		}
		open.gate.Unlock()
	}
}

// opened gives the volume that has a vDisk open for writing, nil if none has.
func (s *Space) opened(id disk.VDiskID) *Volume {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[id]
}

// RemoveGroup removes a group that is dead or that no extent is in. It is ErrMoot if there is one in it.
func (s *Space) RemoveGroup(ctx context.Context, id disk.GroupID) error {
	rec, _, err := s.maps.Group(ctx, id)
	if errors.Is(err, maps.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	_, done, err := s.authority(ctx, rec.VDisk) // nobody else makes or fills it
	if err != nil {
		return err
	}
	defer done()
	if err := s.remove(ctx, rec.VDisk, id); err != nil {
		return err
	}
	if rec, _, err = s.maps.Group(ctx, id); err == nil && !rec.Dead {
		return fmt.Errorf("fabric: remove group %s: %w", id, ErrMoot)
	}
	return nil
}

// RemoveIdle removes extents that were made in a group, by their quarters, as far as no block refers to them: a front that was killed leaves those
// which it had not used yet, or had taken from their blocks. It is ErrMoot if there is none.
func (s *Space) RemoveIdle(ctx context.Context, id disk.GroupID, quarters []uint8) error {
	rec, _, err := s.maps.Group(ctx, id)
	gone := errors.Is(err, maps.ErrNotFound)
	if err != nil && !gone {
		return err
	}
	var idle []maps.ExtentID
	if gone { // they were packed since: no volume has them, and no block gets one
		idle, err = s.made(ctx, id)
	} else {
		idle, err = s.unclaimed(ctx, rec.VDisk, id)
	}
	idle = slices.DeleteFunc(idle, func(e maps.ExtentID) bool { return !slices.Contains(quarters, e.Quarter) })
	switch {
	case err != nil:
	case gone:
		idle, err = s.unreferredByAny(ctx, idle)
	default:
		idle, err = s.unreferred(ctx, rec.VDisk, idle)
	}
	if err == nil && len(idle) == 0 {
		err = ErrMoot
	}
	if err != nil {
		return fmt.Errorf("fabric: remove extents of group %s: %w", id, err)
	}
	for _, e := range idle {
		if err := s.release(ctx, rec.VDisk, e); err != nil {
			return err
		}
	}
	return nil
}

// made lists the extents that were made in a group.
func (s *Space) made(ctx context.Context, id disk.GroupID) (all []maps.ExtentID, err error) {
	located, err := s.maps.Extents(ctx, id)
	for _, e := range located {
		all = append(all, e.ID)
	}
	return all, err
}

// unclaimed lists extents of a group that no volume holds to give to a block. Those which no block refers to by now never get one.
func (s *Space) unclaimed(ctx context.Context, v disk.VDiskID, id disk.GroupID) ([]maps.ExtentID, error) {
	all, err := s.made(ctx, id)
	if err != nil {
		return nil, err
	}
	open := s.opened(v)
	s.mu.Lock()
	_, begun := s.tokens[v]
	s.mu.Unlock()
	if open == nil || !begun {
		_, done, err := s.authority(ctx, v) // who opens it from now on makes groups of its own
		if err != nil {
			return nil, err
		}
		done()
		return all, nil
	}
	open.gate.Lock() // no request is between taking an extent and giving it to its block
	defer open.gate.Unlock()
	if err := open.renew(ctx); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(e maps.ExtentID) bool { return slices.Contains(open.spare, e) }), nil
}

// unreferred lists those of some extents that no block refers to, where it is known which vDisk made them: it has them, or another has inherited them.
func (s *Space) unreferred(ctx context.Context, id disk.VDiskID, extents []maps.ExtentID) ([]maps.ExtentID, error) {
	v, _, err := s.maps.VDisk(ctx, id)
	if errors.Is(err, maps.ErrNotFound) || err == nil && v.Removed {
		return s.unreferredByAny(ctx, extents)
	}
	if err != nil {
		return nil, err
	}
	if extents, err = s.unreferredBy(ctx, v, extents); err != nil || len(extents) == 0 {
		return extents, err
	}
	now, _, err := s.maps.VDisk(ctx, id)
	if errors.Is(err, maps.ErrNotFound) || err == nil && now.Removed { // and may have been merged meanwhile
		return s.unreferredByAny(ctx, extents)
	}
	return extents, err
}

func (s *Space) unreferredBy(ctx context.Context, v maps.VDisk, extents []maps.ExtentID) ([]maps.ExtentID, error) {
	var err error
	for next, end := int64(0), blocksOf(max(v.Size, v.Most)); next < end && len(extents) > 0; {
		next, err = s.maps.Blocks(ctx, v.ID, next, end, func(_ int64, b maps.Block, _ kv.Version) error {
			extents = without(extents, b)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return extents, nil
}

// unreferredByAny lists those of some extents that no block refers to. It reads all blocks: only a crash leaves such extents. Blocks are merged from a vDisk into one with a higher number,
// so lower numbers are read first, and those that are new in the end.
func (s *Space) unreferredByAny(ctx context.Context, extents []maps.ExtentID) ([]maps.ExtentID, error) {
	for last := disk.VDiskID(0); len(extents) > 0; {
		var all []maps.VDisk
		for v, err := range s.maps.VDisks(ctx) {
			if err != nil {
				return nil, err
			}
			if v.ID > last {
				all = append(all, v)
			}
		}
		if len(all) == 0 {
			break
		}
		slices.SortFunc(all, func(a, b maps.VDisk) int { return cmp.Compare(a.ID, b.ID) })
		for _, v := range all {
			var err error
			if extents, err = s.unreferredBy(ctx, v, extents); err != nil {
				return nil, err
			}
		}
		last = all[len(all)-1].ID
	}
	return extents, nil
}

// without leaves out the extents that a block refers to.
func without(extents []maps.ExtentID, b maps.Block) []maps.ExtentID {
	return slices.DeleteFunc(extents, func(e maps.ExtentID) bool { return slices.Contains(b.Pile, e) })
}

// Spare gives the extents that volumes keep for blocks to come.
func (s *Space) Spare() map[maps.ExtentID]bool {
	s.mu.Lock()
	open := slices.Collect(gomaps.Values(s.open))
	s.mu.Unlock()
	all := map[maps.ExtentID]bool{}
	for _, v := range open {
		v.allocating.Lock()
		for _, e := range v.spare {
			all[e] = true
		}
		v.allocating.Unlock()
	}
	return all
}
