package volume

import (
	"context"
	"errors"
	"fmt"
	gomaps "maps"
	"slices"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/kv"
)

// ErrNoTarget is returned by Rebuild when no disk can take the replica now.
var ErrNoTarget = errors.New("no disk for another replica")

// Rebuild makes one replica that a group lacks, on a disk that the pool chooses, from the replica on source as far as that is good.
// It does nothing for a group that lacks none. Requests to the group wait meanwhile.
func (s *Space) Rebuild(ctx context.Context, id disk.GroupID, source cluster.DiskID) error {
	g := s.pin(id)
	defer s.unpin(g)
	if err := g.prepare(ctx, nil); err != nil {
		if errors.Is(err, maps.ErrNotFound) {
			return nil
		}
		return err
	}
	if err := g.lookAgain(ctx); errors.Is(err, maps.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	target, generation, err := g.target(ctx)
	if err != nil {
		return err
	}
	g.mu.RLock()
	vdisk, needs := g.rec.VDisk, target != "" || g.in(group.Moving)
	g.mu.RUnlock()
	if !needs {
		return nil
	}
	token, done, err := s.authority(ctx, vdisk) // before the group is locked, as who opens the vDisk does
	if err != nil {
		return err
	}
	defer done()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.refresh(ctx); err != nil {
		return err
	}
	switch {
	case g.in(group.Moving): // by one who died; no replica is missing
		return g.giveUp(ctx)
	case target == "" || !g.lacks() || g.rec.Generation != generation:
		return nil
	}
	if err := g.finishOthers(ctx, token); err != nil {
		return err
	}
	if err := g.change(ctx, func(rec group.Group) (group.Group, error) { return rec.Rebuild(target) }); err != nil {
		return err
	}
	if err := g.begun(ctx); err != nil {
		return err
	}
	if err := g.build(ctx, source, token); err != nil {
		return fmt.Errorf("fabric: rebuild group %s on disk %s: %w", id, target, errors.Join(err, g.giveUp(ctx)))
	}
	copied := g.rec.Generation
	built := func(rec group.Group) (group.Group, error) {
		if rec.Generation != copied || rec.Building != target {
			return rec, group.ErrState
		}
		return rec.Built()
	}
	if err := g.change(ctx, built); err != nil {
		return err
	}
	g.raise()
	return nil
}

// lookAgain reads the record: another front may have changed it.
func (g *liveGroup) lookAgain(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.load(ctx)
}

// begun sees that the lease was not another's before the record said that a replica is being built. Who takes it from now on reads that, and gives it up before
// a write. The group is locked.
func (g *liveGroup) begun(ctx context.Context) error {
	if err := g.space.maps.HasMarks(ctx, g.rec.VDisk, g.space.marksOf(g.rec.VDisk)); err != nil {
		return errors.Join(err, g.giveUp(ctx))
	}
	return nil
}

// build makes the replica that the record says is being built, from that on source if it can. The group is locked.
func (g *liveGroup) build(ctx context.Context, source cluster.DiskID, token uint64) error {
	g.raise() // who changed the list may have died before it did
	if err := g.copyTo(ctx, g.from(source), g.rec.Building, token); err != nil || !g.marked {
		return err
	}
	return g.remark(ctx, g.rec.Building)
}

// in reports whether the group is surely in a state. It is locked.
func (g *liveGroup) in(s group.State) bool { return g.loaded && !g.unsure && g.rec.State() == s }

// lacks reports whether a replica can be made that the group lacks. The group is locked.
func (g *liveGroup) lacks() bool { return g.in(group.Degraded) || g.in(group.Repairing) }

// target chooses a disk for another replica beside those of a generation, none if the group lacks none. It sees that the disk
// answers while nobody waits for the group: a server that has just stopped is not yet known to be away.
func (g *liveGroup) target(ctx context.Context) (_ cluster.DiskID, generation uint64, _ error) {
	g.mu.RLock()
	lacks, rec := g.lacks(), g.rec
	g.mu.RUnlock()
	if !lacks {
		return "", 0, nil
	}
	chosen := g.space.pool.Place(rec.Good, rec.Wanted-len(rec.Good)) // with all that it lacks, so that the last has a place too
	if len(chosen) == 0 {
		return "", 0, fmt.Errorf("fabric: group %s: %w", g.id, ErrNoTarget)
	}
	ctx, cancel := context.WithTimeout(ctx, g.space.o.Answer/2)
	defer cancel()
	d, err := g.space.pool.Disk(chosen[0])
	if err == nil {
		_, _ = d.Stat(ctx, g.id) // whatever it has there is to be replaced
		err = ctx.Err()
	}
	if err != nil {
		err = fmt.Errorf("fabric: disk %s for another replica of group %s: %w", chosen[0], g.id, err)
	}
	return chosen[0], rec.Generation, err
}

// remark adds a disk to the mark of a group.
func (g *liveGroup) remark(ctx context.Context, more cluster.DiskID) error {
	opened := gomaps.Clone(g.opened)
	gomaps.Copy(opened, g.identify([]cluster.DiskID{more}))
	return g.setMark(ctx, g.rec.VDisk, !g.fresh, opened)
}

// finishOthers ends what others have left: a rebuild, and writes that may have reached some replicas only. The group is
// locked, and the lease is ours.
func (g *liveGroup) finishOthers(ctx context.Context, token uint64) error {
	if g.rec.Building != "" {
		if err := g.giveUp(ctx); err != nil {
			return err
		}
	}
	if g.marked {
		return nil // by a volume of this process
	}
	mark, marked, err := g.space.maps.Marked(ctx, g.rec.VDisk, g.id)
	if err != nil || !marked {
		return err
	}
	if g.mark = mark.Version; g.rec.Packed() { // it is made whole, and nobody writes to it
		return g.unmark(ctx, g.rec.VDisk)
	}
	g.unsure, g.token, g.opened, g.mark, g.fresh = true, token, mark.Opened, mark.Version, !mark.Synced
	if err := g.reconcile(ctx); err != nil {
		g.unsure, g.token, g.opened, g.mark, g.fresh = false, 0, nil, kv.Version{}, false // the mark says so still
		g.loaded = false
		return err
	}
	return g.unmark(ctx, g.rec.VDisk)
}

// authority gives a token to write to a vDisk's groups with: that of the volume which this process has open, or one of a lease
// taken for the time until done is called.
func (s *Space) authority(ctx context.Context, id disk.VDiskID) (token uint64, done func(), err error) {
	unlock := s.leasing.lock(id)
	for {
		s.mu.Lock()
		token, open := s.tokens[id]
		v := s.open[id]
		s.mu.Unlock()
		if !open {
			break
		}
		v.held.RLock()
		if s.opened(id) == v {
			unlock()
			return token, v.held.RUnlock, nil
		}
		v.held.RUnlock() // it was closed, or is a snapshot by now
	}
	lease, err := s.lease(ctx, id)
	if err != nil {
		unlock()
		return 0, nil, err
	}
	return lease.Token, func() {
		s.yield(ctx, id, lease)
		unlock()
	}, nil
}

// from gives the disks with good replicas, source first. The group is locked.
func (g *liveGroup) from(source cluster.DiskID) []cluster.DiskID {
	all := slices.Clone(g.rec.Good)
	if i := slices.Index(all, source); i > 0 {
		all[0], all[i] = all[i], all[0]
	}
	return all
}

// copyTo makes a replica on a disk, of the generation that the list gets with it, from the first of some disks that can give it. The group is locked.
func (g *liveGroup) copyTo(ctx context.Context, from []cluster.DiskID, target cluster.DiskID, token uint64) error {
	ctx, cancel := context.WithTimeout(ctx, g.space.o.Patience) // those who use the group wait for this
	defer cancel()
	d, err := g.space.pool.Disk(target)
	if err != nil {
		return err
	}
	next := g.rec.Generation + 1
	soon := func(do func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, g.space.o.Answer)
		defer cancel()
		return do(ctx)
	}
	err = soon(func(ctx context.Context) error { return d.Remove(ctx, g.id, next) })
	if err != nil && !errors.Is(err, disk.ErrNotFound) { // a stale one, or what is left of a rebuild
		return err
	}
	if err := soon(func(ctx context.Context) error { return d.Create(ctx, g.id, g.rec.VDisk, next) }); err != nil {
		return err
	}
	err = g.eachRun(ctx, from, func(offset int64, data []byte) error {
		return soon(func(ctx context.Context) error { return d.Write(ctx, g.id, next, token, offset, data, false) })
	})
	if err != nil {
		return err
	}
	return d.Sync(ctx)
}

