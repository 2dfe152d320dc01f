package disk_test

import (
	"path/filepath"
	"slices"
	"testing"

	"gleaner/fabric/disk"
)

// TestSums: what is told of slices without reading them is what a read gives, be they
// in the log, in the group file, or both.
func TestSums(t *testing.T) {
	fs, d := fresh(t, 32<<20)
	must(t, d.Write(1, 1, 1, 3*disk.SliceSize, slice('a'), false))
	must(t, d.Write(1, 1, 1, 5*disk.SliceSize, slices.Repeat(slice('b'), 32), false))
	want := make([]disk.Sum, disk.SlicesPerGroup)
	want[3] = disk.Sum{Written: true, CRC32C: disk.CRC32C(slice('a'))}
	for i := range 32 {
		want[5+i] = disk.Sum{Written: true, CRC32C: disk.CRC32C(slice('b'))}
	}
	check := func() {
		t.Helper()
		sums, err := d.Sums(1, 1)
		must(t, err)
		if !slices.Equal(sums, want) {
			t.Errorf("sums are %v", sums[:8])
		}
		written, err := d.Written(1, 1)
		must(t, err)
		for i, sum := range want {
			if written.Has(i) != sum.Written {
				t.Errorf("slice %d: written is %v", i, written.Has(i))
			}
		}
	}
	check()
	must(t, d.Drain())
	check()
	must(t, d.Write(1, 1, 1, 5*disk.SliceSize, slice('c'), false))
	want[5].CRC32C = disk.CRC32C(slice('c'))
	check()

	_, err := d.Sums(1, 2)
	wantsType[*disk.GenerationError](t, err)
	_, err = d.Written(2, 1)
	wants(t, err, disk.ErrNotFound)

	// The table says that a slice is rotten where its entry proves nothing.
	must(t, d.Close())
	fs.Flip(filepath.Join(dir, "groups", disk.GroupID(1).String()), (4096+8*3)*8)
	d = reopen(t, fs)
	want[3] = disk.Sum{Written: true, Condition: disk.Rotten}
	check()
	if got := d.Usage().Rotten; got != 0 {
		t.Errorf("%d rotten slices were read before any was", got)
	}
	wantsType[*disk.SliceError](t, d.Read(1, 1, 3*disk.SliceSize, make([]byte, 10)))
	if got := d.Usage().Rotten; got != 1 {
		t.Errorf("%d rotten slices were read", got)
	}
}

// TestUnfinished: a group that is being copied here is no replica until it is finished.
func TestUnfinished(t *testing.T) {
	_, d := fresh(t, 32<<20)
	must(t, d.Create(2, 1, disk.Unfinished))
	must(t, d.Write(2, disk.Unfinished, 1, 0, slice('a'), false))
	buf := slice(0)
	wants(t, d.Read(2, disk.Unfinished, 0, buf), disk.ErrUnfinished)
	wantsType[*disk.GenerationError](t, d.Read(2, 7, 0, buf))
	_, err := d.Sums(2, disk.Unfinished)
	wants(t, err, disk.ErrUnfinished)
	wants(t, d.Raise(2, 7), disk.ErrUnfinished)
	must(t, d.Sync())
	must(t, d.Finish(2, 7))
	must(t, d.Read(2, 7, 0, buf))
	if !slices.Equal(buf, slice('a')) {
		t.Error("it is not what was written")
	}
	wantsType[*disk.GenerationError](t, d.Finish(2, 8))
}
