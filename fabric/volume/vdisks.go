package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/kv"
)

// MaxSize is the size of the largest vDisk.
const MaxSize = 64 << 40

// Create makes an empty vDisk.
func (s *Space) Create(ctx context.Context, name string, size int64, replicas int, now time.Time) (maps.VDisk, error) {
	return s.create(ctx, maps.VDisk{Name: name, Size: size, Replicas: replicas, Created: now})
}

// Clone makes a vDisk that begins as a snapshot is.
func (s *Space) Clone(ctx context.Context, snapshot, name string, now time.Time) (maps.VDisk, error) {
	parent, err := s.maps.Find(ctx, snapshot)
	if err != nil {
		return maps.VDisk{}, err
	}
	if !parent.Snapshot {
		return maps.VDisk{}, fmt.Errorf("fabric: clone %s: %w", snapshot, ErrNoSnapshot)
	}
	return s.create(ctx, maps.VDisk{Name: name, Size: parent.Size, Replicas: parent.Replicas, Parent: parent.ID, Reach: parent.Size, Created: now})
}

// ErrNoSnapshot is returned by Clone for a vDisk that can be written.
var ErrNoSnapshot = errors.New("not a snapshot")

// create makes a vDisk. Its name is bound before there is a vDisk, so that one without a name is never to get one (needless). It is
// confirmed when it counts, since until then another may take it.
func (s *Space) create(ctx context.Context, v maps.VDisk) (maps.VDisk, error) {
	id, err := s.maps.Draw(ctx, maps.VDiskIDs, 1)
	if err != nil {
		return maps.VDisk{}, err
	}
	v.ID = disk.VDiskID(id)
	bound, err := s.maps.Bind(ctx, v.Name, v.ID)
	if err != nil {
		return maps.VDisk{}, err
	}
	if _, err := s.maps.SetVDisk(ctx, v, kv.Version{}); err != nil {
		return maps.VDisk{}, err
	}
	if err := s.keptFor(ctx, v); err != nil {
		return maps.VDisk{}, errors.Join(err, s.update(ctx, v.ID, func(v *maps.VDisk) { v.Removed = true }))
	}
	return v, s.maps.Confirm(ctx, v.Name, bound, v.ID)
}

// keptFor makes sure that the parent of a new vDisk was not removed before the vDisk could be seen. From now on it is kept.
func (s *Space) keptFor(ctx context.Context, v maps.VDisk) error {
	if v.Parent == 0 {
		return nil
	}
	parent, _, err := s.maps.VDisk(ctx, v.Parent)
	if err == nil && parent.Removed {
		err = fmt.Errorf("fabric: find %s: %w", parent.Name, maps.ErrNotFound)
	}
	return err
}

// Remove takes a vDisk or snapshot away. Its data is removed by Reap.
func (s *Space) Remove(ctx context.Context, name string) error {
	v, err := s.maps.Find(ctx, name)
	if err != nil {
		return err
	}
	if err := s.removeUnused(ctx, v); err != nil {
		return fmt.Errorf("fabric: remove %s: %w", name, err)
	}
	err = s.maps.Unbind(ctx, name, v.ID)
	if errors.Is(err, maps.ErrChanged) || errors.Is(err, maps.ErrNotFound) { // since it did not count, another has it
		return nil
	}
	return err
}

// removeUnused marks a vDisk as removed unless it is in use: in this process, or in another that writes to it.
func (s *Space) removeUnused(ctx context.Context, v maps.VDisk) error {
	defer s.leasing.lock(v.ID)()
	s.naming.Lock()
	s.mu.Lock()
	inUse := s.open[v.ID] != nil || s.readers[v.ID] > 0
	s.mu.Unlock()
	if v.Snapshot && !inUse {
		defer s.naming.Unlock() // nobody opens it meanwhile
		return s.update(ctx, v.ID, func(v *maps.VDisk) { v.Removed = true })
	}
	s.naming.Unlock()
	if inUse {
		return ErrInUse
	}
	lease, err := s.awaitLease(ctx, v.ID) // who opens it has to wait
	if err != nil {
		return err
	}
	defer s.yield(ctx, v.ID, lease)
	if now, _, err := s.maps.VDisk(ctx, v.ID); err != nil || now.Snapshot {
		return cmp.Or(err, ErrInUse)
	}
	return s.update(ctx, v.ID, func(v *maps.VDisk) { v.Removed = true })
}

