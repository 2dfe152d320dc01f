package volume

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"gleaner/fabric/disk"
)

// A vDisk is opened while its front packs one of its groups.
func TestOpenWhilePacking(t *testing.T) {
	ctx := t.Context()
	s := newFronts(t, 1)[0]
	vdisk, err := s.Create(ctx, "v", 8<<20, 2, time.Unix(0, 0))
	must(t, err)
	v, err := s.Open(ctx, vdisk.ID)
	must(t, err)
	must(t, v.WriteAt(ctx, prose(1, 4<<20), 0, true))
	must(t, v.Close())
	packed, goOn := packSlowly(t, s, 1)
	opened := make(chan error, 1)
	go func() {
		_, err := s.Open(ctx, vdisk.ID)
		opened <- err
	}()
	time.Sleep(300 * time.Millisecond)
	goOn()
	for range 2 {
		select {
		case err := <-packed:
			t.Log("pack:", err)
		case err := <-opened:
			t.Log("open:", err)
		case <-time.After(15 * time.Second):
			t.Fatal("Pack and Open wait for each other")
		}
	}
}

// The data of a removed vDisk is reaped while its front packs one of its groups.
func TestReapWhilePacking(t *testing.T) {
	ctx := t.Context()
	s := newFronts(t, 1)[0]
	vdisk, err := s.Create(ctx, "v", 8<<20, 2, time.Unix(0, 0))
	must(t, err)
	v, err := s.Open(ctx, vdisk.ID)
	must(t, err)
	must(t, v.WriteAt(ctx, prose(1, 4<<20), 0, true))
	must(t, v.Close())
	packed, goOn := packSlowly(t, s, 1)
	must(t, s.Remove(ctx, "v"))
	reaped := make(chan error, 1)
	go func() { reaped <- s.Reap(ctx) }()
	time.Sleep(300 * time.Millisecond)
	goOn()
	for range 2 {
		select {
		case err := <-packed:
			t.Log("pack:", err)
		case err := <-reaped:
			t.Log("reap:", err)
		case <-time.After(15 * time.Second):
			t.Fatal("Pack and Reap wait for each other")
		}
	}
}

// One front tries to open a vDisk that another has open, and at the same time removes extents that its scan takes for idle: those that the other has for blocks to come.
func TestRemoveIdleWhileOpening(t *testing.T) {
	t.Parallel()
	ctx, fronts := t.Context(), newFronts(t, 2)
	a, b := fronts[0], fronts[1]
	vdisk, err := b.Create(ctx, "v", 8<<20, 2, time.Unix(0, 0))
	must(t, err)
	v, err := b.Open(ctx, vdisk.ID)
	must(t, err)
	must(t, v.WriteAt(ctx, pattern(1, 4096), 0, true)) // quarters 1 to 3 of group 1 are spare
	if err := a.RemoveIdle(ctx, 1, []uint8{1, 2, 3}); err == nil {
		t.Fatal("removed while another has it open")
	}
	opened := make(chan error, 1)
	go func() {
		_, err := a.Open(ctx, vdisk.ID)
		opened <- err
	}()
	for a.opened(vdisk.ID) == nil {
		time.Sleep(100 * time.Microsecond)
	}
	err = a.RemoveIdle(ctx, 1, []uint8{1, 2, 3}) // as its scan proposes
	t.Log("remove idle:", err)
	if err := <-opened; !errors.Is(err, ErrInUse) {
		t.Fatal(err)
	}
	must(t, v.WriteAt(ctx, pattern(2, 4096), 1<<20, true)) // answered, and flushed
	must(t, v.Close())
	v, err = b.Open(ctx, vdisk.ID)
	must(t, err)
	defer v.Close()
	reads(t, v, 0, pattern(1, 4096))
	reads(t, v, 1<<20, pattern(2, 4096))
}

// lastRead stands still after the last block was read.
type lastRead struct {
	Disk
	reached, stop chan struct{}
	once          sync.Once
}

func (d *lastRead) Read(ctx context.Context, id disk.GroupID, generation uint64, offset int64, buf []byte) error {
	err := d.Disk.Read(ctx, id, generation, offset, buf)
	if offset == 3<<20 {
		d.once.Do(func() { close(d.reached); <-d.stop })
	}
	return err
}

// lateRebuild: front 0 makes a replica of a group and stands still while it does, front 1 takes the vDisk over and writes to the group.
func lateRebuild(t *testing.T, move bool) {
	ctx, fronts := t.Context(), newFronts(t, 2)
	a, b := fronts[0], fronts[1]
	vdisk, err := a.Create(ctx, "v", 8<<20, 2, time.Unix(0, 0))
	must(t, err)
	v, err := a.Open(ctx, vdisk.ID)
	must(t, err)
	must(t, v.WriteAt(ctx, pattern(1, 4<<20), 0, true))
	must(t, v.Close()) // so that the group is not marked
	v, err = a.Open(ctx, vdisk.ID)
	must(t, err)
	reads(t, v, 0, pattern(1, 4096))
	p := a.pool.(*slowPool)
	if !move {
		must(t, a.Drop(ctx, 1, "d1"))
	}
	stop := make(chan struct{})
	done := make(chan error, 1)
	if move {
		gate := &lastRead{Disk: p.disks["d2"], reached: make(chan struct{}), stop: stop}
		p.disks["d2"] = gate
		go func() { done <- a.Move(context.Background(), 1, "d1", to("d2")) }()
	} else {
		p.order[1], p.order[2] = p.order[2], p.order[1]
		p.disks["d2"].(*slowDisk).sync = stop // the new replica is written, and not yet synced
		go func() { done <- a.Rebuild(context.Background(), 1, "") }()
	}
	if gate, ok := p.disks["d2"].(*lastRead); ok {
		<-gate.reached // the new replica is written, synced and read back
	} else {
		for !has(t, p, "d2", 1) {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond)
	}
	v.stop()
	v.keeper.Wait()
	w, err := b.Open(ctx, vdisk.ID)
	must(t, err)
	must(t, w.WriteAt(ctx, pattern(2, 4096), 0, true)) // answered and flushed
	close(stop)
	t.Log("rebuild or move:", <-done)
	must(t, w.WriteAt(ctx, pattern(3, 4096), 2<<20, true))
	g, _, err := b.maps.Group(ctx, 1)
	must(t, err)
	t.Log("list", g.Good)
	for _, away := range g.Good { // from each replica
		if len(g.Good) == 1 {
			away = "" // there is one
		}
		d := p.disks[away]
		delete(p.disks, away)
		got := make([]byte, 4096)
		if err := w.ReadAt(ctx, got, 0); err != nil || got[0] != 2 {
			t.Errorf("without %s it reads %x, %v", away, got[:4], err)
		}
		p.disks[away] = d
	}
}

func TestLateRebuild(t *testing.T) { lateRebuild(t, false) }
func TestLateMove(t *testing.T)    { lateRebuild(t, true) }
