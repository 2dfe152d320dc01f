package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/kv"
	"gleaner/kv/mem"
)

// blockHooks are called at requests to the block map.
type blockHooks struct {
	kv.Store
	scanned *func()       // after a scan
	deletes *func() error // before a delete
}

func (s blockHooks) Table(ctx context.Context, name string) (kv.Table, error) {
	t, err := s.Store.Table(ctx, name)
	if name == maps.Blocks {
		return hookedTable{t, s}, err
	}
	return t, err
}

type hookedTable struct {
	kv.Table
	h blockHooks
}

func (t hookedTable) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Record, error] {
	return func(yield func(kv.Record, error) bool) {
		for rec, err := range t.Table.Scan(ctx, r) {
			if !yield(rec, err) {
				return
			}
		}
		if f := *t.h.scanned; f != nil {
			f()
		}
	}
}

func (t hookedTable) CompareAndDelete(ctx context.Context, key kv.Key, old kv.Version) error {
	if f := *t.h.deletes; f != nil {
		if err := f(); err != nil {
			return err
		}
	}
	return t.Table.CompareAndDelete(ctx, key, old)
}

func hookedSpace(t *testing.T) (*Space, blockHooks) {
	h := blockHooks{mem.New(), new(func()), new(func() error)}
	s, _ := faultySpaceOn(t, h, 3)
	return s, h
}

// A front remembers which slices of a group were written, while the vDisk was its own. Another writes more of them, takes a snapshot and merges it. When the
// first has the vDisk again, it doubts only the groups of those that the vDisk is read through, and not those of what was merged.
func TestStaleMaskOfInherited(t *testing.T) {
	ctx, fronts := t.Context(), newFronts(t, 2)
	a, b := fronts[0], fronts[1]
	_, err := a.Create(ctx, "v", 8<<20, 3, time.Unix(0, 0))
	must(t, err)
	v := opened(t, b, "v")
	want := pattern(1, disk.BlockSize)
	must(t, v.WriteAt(ctx, want, 0, true))
	must(t, v.Snapshot(ctx, "base", time.Unix(1, 0)))
	write := func(tag, slice int) {
		t.Helper()
		copy(want[slice*4096:], pattern(tag, 4096))
		must(t, v.WriteAt(ctx, pattern(tag, 4096), int64(slice)*4096, true))
	}
	write(2, 1)
	reads(t, v, 0, want) // b knows what is written
	must(t, v.Close())

	v = opened(t, a, "v")
	write(3, 5)
	must(t, v.Snapshot(ctx, "snap", time.Unix(2, 0)))
	write(4, 9)
	must(t, a.Remove(ctx, "snap"))
	must(t, v.Adopt(ctx, 2))
	reads(t, v, 0, want)
	must(t, v.Close())

	v = opened(t, b, "v")
	defer v.Close()
	got := make([]byte, disk.BlockSize)
	must(t, v.ReadAt(ctx, got, 0))
	if !bytes.Equal(got, want) {
		t.Errorf("slice 5 was written and flushed as %x, and reads %x", want[5*4096:][:4], got[5*4096:][:4])
	}
	must(t, v.Flatten(ctx, 0)) // and now it is lost for good
	must(t, v.Close())
	v = opened(t, a, "v")
	defer v.Close()
	reads(t, v, 0, want)
}

// A front looks whether a vDisk still has some extents. Between reading the vDisk's record and its blocks, another removes and merges it.
func TestRemoveIdleWhileMerged(t *testing.T) {
	ctx := t.Context()
	store, hook := mem.New(), new(func())
	s, p := faultySpaceOn(t, store, 3)
	m, err := maps.Open(ctx, scanStore{store, hook}, kv.NewWriter(9))
	must(t, err)
	other := NewSpace(m, p, s.o)
	v, want := lineage(t, s)
	defer v.Close()
	*hook = func() {
		*hook = nil
		must(t, s.Remove(ctx, "first"))
		must(t, s.Merge(ctx, 1))
	}
	if err := other.RemoveIdle(ctx, 1, []uint8{0, 1, 2, 3}); err != nil && !errors.Is(err, ErrMoot) {
		t.Fatal(err)
	}
	must(t, v.Close())
	tidy(t, s)
	v = opened(t, s, "v")
	reads(t, v, 0, want)
}

