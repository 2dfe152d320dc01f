package volume

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
)

// A stoppedDisk answers nothing about groups while it is stopped.
type stoppedDisk struct {
	Disk
	stopped atomic.Bool
	asked   atomic.Int32 // for reads, while it was stopped
}

func (d *stoppedDisk) Read(ctx context.Context, id disk.GroupID, generation uint64, offset int64, buf []byte) error {
	if d.stopped.Load() {
		d.asked.Add(1)
		<-ctx.Done()
		return ctx.Err()
	}
	return d.Disk.Read(ctx, id, generation, offset, buf)
}

func (d *stoppedDisk) Write(ctx context.Context, id disk.GroupID, generation, token uint64, offset int64, data []byte, sync bool) error {
	if d.stopped.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return d.Disk.Write(ctx, id, generation, token, offset, data, sync)
}

func (d *stoppedDisk) Stat(ctx context.Context, id disk.GroupID) (disk.Info, error) {
	if d.stopped.Load() {
		<-ctx.Done()
		return disk.Info{}, ctx.Err()
	}
	return d.Disk.Stat(ctx, id)
}

// spaceWithStopped gives a volume of which the first so many of three disks can be stopped.
func spaceWithStopped(t *testing.T, n int) (v *Volume, first []*stoppedDisk) {
	t.Helper()
	s, p, _ := faultySpace(t, 3)
	for _, id := range p.order[:n] {
		d := &stoppedDisk{Disk: p.disks[id]}
		p.disks[id] = d
		first = append(first, d)
	}
	v = faultyVolume(t, s, 3)
	if err := v.WriteAt(t.Context(), make([]byte, 4096), 0, false); err != nil {
		t.Fatal(err)
	}
	return v, first
}

// A disk that does not answer holds up one read, and not those after it.
func TestStoppedDiskIsShunned(t *testing.T) {
	v, first := spaceWithStopped(t, 1)
	first[0].stopped.Store(true)
	for range 100 {
		if err := v.ReadAt(t.Context(), make([]byte, 4096), 0); err != nil {
			t.Fatal(err)
		}
	}
	if n := first[0].asked.Load(); n < 1 || n > 50 { // again each second, which a slow machine may take for a few reads
		t.Errorf("asked for %d of 100 reads", n)
	}
	v.space.shunned.Store(cluster.DiskID("d0"), time.Now()) // the second is over
	first[0].stopped.Store(false)
	if order := v.space.order([]cluster.DiskID{"d0", "d1"}); order[0] != "d0" {
		t.Errorf("it is shunned for ever: %v", order)
	}
}

// A rebuild on a disk that does not answer keeps nobody from the group.
func TestRebuildOnAStoppedDisk(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, p, _ := faultySpace(t, 3)
	s.o.Answer = time.Minute // longer than the test
	v := faultyVolume(t, s, 2)
	if err := v.WriteAt(ctx, make([]byte, 4096), 0, false); err != nil {
		t.Fatal(err)
	}
	if err := s.Drop(ctx, 1, "d0"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []cluster.DiskID{"d0", "d2"} {
		p.disks[id] = &stoppedDisk{Disk: p.disks[id]}
		p.disks[id].(*stoppedDisk).stopped.Store(true)
	}
	rebuilding, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.Rebuild(rebuilding, 1, "") }()
	time.Sleep(50 * time.Millisecond)
	if err := v.WriteAt(ctx, make([]byte, 4096), 0, false); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		t.Errorf("the write waited for the rebuild: %v", err)
		return
	default:
	}
	stop()
	if err := <-ended; err == nil {
		t.Error("a replica was rebuilt on a disk that does not answer")
	}
}
