package volume

import (
	"context"
	"errors"
	"fmt"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/kv"
)

// allocate gives an extent that nothing refers to, of a new group if asked to.
func (v *Volume) allocate(ctx context.Context, anew bool) (maps.ExtentID, error) {
	v.allocating.Lock()
	defer v.allocating.Unlock()
	if len(v.spare) == 0 || anew {
		id, err := v.newGroup(ctx)
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
func (v *Volume) newGroup(ctx context.Context) (disk.GroupID, error) {
	vdisk, _, err := v.space.maps.VDisk(ctx, v.id)
	if err != nil {
		return 0, err
	}
	id, err := v.space.newGroupID(ctx)
	if err != nil {
		return 0, err
	}
	g := v.space.pin(id)
	defer v.space.unpin(g)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fresh = true
	if err := v.mark(ctx, g, nil); err != nil {
		return 0, err
	}
	on, err := v.space.createReplicas(ctx, g, v.id, vdisk.Replicas)
	if err != nil {
		return 0, err
	}
	if err := v.mark(ctx, g, on); err != nil {
		return 0, err
	}
	g.rec = group.New(v.id, vdisk.Replicas, on)
	if g.version, err = v.space.maps.SetGroup(ctx, id, g.rec, kv.Version{}); err != nil {
		return 0, err
	}
	g.loaded = true
	if len(on) < vdisk.Replicas {
		v.space.o.Degraded(id)
	}
	return id, v.space.maps.CreateExtents(ctx, id)
}

// createReplicas makes a group's files on as many disks as are wanted, or as can be had. It waits for the first while none can be used.
func (s *Space) createReplicas(ctx context.Context, g *liveGroup, v disk.VDiskID, wanted int) (on []cluster.DiskID, err error) {
	for pause := newBackoff(s.o.Patience); ; {
		on, err = s.tryReplicas(ctx, g, v, wanted)
		switch {
		case len(on) > 0:
			return on, nil
		case s.o.Usable():
			return nil, errors.Join(ErrNoSpace, err)
		case !pause.wait(ctx):
			return nil, errors.Join(ErrNoDisk, err)
		}
	}
}

// tryReplicas makes a group's files where that can be done, and says why not elsewhere.
func (s *Space) tryReplicas(ctx context.Context, g *liveGroup, v disk.VDiskID, wanted int) (on []cluster.DiskID, err error) {
	var tried []cluster.DiskID
	for len(on) < wanted {
		chosen := s.pool.Place(tried, wanted-len(on))
		if len(chosen) == 0 {
			break
		}
		for i, failed := range g.each(ctx, chosen, func(ctx context.Context, d Disk) error { return d.Create(ctx, g.id, v, 1) }) {
			if failed == nil {
				on = append(on, chosen[i])
			} else {
				err = errors.Join(err, fmt.Errorf("disk %s: %w", chosen[i], failed))
			}
		}
		tried = append(tried, chosen...)
	}
	return on, err
}

// release removes an extent that no block refers to, and its group with the last of them.
func (s *Space) release(ctx context.Context, v disk.VDiskID, e maps.ExtentID) error {
	if err := s.maps.DeleteExtent(ctx, e); err != nil {
		return err
	}
	left, err := s.maps.Extents(ctx, e.Group)
	if err != nil || len(left) > 0 {
		return err
	}
	return s.remove(ctx, v, e.Group)
}

// remove removes a group that nothing refers to: it is dead first, so that nobody rebuilds it.
func (s *Space) remove(ctx context.Context, v disk.VDiskID, id disk.GroupID) error {
	g := s.pin(id)
	defer s.unpin(g)
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.load(ctx)
	if err == nil {
		err = g.change(ctx, group.Group.Kill)
	}
	if err == nil {
		err = g.bury(ctx)
	}
	if errors.Is(err, maps.ErrNotFound) {
		err = nil
	}
	if err != nil {
		return err
	}
	return s.maps.Unmark(ctx, v, id)
}

// bury removes the replicas of a dead group, and its record with the last of them. A disk that cannot be reached keeps its
// replica, and the group its record, until the next time. The group is locked.
func (g *liveGroup) bury(ctx context.Context) error {
	all := g.rec.Good
	if g.rec.Building != "" {
		all = append(all[:len(all):len(all)], g.rec.Building)
	}
	errs := g.each(ctx, all, func(ctx context.Context, d Disk) error { return d.Remove(ctx, g.id, g.rec.Generation+1) })
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
