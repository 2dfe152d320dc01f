package volume

import (
	"context"
	"errors"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/kv"
	"gleaner/kv/mem"
)

// failStore fails the nth change of a table, and those after it while n is not negative.
type failStore struct {
	kv.Store
	table string
	n     *int
}

func (s failStore) Table(ctx context.Context, name string) (kv.Table, error) {
	t, err := s.Store.Table(ctx, name)
	if name == s.table {
		return failTable{t, s}, err
	}
	return t, err
}

type failTable struct {
	kv.Table
	s failStore
}

func (t failTable) CompareAndSet(ctx context.Context, key kv.Key, old, next kv.Version, value []byte) error {
	if *t.s.n == 0 {
		return errors.New("the store cannot be reached")
	}
	*t.s.n--
	return t.Table.CompareAndSet(ctx, key, old, next, value)
}

func failFront(t *testing.T, table string) (*Space, *slowPool, *int) {
	store, n := mem.New(), new(int)
	*n = -1
	first, p := faultySpaceOn(t, store, 3)
	m, err := maps.Open(t.Context(), failStore{store, table, n}, kv.NewWriter(7))
	must(t, err)
	return NewSpace(m, p, first.o), p, n
}

// The store fails when half of the extents of a group are said to be elsewhere. Then the group is forgotten, as one of more than 64 Ki is, and written.
func TestHalfPackedAndForgotten(t *testing.T) {
	ctx := t.Context()
	s, _, n := failFront(t, maps.Extents)
	v := faultyVolume(t, s, 2)
	must(t, v.WriteAt(ctx, prose(1, 4<<20), 0, true))
	must(t, v.Close())
	v, err := s.Open(ctx, 1)
	must(t, err)
	reads(t, v, 0, prose(1, 4<<20))
	*n = 2
	_, err = s.Pack(ctx, []disk.GroupID{1}, fast)
	t.Log("pack:", err)
	*n = -1
	s.mu.Lock()
	for id, g := range s.groups { // forget() does so when there are maxGroups
		if g.pins == 0 {
			delete(s.groups, id)
		}
	}
	s.mu.Unlock()
	must(t, v.WriteAt(ctx, pattern(2, 4096), 0, true)) // answered and flushed
	reads(t, v, 0, pattern(2, 4096))
	must(t, v.Close())
	v, err = s.Open(ctx, 1)
	must(t, err)
	defer v.Close()
	reads(t, v, 0, pattern(2, 4096))
}

// The store fails once when the record of a packed group is made. The vDisk stays open, as those of virtual machines do.
func TestUnmadeTargetsGo(t *testing.T) {
	ctx := t.Context()
	s, p, n := failFront(t, maps.Groups)
	v := faultyVolume(t, s, 2)
	defer v.Close()
	must(t, v.WriteAt(ctx, prose(1, 8<<20), 0, true))
	*n = 0
	_, err := s.Pack(ctx, []disk.GroupID{1}, fast)
	t.Log("pack:", err)
	*n = -1
	mustPack(t, s, fast, 1) // the next time it works
	mustPack(t, s, fast, 2)
	must(t, v.Flush(ctx))
	for _, id := range p.order {
		_, err := s.Sweep(ctx, id)
		must(t, err)
		must(t, p.disks[id].List(ctx, func(g disk.GroupID) error {
			if _, _, err := s.maps.Group(ctx, g); errors.Is(err, maps.ErrNotFound) {
				t.Errorf("disk %s has group %s, which has no record, after a sweep", id, g)
			}
			return nil
		}))
	}
}

// A front could not compare the replicas of a marked group when it was to move one. Another has done so since, and closed the vDisk. Now the first opens it.
func TestNothingIsUnsureForEver(t *testing.T) {
	t.Parallel()
	ctx, fronts := t.Context(), newLapsing(t, 3)
	a, b, c := fronts[0], fronts[1], fronts[2]
	vdisk, err := c.Create(ctx, "v", 8<<20, 2, time.Unix(0, 0))
	must(t, err)
	v, err := c.Open(ctx, vdisk.ID)
	must(t, err)
	must(t, v.WriteAt(ctx, pattern(1, 4096), 0, true))
	v.stop() // it is killed: the group stays marked
	v.keeper.Wait()
	time.Sleep(300 * time.Millisecond)
	p := a.pool.(*slowPool)
	all := map[cluster.DiskID]Disk{}
	err = a.Move(ctx, 1, "d1", func([]cluster.DiskID) (cluster.DiskID, bool) {
		for _, id := range []cluster.DiskID{"d0", "d1"} { // a network is down
			all[id] = p.disks[id]
			delete(p.disks, id)
		}
		return "d2", true
	})
	t.Log("move:", err)
	for id, d := range all {
		p.disks[id] = d
	}
	w, err := b.Open(ctx, vdisk.ID)
	must(t, err)
	reads(t, w, 0, pattern(1, 4096))
	must(t, w.WriteAt(ctx, pattern(2, 4096), 0, true))
	must(t, w.Close())
	for try := range 2 {
		w, err = a.Open(ctx, vdisk.ID)
		must(t, err)
		got := make([]byte, 4096)
		if err := w.ReadAt(ctx, got, 0); err != nil || got[0] != 2 {
			t.Errorf("try %d: %x, %v", try, got[:4], err)
		}
		must(t, w.Close())
	}
}
