package volume

import (
	"bytes"
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"gleaner/fabric/disk"
	"gleaner/fabric/disk/disktest"
)

// heldDisk holds writes up while held is there.
type heldDisk struct {
	Disk
	held, came chan struct{}
	once       sync.Once
}

func (d *heldDisk) Write(ctx context.Context, id disk.GroupID, generation, token uint64, offset int64, data []byte, sync bool) error {
	if d.held != nil {
		d.once.Do(func() { close(d.came) })
		<-d.held
	}
	return d.Disk.Write(ctx, id, generation, token, offset, data, sync)
}

// tellDisk says that a write was taken.
type tellDisk struct {
	Disk
	took chan struct{}
}

func (d *tellDisk) Write(ctx context.Context, id disk.GroupID, generation, token uint64, offset int64, data []byte, sync bool) error {
	err := d.Disk.Write(ctx, id, generation, token, offset, data, sync)
	if d.took != nil {
		close(d.took)
		d.took = nil
	}
	return err
}

// A disk takes a write, loses its power and is back while another replica is slow to take the same write: what is answered then is read back.
func TestReopenedDuringWrite(t *testing.T) {
	ctx := context.Background()
	s, p, _ := faultySpace(t, 2)
	fs := disktest.New(1<<30, "d")
	if err := disk.Format(fs, "d", disk.Identity{Cluster: "c", Disk: "d0", Tier: disk.SSD, Quota: 256 << 20, Log: disk.DefaultLog(8 << 20), Salt: 3}); err != nil {
		t.Fatal(err)
	}
	d, err := disk.Open(fs, "d", disk.Options{Cluster: "c"})
	if err != nil {
		t.Fatal(err)
	}
	first := &tellDisk{Disk: plug{d, &fuse{}}}
	second := &heldDisk{Disk: p.disks["d1"]}
	p.disks["d0"], p.disks["d1"] = first, second
	v := faultyVolume(t, s, 2)
	write := func(b byte) error { return v.WriteAt(ctx, bytes.Repeat([]byte{b}, 4096), 0, false) }
	if err := write(1); err != nil {
		t.Fatal(err)
	}
	if err := v.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	took := make(chan struct{})
	first.took, second.held, second.came = took, make(chan struct{}), make(chan struct{})
	wrote, back := make(chan error, 1), make(chan error, 1)
	go func() { wrote <- write(2) }()
	<-took
	<-second.came
	again, err := disk.Open(fs.Cut(rand.New(rand.NewPCG(1, 1)), 0), "d", disk.Options{Cluster: "c"})
	if err != nil {
		t.Fatal(err)
	}
	go func() { // as Front.heard does
		err := s.Reopened(ctx, "d0")
		p.disks["d0"] = plug{again, &fuse{}}
		back <- err
	}()
	time.Sleep(100 * time.Millisecond)
	close(second.held)
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	if err := <-back; err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4096)
	if err := v.ReadAt(ctx, got, 0); err != nil || got[0] != 2 {
		rec, _, _ := s.maps.Group(ctx, 1)
		t.Fatalf("answered 2, read %d, %v; good are %v", got[0], err, rec.Good)
	}
}
