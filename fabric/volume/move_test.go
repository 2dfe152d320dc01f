package volume

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/fabric/tiering"
	"gleaner/kv"
)

// to chooses a disk, whatever the others are.
func to(id cluster.DiskID) func([]cluster.DiskID) (cluster.DiskID, bool) {
	return func([]cluster.DiskID) (cluster.DiskID, bool) { return id, true }
}

func has(t *testing.T, p *slowPool, on cluster.DiskID, id disk.GroupID) bool {
	t.Helper()
	_, err := p.disks[on].Stat(context.Background(), id)
	if err != nil && !errors.Is(err, disk.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

// A replica goes from one disk to another while clients write: nothing is lost, and the old one is removed.
func TestMoveWhileWriting(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, p, _ := faultySpace(t, 3)
	v := faultyVolume(t, s, 2)
	defer v.Close()
	const clients, writes = 4, 60
	write := func(client, n int) error {
		return v.WriteAt(ctx, bytes.Repeat([]byte{byte(n)}, 4096), int64(client*writes+n)*4096, false)
	}
	if err := write(0, 0); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for n := range writes {
				if err := write(client, n); err != nil {
					t.Error(err)
				}
			}
		})
	}
	at := []cluster.DiskID{"d0", "d1"}
	for i, target := 0, cluster.DiskID("d2"); i < 20; i++ {
		from := at[i%2]
		var others []cluster.DiskID
		err := s.Move(ctx, 1, from, func(seen []cluster.DiskID) (cluster.DiskID, bool) { others = seen; return target, true })
		if err != nil || !slices.Equal(others, []cluster.DiskID{at[1-i%2]}) {
			t.Fatalf("others are %v, %v", others, err)
		}
		if has(t, p, from, 1) || !has(t, p, target, 1) {
			t.Fatalf("move %d from %s to %s: the old replica is there, or the new one is not", i, from, target)
		}
		at[i%2], target = target, from
	}
	all.Wait()
	rec, _, err := s.maps.Group(ctx, 1)
	if err != nil || rec.State() != group.Whole || !slices.Equal(rec.Good, at) {
		t.Errorf("%+v, %v, want it on %v", rec, err, at)
	}
	for _, gone := range at { // each replica has all of it
		d := p.disks[gone]
		delete(p.disks, gone)
		got := make([]byte, 4096)
		for i := range clients * writes {
			if err := v.ReadAt(ctx, got, int64(i)*4096); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{byte(i % writes)}, 4096)) {
				t.Fatalf("without %s: write %d reads as %d, %v", gone, i, got[0], err)
			}
		}
		p.disks[gone] = d
	}
}

// Move does nothing where the group is not as it was when somebody asked for it.
func TestMoveIsMoot(t *testing.T) {
	ctx := context.Background()
	s, p, _ := faultySpace(t, 4)
	v := faultyVolume(t, s, 2)
	defer v.Close()
	if err := v.WriteAt(ctx, make([]byte, 4096), 0, false); err != nil {
		t.Fatal(err)
	}
	nowhere := func([]cluster.DiskID) (cluster.DiskID, bool) { return "", false }
	for what, tc := range map[string]struct {
		got, want error
	}{
		"a group that is not there":   {s.Move(ctx, 99, "d0", to("d2")), ErrMoot},
		"a replica that is not there": {s.Move(ctx, 1, "d2", to("d3")), ErrMoot},
		"to a disk that has one":      {s.Move(ctx, 1, "d0", to("d1")), ErrMoot},
		"to no disk":                  {s.Move(ctx, 1, "d0", nowhere), ErrNoTarget},
	} {
		if !errors.Is(tc.got, tc.want) {
			t.Errorf("%s: %v, want %v", what, tc.got, tc.want)
		}
	}
	d := p.disks["d1"]
	delete(p.disks, "d1")
	if err := v.WriteAt(ctx, make([]byte, 4096), 0, false); err != nil {
		t.Fatal(err)
	}
	p.disks["d1"] = d
	if err := s.Move(ctx, 1, "d0", to("d2")); !errors.Is(err, ErrMoot) {
		t.Errorf("a degraded group: %v", err)
	}
	if rec, _, err := s.maps.Group(ctx, 1); err != nil || !slices.Equal(rec.Good, []cluster.DiskID{"d0"}) || rec.Building != "" {
		t.Errorf("%+v, %v", rec, err)
	}
}

// lyingDisk reads back other bytes than were written.
type lyingDisk struct{ Disk }