// A volume remembers an extent that is hidden by the one above it. That is merged away, and the one above is packed.
func TestReadAfterMergeAndPack(t *testing.T) {
	ctx := t.Context()
	s, _, _ := faultySpace(t, 3)
	v := faultyVolume(t, s, 3)
	must(t, v.WriteAt(ctx, prose(1, disk.GroupSize), 0, true))
	must(t, v.Snapshot(ctx, "first", time.Unix(1, 0)))
	want := prose(2, disk.GroupSize)
	must(t, v.WriteAt(ctx, want, 0, true))
	must(t, v.Snapshot(ctx, "second", time.Unix(2, 0)))
	defer v.Close()
	reads(t, v, 0, want)
	must(t, s.Remove(ctx, "first"))
	must(t, s.Merge(ctx, 1))
	packed := 0
	for _, id := range allGroups(t, s) {
		if _, err := s.Pack(ctx, []disk.GroupID{id}, fast); err == nil {
			packed++
		}
	}
	t.Log(packed, "packed")
	reads(t, v, 0, want)
}

// The store fails once while the parent's block is deleted. The volume goes on, and is written.
func TestStoreFailsInsideAdopt(t *testing.T) {
	ctx := t.Context()
	s, h := hookedSpace(t)
	v, want := lineage(t, s)
	defer v.Close()
	must(t, s.Remove(ctx, "second"))
	*h.deletes = func() error { *h.deletes = nil; return errors.New("the store is away") }
	if err := v.Adopt(ctx, 2); err == nil {
		t.Fatal("it should fail")
	}
	copy(want[disk.BlockSize:], pattern(9, 4096))
	must(t, v.WriteAt(ctx, pattern(9, 4096), disk.BlockSize, false))
	reads(t, v, 0, want)
}

// A merge that was interrupted goes on. A client trims the block that both have.
func TestTrimWhileAdopted(t *testing.T) {
	ctx := t.Context()
	s, h := hookedSpace(t)
	v, want := lineage(t, s)
	must(t, s.Remove(ctx, "second"))
	*h.deletes = func() error { return errors.New("the store is away") }
	if err := v.Adopt(ctx, 2); err == nil {
		t.Fatal("it should fail")
	}
	*h.deletes = nil
	must(t, v.Close())
	v = opened(t, s, "v")
	defer v.Close()
	reads(t, v, 0, want)
	*h.scanned = func() { // the parent's blocks are listed
		*h.scanned = nil
		must(t, v.Zero(ctx, disk.BlockSize, disk.BlockSize, false, false))
		clear(want[disk.BlockSize : 2*disk.BlockSize])
	}
	t.Log("adopt:", v.Adopt(ctx, 2))
	reads(t, v, 0, want)
	must(t, v.WriteAt(ctx, pattern(9, 4096), 0, false))
}

// Snapshots are merged into each other while the vDisk stays open; then all are merged into it.
func TestOldChain(t *testing.T) {
	ctx := t.Context()
	s, _, _ := faultySpace(t, 3)
	v := faultyVolume(t, s, 3)
	defer v.Close()
	for i := range 3 {
		must(t, v.WriteAt(ctx, pattern(i, 4096), int64(i)*4096, false))
		must(t, v.Snapshot(ctx, fmt.Sprint("s", i), time.Unix(1, 0)))
	}
	must(t, s.Remove(ctx, "s1"))
	must(t, s.Merge(ctx, 2))
	must(t, s.Remove(ctx, "s2"))
	must(t, v.Adopt(ctx, 3))
	must(t, s.Remove(ctx, "s0"))
	if err := v.Adopt(ctx, 1); err != nil {
		t.Errorf("s0 was removed, and only v is read through it: %v; v is read through %v", err, ancestors(t, s, "v"))
	}
}

