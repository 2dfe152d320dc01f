package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
)

// ErrMoot is returned by Move, Pack and Dedup when a group is not as it was when they were asked for, or lacks a replica, which is repaired first; and when nothing would be gained.
var ErrMoot = errors.New("there is nothing to do")

// Move puts a replica of a group on another disk in the place of the one on from: the new one is written, synced and read back, the list is
// changed, and the old one is removed. choose gives the disk by those of the other replicas, false if there is none. It is called
// when the group is locked and was read from the maps again, so that what it allows still holds when the list is changed. Requests to the group wait meanwhile.
func (s *Space) Move(ctx context.Context, id disk.GroupID, from cluster.DiskID, choose func(others []cluster.DiskID) (cluster.DiskID, bool)) error {
	g := s.pin(id)
	defer s.unpin(g)
	err := g.prepare(ctx, nil)
	if err == nil {
		err = g.move(ctx, from, choose)
	}
	switch {
	case errors.Is(err, maps.ErrNotFound), errors.Is(err, group.ErrState), errors.Is(err, group.ErrMember):
		err = ErrMoot
	}
	if err != nil {
		return fmt.Errorf("fabric: move group %s from disk %s: %w", id, from, err)
	}
	return nil
}

func (g *liveGroup) move(ctx context.Context, from cluster.DiskID, choose func([]cluster.DiskID) (cluster.DiskID, bool)) error {
	g.mu.RLock()
	vdisk := g.rec.VDisk
	g.mu.RUnlock()
	token, done, err := g.space.authority(ctx, vdisk) // before the group is locked, as who opens the vDisk does
	if err != nil {
		return err
	}
	defer done()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.load(ctx); err != nil {
		return err
	}
	at := slices.Index(g.rec.Good, from)
	if at < 0 || g.unsure || g.rec.State() != group.Whole {
		return ErrMoot
	}
	to, ok := choose(slices.Delete(slices.Clone(g.rec.Good), at, at+1))
	if !ok {
		return ErrNoTarget
	}
	if err := g.finishOthers(ctx, token); err != nil {
		return err
	}
	if err := g.change(ctx, func(rec group.Group) (group.Group, error) { return rec.Move(to) }); err != nil {
		return err
	}
	if err := g.begun(ctx); err != nil {
		return err
	}
	if err := g.replace(ctx, from, token); err != nil {
		return errors.Join(err, g.giveUp(ctx))
	}
	g.raise()
	g.removeFrom(ctx, from)
	return nil
}

// replace makes the new replica and puts it in the list. The group is locked.
func (g *liveGroup) replace(ctx context.Context, from cluster.DiskID, token uint64) error {
	if err := g.build(ctx, from, token); err != nil {
		return err
	}
	if err := g.verify(ctx, g.from(from)); err != nil {
		return err
	}
	copied := g.rec.Generation
	return g.change(ctx, func(rec group.Group) (group.Group, error) {
		if rec.Generation != copied { // another has written since
			return rec, group.ErrState
		}
		return rec.Moved(from)
	})
}

// verify reads the replica back that was built: it has the bytes of the others, which some disks give. The group is locked.
func (g *liveGroup) verify(ctx context.Context, from []cluster.DiskID) error {
	ctx, cancel := context.WithTimeout(ctx, g.space.o.Patience) // those who use the group wait for this
	defer cancel()
	d, err := g.space.pool.Disk(g.rec.Building)
	if err != nil {
		return err
	}
	return g.eachRun(ctx, from, func(offset int64, data []byte) error {
		got := make([]byte, len(data))
		if err := d.Read(ctx, g.id, g.rec.Generation+1, offset, got); err != nil {
			return err
		}
		if !bytes.Equal(got, data) {
			return fmt.Errorf("disk %s has other bytes at %d than were written", g.rec.Building, offset)
		}
		return nil
	})
}

// giveUp ends a rebuild or a move, under a new generation: a write that is still on its way to the new replica is refused if another is made
// on the same disk, and the next sweep of that disk removes what is left there. The group is locked.
func (g *liveGroup) giveUp(ctx context.Context) error {
	to := g.rec.Building
	err := g.change(ctx, func(rec group.Group) (group.Group, error) {
		rec, err := rec.GiveUp()
		if err != nil {
			return rec, err
		}
		return rec.Renew()
	})
	if err != nil {
		return err
	}
	g.raise()
	g.removeFrom(ctx, to)
	return nil
}

// removeFrom removes a replica that is not of the list any more. One that cannot be reached is left for the next sweep of its disk. The group is locked.
func (g *liveGroup) removeFrom(ctx context.Context, id cluster.DiskID) {
	if slices.Contains(g.rec.Good, id) {
		return
	}
	g.each([]cluster.DiskID{id}, func(ctx context.Context, d Disk) error { return d.Remove(ctx, g.id, g.rec.Generation) })
}