func (d lyingDisk) Read(ctx context.Context, id disk.GroupID, generation uint64, offset int64, buf []byte) error {
	err := d.Disk.Read(ctx, id, generation, offset, buf)
	buf[len(buf)-1]++
	return err
}

// fullDisk takes no writes.
type fullDisk struct{ Disk }

func (fullDisk) Write(context.Context, disk.GroupID, uint64, uint64, int64, []byte, bool) error {
	return disk.ErrSpace
}

// A move that fails leaves the group as it was, and nothing on the other disk.
func TestMoveFails(t *testing.T) {
	ctx := context.Background()
	for what, spoil := range map[string]func(Disk) Disk{
		"no room":     func(d Disk) Disk { return fullDisk{d} },
		"other bytes": func(d Disk) Disk { return lyingDisk{d} },
	} {
		t.Run(what, func(t *testing.T) {
			s, p, _ := faultySpace(t, 3)
			v := faultyVolume(t, s, 2)
			defer v.Close()
			data := bytes.Repeat([]byte("gleaner "), 1024)
			if err := v.WriteAt(ctx, data, 4096, false); err != nil {
				t.Fatal(err)
			}
			p.disks["d2"] = spoil(p.disks["d2"])
			if err := s.Move(ctx, 1, "d0", to("d2")); err == nil || errors.Is(err, ErrMoot) {
				t.Error(err)
			}
			rec, _, err := s.maps.Group(ctx, 1)
			if err != nil || rec.State() != group.Whole || !slices.Equal(rec.Good, []cluster.DiskID{"d0", "d1"}) || has(t, p, "d2", 1) {
				t.Errorf("%+v, %v, or something is left on d2", rec, err)
			}
			got := make([]byte, len(data))
			if err := v.ReadAt(ctx, got, 4096); err != nil || !bytes.Equal(got, data) {
				t.Errorf("other bytes than were written, %v", err)
			}
		})
	}
}

// lateDisk says of its first write that it failed, and does it when it is told to.
type lateDisk struct {
	Disk
	do func() error
}

func (d *lateDisk) Write(ctx context.Context, id disk.GroupID, generation, token uint64, offset int64, data []byte, sync bool) error {
	write := func() error { return d.Disk.Write(ctx, id, generation, token, offset, data, sync) }
	if d.do == nil {
		data = slices.Clone(data)
		d.do = write
		return errFlaky
	}
	return write()
}

// A write of a rebuild that failed comes late, when the replica was built there after all: it is refused.
func TestLateWriteOfARebuild(t *testing.T) {
	ctx := context.Background()
	s, p, _ := faultySpace(t, 3)
	v := faultyVolume(t, s, 2)
	defer v.Close()
	write := func(text string) {
		t.Helper()
		if err := v.WriteAt(ctx, bytes.Repeat([]byte(text), 4096), 0, false); err != nil {
			t.Fatal(err)
		}
	}
	write("a")
	late := &lateDisk{Disk: p.disks["d2"]}
	p.disks["d2"] = late
	delete(p.disks, "d0")
	write("b")
	if err := s.Rebuild(ctx, 1, ""); !errors.Is(err, errFlaky) {
		t.Fatal(err)
	}
	write("c")
	if err := s.Rebuild(ctx, 1, ""); err != nil {
		t.Fatal(err)
	}
	if err := late.do(); err == nil {
		t.Error("it was done")
	}
	delete(p.disks, "d1")
	got := make([]byte, 4096)
	if err := v.ReadAt(ctx, got, 0); err != nil || got[0] != 'c' {
		t.Errorf("%q, %v", got[0], err)
	}
}

