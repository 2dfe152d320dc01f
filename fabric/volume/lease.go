package volume

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/kv"
)

// Several spaces may have one store. What a vDisk consists of changes only by who has its lease:
//
//   - Disks refuse the tokens of those who had it before (fabric/disk).
//   - Marks are changed only by who took them last (maps.TakeMarks), so a former holder cannot begin to write to a group.
//   - Who takes a lease forgets what it knew of the vDisk's groups (doubt).
//
// Exceptions are replicas that are taken off a list: that is safe at any time, since who has the longer list writes to those of the
// shorter one as well, or is told by their generation. And what a block refers to or where an extent is, while its bytes stay the same, is not
// changed by writers: no version tells the one who copied those bytes that another has written since. So it is changed only within
// a tenure, which is shorter than the lease.

// lease takes the lease of a vDisk and its marks. It fails with kv.ErrTaken while another has the lease.
func (s *Space) lease(ctx context.Context, id disk.VDiskID) (kv.Lease, error) {
	lease, err := s.maps.Leases.Acquire(ctx, maps.LeaseName(id), s.o.Holder, time.Now(), s.o.Lease)
	if err != nil {
		return lease, err
	}
	taken, err := s.maps.TakeMarks(ctx, id)
	if err != nil {
		return lease, err
	}
	s.mu.Lock()
	s.taken[id] = taken
	s.mu.Unlock()
	s.doubt(id)
	return lease, nil
}

// awaitLease is lease, but waits for one that another has: until it runs out or is given up, or its holder renews it.
func (s *Space) awaitLease(ctx context.Context, id disk.VDiskID) (kv.Lease, error) {
	var before kv.Lease
	for pause := newBackoff(2 * s.o.Lease); ; {
		lease, err := s.lease(ctx, id)
		if !errors.Is(err, kv.ErrTaken) {
			return lease, err
		}
		renewed := lease.Token == before.Token && lease.Expires.After(before.Expires)
		if renewed || !pause.wait(ctx) {
			return lease, fmt.Errorf("%w: %w", ErrInUse, err)
		}
		before = lease
	}
}

// yield gives a lease up that is used without a volume.
func (s *Space) yield(ctx context.Context, id disk.VDiskID, lease kv.Lease) {
	_ = s.maps.Leases.Release(context.WithoutCancel(ctx), lease) // else it runs out
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.taken, id)
}

// tenure gives a context that ends before the lease of a vDisk can be another's: the lease that a volume of this process has, which is renewed if that was some time ago, or
// one that was taken since begun.
func (s *Space) tenure(ctx context.Context, id disk.VDiskID, begun time.Time) (context.Context, context.CancelFunc, error) {
	if v := s.opened(id); v != nil {
		if begun = v.lastRenewed(); time.Since(begun) > s.o.Lease/4 {
			begun = time.Now()
			if err := v.renew(ctx); err != nil {
				return nil, nil, err
			}
		}
	}
	ctx, done := context.WithDeadline(ctx, begun.Add(s.o.Lease/2))
	return ctx, done, nil
}

// sharing calls do while no other has an extent share a packed group, or removes a packed group: else one that is found empty could get an extent before
// it is dead.
func (s *Space) sharing(ctx context.Context, do func(context.Context) error) error {
	s.shares.Lock()
	defer s.shares.Unlock()
	begun := time.Now()
	lease, err := s.maps.Leases.Acquire(ctx, sharingLease, s.o.Holder, begun, s.o.Lease)
	if err != nil {
		return err
	}
	within, done := context.WithDeadline(ctx, begun.Add(s.o.Lease/2))
	defer done()
	err = do(within)
	_ = s.maps.Leases.Release(context.WithoutCancel(ctx), lease) // else it runs out
	return err
}

const sharingLease = "sharing" // no vDisk's: those are numbered

// marksOf gives the version by which a vDisk's marks are ours, zero if they are not.
func (s *Space) marksOf(id disk.VDiskID) kv.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken[id]
}

// doubt forgets what is known of a vDisk's groups: another may have changed them.
func (s *Space) doubt(id disk.VDiskID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.groups {
		if of := disk.VDiskID(g.vdisk.Load()); of == id || of == 0 {
			g.stale.Store(true)
		}
	}
}

// doubtGroup is doubt for one group.
func (s *Space) doubtGroup(id disk.GroupID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.groups[id]; g != nil {
		g.stale.Store(true)
	}
}

// refresh reads the record again if what is known may be old. The group is locked.
func (g *liveGroup) refresh(ctx context.Context) error {
	if g.stale.Swap(false) {
		g.loaded = false
		g.forgetMask()
	}
	if g.loaded {
		return nil
	}
	return g.load(ctx)
}
