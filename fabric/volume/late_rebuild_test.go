package volume

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"gleaner/fabric/disk"
)

// A front has lost a vDisk to another, knows it, and its client has not closed the volume yet. Its scan takes for idle what the other has for blocks to come.
func TestRemoveIdleByFormerWriter(t *testing.T) {
	ctx, fronts := t.Context(), newLapsing(t, 2)
	a, b := fronts[0], fronts[1]
	vdisk, err := a.Create(ctx, "v", 8<<20, 2, time.Unix(0, 0))
	must(t, err)
	v, err := a.Open(ctx, vdisk.ID)
	must(t, err)
	v.stop() // it stands still
	v.keeper.Wait()
	w, err := b.Open(ctx, vdisk.ID)
	must(t, err)
	must(t, w.WriteAt(ctx, pattern(1, 4096), 0, true)) // quarters 1 to 3 of its group are spare
	id := allGroups(t, b)[0]
	if err := v.renew(ctx); !errors.Is(err, ErrFenced) { // it goes on, and learns of it
		t.Fatal(err)
	}
	t.Log("remove idle:", a.RemoveIdle(ctx, id, []uint8{1, 2, 3})) // as its scan proposes, hours later
	must(t, w.WriteAt(ctx, pattern(2, 4096), 1<<20, true))         // answered and flushed
	must(t, w.Close())
	w, err = b.Open(ctx, vdisk.ID)
	must(t, err)
	defer w.Close()
	reads(t, w, 0, pattern(1, 4096))
	reads(t, w, 1<<20, pattern(2, 4096))
}

// slowCopy takes a while to sync, and to give the last block.
type slowCopy struct {
	Disk
	pause time.Duration
}

func (d slowCopy) Sync(ctx context.Context) error {
	time.Sleep(d.pause)
	return d.Disk.Sync(ctx)
}

func (d slowCopy) Read(ctx context.Context, id disk.GroupID, generation uint64, offset int64, buf []byte) error {
	err := d.Disk.Read(ctx, id, generation, offset, buf)
	if offset == 3<<20 {
		time.Sleep(d.pause)
	}
	return err
}

// Nobody stands still: a group of a closed vDisk is moved to a slow disk, each step within Patience, and the lease that was taken for it, as long as Patience, runs out.
func TestSlowMove(t *testing.T) {
	t.Parallel()
	ctx, fronts := t.Context(), newFronts(t, 2)
	a, b := fronts[0], fronts[1]
	for _, s := range fronts {
		s.o.Lease = s.o.Patience // 2 s; 10 s by default
	}
	vdisk, err := a.Create(ctx, "v", 8<<20, 2, time.Unix(0, 0))
	must(t, err)
	v, err := a.Open(ctx, vdisk.ID)
	must(t, err)
	must(t, v.WriteAt(ctx, pattern(1, 4<<20), 0, true))
	must(t, v.Close())
	p := a.pool.(*slowPool)
	p.disks["d2"] = slowCopy{p.disks["d2"], 1500 * time.Millisecond}
	done := make(chan error, 1)
	go func() { done <- a.Move(context.Background(), 1, "d1", to("d2")) }()
	time.Sleep(500 * time.Millisecond)
	w, err := b.Open(ctx, vdisk.ID)
	must(t, err)
	select {
	case err := <-done:
		t.Skip("the move ended before: ", err)
	default:
	}
	must(t, w.WriteAt(ctx, pattern(2, 4096), 0, true))
	t.Log("move:", <-done)
	reads(t, w, 0, pattern(2, 4096))
	must(t, w.WriteAt(ctx, pattern(3, 4096), 2<<20, true)) // it learns of the new list
	for _, away := range record(t, b, 1).Good {
		d := p.disks[away]
		delete(p.disks, away)
		got := make([]byte, 4096)
		if err := w.ReadAt(ctx, got, 0); err != nil || got[0] != 2 {
			t.Errorf("without %s it reads %x, %v", away, got[:4], err)
		}
		p.disks[away] = d
	}
}

// failingWrite stops at the first write, and fails then.
type failingWrite struct {
	Disk
	once          sync.Once
	reached, stop chan struct{}
}

func (d *failingWrite) Write(ctx context.Context, id disk.GroupID, generation, token uint64, offset int64, data []byte, sync bool) error {
	d.once.Do(func() { close(d.reached); <-d.stop })
	return errors.New("it fails")
}

// A front that stood still while it rebuilt a group ends the rebuild that another has begun since: what that one has not copied yet is on the list.
func TestRebuildOfAnotherGoesOn(t *testing.T) {
	ctx, fronts := t.Context(), newLapsing(t, 2)
	a, b := fronts[0], fronts[1]
	vdisk, err := a.Create(ctx, "v", 8<<20, 2, time.Unix(0, 0))
	must(t, err)
	v, err := a.Open(ctx, vdisk.ID)
	must(t, err)
	must(t, v.WriteAt(ctx, pattern(1, 4<<20), 0, true))
	must(t, v.Close())
	p := a.pool.(*slowPool)
	must(t, a.Drop(ctx, 1, "d1"))
	stop := make(chan struct{})
	p.disks["d2"].(*slowDisk).sync = stop
	p.order[1], p.order[2] = "d2", "d1"
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- a.Rebuild(context.Background(), 1, "") }()
	time.Sleep(400 * time.Millisecond) // on d2; the lease has run out
	whole := p.disks["d1"]
	bad := &failingWrite{Disk: whole, reached: make(chan struct{}), stop: make(chan struct{})}
	p.change(func() { p.order[1], p.order[2], p.disks["d1"] = "d1", "d2", bad })
	go func() { second <- b.Rebuild(context.Background(), 1, "") }()
	<-bad.reached // on d1; nothing is copied yet
	close(stop)
	t.Log("first rebuild:", <-first)
	close(bad.stop)
	t.Log("second rebuild:", <-second)
	p.change(func() { p.disks["d1"] = whole })
	rec := record(t, b, 1)
	t.Log("list", rec.Good, rec.State())
	w, err := b.Open(ctx, vdisk.ID)
	must(t, err)
	for _, away := range rec.Good[1:] {
		delete(p.disks, away)
		reads(t, w, 0, pattern(1, 4096))
		p.disks[away] = whole
	}
	if len(rec.Good) > 1 {
		delete(p.disks, "d0")
		reads(t, w, 0, pattern(1, 4096))
	}
}
