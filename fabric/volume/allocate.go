package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/kv"
)

// A placer chooses disks for n replicas beside some that there are, as Pool.Place does.
type placer func(have []cluster.DiskID, n int) []cluster.DiskID

// allocate gives an extent that nothing refers to, of a new group if asked to. place says where a new group goes.
func (v *Volume) allocate(ctx context.Context, anew bool, place placer) (maps.ExtentID, error) {
	v.allocating.Lock()
	defer v.allocating.Unlock()
	if len(v.spare) == 0 || anew {
		id, err := v.newGroup(ctx, place)
		if err != nil {
			return maps.ExtentID{}, err
		}
		fresh := make([]maps.ExtentID, 0, maps.ExtentsPerGroup+len(v.spare))
		for q := range uint8(maps.ExtentsPerGroup) {
			fresh = append(fresh, maps.ExtentID{Group: id, Quarter: q})
		}
		v.spare = append(fresh, v.spare...)
	}
	e := v.spare[0]
	v.spare = v.spare[1:]
	return e, nil
}

// newGroup makes a group with its extents: mark, replicas, record, extents.
func (v *Volume) newGroup(ctx context.Context, place placer) (disk.GroupID, error) {
	id, err := v.space.newGroupID(ctx)
	if err != nil {
		return 0, err
	}
	g := v.space.pin(id)
	defer v.space.unpin(g)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.vdisk.Store(uint64(v.id))
	g.fresh = true
	first := chooseAll(place, v.replicas)
	if len(first) < v.replicas && v.space.o.Enough(v.replicas) {
		return 0, ErrNoSpace
	}
	if err := v.mark(ctx, g, first); err != nil {
		return 0, err
	}
	on, err := v.space.createReplicas(ctx, g, v.id, v.replicas, place, first)
	if err != nil {
		return 0, err
	}
	if slices.ContainsFunc(on, func(id cluster.DiskID) bool { _, known := g.opened[id]; return !known }) { // the first choice could not be had
		if err := v.mark(ctx, g, on); err != nil {
			return 0, err
		}
	}
	g.rec = group.New(v.id, v.replicas, on)
	if g.version, err = v.space.maps.SetGroup(ctx, id, g.rec, kv.Version{}); err != nil {
		return 0, err
	}
	g.loaded = true
	if len(on) < v.replicas {
		v.space.o.Degraded(id)
	}
	return id, v.space.maps.CreateExtents(ctx, id)
}

// chooseAll asks a placer for disks until it has no more: it gives those of one tier at a time.
func chooseAll(place placer, n int) (chosen []cluster.DiskID) {
	for len(chosen) < n {
		more := place(chosen, n-len(chosen))
		if len(more) == 0 {
			break
		}
		chosen = append(chosen, more...)
	}
	return chosen
}

// createReplicas makes a group's files on as many disks as are wanted, those of the first choice if they can, or on as many as can be had where others are away or busy. It is
// ErrNoSpace where others are full. It waits for the first while none can be used.
func (s *Space) createReplicas(ctx context.Context, g *liveGroup, v disk.VDiskID, wanted int, place placer, first []cluster.DiskID) ([]cluster.DiskID, error) {
	for pause := newBackoff(s.o.Patience); ; {
		on, errs := s.tryReplicas(ctx, g, v, wanted, place, first)
		first = nil
		switch {
		case len(on) > 0 && len(on) < wanted && s.o.Enough(wanted) && allFull(errs):
			g.each(on, func(ctx context.Context, d Disk) error { return d.Remove(ctx, g.id, 1) }) // a sweep finds what is left
			return nil, errors.Join(ErrNoSpace, errors.Join(errs...))
		case len(on) > 0:
			return on, nil
		case s.o.Usable():
			return nil, errors.Join(ErrNoSpace, errors.Join(errs...))
		case !pause.wait(ctx):
			return nil, errors.Join(ErrNoDisk, errors.Join(errs...))
		}
	}
}

func allFull(errs []error) bool {
	return !slices.ContainsFunc(errs, func(err error) bool { return !isFull(err) })
}

// isFull reports whether a disk has refused something for want of space.
func isFull(err error) bool {
	var quota *disk.QuotaError
	return errors.As(err, &quota) || errors.Is(err, disk.ErrSpace)
}