// update changes the record of a vDisk.
func (s *Space) update(ctx context.Context, id disk.VDiskID, change func(*maps.VDisk)) error {
	for {
		v, version, err := s.maps.VDisk(ctx, id)
		if err != nil {
			return err
		}
		change(&v)
		if _, err = s.maps.SetVDisk(ctx, v, version); !errors.Is(err, maps.ErrChanged) {
			return err
		}
	}
}

// Reap removes the data of vDisks that were removed and that no other is read through. It may be
// interrupted and called again.
func (s *Space) Reap(ctx context.Context) error {
	s.reaping.Lock()
	defer s.reaping.Unlock()
	for again := true; again; {
		needless, err := s.needless(ctx)
		if err != nil {
			return err
		}
		again = false
		for _, v := range needless {
			reaped, err := s.reap(ctx, v, math.MaxInt64)
			if err != nil {
				return err
			}
			again = again || reaped && v.Parent != 0 // which nothing may be read through now
		}
	}
	return s.buryAll(ctx)
}

// vdisks lists all vDisks. They are read in no order: where the parent of one is missing, it may have been merged and removed meanwhile, and its child has another. So they are read again.
// If it is missing again, the child was made when the parent had just been removed, and is never used.
func (s *Space) vdisks(ctx context.Context) (map[disk.VDiskID]maps.VDisk, error) {
	for missing := (map[disk.VDiskID]disk.VDiskID)(nil); ; {
		all := map[disk.VDiskID]maps.VDisk{}
		for v, err := range s.maps.VDisks(ctx) {
			if err != nil {
				return nil, err
			}
			all[v.ID] = v
		}
		before, news := missing, false
		missing = map[disk.VDiskID]disk.VDiskID{}
		for _, v := range all {
			if _, there := all[v.Parent]; v.Parent != 0 && !there {
				missing[v.ID] = v.Parent
				news = news || before[v.ID] != v.Parent
			}
		}
		if !news {
			return all, nil
		}
	}
}

// needless lists the vDisks that no other is read through and that were removed.
func (s *Space) needless(ctx context.Context) (all []maps.VDisk, err error) {
	removed, err := s.removed(ctx)
	if err != nil || len(removed) == 0 {
		return nil, err
	}
	vdisks, err := s.vdisks(ctx) // read afterwards: who makes a child now sees that the parent is removed
	if err != nil {
		return nil, err
	}
	parents := map[disk.VDiskID]bool{}
	for _, v := range vdisks {
		parents[v.Parent] = true
	}
	for _, v := range removed {
		if !parents[v.ID] {
			all = append(all, v)
		}
	}
	return all, nil
}

// removed lists the vDisks that were removed. Those that no name leads to, now and when it was last called, are removed as well: a front left them
// that was killed while it made them.
func (s *Space) removed(ctx context.Context) (all []maps.VDisk, err error) {
	s.naming.Lock() // no volume of this process becomes a snapshot meanwhile
	defer s.naming.Unlock()
	nameless := map[disk.VDiskID]bool{}
	for v, err := range s.maps.VDisks(ctx) {
		if err != nil {
			return nil, err
		}
		if v.Removed {
			all = append(all, v)
			continue
		}
		named, err := s.maps.Find(ctx, v.Name)
		if err != nil && !errors.Is(err, maps.ErrNotFound) {
			return nil, err
		}
		if named.ID == v.ID {
			continue
		}
		nameless[v.ID] = true
		if !s.nameless[v.ID] {
			continue
		}
		lease, err := s.maps.Leases.Get(ctx, maps.LeaseName(v.ID))
		if err != nil {
			return nil, err
		}
		if lease.Held(time.Now()) && lease.Holder != s.o.Holder { // another front is about to give it one
			continue
		}
		if err := s.maps.Condemn(ctx, v.ID); err != nil && !errors.Is(err, maps.ErrNotFound) {
			return nil, err
		}
		all = append(all, v) // if it is; reap looks again
	}
	s.nameless = nameless
	return all, nil
}

// buryAll removes replicas of dead groups that could not be removed before.
func (s *Space) buryAll(ctx context.Context) error {
	for dead, err := range s.maps.Groups(ctx) {
		if err != nil {
			return err
		}
		if !dead.Dead {
			continue
		}
		if err := s.remove(ctx, dead.VDisk, dead.ID); err != nil {
			return err
		}
	}
	return nil
}

