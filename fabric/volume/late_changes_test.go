package volume

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"gleaner/fabric/maps"
	"gleaner/kv"
	"gleaner/kv/mem"
)

// stillStore stands still once, before a table is changed.
type stillStore struct {
	kv.Store
	table string
	mu    *sync.Mutex
	hook  *func()
}

func (s stillStore) Table(ctx context.Context, name string) (kv.Table, error) {
	t, err := s.Store.Table(ctx, name)
	if name == s.table {
		return stillTable{t, s}, err
	}
	return t, err
}

func (s stillStore) stand() {
	s.mu.Lock()
	h := *s.hook
	*s.hook = nil
	s.mu.Unlock()
	if h != nil {
		h()
	}
}

type stillTable struct {
	kv.Table
	s stillStore
}

func (t stillTable) CompareAndSet(ctx context.Context, key kv.Key, old, next kv.Version, value []byte) error {
	t.s.stand()
	return t.Table.CompareAndSet(ctx, key, old, next, value)
}
func (t stillTable) CompareAndDelete(ctx context.Context, key kv.Key, old kv.Version) error {
	t.s.stand()
	return t.Table.CompareAndDelete(ctx, key, old)
}
func (t stillTable) Apply(ctx context.Context, part []byte, next kv.Version, changes ...kv.Change) error {
	t.s.stand()
	return t.Table.Apply(ctx, part, next, changes...)
}

// stillFronts gives two fronts, of which the first calls hook before it changes a table.
func stillFronts(t *testing.T, table string) (fronts []*Space, hook *func()) {
	store := mem.New()
	first, p := faultySpaceOn(t, store, 3)
	hook = new(func())
	for i := range 2 {
		var on kv.Store = store
		if i == 0 {
			on = stillStore{store, table, &sync.Mutex{}, hook}
		}
		m, err := maps.Open(t.Context(), on, kv.NewWriter(uint64(i+2)))
		must(t, err)
		o := first.o
		o.Holder, o.Lease = fmt.Sprint("front", i), 200*time.Millisecond
		fronts = append(fronts, NewSpace(m, p, o))
	}
	return fronts, hook
}

// begin makes a vDisk with 8 MiB of bytes and opens it at the first front.
func beginStill(t *testing.T, a *Space) *Volume {
	ctx := t.Context()
	vdisk, err := a.Create(ctx, "v", 8<<20, 2, time.Unix(0, 0))
	must(t, err)
	v, err := a.Open(ctx, vdisk.ID)
	must(t, err)
	must(t, v.WriteAt(ctx, pattern(1, 8<<20), 0, true))
	must(t, v.Close())
	v, err = a.Open(ctx, vdisk.ID)
	must(t, err)
	reads(t, v, 0, pattern(1, 8<<20))
	return v
}

// A front stands still in a Trim. Another takes the vDisk over and writes to the block.
func TestLateTrim(t *testing.T) {
	ctx := t.Context()
	fronts, hook := stillFronts(t, maps.Blocks)
	v := beginStill(t, fronts[0])
	var w *Volume
	*hook = func() {
		v.stop()
		v.keeper.Wait()
		var err error
		w, err = fronts[1].Open(ctx, v.id)
		must(t, err)
		must(t, w.WriteAt(ctx, pattern(2, 4096), 0, true)) // answered and flushed
	}
	t.Log("trim:", v.Trim(ctx, 0, 1<<20, true))
	must(t, w.Close())
	w, err := fronts[1].Open(ctx, v.id)
	must(t, err)
	defer w.Close()
	reads(t, w, 0, pattern(2, 4096))
}

