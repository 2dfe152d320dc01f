package volume

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/pack"
)

var coded = Form{Level: pack.Fast, Data: 4}

// codedVolume gives a volume whose bytes, half of which cannot be compressed, are in one coded group.
func codedVolume(t *testing.T, disks int) (*Space, *slowPool, *Volume, []byte, disk.GroupID) {
	t.Helper()
	s, p, _ := faultySpace(t, disks)
	v := faultyVolume(t, s, 3)
	data := append(noise(1, 4<<20), prose(1, 4<<20)...)
	mustWrite(t, v, data, 0)
	saving := mustPack(t, s, coded, 1, 2)
	if saving.Before != 24<<20 || saving.After != 12<<20 {
		t.Fatalf("%+v", saving)
	}
	s.o.Patience = 300 * time.Millisecond
	return s, p, v, data, saving.Groups[0]
}

func record(t *testing.T, s *Space, id disk.GroupID) group.Group {
	t.Helper()
	rec, _, err := s.maps.Group(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// A coded group is read while any two of its six disks are away, and not while three are.
func TestCodedIsReadWhileDegraded(t *testing.T) {
	t.Parallel()
	s, p, v, data, id := codedVolume(t, 6)
	defer v.Close()
	rec := record(t, s, id)
	if !rec.Coded() || len(rec.Good) != 6 || rec.State() != group.Whole {
		t.Fatalf("%+v", rec)
	}
	mustRead(t, v, 0, data)
	all := p.disks
	for i := range rec.Good {
		for j := range i {
			p.disks = map[cluster.DiskID]Disk{}
			for k, on := range rec.Good {
				if k != i && k != j {
					p.disks[on] = all[on]
				}
			}
			mustRead(t, v, 0, data)
			mustRead(t, v, 3<<20-777, data[3<<20-777:][:100_000])
		}
	}
	p.disks = map[cluster.DiskID]Disk{}
	for _, on := range rec.Good[3:] {
		p.disks[on] = all[on]
	}
	if err := v.ReadAt(context.Background(), make([]byte, len(data)), 0); err == nil {
		t.Error("read without three of six")
	}
	p.disks = all
	mustRead(t, v, 0, data)
}

// Shards of a disk that is lost are computed anew on others, one after the other; the same shards can then be lost again, and the last that are needed cannot be given up.
func TestCodedIsRebuilt(t *testing.T) {
	ctx := context.Background()
	s, p, v, data, id := codedVolume(t, 8)
	defer v.Close()
	was := record(t, s, id)
	for _, lost := range was.Good[:2] {
		delete(p.disks, lost)
		if kept, err := s.Lost(ctx, lost); err != nil || len(kept) > 0 {
			t.Fatalf("%v, %v", kept, err)
		}
	}
	if rec := record(t, s, id); rec.State() != group.Degraded || len(rec.Good) != 4 {
		t.Fatalf("%+v", rec)
	}
	if kept, err := s.Lost(ctx, was.Good[2]); err != nil || !slices.Equal(kept, []disk.GroupID{id}) {
		t.Errorf("a third disk is given up: %v, %v", kept, err)
	}
	if err := s.Drop(ctx, id, was.Good[2]); err != nil || len(record(t, s, id).Good) != 4 {
		t.Errorf("a third disk is dropped, %v", err)
	}
	for range 2 {
		if err := s.Rebuild(ctx, id, ""); err != nil {
			t.Fatal(err)
		}
	}
	rec := record(t, s, id)
	if rec.State() != group.Whole || len(rec.Good) != 6 || slices.Contains(rec.Good, was.Good[0]) {
		t.Fatalf("%+v", rec)
	}
	for _, lost := range rec.Good[:2] { // the others and the new ones suffice
		delete(p.disks, lost)
	}
	mustRead(t, v, 0, data)
}

// A shard is moved to another disk; all others may stay.
func TestCodedIsMoved(t *testing.T) {
	ctx := context.Background()
	s, p, v, data, id := codedVolume(t, 7)
	defer v.Close()
	from, to := record(t, s, id).Good[1], cluster.DiskID("d6")
	if err := s.Move(ctx, id, from, func([]cluster.DiskID) (cluster.DiskID, bool) { return to, true }); err != nil {
		t.Fatal(err)
	}
	rec := record(t, s, id)
	if rec.Good[1] != to || rec.Shards[1] != 1 || has(t, p, from, id) {
		t.Fatalf("%+v", rec)
	}
	delete(p.disks, rec.Good[0])
	delete(p.disks, rec.Good[4])
	mustRead(t, v, 0, data)
}

// Slices that rotted on two disks, not the same ones, are computed for reads, and written anew where they were.
func TestCodedRots(t *testing.T) {
	ctx := context.Background()
	var told []cluster.DiskID
	s, p, v, data, id := codedVolume(t, 6)
	defer v.Close()
	s.o.Damaged = func(_ disk.GroupID, on cluster.DiskID) { told = append(told, on) }
	rec := record(t, s, id)
	rotten := map[cluster.DiskID]bool{}
	for i, on := range rec.Good[:2] {
		for slice := range 3 {
			p.files[on].Flip("d/groups/"+id.String(), (12<<10+int64(i*3+slice)*4096)*8+7)
		}
		rotten[on] = true
	}
	mustRead(t, v, 0, data)
	if len(told) == 0 || !rotten[told[0]] {
		t.Errorf("told of damage on %v", told)
	}
	for on := range rotten {
		if err := s.Discard(ctx, id, on); err != nil {
			t.Fatal(err)
		}
		if bad, err := p.disks[on].(*slowDisk).Disk.(plug).d.Verify(id); err != nil || len(bad) > 0 {
			t.Errorf("disk %s: %v, %v", on, bad, err)
		}
	}
	if now := record(t, s, id); !slices.Equal(now.Good, rec.Good) {
		t.Errorf("%+v", now)
	}
	mustRead(t, v, 0, data)
}

// A vDisk with one replica has no disk to lose: nothing is coded. Nor is anything where there are too few disks, or no such form.
func TestCodedIsRefused(t *testing.T) {
	ctx := context.Background()
	s, _, _ := faultySpace(t, 5)
	v, w := faultyVolume(t, s, 1), another(t, s, "w", 3)
	defer v.Close()
	defer w.Close()
	mustWrite(t, v, prose(1, 4<<20), 0)
	mustWrite(t, w, noise(2, 4<<20), 0)
	if _, err := s.Pack(ctx, []disk.GroupID{1}, Form{Level: pack.Fast, Data: 2}); !errors.Is(err, ErrMoot) {
		t.Errorf("one replica: %v", err)
	}
	if _, err := s.Pack(ctx, []disk.GroupID{2}, coded); !errors.Is(err, ErrNoTarget) {
		t.Errorf("six disks of five: %v", err)
	}
	for _, form := range []Form{{}, {Level: 9}, {Level: pack.Fast, Data: 1}, {Level: pack.Fast, Data: -1}, {Level: pack.Fast, Data: MaxData + 1}} {
		if _, err := s.Pack(ctx, []disk.GroupID{2}, form); err == nil || errors.Is(err, ErrMoot) {
			t.Errorf("%+v: %v", form, err)
		}
	}
	if got := allGroups(t, s); !slices.Equal(got, []disk.GroupID{1, 2}) {
		t.Errorf("groups %v", got)
	}
}

// A coded group becomes a whole one again by the same operation, when that takes less space.
func TestCodedIsPackedAgain(t *testing.T) {
	ctx := context.Background()
	s, _, v, data, id := codedVolume(t, 6)
	defer v.Close()
	if err := v.Zero(ctx, 0, 7<<20, false, false); err != nil {
		t.Fatal(err)
	}
	saving := mustPack(t, s, fast, id)
	if rec := record(t, s, saving.Groups[0]); rec.Coded() || len(rec.Good) != 3 || saving.After != 3<<20 {
		t.Errorf("%+v, %+v", rec, saving)
	}
	mustRead(t, v, 0, append(make([]byte, 7<<20), data[7<<20:]...))
}

// A front that is killed while it codes groups, at whichever step, leaves every extent in one place, where it can be read.
func TestKilledInsideCoding(t *testing.T) {
	t.Parallel()
	killedInside(t, 3, func(s *Space) error {
		_, err := s.Pack(context.Background(), []disk.GroupID{1, 2}, Form{Level: pack.Fast, Data: 2})
		return err
	})
}

// A front that is killed while it rebuilds a shard leaves the group as it was, or with the shard.
func TestKilledInsideRebuildOfAShard(t *testing.T) {
	t.Parallel()
	killedInside(t, 4, func(s *Space) error {
		ctx := context.Background()
		_, err := s.Pack(ctx, []disk.GroupID{1, 2}, Form{Level: pack.Fast, Data: 2})
		if err != nil && !errors.Is(err, ErrMoot) {
			return err
		}
		for g, err := range s.maps.Groups(ctx) {
			if err != nil {
				return err
			}
			if !g.Coded() {
				continue
			}
			if err := s.Drop(ctx, g.ID, g.Good[0]); err != nil {
				return err
			}
			if err := s.Rebuild(ctx, g.ID, ""); err != nil {
				return err
			}
		}
		return nil
	})
}