// All disks lose their power, and the front does not. What was not flushed is lost; what was, is not.
func TestDisksCutWhileFrontLives(t *testing.T) {
	for _, how := range []string{"read", "adopt", "flatten"} {
		t.Run(how, func(t *testing.T) {
			ctx := t.Context()
			s, p, _ := faultySpace(t, 3)
			v := faultyVolume(t, s, 3)
			defer v.Close()
			old, now := pattern(1, disk.BlockSize), pattern(2, disk.BlockSize)
			must(t, v.WriteAt(ctx, old, 0, true))
			must(t, v.Snapshot(ctx, "snap", time.Unix(1, 0)))
			must(t, v.WriteAt(ctx, old[:4096], disk.BlockSize, true)) // so that the group is there
			if how == "flatten" {
				must(t, s.Remove(ctx, "snap"))
				must(t, v.Adopt(ctx, 1))
			}
			must(t, v.WriteAt(ctx, now[:4096], 0, true))
			must(t, v.Flush(ctx))
			reads(t, v, 4096, old[:4096])
			must(t, v.WriteAt(ctx, now, 0, false))
			away := map[string]Disk{}
			p.change(func() {
				for id, fs := range p.files {
					d, err := disk.Open(fs.Cut(rand.New(rand.NewPCG(1, 1)), 0), "d", disk.Options{Cluster: "c"})
					must(t, err)
					away[string(id)] = &slowDisk{Disk: plug{d, &fuse{}}}
					delete(p.disks, id)
				}
			})
			for _, id := range p.order {
				must(t, s.Reopened(ctx, id))
				p.change(func() { p.disks[id] = away[string(id)] })
			}
			switch how {
			case "adopt":
				must(t, s.Remove(ctx, "snap"))
				t.Log(v.Adopt(ctx, 1))
			case "flatten":
				t.Log(v.Flatten(ctx, 0))
			}
			check := func(when string) {
				got := make([]byte, disk.BlockSize)
				must(t, v.ReadAt(ctx, got, 0))
				for i := 0; i < disk.BlockSize; i += 4096 {
					if !bytes.Equal(got[i:i+4096], old[i:i+4096]) && !bytes.Equal(got[i:i+4096], now[i:i+4096]) {
						t.Errorf("%s: at %d there is neither what was flushed nor what was written since: %x", when, i, got[i:i+4])
						return
					}
				}
			}
			check("open")
			must(t, v.Close())
			v = opened(t, s, "v")
			check("opened again")
		})
	}
}

// A front dies while it packs a group of a vDisk that is gone, whose extents another has inherited. Then that is removed. Nothing is to stay on the disks.
func TestKilledInsidePackOfInherited(t *testing.T) {
	t.Parallel()
	for requests := 1; requests < 40; requests++ {
		ctx := t.Context()
		store, life := mem.New(), &fuse{}
		s, p := faultySpaceOn(t, store, 3)
		v := faultyVolume(t, s, 3)
		want := prose(1, disk.GroupSize)
		must(t, v.WriteAt(ctx, want, 0, true))
		must(t, v.Snapshot(ctx, "snap", time.Unix(1, 0)))
		must(t, s.Remove(ctx, "snap"))
		must(t, v.Adopt(ctx, 1))
		must(t, v.Close())
		m, err := maps.Open(ctx, fusedStore{store, life}, kv.NewWriter(9))
		must(t, err)
		fused := &slowPool{disks: map[cluster.DiskID]Disk{}, order: p.order}
		for id, d := range p.disks {
			fused.disks[id] = fusedDisk{d, life}
		}
		dies := NewSpace(m, fused, s.o)
		life.left = requests
		_, failed := dies.Pack(ctx, []disk.GroupID{1}, fast)
		v = opened(t, s, "v")
		reads(t, v, 0, want)
		must(t, v.Close())
		must(t, s.Remove(ctx, "v"))
		for range 2 {
			must(t, s.Reap(ctx))
			collect(t, s)
			for _, id := range allGroups(t, s) {
				if err := s.RemoveGroup(ctx, id); err != nil && !errors.Is(err, ErrMoot) {
					t.Fatal(err)
				}
			}
		}
		for _, id := range p.order {
			_, err := s.Sweep(ctx, id)
			must(t, err)
			must(t, p.disks[id].List(ctx, func(g disk.GroupID) error {
				t.Errorf("killed at request %d: group %s stays on disk %s", requests, g, id)
				return nil
			}))
		}
		if failed == nil {
			t.Log(requests, "requests")
			return
		}
		if t.Failed() {
			return
		}
	}
}

