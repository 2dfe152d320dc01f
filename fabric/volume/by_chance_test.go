package volume

import (
	"testing"
	"time"

	"gleaner/fabric/disk"
)

// Without any help, but for disks that take 20 ms to sync: one front packs a cold group of a closed vDisk, and a client opens the vDisk meanwhile.
func TestOpenRacesPack(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for i := range 10 {
		s, p, _ := faultySpace(t, 2)
		for id, d := range p.disks {
			p.disks[id] = slowCopy{d, 20 * time.Millisecond} // a sync takes a while
		}
		v := faultyVolume(t, s, 2)
		must(t, v.WriteAt(ctx, prose(uint64(i), 4<<20), 0, true))
		must(t, v.Close())
		done := make(chan error, 2)
		go func() {
			_, err := s.Pack(ctx, []disk.GroupID{1}, fast)
			done <- err
		}()
		go func() {
			time.Sleep(time.Duration(i) * 3 * time.Millisecond)
			v, err := s.Open(ctx, 1)
			if err == nil {
				err = v.Close()
			}
			done <- err
		}()
		for range 2 {
			select {
			case <-done:
			case <-time.After(10 * time.Second):
				t.Fatalf("try %d: Pack and Open wait for each other", i)
			}
		}
	}
}

// A volume is closed while its front moves a clean group of it, another front opens it and writes: without any help, but for a disk that takes 20 ms to sync.
func TestMigrationRacesMove(t *testing.T) {
	ctx := t.Context()
	for i := range 10 {
		fronts := newFronts(t, 2)
		for _, s := range fronts {
			s.o.Lease = 10 * time.Second // as by default
		}
		a, b := fronts[0], fronts[1]
		vdisk, err := a.Create(ctx, "v", 8<<20, 2, time.Unix(0, 0))
		must(t, err)
		v, err := a.Open(ctx, vdisk.ID)
		must(t, err)
		must(t, v.WriteAt(ctx, pattern(1, 4<<20), 0, true))
		must(t, v.Close())
		v, err = a.Open(ctx, vdisk.ID)
		must(t, err)
		p := a.pool.(*slowPool)
		p.disks["d2"] = slowCopy{p.disks["d2"], 20 * time.Millisecond}
		done := make(chan error, 1)
		go func() { done <- a.Move(ctx, 1, "d0", to("d2")) }()
		time.Sleep(time.Duration(i) * 2 * time.Millisecond)
		must(t, v.Close())
		w, err := b.Open(ctx, vdisk.ID)
		must(t, err)
		must(t, w.WriteAt(ctx, pattern(2, 4096), 0, true))
		moved := <-done
		must(t, w.Close())
		w, err = b.Open(ctx, vdisk.ID)
		must(t, err)
		got := make([]byte, 4)
		must(t, w.ReadAt(ctx, got, 0))
		if got[0] != 2 {
			t.Fatalf("try %d: an answered, flushed write is lost: %x; move: %v", i, got, moved)
		}
		must(t, w.Close())
	}
}
