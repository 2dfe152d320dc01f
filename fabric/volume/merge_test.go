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

// lineage makes a vDisk with snapshots, and gives it open with what it should hold. All have 8 blocks; "first" has written them all but
// the last; "second" has a slice of block 1, the whole of block 2, nothing of block 3 and a hole in block 4. The vDisk has a slice of block 5.
func lineage(t *testing.T, s *Space) (v *Volume, want []byte) {
	t.Helper()
	ctx := t.Context()
	vdisk, err := s.Create(ctx, "v", 8*disk.BlockSize, 3, time.Unix(0, 0))
	must(t, err)
	v, err = s.Open(ctx, vdisk.ID)
	must(t, err)
	want = make([]byte, 8*disk.BlockSize)
	write := func(tag int, offset, n int64) {
		t.Helper()
		copy(want[offset:], pattern(tag, int(n)))
		must(t, v.WriteAt(ctx, want[offset:offset+n], offset, false))
	}
	write(1, 0, 7*disk.BlockSize)
	must(t, v.Snapshot(ctx, "first", time.Unix(1, 0)))
	write(2, disk.BlockSize+8192, 4096)
	write(3, 2*disk.BlockSize, disk.BlockSize)
	must(t, v.Zero(ctx, 4*disk.BlockSize, disk.BlockSize, false, false))
	clear(want[4*disk.BlockSize : 5*disk.BlockSize])
	must(t, v.Snapshot(ctx, "second", time.Unix(2, 0)))
	write(4, 5*disk.BlockSize+4096, 4096)
	return v, want
}

// ancestors lists the vDisks that one is read through.
func ancestors(t *testing.T, s *Space, name string) (all []string) {
	t.Helper()
	v, err := s.maps.Find(t.Context(), name)
	must(t, err)
	for v.Parent != 0 {
		v, _, err = s.maps.VDisk(t.Context(), v.Parent)
		must(t, err)
		all = append(all, v.Name)
	}
	return all
}

// tidy does what follows a merge, and says whether all extents and groups that are left belong to a block.
func tidy(t *testing.T, s *Space) {
	t.Helper()
	ctx := t.Context()
	must(t, s.Reap(ctx))
	used := map[maps.ExtentID]string{}
	must(t, s.maps.EachBlock(ctx, func(id disk.VDiskID, n int64, b maps.Block) error {
		for _, e := range b.Pile {
			if other := used[e]; other != "" {
				t.Errorf("extent %s is in %s and in block %d of vDisk %d", e, other, n, id)
			}
			used[e] = fmt.Sprintf("block %d of vDisk %d", n, id)
		}
		return nil
	}))
	must(t, s.maps.EachExtent(ctx, func(e maps.ExtentID, at maps.Extent) error {
		if used[e] == "" && !s.Spare()[e] {
			t.Errorf("no block has extent %s", e)
		}
		delete(used, e)
		return nil
	}))
	for e, by := range used {
		t.Errorf("extent %s of %s is not there", e, by)
	}
}

// collect removes extents that a crash has left.
func collect(t *testing.T, s *Space) {
	t.Helper()
	made := map[disk.GroupID]bool{}
	must(t, s.maps.EachExtent(t.Context(), func(e maps.ExtentID, _ maps.Extent) error {
		made[e.Group] = true
		return nil
	}))
	for id := range made {
		if err := s.RemoveIdle(t.Context(), id, []uint8{0, 1, 2, 3}); err != nil && !errors.Is(err, ErrMoot) {
			t.Fatal(err)
		}
	}
}

func opened(t *testing.T, s *Space, name string) *Volume {
	t.Helper()
	vdisk, err := s.maps.Find(t.Context(), name)
	must(t, err)
	v, err := s.Open(t.Context(), vdisk.ID)
	must(t, err)
	return v
}