// fusedDisk is not changed by a dead front.
type fusedDisk struct {
	Disk
	life *fuse
}

func (d fusedDisk) Create(ctx context.Context, id disk.GroupID, v disk.VDiskID, g uint64) error {
	if err := d.life.burn(); err != nil {
		return err
	}
	return d.Disk.Create(ctx, id, v, g)
}

func (d fusedDisk) Remove(ctx context.Context, id disk.GroupID, g uint64) error {
	if err := d.life.burn(); err != nil {
		return err
	}
	return d.Disk.Remove(ctx, id, g)
}

// truncHook is called before a truncation.
type truncHook struct {
	Disk
	hook *func()
}

func (d truncHook) Truncate(ctx context.Context, id disk.GroupID, generation uint64, blocks int) error {
	if f := *d.hook; f != nil {
		f()
	}
	return d.Disk.Truncate(ctx, id, generation, blocks)
}

// One front moves a replica while another truncates the group. The dead blocks are copied, and the record says that they are gone.
func TestTruncateWhileMoved(t *testing.T) {
	ctx := t.Context()
	store := mem.New()
	a, p := faultySpaceOn(t, store, 4)
	m, err := maps.Open(ctx, store, kv.NewWriter(9))
	must(t, err)
	b := NewSpace(m, p, a.o)
	v := faultyVolume(t, a, 1)
	must(t, v.WriteAt(ctx, pattern(1, disk.GroupSize), 0, true))
	must(t, v.Zero(ctx, disk.BlockSize, 3*disk.BlockSize, false, false))
	must(t, v.Close())
	hook, synced, moved := new(func()), make(chan struct{}), make(chan error, 1)
	p.disks["d0"] = truncHook{p.disks["d0"], hook}
	*hook = func() { // the other copies all, and is about to sync it
		*hook = nil
		d3 := p.disks["d3"].(*slowDisk)
		d3.sync = synced
		go func() { moved <- b.Move(context.Background(), 1, "d0", to("d3")) }()
		for range 100 {
			if info, err := d3.Stat(ctx, 1); err == nil && info.Written == disk.SlicesPerGroup {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	t.Log("truncate:", a.Truncate(ctx, 1))
	close(synced)
	t.Log("move:", <-moved)
	for id, n := range allocated(t, a, p) {
		if err := a.Truncate(ctx, 1); err != nil && n > 2*disk.BlockSize {
			t.Errorf("disk %s has %d bytes of one block for ever; cut is %d; truncate says %v", id, n, record(t, a, 1).Cut, err)
		}
	}
}

// A snapshot is taken every day, and the oldest of two is removed and merged. The same slice is written every day.
func TestSnapshotEveryDay(t *testing.T) {
	ctx := t.Context()
	s, p, _ := faultySpace(t, 2)
	v := faultyVolume(t, s, 1)
	defer v.Close()
	must(t, v.WriteAt(ctx, pattern(1, 4096), 0, false))
	for day := range 20 {
		p.order = []cluster.DiskID{p.order[1], p.order[0]} // so that none is full
		must(t, v.Snapshot(ctx, fmt.Sprint("day", day), time.Unix(1, 0)))
		must(t, v.WriteAt(ctx, pattern(day, 4096), 0, false))
		if day < 2 {
			continue
		}
		must(t, s.Remove(ctx, fmt.Sprint("day", day-2)))
		if err := s.Merge(ctx, disk.VDiskID(day-1)); err != nil {
			t.Fatalf("day %d: %v; v is read through %d", day, err, len(ancestors(t, s, "v")))
		}
		n := 0
		must(t, s.maps.EachBlock(ctx, func(_ disk.VDiskID, _ int64, b maps.Block) error { n += len(b.Pile); return nil }))
		if n > 3 {
			t.Fatalf("day %d: two snapshots and a vDisk with 4 KiB take %d extents", day, n)
		}
	}
}

// A block whose pile is as high as it may be is merged into the vDisk, which is then written.
func TestFullPile(t *testing.T) {
	ctx := t.Context()
	s, p, _ := faultySpace(t, 2)
	v := faultyVolume(t, s, 1)
	defer v.Close()
	must(t, v.WriteAt(ctx, pattern(0, 4096), 0, false))
	for day := 1; day <= maps.MaxPile; day++ {
		p.order = []cluster.DiskID{p.order[1], p.order[0]} // so that none is full
		must(t, v.Snapshot(ctx, fmt.Sprint("day", day), time.Unix(1, 0)))
		if day < maps.MaxPile {
			must(t, v.WriteAt(ctx, pattern(day, 4096), 0, false))
		}
		if day > 1 {
			must(t, s.Remove(ctx, fmt.Sprint("day", day-1)))
			must(t, s.Merge(ctx, disk.VDiskID(day-1)))
		}
	}
	must(t, s.Remove(ctx, fmt.Sprint("day", maps.MaxPile)))
	must(t, v.Adopt(ctx, maps.MaxPile))
	must(t, v.WriteAt(ctx, pattern(9, 4096), 4096, false))
}

// A front remembers a group as whole. Another drops a replica of it and dies.
func TestRebuildByOneWhoRemembers(t *testing.T) {
	ctx, fronts := t.Context(), newFronts(t, 2)
	a, b := fronts[0], fronts[1]
	_, err := a.Create(ctx, "v", 8<<20, 2, time.Unix(0, 0))
	must(t, err)
	v := opened(t, a, "v")
	must(t, v.WriteAt(ctx, pattern(1, 4096), 0, true))
	must(t, v.Close())
	must(t, b.Drop(ctx, 1, "d0"))
	for range 3 {
		must(t, a.Rebuild(ctx, 1, ""))
	}
	if rec := record(t, a, 1); len(rec.Good) != 2 {
		t.Errorf("rebuilt thrice without an error, and it is on %v", rec.Good)
	}
}

// vdiskHooks is a store that gives vDisks in the other order, as one whose parts are in no order may, and calls hooks.
type vdiskHooks struct {
	kv.Store
	scanned *func() // after the first vDisk of a scan
	gets    *func() // before a vDisk is read
}

func (s vdiskHooks) Table(ctx context.Context, name string) (kv.Table, error) {
	t, err := s.Store.Table(ctx, name)
	if name == maps.VDisks {
		return vdiskTable{t, s}, err
	}
	return t, err
}

type vdiskTable struct {
	kv.Table
	h vdiskHooks
}

func (t vdiskTable) Get(ctx context.Context, key kv.Key) (kv.Record, error) {
	if f := *t.h.gets; f != nil {
		f()
	}
	return t.Table.Get(ctx, key)
}

func (t vdiskTable) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Record, error] {
	return func(yield func(kv.Record, error) bool) {
		var keys []kv.Key
		for rec, err := range t.Table.Scan(ctx, r) {
			if err != nil {
				yield(rec, err)
				return
			}
			keys = append(keys, rec.Key)
		}
		for i := len(keys) - 1; i >= 0; i-- {
			rec, err := t.Table.Get(ctx, keys[i])
			if errors.Is(err, kv.ErrNotFound) {
				continue
			}
			if !yield(rec, err) {
				return
			}
			if f := *t.h.scanned; f != nil {
				f()
			}
		}
	}
}

// A front looks for vDisks that nothing is read through. It has seen the heir of "second", and not yet "second", when another merges that.
// "first" seems to have no child then.
func TestReapWhileMerged(t *testing.T) {
	ctx := t.Context()
	store := mem.New()
	a, p := faultySpaceOn(t, store, 3)
	h := vdiskHooks{store, new(func()), new(func())}
	m, err := maps.Open(ctx, h, kv.NewWriter(9))
	must(t, err)
	b := NewSpace(m, p, a.o)
	v, want := lineage(t, a)
	must(t, a.Remove(ctx, "first"))
	must(t, a.Remove(ctx, "second"))
	scans, seen := 0, 0
	*h.scanned = func() {
		if seen++; seen == 1 {
			scans++
		}
		if seen == 3 {
			seen = 0
		}
		if scans == 2 { // the first was for those that are removed
			*h.scanned = nil
			_, err := v.adopt(ctx, 2) // as Adopt does
			must(t, err)
			must(t, a.ReapVDisk(ctx, 2))
		}
	}
	t.Log("reap:", b.ReapVDisk(ctx, 1), scans)
	must(t, v.Close())
	v = opened(t, a, "v")
	defer v.Close()
	reads(t, v, 0, want)
}

// The same, of one who looks for the only heir of "first", which has a clone.
func TestMergeWhileMerged(t *testing.T) {
	ctx := t.Context()
	store := mem.New()
	a, p := faultySpaceOn(t, store, 3)
	h := vdiskHooks{store, new(func()), new(func())}
	m, err := maps.Open(ctx, h, kv.NewWriter(9))
	must(t, err)
	b := NewSpace(m, p, a.o)
	v, want := lineage(t, a)
	clone, err := a.Clone(ctx, "first", "clone", time.Unix(3, 0))
	must(t, err)
	c, err := b.Open(ctx, clone.ID)
	must(t, err)
	defer c.Close()
	must(t, a.Remove(ctx, "first"))
	must(t, a.Remove(ctx, "second"))
	seen := 0
	*h.scanned = func() {
		if seen++; seen == 2 { // 4 is the clone, 3 the vDisk
			*h.scanned = nil
			_, err := v.adopt(ctx, 2) // as Adopt does
			must(t, err)
			must(t, a.ReapVDisk(ctx, 2))
		}
	}
	t.Log("adopt:", c.Adopt(ctx, 1))
	must(t, v.Close())
	v = opened(t, a, "v")
	defer v.Close()
	reads(t, v, 0, want)
}

// A front opens a vDisk. Between reading the record of its parent and of the parent's parent, another merges the one into the other.
func TestOpenWhileMerged(t *testing.T) {
	ctx := t.Context()
	store := mem.New()
	a, p := faultySpaceOn(t, store, 3)
	h := vdiskHooks{store, new(func()), new(func())}
	m, err := maps.Open(ctx, h, kv.NewWriter(9))
	must(t, err)
	b := NewSpace(m, p, a.o)
	v, want := lineage(t, a)
	must(t, v.Close())
	must(t, a.Remove(ctx, "first"))
	n := 0
	*h.gets = func() {
		if n++; n == 4 { // 3 twice, 2, 1
			must(t, a.Merge(ctx, 1))
		}
	}
	w, err := b.Open(ctx, 3)
	must(t, err)
	defer w.Close()
	reads(t, w, 0, want)
}

// failNth fails one change of a table.
type failNth struct {
	kv.Store
	table string
	left  *int
}

func (s failNth) Table(ctx context.Context, name string) (kv.Table, error) {
	t, err := s.Store.Table(ctx, name)
	if name == s.table {
		return failNthTable{t, s.left}, err
	}
	return t, err
}

type failNthTable struct {
	kv.Table
	left *int
}

func (t failNthTable) fail() error {
	if *t.left > 0 {
		if *t.left--; *t.left == 0 {
			return errors.New("the store is away")
		}
	}
	return nil
}

func (t failNthTable) CompareAndSet(ctx context.Context, key kv.Key, old, next kv.Version, value []byte) error {
	if err := t.fail(); err != nil {
		return err
	}
	return t.Table.CompareAndSet(ctx, key, old, next, value)
}

func (t failNthTable) CompareAndDelete(ctx context.Context, key kv.Key, old kv.Version) error {
	if err := t.fail(); err != nil {
		return err
	}
	return t.Table.CompareAndDelete(ctx, key, old)
}

// The store fails once while a snapshot gives back spare extents. The volume goes on with those that it has given back.
func TestSpareGivenBackTwice(t *testing.T) {
	ctx := t.Context()
	left := new(int)
	s, _ := faultySpaceOn(t, failNth{mem.New(), maps.Extents, left}, 3)
	v := faultyVolume(t, s, 3)
	must(t, v.WriteAt(ctx, pattern(1, 4096), 0, true)) // 1/1 to 1/3 are spare
	*left = 2
	if err := v.Snapshot(ctx, "snap", time.Unix(1, 0)); err == nil {
		t.Fatal("it should fail")
	}
	must(t, v.WriteAt(ctx, pattern(2, 4096), disk.BlockSize, true))
	reads(t, v, disk.BlockSize, pattern(2, 4096))
	must(t, v.Close())
	collect(t, s)
	tidy(t, s)
	v = opened(t, s, "v")
	defer v.Close()
	reads(t, v, disk.BlockSize, pattern(2, 4096))
}

// Upkeep is asked to merge a vDisk that this process has open: it takes the lease from under it.
func TestMergeOfOneThatIsOpen(t *testing.T) {
	ctx := t.Context()
	s, _, _ := faultySpace(t, 3)
	v, want := lineage(t, s)
	t.Log(s.Merge(ctx, v.id))
	must(t, v.renew(ctx))
	reads(t, v, 0, want)
	must(t, v.Close())
}

// The store fails once while a block is trimmed. The client trims it again.
func TestStoreFailsInsideTrim(t *testing.T) {
	ctx := t.Context()
	left := new(int)
	s, _ := faultySpaceOn(t, failNth{mem.New(), maps.Blocks, left}, 3)
	v, _ := lineage(t, s)
	defer v.Close()
	must(t, v.WriteAt(ctx, pattern(7, 4096), disk.BlockSize, false))
	*left = 1
	if v.Zero(ctx, disk.BlockSize, disk.BlockSize, false, false) == nil {
		t.Fatal("it should fail")
	}
	must(t, v.Zero(ctx, disk.BlockSize, disk.BlockSize, false, false))
}

// A front that merges remembers less of an inherited group than was written to it: what it does not know of must not be taken for hidden.
func TestStaleMaskWhileMerging(t *testing.T) {
	ctx, fronts := t.Context(), newFronts(t, 2)
	a, b := fronts[0], fronts[1]
	_, err := a.Create(ctx, "v", 8<<20, 3, time.Unix(0, 0))
	must(t, err)
	v := opened(t, b, "v")
	want := pattern(1, disk.BlockSize)
	write := func(tag, slice int) {
		t.Helper()
		copy(want[slice*4096:], pattern(tag, 4096))
		must(t, v.WriteAt(ctx, pattern(tag, 4096), int64(slice)*4096, true))
	}
	must(t, v.WriteAt(ctx, want, 0, true))
	must(t, v.Snapshot(ctx, "base", time.Unix(1, 0)))
	write(2, 1)
	reads(t, v, 0, want) // b knows what is written
	must(t, v.Close())

	v = opened(t, a, "v")
	write(3, 5)
	must(t, v.Snapshot(ctx, "snap", time.Unix(2, 0)))
	write(4, 9)
	must(t, a.Remove(ctx, "snap"))
	must(t, v.Adopt(ctx, 2))
	must(t, v.Snapshot(ctx, "keep", time.Unix(3, 0)))
	write(5, 1)
	must(t, v.Close())

	must(t, b.Remove(ctx, "keep"))
	v = opened(t, b, "v")
	must(t, v.Adopt(ctx, 3))
	must(t, v.Close())
	v = opened(t, a, "v")
	defer v.Close()
	reads(t, v, 0, want)
}