// eachRun calls do with all slices that were written, a run of them at a time, as the first of some disks has them that can give them; of a coded group with those of the shard that
// is lost, or that the first disk has. The group is locked.
func (g *liveGroup) eachRun(ctx context.Context, from []cluster.DiskID, do func(offset int64, data []byte) error) error {
	if g.rec.Coded() {
		return g.eachPart(ctx, g.rebuilt(from[0]), do)
	}
	return g.eachRunOf(ctx, from, 0, disk.SlicesPerGroup, do)
}

// eachRunOf is eachRun for the slices from first to before end.
func (g *liveGroup) eachRunOf(ctx context.Context, from []cluster.DiskID, first, end int, do func(offset int64, data []byte) error) error {
	var mask disk.Mask
	var err error
	for _, id := range from {
		err = g.askOne(ctx, id, func(ctx context.Context, source Disk, generation uint64) (err error) {
			mask, err = source.Written(ctx, g.id, generation)
			return err
		})
		if err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	for first < end {
		n := run(&mask, first, end)
		if n == 0 {
			first++
			continue
		}
		buf := make([]byte, n*disk.SliceSize)
		offset := int64(first) * disk.SliceSize
		if err := g.readAny(ctx, from, offset, buf); err != nil {
			return err
		}
		if err := do(offset, buf); err != nil {
			return err
		}
		first += n
	}
	return nil
}

// run is how many slices from first to before end were written, up to a block.
func run(mask *disk.Mask, first, end int) int {
	n := 0
	for n < disk.BlockSize/disk.SliceSize && first+n < end && mask.Has(first+n) {
		n++
	}
	return n
}

// readAny fills buf, slice by slice from whichever replica has it where none has all. The group is locked.
func (g *liveGroup) readAny(ctx context.Context, from []cluster.DiskID, offset int64, buf []byte) error {
	var errs []error
	for _, id := range from {
		err := g.askOne(ctx, id, func(ctx context.Context, d Disk, generation uint64) error {
			return d.Read(ctx, g.id, generation, offset, buf)
		})
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	if len(buf) <= int(disk.SliceSize-offset%disk.SliceSize) {
		return errors.Join(errs...)
	}
	for len(buf) > 0 {
		n := min(len(buf), int(disk.SliceSize-offset%disk.SliceSize))
		if err := g.readAny(ctx, from, offset, buf[:n]); err != nil {
			return err
		}
		offset, buf = offset+int64(n), buf[n:]
	}
	return nil
}

// Reopened says that a disk was opened again and may lack what was not synced. It is called
// before the pool gives that disk out: its replicas with unsynced writes are dropped, and the other groups that have one there are
// marked anew before they are written.
func (s *Space) Reopened(ctx context.Context, id cluster.DiskID) error {
	s.mu.Lock()
	volumes := slices.Collect(gomaps.Values(s.open))
	s.mu.Unlock()
	var errs []error
	for _, v := range volumes {
		v.mu.Lock()
		marked, token := gomaps.Clone(v.marked), v.token // all dirty ones are marked
		v.mu.Unlock()
		for _, g := range marked {
			errs = append(errs, v.reopened(ctx, g, id, token))
		}
	}
	return errors.Join(errs...)
}

// reopened drops a disk that may lack writes, if another replica can be reached. Else the replicas are compared before one is read.
func (v *Volume) reopened(ctx context.Context, g *liveGroup, id cluster.DiskID, token uint64) error {
	g.mu.Lock() // a write that the disk has taken and lost since is noted by then
	defer g.mu.Unlock()
	v.mu.Lock()
	_, dirty := v.dirty[g.id]
	v.mu.Unlock()
	g.marked = g.marked && !slices.Contains(g.rec.Good, id)
	if !dirty {
		return nil
	}
	if !g.unsure && g.space.reaches(g.rec, id) {
		return g.dropUnlessLast(ctx, id)
	}
	g.unsure, g.token = slices.Contains(g.rec.Good, id) || g.unsure, token
	g.forgetMask() // slices may be lost that were written
	return nil
}

// dropUnlessLast drops a disk from a group, dead or alive, unless it is the last of one that lives. The group is locked.
func (g *liveGroup) dropUnlessLast(ctx context.Context, id cluster.DiskID) error {
	err := g.load(ctx)
	if err == nil && g.rec.Dead {
		err = g.change(ctx, func(rec group.Group) (group.Group, error) { return rec.Forget(id) })
	} else if err == nil {
		err = g.dropLocked(ctx, id)
	}
	if errors.Is(err, group.ErrLast) || errors.Is(err, maps.ErrNotFound) {
		return nil
	}
	return err
}

// Discard takes a replica off a group's list that its disk has lost or let rot, unless it is the last. What only that replica can still give
// is written to the others first: they may have rotten in other places.
func (s *Space) Discard(ctx context.Context, id disk.GroupID, from cluster.DiskID) error {
	g := s.pin(id)
	defer s.unpin(g)
	if err := g.prepare(ctx, nil); err != nil {
		if errors.Is(err, maps.ErrNotFound) {
			return nil
		}
		return err
	}
	g.mu.RLock()
	vdisk := g.rec.VDisk
	g.mu.RUnlock()
	token, done, err := s.authority(ctx, vdisk) // before the group is locked, as who opens the vDisk does
	if err != nil {
		return err
	}
	defer done()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.load(ctx); err != nil || !slices.Contains(g.rec.Good, from) {
		return err
	}
	discard := g.discardReplica
	if g.rec.Coded() {
		discard = g.discardShard
	}
	if err := discard(ctx, from, token); err != nil {
		return fmt.Errorf("fabric: group %s: disk %s may have what no other has: %w", id, from, err)
	}
	return nil
}

func (g *liveGroup) discardReplica(ctx context.Context, from cluster.DiskID, token uint64) error {
	if len(g.rec.Good) == 1 {
		return nil
	}
	if err := g.heal(ctx, from, token); err != nil {
		return err
	}
	return g.dropUnlessLast(ctx, from)
}

// heal writes slices that no other replica can give from one to the others. The group is locked.
func (g *liveGroup) heal(ctx context.Context, from cluster.DiskID, token uint64) error {
	others := slices.DeleteFunc(slices.Clone(g.rec.Good), func(id cluster.DiskID) bool { return id == from })
	healed := false
	err := g.eachRun(ctx, append(slices.Clone(others), from), func(offset int64, data []byte) error {
		for at := int64(0); at < int64(len(data)); at += disk.SliceSize {
			slice := data[at : at+disk.SliceSize]
			if g.readAny(ctx, others, offset+at, make([]byte, disk.SliceSize)) == nil {
				continue
			}
			healed = true
			errs := g.each(others, func(ctx context.Context, d Disk) error {
				return d.Write(ctx, g.id, g.rec.Generation, token, offset+at, slice, false)
			})
			if err := errors.Join(errs...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || !healed {
		return err
	}
	return errors.Join(g.each(others, func(ctx context.Context, d Disk) error { return d.Sync(ctx) })...)
}

// Drop takes a replica off a group's list, unless it is the last.
func (s *Space) Drop(ctx context.Context, id disk.GroupID, from cluster.DiskID) error {
	g := s.pin(id)
	defer s.unpin(g)
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.dropUnlessLast(ctx, from)
}

// Lost says that a disk is lost for good: its replicas are dropped from all groups of which another replica can be reached. The others
// are given: while nothing else can be reached, nobody knows what is lost.
func (s *Space) Lost(ctx context.Context, id cluster.DiskID) (kept []disk.GroupID, err error) {
	for g, err := range s.maps.Groups(ctx) {
		if err != nil {
			return kept, err
		}
		switch {
		case !slices.Contains(g.Good, id) && (!g.Dead || g.Building != id):
		case g.Dead || s.reaches(g.Group, id):
			if err := s.Drop(ctx, g.ID, id); err != nil {
				return kept, err
			}
		default:
			kept = append(kept, g.ID)
		}
	}
	return kept, nil
}

// reaches reports whether so many disks of a group can be had, but for one, that it can be read.
func (s *Space) reaches(g group.Group, but cluster.DiskID) bool {
	n := 0
	for _, id := range g.Good {
		if _, err := s.pool.Disk(id); id != but && err == nil {
			n++
		}
	}
	return n >= g.Needs()
}