// A snapshot goes into the next one, and that into the vDisk, while it is open. Blocks that cannot be seen any more are given back at once.
func TestMerge(t *testing.T) {
	ctx := t.Context()
	s, _, _ := faultySpace(t, 3)
	v, want := lineage(t, s)
	second := opened(t, s, "second")
	before := make([]byte, 8*disk.BlockSize)
	must(t, second.ReadAt(ctx, before, 0))
	must(t, second.Close())
	if err := s.Merge(ctx, 1); !errors.Is(err, ErrMoot) {
		t.Errorf("merged while it is a snapshot: %v", err)
	}
	must(t, s.Remove(ctx, "first"))
	if err := v.Adopt(ctx, 1); !errors.Is(err, ErrMoot) {
		t.Errorf("merged into one that is not its child: %v", err)
	}
	must(t, s.Merge(ctx, 1))
	tidy(t, s)
	if all := fmt.Sprint(ancestors(t, s, "v")); all != "[second]" {
		t.Errorf("v is read through %s", all)
	}
	piles := map[int64]string{}
	must(t, s.maps.EachBlock(ctx, func(id disk.VDiskID, n int64, b maps.Block) error {
		if id == 2 {
			piles[n] = fmt.Sprint(len(b.Pile), b.Inherited, b.Opaque)
		}
		return nil
	}))
	if fmt.Sprint(piles) != "map[0:1 1 false 1:2 1 false 2:1 0 false 3:1 1 false 4:0 0 true 5:1 1 false 6:1 1 false]" {
		t.Errorf("second has %v", piles)
	}
	second = opened(t, s, "second")
	reads(t, second, 0, before)
	must(t, second.Close())
	reads(t, v, 0, want)

	must(t, s.Remove(ctx, "second"))
	must(t, v.Adopt(ctx, 2))
	reads(t, v, 0, want)
	tidy(t, s)
	if all := ancestors(t, s, "v"); all != nil {
		t.Errorf("v is read through %v", all)
	}
	for n := range int64(8) { // inherited extents are not written
		copy(want[n*disk.BlockSize+12288:], pattern(5, 512))
		must(t, v.WriteAt(ctx, pattern(5, 512), n*disk.BlockSize+12288, false))
	}
	reads(t, v, 0, want)
	must(t, v.Close())
	v = opened(t, s, "v")
	reads(t, v, 0, want)

	for n := range int64(8) {
		must(t, v.Flatten(ctx, n))
	}
	reads(t, v, 0, want)
	must(t, v.Close())
	tidy(t, s)
	must(t, s.maps.EachBlock(ctx, func(_ disk.VDiskID, n int64, b maps.Block) error {
		if len(b.Pile) != 1 || b.Inherited != 0 {
			t.Errorf("block %d is %+v", n, b)
		}
		return nil
	}))
	v = opened(t, s, "v")
	defer v.Close()
	reads(t, v, 0, want)
}

// What a shrink has hidden stays hidden, and what all but a slice of a block covers can be seen still.
func TestMergeShowsNoMoreAndNoLess(t *testing.T) {
	ctx := t.Context()
	s, _, _ := faultySpace(t, 3)
	v := faultyVolume(t, s, 3)
	want := pattern(1, 8*disk.BlockSize)
	must(t, v.WriteAt(ctx, want, 0, false))
	must(t, v.Snapshot(ctx, "first", time.Unix(1, 0)))
	must(t, v.Resize(ctx, 2*disk.BlockSize))
	must(t, v.Resize(ctx, 8*disk.BlockSize))
	clear(want[2*disk.BlockSize:])
	must(t, v.Snapshot(ctx, "second", time.Unix(2, 0)))
	const most = disk.BlockSize - disk.SliceSize
	copy(want[disk.BlockSize:], pattern(2, most))
	must(t, v.WriteAt(ctx, want[disk.BlockSize:][:most], disk.BlockSize, false))
	must(t, s.Remove(ctx, "second"))
	must(t, v.Adopt(ctx, 2))
	must(t, v.Close())
	v = opened(t, s, "v")
	reads(t, v, 0, want)
	must(t, s.Remove(ctx, "first"))
	must(t, v.Adopt(ctx, 1))
	reads(t, v, 0, want)
	must(t, v.Close())
	tidy(t, s)
	v = opened(t, s, "v")
	defer v.Close()
	reads(t, v, 0, want)
}

// A block that was packed and written again and again stays one extent if it is flattened, and what it covers is given back.
func TestFlattenedAgainAndAgain(t *testing.T) {
	ctx := t.Context()
	s, _, _ := faultySpace(t, 3)
	v := faultyVolume(t, s, 3)
	want := prose(1, disk.BlockSize)
	must(t, v.WriteAt(ctx, want, 0, true))
	for i := range 12 {
		for _, id := range allGroups(t, s) {
			if _, err := s.Pack(ctx, []disk.GroupID{id}, fast); err != nil && !errors.Is(err, ErrMoot) {
				t.Fatal(err)
			}
		}
		copy(want[i*4096:], pattern(i, 512))
		must(t, v.WriteAt(ctx, pattern(i, 512), int64(i*4096), false))
		must(t, v.Flatten(ctx, 0))
	}
	reads(t, v, 0, want)
	must(t, v.Close())
	tidy(t, s)
	if groups := allGroups(t, s); len(groups) != 1 {
		t.Errorf("%d groups, want one", len(groups))
	}
}

// What hides older bytes, and is not flushed, may be lost when the power goes. So the older ones are given up only after a flush.
func TestPowerCutAfterCovering(t *testing.T) {
	for _, how := range []string{"merge", "flatten"} {
		ctx := t.Context()
		s, p, store := faultySpace(t, 3)
		v := faultyVolume(t, s, 3)
		old, now := pattern(1, disk.BlockSize), pattern(2, disk.BlockSize)
		must(t, v.WriteAt(ctx, old, 0, true))
		must(t, v.Snapshot(ctx, "snap", time.Unix(1, 0)))
		if how == "flatten" {
			must(t, s.Remove(ctx, "snap"))
			must(t, v.Adopt(ctx, 1))
		}
		must(t, v.Flush(ctx))
		must(t, v.WriteAt(ctx, now, 0, false))
		if how == "flatten" {
			must(t, v.Flatten(ctx, 0))
		} else {
			must(t, s.Remove(ctx, "snap"))
			must(t, v.Adopt(ctx, 1))
		}
		v.stop()
		after := opened(t, afterPowerCut(t, p, store), "v")
		got := make([]byte, disk.BlockSize)
		must(t, after.ReadAt(ctx, got, 0))
		for i := 0; i < disk.BlockSize; i += 4096 {
			if !bytes.Equal(got[i:i+4096], old[i:i+4096]) && !bytes.Equal(got[i:i+4096], now[i:i+4096]) {
				t.Fatalf("%s: at %d there is neither what was flushed nor what was written since: %x", how, i, got[i:i+4])
			}
		}
	}
}

