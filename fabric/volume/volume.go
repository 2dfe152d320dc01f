package volume

import (
	"context"
	"errors"
	"fmt"
	gomaps "maps"
	"sync"
	"sync/atomic"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/kv"
)

// A Volume is a vDisk that is open. Its methods may be called concurrently.
type Volume struct {
	space    *Space
	id       disk.VDiskID
	readOnly bool
	chain    []member // the vDisk, its parent, and so on

	keeping sync.Mutex
	lease   kv.Lease
	token   uint64
	broken  atomic.Pointer[error] // why it can be used no more
	stop    context.CancelFunc
	keeper  sync.WaitGroup

	gate sync.RWMutex // held for reading by requests, for writing by Close, Resize and Snapshot
	size int64

	loading sync.Mutex
	mu      sync.Mutex
	blocks  map[int64]*block
	turn    int64 // which half of the blocks is forgotten next
	marked  map[disk.GroupID]*liveGroup
	dirty   map[disk.GroupID]*liveGroup // written and not synced

	allocating sync.Mutex
	spare      []maps.ExtentID
}

// A member of a chain is seen through the first one up to reach bytes.
type member struct {
	id    disk.VDiskID
	reach int64
}

// Open opens a vDisk, for writing unless it is a snapshot. ctx is for opening alone.
func (s *Space) Open(ctx context.Context, id disk.VDiskID) (_ *Volume, err error) {
	vdisk, _, err := s.maps.VDisk(ctx, id)
	if err != nil {
		return nil, err
	}
	v := &Volume{space: s, id: id, size: vdisk.Size, readOnly: vdisk.Snapshot,
		blocks: map[int64]*block{}, marked: map[disk.GroupID]*liveGroup{}, dirty: map[disk.GroupID]*liveGroup{}}
	if !s.come(v) {
		return nil, fmt.Errorf("fabric: vDisk %s: %w", vdisk.Name, ErrInUse)
	}
	defer func() {
		if err != nil {
			s.left(v)
		}
	}()
	if err := v.link(ctx, vdisk); err != nil {
		return nil, err
	}
	v.stop = func() {}
	if !v.readOnly {
		if err := v.begin(ctx); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// come registers a volume: one writer of a vDisk, any number of readers of a snapshot.
func (s *Space) come(v *Volume) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case v.readOnly:
		s.readers[v.id]++
	case s.open[v.id] != nil:
		return false
	default:
		s.open[v.id] = v
	}
	return true
}

func (s *Space) left(v *Volume) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.readOnly {
		s.readers[v.id]--
	} else if s.open[v.id] == v {
		delete(s.open, v.id)
	}
}

// link finds the vDisk's parents, and how much of each can be seen. Those that a writer left when it crashed are brought in order.
func (v *Volume) link(ctx context.Context, vdisk maps.VDisk) error {
	reach := vdisk.Size
	for first := true; ; first = false {
		v.chain = append(v.chain, member{vdisk.ID, reach})
		if !vdisk.Sealed && (v.readOnly || !first) {
			if err := v.space.recoverParent(ctx, vdisk.ID); err != nil {
				return err
			}
		}
		if vdisk.Parent == 0 {
			return nil
		}
		reach = min(reach, vdisk.Reach)
		var err error
		if vdisk, _, err = v.space.maps.VDisk(ctx, vdisk.Parent); err != nil {
			return err
		}
	}
}

