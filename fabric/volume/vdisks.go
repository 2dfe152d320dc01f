package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/kv"
)

// MaxSize is the size of the largest vDisk.
const MaxSize = 64 << 40

// Create makes an empty vDisk.
func (s *Space) Create(ctx context.Context, name string, size int64, replicas int, now time.Time) (maps.VDisk, error) {
	s.naming.Lock()
	defer s.naming.Unlock()
	return s.create(ctx, maps.VDisk{Name: name, Size: size, Replicas: replicas, Created: now})
}

// Clone makes a vDisk that begins as a snapshot is.
func (s *Space) Clone(ctx context.Context, snapshot, name string, now time.Time) (maps.VDisk, error) {
	s.naming.Lock()
	defer s.naming.Unlock()
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

// create makes a vDisk. Names are locked.
func (s *Space) create(ctx context.Context, v maps.VDisk) (maps.VDisk, error) {
	if _, err := s.maps.Find(ctx, v.Name); !errors.Is(err, maps.ErrNotFound) {
		return maps.VDisk{}, fmt.Errorf("fabric: create %s: %w", v.Name, cmp.Or(err, maps.ErrExists))
	}
	id, err := s.maps.Draw(ctx, maps.VDiskIDs, 1)
	if err != nil {
		return maps.VDisk{}, err
	}
	v.ID = disk.VDiskID(id)
	if _, err := s.maps.SetVDisk(ctx, v, kv.Version{}); err != nil {
		return maps.VDisk{}, err
	}
	return v, s.maps.Bind(ctx, v.Name, v.ID)
}

// Remove takes a vDisk or snapshot away. Its data is removed by Reap.
func (s *Space) Remove(ctx context.Context, name string) error {
	s.naming.Lock()
	defer s.naming.Unlock()
	v, err := s.maps.Find(ctx, name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	inUse := s.open[v.ID] != nil || s.readers[v.ID] > 0
	s.mu.Unlock()
	if inUse {
		return fmt.Errorf("fabric: remove %s: %w", name, ErrInUse)
	}
	if err := s.update(ctx, v.ID, func(v *maps.VDisk) { v.Removed = true }); err != nil {
		return err
	}
	return s.maps.Unbind(ctx, name, v.ID)
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
	for again := true; again; {
		needless, err := s.needless(ctx)
		if err != nil {
			return err
		}
		again = false
		for _, v := range needless {
			if err := s.reap(ctx, v); err != nil {
				return err
			}
			again = again || v.Parent != 0 // which nothing may be read through now
		}
	}
	return s.buryAll(ctx)
}

// needless lists the vDisks that no other is read through and that were removed, or that no name leads to: those a front left that was killed
// while it made them.
func (s *Space) needless(ctx context.Context) (all []maps.VDisk, err error) {
	s.naming.Lock() // nobody makes or clones one meanwhile
	defer s.naming.Unlock()
	parents, removed := map[disk.VDiskID]bool{}, []maps.VDisk(nil)
	for v, err := range s.maps.VDisks(ctx) {
		if err != nil {
			return nil, err
		}
		parents[v.Parent] = true
		named, err := s.maps.Find(ctx, v.Name)
		if err != nil && !errors.Is(err, maps.ErrNotFound) {
			return nil, err
		}
		if v.Removed || named.ID != v.ID {
			removed = append(removed, v)
		}
	}
	for _, v := range removed {
		if !parents[v.ID] {
			all = append(all, v)
		}
	}
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

func (s *Space) reap(ctx context.Context, v maps.VDisk) error {
	if err := s.empty(ctx, v.ID, 0, blocksOf(max(v.Size, v.Most))); err != nil {
		return err
	}
	marks, err := s.maps.Marks(ctx, v.ID)
	if err != nil {
		return err
	}
	for _, mark := range marks {
		if err := s.abandon(ctx, v.ID, mark.Group); err != nil {
			return err
		}
	}
	_, version, err := s.maps.VDisk(ctx, v.ID)
	if err != nil {
		return err
	}
	return s.maps.DeleteVDisk(ctx, v.ID, version)
}

// abandon removes what a crash left of a group of a removed vDisk.
func (s *Space) abandon(ctx context.Context, v disk.VDiskID, id disk.GroupID) error {
	left, err := s.maps.Extents(ctx, id)
	if err != nil {
		return err
	}
	for _, e := range left {
		if err := s.maps.DeleteExtent(ctx, e); err != nil {
			return err
		}
	}
	if err := s.remove(ctx, v, id); err != nil {
		return err
	}
	return s.maps.Unmark(ctx, v, id)
}

// empty removes blocks that a vDisk itself has, with their extents.
func (s *Space) empty(ctx context.Context, id disk.VDiskID, first, end int64) error {
	type found struct {
		block   int64
		pile    []maps.ExtentID
		version kv.Version
	}
	for first < end {
		var all []found
		next, err := s.maps.Blocks(ctx, id, first, end, func(block int64, b maps.Block, version kv.Version) error {
			all = append(all, found{block, b.Pile, version})
			return nil
		})
		if err != nil {
			return err
		}
		for _, f := range all {
			if err := s.maps.DeleteBlock(ctx, id, f.block, f.version); err != nil {
				return err
			}
			for _, e := range f.pile {
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
	s.naming.Lock()
	defer s.naming.Unlock()
	if _, err := s.maps.Find(ctx, name); !errors.Is(err, maps.ErrNotFound) {
		return fmt.Errorf("fabric: snapshot %s: %w", name, cmp.Or(err, maps.ErrExists))
	}
	old, _, err := s.maps.VDisk(ctx, v.id)
	if err != nil {
		return err
	}
	id, err := s.maps.Draw(ctx, maps.VDiskIDs, 1)
	if err != nil {
		return err
	}
	child := maps.VDisk{ID: disk.VDiskID(id), Name: old.Name, Size: v.size, Replicas: old.Replicas, Parent: v.id, Reach: v.size, Created: old.Created}
	if _, err := s.maps.SetVDisk(ctx, child, kv.Version{}); err != nil {
		return err
	}
	lease, err := s.maps.Leases.Acquire(ctx, maps.LeaseName(child.ID), s.o.Holder, time.Now(), s.o.Lease)
	if err != nil {
		return err
	}
	// A name counts only if the vDisk that it leads to has that name too. So the snapshot's
	// is taken here and counts from the last step on, and the vDisk's is never without effect.
	if err := s.maps.Bind(ctx, name, v.id); err != nil {
		return err
	}
	if err := s.maps.Rebind(ctx, old.Name, v.id, child.ID); err != nil {
		return err
	}
	was := v.become(child, lease)
	if err := s.update(ctx, old.ID, func(o *maps.VDisk) { o.Name, o.Snapshot, o.Sealed, o.Created = name, true, true, now }); err != nil {
		return err
	}
	_ = s.maps.Leases.Release(ctx, was) // else it runs out
	return nil
}

// become makes the volume one of another vDisk, whose parent is the one that it was, and gives the lease of that. No request is under way.
func (v *Volume) become(child maps.VDisk, lease kv.Lease) (was kv.Lease) {
	s := v.space
	s.mu.Lock()
	delete(s.open, v.id)
	delete(s.tokens, v.id)
	s.open[child.ID], s.tokens[child.ID] = v, lease.Token
	s.mu.Unlock()
	v.keeping.Lock()
	was, v.lease = v.lease, lease
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
		if err := v.space.empty(ctx, v.id, blocksOf(was), blocksOf(size)); err != nil {
			v.size = was
			return err
		}
	}
	err := v.space.update(ctx, v.id, func(r *maps.VDisk) { r.Most = max(r.Most, r.Size); r.Size, r.Reach = size, min(r.Reach, size) })
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
		return v.space.empty(ctx, v.id, blocksOf(size), blocksOf(was))
	}
	return nil
}