// A front that is killed inside a move, at whichever step, leaves the only replica in one of both places. The next front removes what is left in the other.
func TestKilledInsideMove(t *testing.T) {
	ctx := context.Background()
	data := bytes.Repeat([]byte("gleaner "), 1024)
	for left := 1; ; left += stride() {
		_, p, store := faultySpace(t, 2)
		dead := &fuse{}
		for id, d := range p.disks {
			p.disks[id] = plug{d.(*slowDisk).Disk.(plug).d, dead}
		}
		m, err := maps.Open(ctx, fusedStore{store, dead}, kv.NewWriter(7))
		if err != nil {
			t.Fatal(err)
		}
		s := NewSpace(m, p, Options{Answer: time.Second, Patience: time.Second})
		v := faultyVolume(t, s, 1)
		if err := v.WriteAt(ctx, data, 0, true); err != nil {
			t.Fatal(err)
		}
		dead.left = left
		moved := s.Move(ctx, 1, "d0", to("d1"))
		v.stop()
		for id, d := range p.disks {
			p.disks[id] = plug{d.(plug).d, &fuse{}}
		}
		if m, err = maps.Open(ctx, store, kv.NewWriter(8)); err != nil {
			t.Fatal(err)
		}
		s = NewSpace(m, p, Options{Answer: time.Second, Patience: time.Second})
		if v, err = s.Open(ctx, 1); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(data))
		if err := v.ReadAt(ctx, got, 0); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("killed at step %d: other bytes than were written, %v", left, err)
		}
		if err := s.Rebuild(ctx, 1, ""); err != nil {
			t.Fatal(err)
		}
		for id := range p.disks {
			if _, err := s.Sweep(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
		rec, _, err := m.Group(ctx, 1)
		if err != nil || rec.State() != group.Whole || has(t, p, "d0", 1) == has(t, p, "d1", 1) || !has(t, p, rec.Good[0], 1) {
			t.Fatalf("killed at step %d: %+v, %v; on d0 %t, on d1 %t", left, rec, err, has(t, p, "d0", 1), has(t, p, "d1", 1))
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		if moved == nil && !dead.blown {
			t.Logf("%d steps", left-1)
			return
		}
	}
}

// The use of groups is noted to the period, kept together with what was kept before, and gone when the group is.
func TestAccess(t *testing.T) {
	ctx := context.Background()
	s, _, _ := faultySpace(t, 1)
	now := time.Unix(1_000_000, 0)
	s.o.Now = func() time.Time { return now }
	v := faultyVolume(t, s, 1)
	keep := func() {
		t.Helper()
		if _, err := s.KeepAccess(ctx); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(read, written time.Time, late int) {
		t.Helper()
		a, err := s.Access(ctx, 1)
		if err != nil || !a.Read.Time().Equal(read) || !a.Written.Time().Equal(written) || a.ReadOfLate(a.Read) != late {
			t.Errorf("%+v, %v, want read %v, written %v, of late %d", a, err, read, written, late)
		}
	}
	if err := v.WriteAt(ctx, make([]byte, 4096), 0, false); err != nil {
		t.Fatal(err)
	}
	start := now
	expect(time.Time{}, start, 0)
	for range 3 {
		for range 5 {
			if err := v.ReadAt(ctx, make([]byte, 4096), 0); err != nil {
				t.Fatal(err)
			}
			now = now.Add(time.Second)
		}
		keep()
		now = now.Add(5 * time.Second)
	}
	expect(start.Add(20*time.Second), start, 2) // the first time is not again
	if kept, err := s.maps.Access(ctx, 1); err != nil || kept.ReadOfLate(kept.Read) != 2 {
		t.Errorf("%+v is kept, %v", kept, err)
	}
	if err := v.ReadAt(ctx, make([]byte, 4096), 0); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{v.Close(), s.Remove(ctx, "v"), s.Reap(ctx)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	keep()
	expect(time.Time{}, time.Time{}, 0)
}

// A slow scan reads each block of a group in another period, and none again.
func TestScanIsNoRepetition(t *testing.T) {
	ctx := context.Background()
	s, _, _ := faultySpace(t, 1)
	now := time.Unix(1_000_000, 0).UTC()
	s.o.Now = func() time.Time { return now }
	v := faultyVolume(t, s, 1)
	defer v.Close()
	if err := v.WriteAt(ctx, make([]byte, disk.GroupSize), 0, false); err != nil {
		t.Fatal(err)
	}
	for at := int64(0); at < disk.GroupSize; at += disk.BlockSize / 4 {
		if err := v.ReadAt(ctx, make([]byte, disk.BlockSize/4), at); err != nil {
			t.Fatal(err)
		}
		now = now.Add(tiering.PeriodLength / 4)
	}
	if a, err := s.Access(ctx, 1); err != nil || a.Read.Time().IsZero() || a.ReadOfLate(a.Read) != 0 {
		t.Errorf("%+v, %v", a, err)
	}
}

// However many groups are used, only so many are noted until they are kept.
func TestAccessIsBounded(t *testing.T) {
	s, _, _ := faultySpace(t, 1)
	for id := range disk.GroupID(2 * maxAccesses) {
		g := liveGroup{id: id, space: s}
		g.used(&g.readIn[0], tiering.ReadOnce, tiering.ReadIn)
		s.accesses.forget(id + 1<<32)
	}
	if n, gone := len(s.accesses.used), len(s.accesses.gone); n != maxAccesses || gone != maxAccesses {
		t.Errorf("%d groups are noted, and %d removed ones", n, gone)
	}
}