// afterPowerCut gives the space of a front that starts when the power is back. The disks have what was synced.
func afterPowerCut(t *testing.T, before *slowPool, store kv.Store) *Space {
	t.Helper()
	p := &slowPool{disks: map[cluster.DiskID]Disk{}, order: before.order}
	for id, fs := range before.files {
		d, err := disk.Open(fs.Cut(rand.New(rand.NewPCG(1, 1)), 0), "d", disk.Options{Cluster: "c"})
		must(t, err)
		p.disks[id] = &slowDisk{Disk: plug{d, &fuse{}}}
	}
	m, err := maps.Open(t.Context(), store, kv.NewWriter(9))
	must(t, err)
	return NewSpace(m, p, Options{Answer: time.Second, Patience: 2 * time.Second})
}

// scanStore calls hook before each scan of the block map.
type scanStore struct {
	kv.Store
	hook *func()
}

func (s scanStore) Table(ctx context.Context, name string) (kv.Table, error) {
	t, err := s.Store.Table(ctx, name)
	if name == maps.Blocks {
		return scanTable{t, s.hook}, err
	}
	return t, err
}

type scanTable struct {
	kv.Table
	hook *func()
}

func (t scanTable) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Record, error] {
	if *t.hook != nil {
		(*t.hook)()
	}
	return t.Table.Scan(ctx, r)
}

// One front reads the chain of a vDisk, and another merges it between two looks at the block map.
func TestReadWhileMerged(t *testing.T) {
	ctx := t.Context()
	store, hook := mem.New(), new(func())
	merges, p := faultySpaceOn(t, store, 3)
	m, err := maps.Open(ctx, scanStore{store, hook}, kv.NewWriter(9))
	must(t, err)
	reader := NewSpace(m, p, merges.o)
	v, _ := lineage(t, merges)
	must(t, v.Close())
	second := opened(t, merges, "second")
	want := make([]byte, 8*disk.BlockSize)
	must(t, second.ReadAt(ctx, want, 0))
	must(t, second.Close())
	must(t, merges.Remove(ctx, "first"))
	for looks := range 3 {
		n := 0
		*hook = func() {
			if n++; n == looks {
				must(t, merges.Merge(ctx, 1))
			}
		}
		second := opened(t, reader, "second")
		reads(t, second, 0, want)
		*hook = nil
		must(t, second.Close())
	}
	if all := ancestors(t, merges, "second"); all != nil {
		t.Errorf("it is still read through %v", all)
	}
}

// A front dies at each request that a merge makes to the store. Another goes on, and nothing is lost or left.
func TestKilledInsideMerge(t *testing.T) {
	t.Parallel()
	for requests := 0; ; requests++ {
		ctx := t.Context()
		store, life := mem.New(), &fuse{}
		s, p := faultySpaceOn(t, store, 3)
		v, want := lineage(t, s)
		must(t, v.Close())
		must(t, s.Remove(ctx, "first"))
		must(t, s.Remove(ctx, "second"))
		m, err := maps.Open(ctx, fusedStore{store, life}, kv.NewWriter(9))
		must(t, err)
		dies := NewSpace(m, p, s.o)
		v = opened(t, dies, "v")
		life.left = requests + 1
		failed := v.Adopt(ctx, 2)
		v.stop()
		v = opened(t, s, "v")
		reads(t, v, 0, want)
		must(t, v.Zero(ctx, 0, disk.BlockSize, false, false)) // before it is merged
		must(t, v.Relocate(ctx, 5, oldest(t, s, v, 5)))
		clear(want[:disk.BlockSize])
		must(t, v.Close())
		v = opened(t, s, "v")
		reads(t, v, 0, want)
		must(t, s.Reap(ctx))
		for _, id := range []disk.VDiskID{2, 1} {
			if err := v.Adopt(ctx, id); err != nil && !errors.Is(err, ErrMoot) {
				t.Fatal(err)
			}
		}
		reads(t, v, 0, want)
		must(t, v.Close())
		collect(t, s)
		tidy(t, s)
		v = opened(t, s, "v")
		reads(t, v, 0, want)
		must(t, v.Close())
		if all := ancestors(t, s, "v"); all != nil {
			t.Errorf("v is read through %v", all)
		}
		if failed == nil {
			t.Logf("%d requests", requests)
			return
		}
	}
}

// oldest is the extent at the bottom of what a volume itself has of a block.
func oldest(t *testing.T, s *Space, v *Volume, number int64) maps.ExtentID {
	t.Helper()
	all, _, err := s.ownBlocks(t.Context(), v.id, number, number+1)
	must(t, err)
	return all[0].Pile[len(all[0].Pile)-1]
}
