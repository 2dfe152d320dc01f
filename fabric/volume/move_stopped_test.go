package volume

import (
	"testing"
	"time"
)

// A move to a disk that does not answer keeps nobody from the group, as TestRebuildOnAStoppedDisk has it for a rebuild. What is moved up is what is read all the time.
func TestMoveToAStoppedDisk(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, p, _ := faultySpace(t, 3)
	d := &stoppedDisk{Disk: p.disks["d2"]}
	p.disks["d2"] = d
	v := faultyVolume(t, s, 2)
	if err := v.WriteAt(ctx, make([]byte, 4096), 0, false); err != nil {
		t.Fatal(err)
	}
	s.o.Patience = 10 * time.Second // as it is in a front
	d.stopped.Store(true)
	done := make(chan error, 1)
	go func() { done <- s.Move(ctx, 1, "d0", to("d2")) }()
	time.Sleep(100 * time.Millisecond)
	begun := time.Now()
	if err := v.ReadAt(ctx, make([]byte, 4096), 0); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("a read waited %v for a move to a disk that is stopped", took)
	}
	t.Log(<-done)
}
