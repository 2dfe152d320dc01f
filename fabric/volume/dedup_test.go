package volume

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/fabric/pack"
)

// another makes a second vDisk.
func another(t *testing.T, s *Space, name string, replicas int) *Volume {
	t.Helper()
	vd, err := s.Create(context.Background(), name, 8<<20, replicas, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.Open(context.Background(), vd.ID)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A pair is two extents with one fingerprint.
type pair struct{ keep, gone maps.ExtentID }

// duplicates finds extents in different groups that are equal, as a scan of the extent map does.
func duplicates(m *maps.Maps) (all []pair, err error) {
	type found struct {
		extent maps.ExtentID
		in     disk.GroupID
	}
	first := map[pack.Print]found{}
	err = m.EachExtent(context.Background(), func(e maps.ExtentID, at maps.Extent) error {
		if at.Packed == nil {
			return nil
		}
		if same, ok := first[at.Packed.Print]; ok && same.in != at.Group {
			all = append(all, pair{same.extent, e})
		} else if !ok {
			first[at.Packed.Print] = found{e, at.Group}
		}
		return nil
	})
	slices.SortFunc(all, func(a, b pair) int { return int(a.gone.Group) - int(b.gone.Group) })
	return all, err
}

// Two vDisks with the same bytes keep them once. Each can be written and removed, and the other is as it was.
func TestDedup(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, p, _ := faultySpace(t, 2)
	v, w := faultyVolume(t, s, 2), another(t, s, "w", 2)
	data := prose(1, 4<<20)
	mustWrite(t, v, data, 0)
	mustWrite(t, w, data, 0)
	first, second := mustPack(t, s, fast, 1).Groups[0], mustPack(t, s, fast, 2).Groups[0]
	pairs, err := duplicates(s.maps)
	if err != nil || len(pairs) != 4 {
		t.Fatalf("%v, %v", pairs, err)
	}
	for _, pr := range pairs {
		if err := s.Dedup(ctx, pr.keep, pr.gone); err != nil {
			t.Fatal(err)
		}
		if err := s.Dedup(ctx, pr.keep, pr.gone); !errors.Is(err, ErrMoot) {
			t.Errorf("again: %v", err)
		}
	}
	left := allGroups(t, s)
	if len(left) != 1 || left[0] != first && left[0] != second {
		t.Fatalf("groups %v", left)
	}
	rec, _, err := s.maps.Group(ctx, left[0])
	if err != nil {
		t.Fatal(err)
	}
	owner, other, name := v, w, "v" // of the shared group
	if rec.VDisk == w.id {
		owner, other, name = w, v, "w"
	}
	mustRead(t, owner, 0, data)
	mustRead(t, other, 0, data)
	changed := slices.Clone(data)
	copy(changed[1<<20-5:], "other bytes")
	mustWrite(t, owner, []byte("other bytes"), 1<<20-5)
	mustRead(t, owner, 0, changed)
	mustRead(t, other, 0, data)
	again := mustPack(t, s, Form{Level: pack.Best}, allGroups(t, s)...) // together with the extents of the other vDisk
	mustRead(t, owner, 0, changed)
	mustRead(t, other, 0, data)
	for _, err := range []error{owner.Close(), s.Remove(ctx, name), s.Reap(ctx)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	mustRead(t, other, 0, data)
	if err := other.Zero(ctx, 0, 8<<20, false, false); err != nil {
		t.Fatal(err)
	}
	if got := allGroups(t, s); len(got) > 0 || has(t, p, "d0", again.Groups[0]) {
		t.Errorf("groups %v are left, or a replica is", got)
	}
}

// Dedup does nothing where extents are not equal, not packed, or kept on fewer disks; and nothing on the word of a fingerprint alone.
func TestDedupIsMoot(t *testing.T) {
	ctx := context.Background()
	s, p, _ := faultySpace(t, 3)
	v, w, x := faultyVolume(t, s, 2), another(t, s, "w", 2), another(t, s, "x", 3)
	for _, to := range []*Volume{v, w, x} {
		mustWrite(t, to, prose(1, 1<<20), 0)
		mustWrite(t, to, prose(uint64(to.id)+5, 1<<20), 1<<20)
	}
	extent := func(g disk.GroupID, q uint8) maps.ExtentID { return maps.ExtentID{Group: g, Quarter: q} }
	moot := func(what string, keep, gone maps.ExtentID) {
		t.Helper()
		if err := s.Dedup(ctx, keep, gone); !errors.Is(err, ErrMoot) {
			t.Errorf("%s: %v", what, err)
		}
	}
	moot("not packed", extent(1, 0), extent(2, 0))
	first := mustPack(t, s, fast, 1)
	moot("one is not packed", extent(1, 0), extent(2, 0))
	mustPack(t, s, fast, 2)
	mustPack(t, s, fast, 3)
	moot("not equal", extent(1, 1), extent(2, 1))
	moot("not there", extent(1, 0), extent(9, 0))
	moot("the same", extent(1, 0), extent(1, 0))
	moot("fewer replicas", extent(1, 0), extent(3, 0))
	for id, d := range p.disks {
		p.disks[id] = lyingDisk{d}
	}
	if err := s.Dedup(ctx, extent(1, 0), extent(2, 0)); err == nil || errors.Is(err, ErrMoot) {
		t.Errorf("the bytes are not those of the fingerprint: %v", err)
	}
	for id, d := range p.disks {
		p.disks[id] = d.(lyingDisk).Disk
	}
	if err := s.Dedup(ctx, extent(3, 0), extent(2, 0)); err != nil {
		t.Errorf("more replicas: %v", err)
	}
	if rec, _, err := s.maps.Group(ctx, first.Groups[0]); err != nil || !slices.Equal(rec.Good, []cluster.DiskID{"d0", "d1"}) {
		t.Errorf("%+v, %v", rec, err)
	}
}

// A front that is killed while extents come to share their bytes, at whichever step, leaves none that leads nowhere.
func TestKilledInsideDedup(t *testing.T) {
	t.Parallel()
	killedInside(t, 2, func(s *Space) error {
		ctx := context.Background()
		for _, ids := range [][]disk.GroupID{{1}, {2}} {
			if _, err := s.Pack(ctx, ids, fast); err != nil && !errors.Is(err, ErrMoot) {
				return err
			}
		}
		pairs, err := duplicates(s.maps)
		for _, pr := range pairs {
			if err := s.Dedup(ctx, pr.keep, pr.gone); err != nil && !errors.Is(err, ErrMoot) {
				return err
			}
		}
		return err
	})
}
