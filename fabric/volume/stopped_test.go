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

// A write that one disk holds up goes on without it after half the time; one that two hold up is not left to a single
// replica so soon.
func TestWriteHeldUp(t *testing.T) {
	t.Parallel()
	const answer = 4 * time.Second
	for n, within := range map[int][2]time.Duration{1: {answer / 2, answer}, 2: {answer, time.Minute}} {
		v, first := spaceWithStopped(t, n)
		v.space.o.Answer = answer
		for _, d := range first {
			d.stopped.Store(true)
		}
		begun := time.Now()
		if err := v.WriteAt(t.Context(), make([]byte, 4096), 0, false); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < within[0] || took > within[1] {
			t.Errorf("%d stopped: the write took %v", n, took)
		}
		for g, err := range v.space.maps.Groups(t.Context()) {
			if err != nil || len(g.Good) != 3-n {
				t.Errorf("%d stopped: good are %v, %v", n, g.Good, err)
			}
		}
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
	go func() { ended <- s.Rebuild(rebuilding, 1) }()
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