// recoverParent compares the replicas of a snapshot's groups that its writer had under way when it crashed.
func (s *Space) recoverParent(ctx context.Context, id disk.VDiskID) error {
	marks, err := s.maps.Marks(ctx, id)
	if err != nil || len(marks) == 0 {
		return err
	}
	lease, err := s.maps.Leases.Acquire(ctx, maps.LeaseName(id), s.o.Holder, time.Now(), s.o.Lease)
	if err != nil {
		return err
	}
	groups, err := s.recover(ctx, id, lease.Token)
	if err != nil {
		return err
	}
	for _, g := range groups {
		err = errors.Join(err, g.finish(ctx, id))
		s.unpin(g)
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
	g.marked = false
	return g.space.maps.Unmark(ctx, id, g.id)
}

// begin takes the lease and finds what the last writer left unfinished.
func (v *Volume) begin(ctx context.Context) error {
	lease, err := v.space.maps.Leases.Acquire(ctx, maps.LeaseName(v.id), v.space.o.Holder, time.Now(), v.space.o.Lease)
	if errors.Is(err, kv.ErrTaken) {
		return fmt.Errorf("%w: %w", ErrInUse, err)
	}
	if err != nil {
		return err
	}
	v.lease, v.token = lease, lease.Token
	groups, err := v.space.recover(ctx, v.id, v.token)
	if err != nil {
		return err
	}
	for _, g := range groups {
		v.marked[g.id] = g
		v.dirty[g.id] = g // the last writer may have answered what it had not synced
	}
	keep, stop := context.WithCancel(context.Background())
	v.stop = stop
	v.keeper.Go(func() { v.keep(keep) })
	return nil
}

// keep renews the lease until the volume is closed.
func (v *Volume) keep(ctx context.Context) {
	tick := time.NewTicker(v.space.o.Lease / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		v.renew(ctx)
	}
}

func (v *Volume) renew(ctx context.Context) {
	v.keeping.Lock()
	defer v.keeping.Unlock()
	next, err := v.space.maps.Leases.Renew(ctx, v.lease, time.Now(), v.space.o.Lease)
	switch {
	case err == nil:
		v.lease = next
	case errors.Is(err, kv.ErrTaken):
		v.fail(fmt.Errorf("%w: %w", ErrFenced, err))
	}
}

func (v *Volume) fail(err error) { v.broken.CompareAndSwap(nil, &err) }

// lost turns the conflict of a second writer into ErrFenced.
func (v *Volume) lost(err error) error {
	if errors.Is(err, maps.ErrChanged) {
		err = fmt.Errorf("%w: %w", ErrFenced, err)
	}
	if errors.Is(err, ErrFenced) {
		v.fail(err)
	}
	return err
}

// Size is the vDisk's size in bytes.
func (v *Volume) Size() int64 {
	v.gate.RLock()
	defer v.gate.RUnlock()
	return v.size
}

// enter begins a request. The caller leaves by v.gate.RUnlock.
func (v *Volume) enter(offset, length int64, write bool) error {
	v.gate.RLock()
	var err error
	switch broken := v.broken.Load(); {
	case broken != nil:
		err = *broken
	case offset < 0 || length < 0 || length > v.size-offset:
		err = ErrRange
	case write && v.readOnly:
		err = ErrReadOnly
	}
	if err != nil {
		v.gate.RUnlock()
	}
	return err
}

// ReadAt fills p.
func (v *Volume) ReadAt(ctx context.Context, p []byte, offset int64) error {
	if err := v.enter(offset, int64(len(p)), false); err != nil {
		return err
	}
	defer v.gate.RUnlock()
	return v.pieces(ctx, offset, int64(len(p)), false, func(b *block, within, at, n int64) error {
		return v.readBlock(ctx, b, within, p[at:at+n])
	})
}

// WriteAt writes p. With fua it is on stable storage when WriteAt returns.
func (v *Volume) WriteAt(ctx context.Context, p []byte, offset int64, fua bool) error {
	if err := v.enter(offset, int64(len(p)), true); err != nil {
		return err
	}
	defer v.gate.RUnlock()
	return v.lost(v.pieces(ctx, offset, int64(len(p)), true, func(b *block, within, at, n int64) error {
		return v.writeBlock(ctx, b, within, p[at:at+n], fua)
	}))
}

// Zero makes a range read as zeros. Whole blocks give their space back, unless noHole asks to keep it.
func (v *Volume) Zero(ctx context.Context, offset, length int64, noHole, fua bool) error {
	if err := v.enter(offset, length, true); err != nil {
		return err
	}
	defer v.gate.RUnlock()
	return v.lost(v.zero(ctx, offset, length, noHole, fua))
}

var zeros [disk.BlockSize]byte

func (v *Volume) zero(ctx context.Context, offset, length int64, noHole, fua bool) error {
	return v.pieces(ctx, offset, length, true, func(b *block, within, at, n int64) error {
		switch {
		case noHole:
		case within == 0 && (n == disk.BlockSize || offset+at+n == v.size):
			return v.discard(ctx, b)
		default:
			if pile, err := v.layers(ctx, b); err != nil || len(pile) == 0 {
				return err
			}
		}
		return v.writeBlock(ctx, b, within, zeros[:n], fua)
	})
}

// Trim gives back the space of whole blocks in a range that is not needed any more.
func (v *Volume) Trim(ctx context.Context, offset, length int64, fua bool) error {
	return v.Zero(ctx, offset, length, false, fua)
}

// pieces calls do for the part of a range in each block, with those slices locked.
func (v *Volume) pieces(ctx context.Context, offset, length int64, write bool, do func(b *block, within, at, n int64) error) error {
	for at := int64(0); at < length; {
		within := (offset + at) % disk.BlockSize
		n := min(length-at, disk.BlockSize-within)
		b, err := v.pin(ctx, (offset+at)/disk.BlockSize)
		if err != nil {
			return err
		}
		s := span{within / disk.SliceSize, (within + n - 1) / disk.SliceSize, write}
		b.spans.take(s)
		err = do(b, within, at, n)
		b.spans.give(s)
		v.unpin(b)
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}

// mark says in the maps that a group is about to be written. The group is locked.
func (v *Volume) mark(ctx context.Context, g *liveGroup, on []cluster.DiskID) error {
	opened := g.identify(ctx, on)
	if err := v.space.maps.SetMark(ctx, v.id, maps.Mark{Group: g.id, Opened: opened}); err != nil {
		return err
	}
	g.marked, g.opened = true, opened
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, known := v.marked[g.id]; !known {
		v.marked[g.id] = v.space.pin(g.id)
	}
	return nil
}

// identify asks disks when they were opened. One that cannot be reached now is not in the answer.
func (g *liveGroup) identify(ctx context.Context, disks []cluster.DiskID) map[cluster.DiskID]uint64 {
	opened := map[cluster.DiskID]uint64{}
	var mu sync.Mutex
	g.each(ctx, disks, func(ctx context.Context, d Disk) error {
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
	if err := v.space.maps.Unmark(ctx, v.id, g.id); err != nil {
		return err
	}
	g.marked = false
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.marked, g.id)
	v.space.unpin(g)
	return nil
}

// soil remembers that a group has writes that are not synced. The group is locked.
func (v *Volume) soil(g *liveGroup) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dirty[g.id] = g
}

// Flush returns when all that returned before it was called is on stable storage of every replica.
func (v *Volume) Flush(ctx context.Context) error {
	if err := v.enter(0, 0, false); err != nil {
		return err
	}
	defer v.gate.RUnlock()
	return v.lost(v.flush(ctx))
}

func (v *Volume) flush(ctx context.Context) error {
	v.mu.Lock()
	dirty := v.dirty
	v.dirty = map[disk.GroupID]*liveGroup{}
	v.mu.Unlock()
	if err := v.space.sync(ctx, dirty); err != nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		gomaps.Copy(v.dirty, dirty)
		return err
	}
	v.unmarkSome(ctx)
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

// A failure is a replica that was not synced.
type failure struct {
	group      *liveGroup
	generation uint64
	disk       cluster.DiskID
	err        error
}

// sync makes all replicas of the groups durable. Those that cannot be are dropped.
func (s *Space) sync(ctx context.Context, groups map[disk.GroupID]*liveGroup) error {
	for _, g := range groups {
		if err := g.prepare(ctx, nil); err != nil && !errors.Is(err, maps.ErrNotFound) {
			return err
		}
	}
	for len(groups) > 0 {
		again := map[disk.GroupID]*liveGroup{}
		for _, f := range s.trySync(ctx, groups) {
			if err := f.group.drop(ctx, f.generation, f.disk); err != nil {
				return fmt.Errorf("%w: %w", err, f.err)
			}
			again[f.group.id] = f.group
		}
		groups = again
	}
	return nil
}

// trySync syncs all disks that have replicas of the groups, and gives the replicas that could not be.
func (s *Space) trySync(ctx context.Context, groups map[disk.GroupID]*liveGroup) (failed []failure) {
	on := map[cluster.DiskID][]failure{}
	for _, g := range groups {
		g.mu.RLock()
		for _, d := range g.rec.Good {
			if !g.rec.Dead {
				on[d] = append(on[d], failure{g, g.rec.Generation, d, nil})
			}
		}
		g.mu.RUnlock()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Patience)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for id, replicas := range on {
		all.Go(func() {
			d, err := s.pool.Disk(id)
			if err == nil {
				err = d.Sync(ctx)
			}
			if err == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, r := range replicas {
				r.err = err
				failed = append(failed, r)
			}
		})
	}
	all.Wait()
	return failed
}

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

// createReplicas makes a group's files on as many disks as are wanted, or as can be had.
func (s *Space) createReplicas(ctx context.Context, g *liveGroup, v disk.VDiskID, wanted int) (on []cluster.DiskID, err error) {
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
	if len(on) == 0 {
		return nil, errors.Join(ErrNoSpace, err)
	}
	return on, nil
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
	return g.space.maps.DeleteGroup(ctx, g.id, g.version)
}

// closePatience is how long Close tries to leave everything equal and synced. What is left is for the next writer.
const closePatience = time.Minute

// Close flushes, and gives the vDisk up.
func (v *Volume) Close() error {
	v.gate.Lock()
	defer v.gate.Unlock()
	if broken := v.broken.Load(); broken != nil && errors.Is(*broken, ErrClosed) {
		return nil
	}
	v.stop()
	v.keeper.Wait()
	defer v.space.left(v)
	if v.readOnly {
		v.fail(ErrClosed)
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	err := v.broken.Load()
	v.fail(ErrClosed)
	defer v.unpinMarked()
	if err != nil {
		return nil // another writes it now
	}
	if err := v.quiesce(ctx); err != nil {
		return err
	}
	return v.space.maps.Leases.Release(ctx, v.lease)
}

// quiesce makes all replicas equal and synced, and unmarks their groups. No request is under way.
func (v *Volume) quiesce(ctx context.Context) error {
	if err := v.flush(ctx); err != nil {
		return err
	}
	for _, e := range v.spare {
		if err := v.space.release(ctx, v.id, e); err != nil {
			return err
		}
	}
	v.spare = nil
	for _, g := range gomaps.Clone(v.marked) {
		if err := v.unmark(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

func (v *Volume) unpinMarked() {
	for _, g := range v.marked {
		v.space.unpin(g)
	}
	v.marked = nil
}
