package volume

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"gleaner/fabric/disk"
)

// maskDisk is slow to answer which slices were written.
type maskDisk struct {
	Disk
	once    sync.Once
	asked   chan struct{}
	release chan struct{}
}

func (d *maskDisk) Written(ctx context.Context, id disk.GroupID, generation uint64) (disk.Mask, error) {
	m, err := d.Disk.Written(ctx, id, generation)
	if d.asked != nil {
		d.once.Do(func() { close(d.asked); <-d.release })
	}
	return m, err
}

// A read asks which slices of a group were written while another slice of the group is written: that one is read back.
func TestWrittenWhileMaskIsAsked(t *testing.T) {
	ctx := context.Background()
	s, p, _ := faultySpace(t, 1)
	d := &maskDisk{Disk: p.disks["d0"]}
	p.disks["d0"] = d
	v := faultyVolume(t, s, 1)
	defer v.Close()
	write := func(b byte, slice int64) {
		t.Helper()
		if err := v.WriteAt(ctx, bytes.Repeat([]byte{b}, disk.SliceSize), slice*disk.SliceSize, false); err != nil {
			t.Fatal(err)
		}
	}
	write(1, 0)
	write(1, 5)
	if err := v.Snapshot(ctx, "s", time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	write(2, 1) // the block has an extent of its own now, on top of the snapshot's
	for _, g := range s.groups {
		g.forgetMask() // as after a write that failed, or when the group was not used for long
	}
	d.asked, d.release = make(chan struct{}), make(chan struct{})
	read := make(chan error, 1)
	go func() { read <- v.ReadAt(ctx, make([]byte, disk.SliceSize), 0) }()
	<-d.asked
	write(3, 5) // answered
	close(d.release)
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	got := make([]byte, disk.SliceSize)
	if err := v.ReadAt(ctx, got, 5*disk.SliceSize); err != nil || got[0] != 3 {
		t.Errorf("wrote 3, read %d, %v", got[0], err)
	}
}

// farDisk is a millisecond away.
type farDisk struct{ Disk }

func (d farDisk) Written(ctx context.Context, id disk.GroupID, generation uint64) (disk.Mask, error) {
	m, err := d.Disk.Written(ctx, id, generation)
	time.Sleep(time.Millisecond)
	return m, err
}

// The same with nothing held up but answers that take a millisecond: one client reads while another writes the same block.
func TestWrittenWhileMaskIsAskedRace(t *testing.T) {
	ctx := context.Background()
	s, p, _ := faultySpace(t, 1)
	p.disks["d0"] = farDisk{p.disks["d0"]}
	v := faultyVolume(t, s, 1)
	write := func(v *Volume, b byte, slice int64) error {
		return v.WriteAt(ctx, bytes.Repeat([]byte{b}, disk.SliceSize), slice*disk.SliceSize, false)
	}
	for slice := range int64(disk.BlockSize / disk.SliceSize) {
		if err := write(v, 1, slice); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.Snapshot(ctx, "s", time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	if err := write(v, 2, 0); err != nil {
		t.Fatal(err)
	}
	id := v.id
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	for slice := int64(1); slice < disk.BlockSize/disk.SliceSize; slice++ {
		s = NewSpace(s.maps, p, s.o) // the front was started again
		v, err := s.Open(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if err := write(v, 2, 0); err != nil { // marks the group, so that the next is fast
			t.Fatal(err)
		}
		for _, g := range s.groups {
			g.forgetMask()
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { _ = v.ReadAt(ctx, make([]byte, disk.SliceSize), 0) })
		}
		all.Go(func() {
			if err := write(v, 3, slice); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		got := make([]byte, disk.SliceSize)
		if err := v.ReadAt(ctx, got, slice*disk.SliceSize); err != nil || got[0] != 3 {
			t.Errorf("slice %d: wrote 3, read %d, %v", slice, got[0], err)
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
