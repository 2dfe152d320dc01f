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
	renewed time.Time // when the lease was, or was taken; of keeping

	held sync.RWMutex // held for reading by upkeep that uses the lease, for writing while it is given up

	gate sync.RWMutex // held for reading by requests, for writing by Close, Resize and Snapshot
	size int64

	replicas int // wanted

	loading sync.Mutex
	mu      sync.Mutex
	blocks  map[int64]*block
	turn    int64 // which half of the blocks is forgotten next
	marked  map[disk.GroupID]*liveGroup
	dirty   map[disk.GroupID]*unsynced
	leaving map[cluster.DiskID]bool // disks that are being left

	allocating sync.Mutex
	spare      []maps.ExtentID
}

// A member of a chain is seen through the first one up to reach bytes.
type member struct {
	id    disk.VDiskID
	reach int64
}

// Open opens a vDisk, for writing unless it is a snapshot. ctx is for opening alone. One that has become a snapshot meanwhile is
// maps.ErrChanged: its name leads to another.
func (s *Space) Open(ctx context.Context, id disk.VDiskID) (_ *Volume, err error) {
	v, vdisk, err := s.come(ctx, id)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.left(v)
		}
	}()
	if v.readOnly {
		err = v.link(ctx, vdisk)
	} else {
		err = v.begin(ctx)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// come registers a volume: one writer of a vDisk, any number of readers of a snapshot.
func (s *Space) come(ctx context.Context, id disk.VDiskID) (*Volume, maps.VDisk, error) {
	s.naming.Lock()
	defer s.naming.Unlock()
	vdisk, _, err := s.maps.VDisk(ctx, id)
	if err == nil && vdisk.Removed {
		err = fmt.Errorf("fabric: vDisk %s: %w", vdisk.Name, maps.ErrNotFound)
	}
	if err != nil {
		return nil, vdisk, err
	}
	v := &Volume{space: s, id: id, size: vdisk.Size, readOnly: vdisk.Snapshot, stop: func() {},
		blocks: map[int64]*block{}, marked: map[disk.GroupID]*liveGroup{}, dirty: map[disk.GroupID]*unsynced{}, leaving: map[cluster.DiskID]bool{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case v.readOnly:
		s.readers[id]++
	case s.open[id] != nil:
		return nil, vdisk, fmt.Errorf("fabric: vDisk %s: %w", vdisk.Name, ErrInUse)
	default:
		s.open[id] = v
	}
	return v, vdisk, nil
}

func (s *Space) left(v *Volume) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.readOnly {
		s.readers[v.id]--
	} else if s.open[v.id] == v {
		delete(s.open, v.id)
		delete(s.tokens, v.id)
		delete(s.taken, v.id)
	}
}

// hold remembers the token of a vDisk that is open.
func (s *Space) hold(id disk.VDiskID, token uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[id] = token
}

// link finds the vDisk's parents, and how much of each can be seen. Those that a writer left when it crashed are brought in order.
func (v *Volume) link(ctx context.Context, vdisk maps.VDisk) error {
	for tries := 10; ; tries-- { // a parent may be merged and removed meanwhile: then its child has another
		err := v.linkOnce(ctx, vdisk)
		if tries == 0 || !errors.Is(err, maps.ErrNotFound) {
			return err
		}
		if vdisk, _, err = v.space.maps.VDisk(ctx, vdisk.ID); err != nil {
			return err
		}
	}
}

func (v *Volume) linkOnce(ctx context.Context, vdisk maps.VDisk) error {
	v.chain = nil
	reach := vdisk.Size
	for first := true; ; first = false {
		v.chain = append(v.chain, member{vdisk.ID, reach})
		v.space.doubt(vdisk.ID)
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

// begin takes the lease and finds what the last writer left unfinished.
func (v *Volume) begin(ctx context.Context) (err error) {
	defer v.space.leasing.lock(v.id)()
	lease, err := v.space.awaitLease(ctx, v.id)
	if err != nil {
		return err
	}
	taken := lease.Expires.Add(-v.space.o.Lease)
	defer func() {
		if err != nil {
			_ = v.space.maps.Leases.Release(context.WithoutCancel(ctx), lease) // else it runs out
		}
	}()
	v.mu.Lock() // Reopened may look at it already
	v.lease, v.token = lease, lease.Token
	v.mu.Unlock()
	v.keeping.Lock()
	v.renewed = taken
	v.keeping.Unlock()
	v.space.hold(v.id, v.token)
	vdisk, _, err := v.space.maps.VDisk(ctx, v.id) // as the last writer left it
	switch {
	case err != nil:
		return err
	case vdisk.Removed:
		return fmt.Errorf("fabric: vDisk %s: %w", vdisk.Name, maps.ErrNotFound)
	case vdisk.Snapshot:
		return fmt.Errorf("fabric: vDisk %s: %w", vdisk.Name, maps.ErrChanged)
	}
	v.size, v.replicas = vdisk.Size, vdisk.Replicas
	if err := v.link(ctx, vdisk); err != nil {
		return err
	}
	groups, err := v.space.recover(ctx, v.id, v.token)
	if err != nil {
		return err
	}
	v.mu.Lock()
	for _, g := range groups {
		v.marked[g.id] = g
		v.dirty[g.id] = &unsynced{g, 1} // the last writer may have answered what it had not synced
	}
	v.mu.Unlock()
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
		_ = v.renew(ctx) // if it fails, there is a next time
	}
}

// renew moves the end of the lease. If another has taken it, the volume fails.
func (v *Volume) renew(ctx context.Context) error {
	v.keeping.Lock()
	defer v.keeping.Unlock()
	begun := time.Now()
	next, err := v.space.maps.Leases.Renew(ctx, v.lease, begun, v.space.o.Lease)
	if errors.Is(err, kv.ErrTaken) {
		err = fmt.Errorf("%w: %w", ErrFenced, err)
		v.fail(err)
	}
	if err == nil {
		v.lease, v.renewed = next, begun
	}
	return err
}

func (v *Volume) lastRenewed() time.Time {
	v.keeping.Lock()
	defer v.keeping.Unlock()
	return v.renewed
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
	v.held.Lock()
	defer v.held.Unlock()
	v.space.left(v)
	return v.space.maps.Leases.Release(ctx, v.lease)
}

// quiesce makes all replicas equal and synced, unmarks their groups, and makes sure of the maps. No request is under way.
func (v *Volume) quiesce(ctx context.Context) error {
	if err := v.flush(ctx); err != nil {
		return err
	}
	if err := v.giveBack(ctx); err != nil {
		return err
	}
	for _, g := range gomaps.Clone(v.marked) {
		if err := v.unmark(ctx, g); err != nil {
			return err
		}
	}
	return v.ascertainAll(ctx)
}

// giveBack removes the extents that were kept for blocks to come.
func (v *Volume) giveBack(ctx context.Context) error {
	v.allocating.Lock()
	defer v.allocating.Unlock()
	for len(v.spare) > 0 {
		e := v.spare[0]
		v.spare = v.spare[1:] // whatever becomes of it, no block gets it
		if err := v.space.release(ctx, v.id, e); err != nil {
			return err
		}
	}
	return nil
}

// unpinMarked forgets the groups that are still marked: the next writer compares their replicas.
func (v *Volume) unpinMarked() {
	for _, g := range v.marked {
		g.mu.Lock()
		g.loaded, g.marked, g.unsure, g.fresh, g.mark = false, false, false, false, kv.Version{}
		g.mu.Unlock()
		g.forgetMask()
		v.space.unpin(g)
	}
	v.marked = nil
}