// tryReplicas makes a group's files where that can be done, and says why not elsewhere.
func (s *Space) tryReplicas(ctx context.Context, g *liveGroup, v disk.VDiskID, wanted int, place placer, chosen []cluster.DiskID) (on []cluster.DiskID, errs []error) {
	var tried []cluster.DiskID
	for len(on) < wanted {
		if len(chosen) == 0 {
			chosen = place(tried, wanted-len(on))
		}
		if len(chosen) == 0 {
			break
		}
		for i, failed := range g.each(chosen, func(ctx context.Context, d Disk) error { return d.Create(ctx, g.id, v, 1) }) {
			if failed == nil {
				on = append(on, chosen[i])
				continue
			}
			errs = append(errs, fmt.Errorf("disk %s: %w", chosen[i], failed))
			if isFull(failed) {
				s.o.Full(chosen[i])
			}
		}
		tried, chosen = append(tried, chosen...), nil
	}
	return on, errs
}

// release removes an extent that no block refers to, and the group that it is in with the last of them.
func (s *Space) release(ctx context.Context, v disk.VDiskID, e maps.ExtentID) error {
	in, err := s.maps.DeleteExtent(ctx, e)
	if err != nil {
		return err
	}
	made, err := s.maps.Extents(ctx, in)
	if err != nil || slices.ContainsFunc(made, func(e maps.LocatedExtent) bool { return e.At.Group == in }) {
		return err // others are there, and nobody need wait
	}
	return s.remove(ctx, v, in)
}

// remove removes a group that no extent is in: it is dead first, so that nobody rebuilds it.
func (s *Space) remove(ctx context.Context, v disk.VDiskID, id disk.GroupID) error {
	g := s.pin(id)
	defer s.unpin(g)
	g.mu.Lock()
	defer g.mu.Unlock()
	removed, err := true, g.load(ctx)
	if err == nil {
		removed, err = g.removeEmpty(ctx)
	}
	if errors.Is(err, maps.ErrNotFound) || errors.Is(err, maps.ErrChanged) { // another removes it too
		err = nil
	}
	if err != nil || !removed {
		return err
	}
	return g.unmark(ctx, v)
}

// removeEmpty removes a group if no extent is in it. The group is locked. A packed one that another may be having an extent share stays: a scan finds it.
func (g *liveGroup) removeEmpty(ctx context.Context) (removed bool, err error) {
	kill := func(ctx context.Context) error {
		if !g.rec.Dead {
			if left, err := g.residents(ctx); err != nil || len(left) > 0 {
				return err
			}
		}
		removed = true
		return g.change(ctx, group.Group.Kill)
	}
	if g.rec.Packed() && !g.rec.Dead {
		err = g.space.sharing(ctx, func(ctx context.Context) error {
			if err := g.load(ctx); err != nil { // others may have come to share it
				return err
			}
			return kill(ctx)
		})
		if errors.Is(err, kv.ErrTaken) {
			return false, nil
		}
	} else {
		err = kill(ctx)
	}
	if err != nil || !removed {
		return false, err
	}
	return true, g.bury(ctx)
}

// residents lists the extents that are in a group now. The group is locked.
func (g *liveGroup) residents(ctx context.Context) (all []maps.LocatedExtent, err error) {
	if !g.rec.Packed() {
		made, err := g.space.maps.Extents(ctx, g.id)
		return slices.DeleteFunc(made, func(e maps.LocatedExtent) bool { return e.At.Group != g.id }), err
	}
	for _, e := range g.rec.Tenants {
		at, version, err := g.space.maps.Extent(ctx, e)
		if errors.Is(err, maps.ErrNotFound) || err == nil && at.Group != g.id {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, maps.LocatedExtent{ID: e, At: at, Version: version})
	}
	return all, nil
}

// bury removes the replicas of a dead group, and its record with the last of them. A disk that cannot be reached keeps its
// replica, and the group its record, until the next time. The group is locked.
func (g *liveGroup) bury(ctx context.Context) error {
	all := g.rec.Good
	if g.rec.Building != "" {
		all = append(all[:len(all):len(all)], g.rec.Building)
	}
	errs := g.each(all, func(ctx context.Context, d Disk) error { return d.Remove(ctx, g.id, g.rec.Generation+1) })
	err := g.change(ctx, func(rec group.Group) (_ group.Group, err error) {
		for i, d := range all {
			if errs[i] != nil && !errors.Is(errs[i], disk.ErrNotFound) {
				continue
			}
			if rec, err = rec.Forget(d); err != nil {
				return rec, err
			}
		}
		return rec, nil
	})
	if err != nil || len(g.rec.Good) > 0 || g.rec.Building != "" {
		return err
	}
	g.loaded = false
	if err := g.space.maps.DeleteGroup(ctx, g.id, g.version); err != nil {
		return err
	}
	g.space.accesses.forget(g.id)
	return nil
}