// reap removes the data of a vDisk and the vDisk, unless another does or it is not removed after all. After some time it is ErrUnfinished.
func (s *Space) reap(ctx context.Context, v maps.VDisk, piece time.Duration) (reaped bool, err error) {
	begun := time.Now()
	_, done, err := s.authority(ctx, v.ID)
	if errors.Is(err, kv.ErrTaken) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer done()
	now, version, err := s.maps.VDisk(ctx, v.ID)
	if errors.Is(err, maps.ErrNotFound) || err == nil && !now.Removed {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for end := blocksOf(max(now.Size, now.Most)); s.emptied[v.ID] < end; {
		next := min(s.emptied[v.ID]+reapStep, end)
		if err := s.empty(ctx, v.ID, s.emptied[v.ID], next); err != nil {
			return false, err
		}
		if s.emptied[v.ID] = next; next < end && time.Since(begun) > piece {
			return false, fmt.Errorf("fabric: remove the data of vDisk %d: %w", v.ID, ErrUnfinished)
		}
	}
	delete(s.emptied, v.ID)
	marks, err := s.maps.Marks(ctx, v.ID)
	if err != nil {
		return false, err
	}
	for _, mark := range marks {
		if err := s.abandon(ctx, v.ID, mark.Group); err != nil {
			return false, err
		}
	}
	if err := s.maps.ForgetMarks(ctx, v.ID, s.marksOf(v.ID)); err != nil {
		return false, err
	}
	err = s.maps.DeleteVDisk(ctx, v.ID, version)
	if errors.Is(err, maps.ErrChanged) { // another front has just found it removed as well: who looks next deletes it
		return false, nil
	}
	return err == nil, err
}

// reapStep is how many blocks are removed before it is looked how long that took: a part of the block map.
const reapStep = maps.BlocksPerPart

// abandon removes what a crash left of a group of a removed vDisk. Others may have inherited some of its extents.
func (s *Space) abandon(ctx context.Context, v disk.VDiskID, id disk.GroupID) error {
	left, err := s.made(ctx, id)
	if err == nil {
		left, err = s.unreferredByAny(ctx, left)
	}
	if err != nil {
		return err
	}
	for _, e := range left {
		if err := s.release(ctx, v, e); err != nil {
			return err
		}
	}
	if err := s.remove(ctx, v, id); err != nil {
		return err
	}
	return s.maps.Unmark(ctx, v, id, s.marksOf(v), kv.Version{})
}

// empty removes blocks that a vDisk itself has, with their extents.
func (s *Space) empty(ctx context.Context, id disk.VDiskID, first, end int64) error {
	v, _, err := s.maps.VDisk(ctx, id)
	if err != nil {
		return err
	}
	for first < end {
		all, next, err := s.ownBlocks(ctx, id, first, end)
		if err != nil {
			return err
		}
		for _, b := range all {
			if err := s.settle(ctx, v.Parent, b.number, b.Block); err != nil {
				return err
			}
			if err := s.maps.DeleteBlock(ctx, id, b.number, b.version); err != nil {
				return err
			}
			for _, e := range b.Pile {
				if err := s.release(ctx, id, e); err != nil {
					return err
				}
			}
		}
		first = next
	}
	return nil
}

// Snapshot keeps the volume as it is now under a name. The volume goes on as a child of it.
func (v *Volume) Snapshot(ctx context.Context, name string, now time.Time) error {
	v.gate.Lock()
	defer v.gate.Unlock()
	if broken := v.broken.Load(); broken != nil {
		return *broken
	}
	if v.readOnly {
		return ErrReadOnly
	}
	s := v.space
	if err := v.quiesce(ctx); err != nil {
		return err
	}
	within, done, err := s.tenure(ctx, v.id, time.Now()) // another who has taken over would write to what is sealed here
	if err != nil {
		return v.lost(err)
	}
	defer done()
	s.naming.Lock()
	defer s.naming.Unlock()
	if _, err := s.maps.Find(within, name); !errors.Is(err, maps.ErrNotFound) {
		return fmt.Errorf("fabric: snapshot %s: %w", name, cmp.Or(err, maps.ErrExists))
	}
	old, _, err := s.maps.VDisk(within, v.id)
	if err != nil {
		return err
	}
	led, err := s.maps.Leads(within, old.Name, v.id) // before there is a child, which is removed while no name leads to it (needless)
	if err != nil {
		return err
	}
	id, err := s.maps.Draw(within, maps.VDiskIDs, 1)
	if err != nil {
		return err
	}
	child := maps.VDisk{ID: disk.VDiskID(id), Name: old.Name, Size: v.size, Replicas: old.Replicas, Parent: v.id, Reach: v.size, Created: old.Created}
	lease, err := s.lease(within, child.ID) // before it is seen: who finds it without a name leaves it alone
	if err != nil {
		return err
	}
	if _, err := s.maps.SetVDisk(within, child, kv.Version{}); err != nil {
		s.yield(ctx, child.ID, lease)
		return err
	}
	// A name counts only if the vDisk that it leads to has that name too. So the snapshot's
	// is taken here and counts from the last step on, and the vDisk's is never without effect.
	bound, err := s.maps.Bind(within, name, v.id)
	if err != nil {
		return err
	}
	if err := s.maps.HasMarks(within, v.id, s.marksOf(v.id)); err != nil {
		return v.lost(err)
	}
	if err := s.maps.Rebind(within, old.Name, led, child.ID); err != nil {
		return err
	}
	v.held.Lock()
	defer v.held.Unlock()
	was := v.become(child, lease)
	// Until now no name led to it, so that another may have condemned it, and sealed it to merge it.
	late := false
	if err := s.update(ctx, old.ID, func(o *maps.VDisk) {
		if late = o.Sealed; !late {
			o.Name, o.Snapshot, o.Sealed, o.Removed, o.Created = name, true, true, false, now
		}
	}); err != nil {
		return err
	}
	if late {
		return fmt.Errorf("fabric: snapshot %s: %w", name, ErrFenced)
	}
	_ = s.maps.Leases.Release(ctx, was) // else it runs out
	return s.maps.Confirm(ctx, name, bound, old.ID)
}

// become makes the volume one of another vDisk, whose parent is the one that it was, and gives the lease of that. No request is under way.
func (v *Volume) become(child maps.VDisk, lease kv.Lease) (was kv.Lease) {
	s := v.space
	s.mu.Lock()
	delete(s.open, v.id)
	delete(s.tokens, v.id)
	delete(s.taken, v.id)
	s.open[child.ID], s.tokens[child.ID] = v, lease.Token
	s.mu.Unlock()
	v.keeping.Lock()
	was, v.lease, v.renewed = v.lease, lease, lease.Expires.Add(-s.o.Lease)
	v.keeping.Unlock()
	v.id, v.token = child.ID, lease.Token
	v.chain = append([]member{{child.ID, child.Size}}, v.chain...)
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, b := range v.blocks {
		for i := range b.pile {
			b.pile[i].own = false
		}
		b.own, b.version = maps.Block{}, kv.Version{}
	}
	return was
}

// Resize changes the size. Bytes beyond the smaller of both sizes read as zeros.
func (v *Volume) Resize(ctx context.Context, size int64) error {
	v.gate.Lock()
	defer v.gate.Unlock()
	if broken := v.broken.Load(); broken != nil {
		return *broken
	}
	if v.readOnly {
		return ErrReadOnly
	}
	was := v.size
	if size > was {
		v.size = size // what a shrink left behind is cleared before it can be seen
		if err := v.zero(ctx, was, min(size, blocksOf(was)*disk.BlockSize)-was, false, true); err != nil {
			v.size = was
			return v.lost(err)
		}
		if err := v.clear(ctx, blocksOf(was), blocksOf(size)); err != nil {
			v.size = was
			return v.lost(err)
		}
	}
	within, done, err := v.space.tenure(ctx, v.id, time.Now())
	if err != nil {
		v.size = was
		return v.lost(err)
	}
	defer done()
	err = v.space.update(within, v.id, func(r *maps.VDisk) { r.Most = max(r.Most, r.Size); r.Size, r.Reach = size, min(r.Reach, size) })
	if err != nil {
		v.size = was
		return err
	}
	v.size = size
	v.chain[0].reach = size
	for i := range v.chain[1:] {
		v.chain[i+1].reach = min(v.chain[i+1].reach, size)
	}
	v.mu.Lock()
	v.blocks = map[int64]*block{}
	v.mu.Unlock()
	if size < was {
		return v.lost(v.clear(ctx, blocksOf(size), blocksOf(was)))
	}
	return nil
}

// clear removes blocks that the vDisk itself has, as long as it is ours.
func (v *Volume) clear(ctx context.Context, first, end int64) error {
	for first < end {
		within, done, err := v.space.tenure(ctx, v.id, time.Now())
		if err != nil {
			return err
		}
		next := min(first+reapStep, end)
		err = v.space.empty(within, v.id, first, next)
		done()
		if err != nil {
			return err
		}
		first = next
	}
	return nil
}
