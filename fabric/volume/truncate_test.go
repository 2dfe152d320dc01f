package volume

import (
	"errors"
	"testing"

	"gleaner/cluster"
	"gleaner/fabric/disk"
)

// The disks of a group give back what is behind its last extent, once, and only while all replicas are there. What is left reads as before, also from a replica that is made afterwards.
func TestTruncate(t *testing.T) {
	ctx := t.Context()
	s, p, _ := faultySpace(t, 4)
	v := faultyVolume(t, s, 3)
	want := pattern(1, 2*disk.BlockSize)
	must(t, v.WriteAt(ctx, pattern(1, disk.GroupSize), 0, true))
	if err := s.Truncate(ctx, 1); !errors.Is(err, ErrMoot) {
		t.Errorf("all is alive: %v", err)
	}
	must(t, v.Zero(ctx, 2*disk.BlockSize, 2*disk.BlockSize, false, false))
	on := allocated(t, s, p)
	must(t, s.Truncate(ctx, 1))
	for id, after := range allocated(t, s, p) {
		if on[id]-after != 2*disk.BlockSize {
			t.Errorf("disk %s had %d bytes and has %d", id, on[id], after)
		}
	}
	if err := s.Truncate(ctx, 1); !errors.Is(err, ErrMoot) {
		t.Errorf("again: %v", err)
	}
	reads(t, v, 0, want)
	must(t, v.WriteAt(ctx, pattern(2, 4096), 2*disk.BlockSize, false)) // in a group of its own
	rec, _, err := s.maps.Group(ctx, 1)
	if err != nil || rec.Cut != 2 {
		t.Errorf("%+v, %v", rec, err)
	}
	must(t, s.Discard(ctx, 1, rec.Good[0]))
	must(t, v.Zero(ctx, disk.BlockSize, disk.BlockSize, false, false))
	if err := s.Truncate(ctx, 1); !errors.Is(err, ErrMoot) {
		t.Errorf("a replica is missing: %v", err)
	}
	must(t, s.Rebuild(ctx, 1, ""))
	must(t, s.Truncate(ctx, 1))
	reads(t, v, 0, want[:disk.BlockSize])
	must(t, v.Zero(ctx, 0, disk.BlockSize, false, false)) // the group goes with its last extent
	if err := s.Truncate(ctx, 1); !errors.Is(err, ErrMoot) {
		t.Errorf("it is gone: %v", err)
	}
	must(t, v.Close())
}

// allocated is what group 1 takes on each disk.
func allocated(t *testing.T, s *Space, p *slowPool) map[cluster.DiskID]int64 {
	t.Helper()
	rec, _, err := s.maps.Group(t.Context(), 1)
	must(t, err)
	all := map[cluster.DiskID]int64{}
	for _, id := range rec.Good {
		d, err := p.Disk(id)
		must(t, err)
		info, err := d.Stat(t.Context(), 1)
		must(t, err)
		all[id] = info.Allocated
	}
	return all
}