// A front stands still in a Resize. Another takes the vDisk over and writes beyond the new end.
func TestLateResize(t *testing.T) {
	ctx := t.Context()
	fronts, hook := stillFronts(t, maps.VDisks)
	v := beginStill(t, fronts[0])
	var w *Volume
	*hook = func() {
		v.stop()
		v.keeper.Wait()
		var err error
		w, err = fronts[1].Open(ctx, v.id)
		must(t, err)
		must(t, w.WriteAt(ctx, pattern(2, 4096), 6<<20, true)) // answered and flushed
	}
	t.Log("resize:", v.Resize(ctx, 4<<20))
	t.Log("the writer's size is", w.Size())
	must(t, w.Close())
	w, err := fronts[1].Open(ctx, v.id)
	must(t, err)
	defer w.Close()
	t.Log("and now", w.Size())
	reads(t, w, 6<<20, pattern(2, 4096))
}

// A front stands still in a Snapshot. Another takes the vDisk over.
func TestLateSnapshot(t *testing.T) {
	ctx := t.Context()
	fronts, hook := stillFronts(t, maps.Names)
	v := beginStill(t, fronts[0])
	was := v.id
	var w *Volume
	*hook = func() {
		v.stop()
		v.keeper.Wait()
		var err error
		w, err = fronts[1].Open(ctx, was)
		must(t, err)
		must(t, w.WriteAt(ctx, pattern(2, 4096), 0, true))
	}
	err := v.Snapshot(ctx, "s", time.Unix(0, 0))
	t.Log("snapshot:", err)
	if err := v.WriteAt(ctx, pattern(3, 4096), 0, true); !errors.Is(err, ErrFenced) {
		t.Errorf("a write by who lost the vDisk: %v", err)
	}
	must(t, w.WriteAt(ctx, pattern(4, 4096), 0, true)) // the last that was answered
	must(t, w.Close())
	_ = v.Close()
	vdisk, err := fronts[1].maps.Find(ctx, "v")
	must(t, err)
	t.Logf("%+v", vdisk)
	w, err = fronts[1].Open(ctx, vdisk.ID)
	must(t, err)
	defer w.Close()
	reads(t, w, 0, pattern(4, 4096))
}

// An extent comes to share a group that has lost a replica, and its own, which has both, is removed.
func TestDedupWithDegraded(t *testing.T) {
	ctx := t.Context()
	s, p, _ := faultySpace(t, 2)
	v, w := faultyVolume(t, s, 2), another(t, s, "w", 2)
	data := prose(1, 4<<20)
	mustWrite(t, v, data, 0)
	mustWrite(t, w, data, 0)
	mustPack(t, s, fast, 1)
	mustPack(t, s, fast, 2)
	pairs, err := duplicates(s.maps)
	must(t, err)
	at, _, err := s.maps.Extent(ctx, pairs[0].keep)
	must(t, err)
	must(t, s.Drop(ctx, at.Group, "d1")) // it has one replica left, to be rebuilt
	for _, pr := range pairs {
		if err := s.Dedup(ctx, pr.keep, pr.gone); !errors.Is(err, ErrMoot) {
			t.Errorf("share with a group that has lost a replica: %v", err)
		}
	}
	delete(p.disks, "d0") // one disk of two is lost
	gone := v
	if pairs[0].gone.Group == 2 {
		gone = w
	}
	got := make([]byte, 4096)
	must(t, gone.ReadAt(ctx, got, 0))
}

// An extent with two replicas is copied elsewhere while a disk is away for a moment: to a group with one replica.
func TestRelocateToOneReplica(t *testing.T) {
	ctx := t.Context()
	s, p, _ := faultySpace(t, 2)
	v := faultyVolume(t, s, 2)
	mustWrite(t, v, pattern(1, 4096), 0)
	must(t, v.Close())
	v, err := s.Open(ctx, 1)
	must(t, err)
	d0, d1 := p.disks["d0"], p.disks["d1"]
	delete(p.disks, "d1") // its server is restarted
	t.Log("relocate:", v.Relocate(ctx, 0, maps.ExtentID{Group: 1, Quarter: 0}))
	p.disks["d1"] = d1
	delete(p.disks, "d0") // one disk of two is lost
	got := make([]byte, 4096)
	if err := v.ReadAt(ctx, got, 0); err != nil || got[0] != 1 {
		t.Errorf("%x, %v", got[:4], err)
	}
	p.disks["d0"] = d0
}
