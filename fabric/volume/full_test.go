package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
)

// A disk may be full though the pool thinks that it has room: the write goes on to others, until none is left.
func TestFullDisksAreLeft(t *testing.T) {
	ctx := context.Background()
	for full := range 4 {
		t.Run(fmt.Sprint(full), func(t *testing.T) {
			s, p, _ := faultySpace(t, 3)
			for _, id := range p.order[:full] {
				p.disks[id] = fullDisk{p.disks[id]}
			}
			s.o.Full = func(id cluster.DiskID) {
				p.order = slices.DeleteFunc(p.order, func(other cluster.DiskID) bool { return other == id })
			}
			v := faultyVolume(t, s, 1)
			defer v.Close()
			err := v.WriteAt(ctx, make([]byte, 4096), 0, false)
			if full < 3 && err != nil || full == 3 && !errors.Is(err, ErrNoSpace) {
				t.Error(err)
			}
		})
	}
}

// Where there are servers for all replicas and some are full, a write fails; where there are not, it goes on with fewer.
func TestFullDisksCostNoReplica(t *testing.T) {
	ctx := context.Background()
	for name, tc := range map[string]struct {
		known, enough bool // the pool knows what is full, and there are enough servers
		want          error
	}{
		"known":             {true, true, ErrNoSpace},
		"found out":         {false, true, ErrNoSpace},
		"too few servers":   {true, false, nil},
		"found out by some": {false, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, p, _ := faultySpace(t, 3)
			full := p.order[1]
			p.disks[full] = crammedDisk{p.disks[full]}
			if tc.known {
				p.order = slices.DeleteFunc(p.order, func(id cluster.DiskID) bool { return id == full })
			}
			s.o.Enough = func(n int) bool { return tc.enough && n <= 3 }
			v := faultyVolume(t, s, 3)
			defer v.Close()
			if err := v.WriteAt(ctx, make([]byte, 4096), 0, false); !errors.Is(err, tc.want) {
				t.Fatal(err)
			}
			for id, d := range p.disks {
				left := 0
				if err := d.List(ctx, func(disk.GroupID) error { left++; return nil }); err != nil || tc.want != nil && left > 0 {
					t.Errorf("disk %s has %d groups, %v", id, left, err)
				}
			}
		})
	}
}

// A crammedDisk has no room for another group.
type crammedDisk struct{ Disk }

func (crammedDisk) Create(context.Context, disk.GroupID, disk.VDiskID, uint64) error {
	return &disk.QuotaError{}
}

// While all disks are busy or away, a write that needs one waits, and says so in the end: that is not a lack of space.
func TestNoDiskCanBeUsed(t *testing.T) {
	ctx := context.Background()
	s, p, _ := faultySpace(t, 1)
	all := p.order
	p.order = nil
	looks := 0
	s.o.Usable = func() bool {
		if looks++; looks == 3 {
			p.order = all
		}
		return false
	}
	v := faultyVolume(t, s, 1)
	defer v.Close()
	if err := v.WriteAt(ctx, make([]byte, 4096), 0, false); err != nil || looks != 3 {
		t.Errorf("after %d looks: %v", looks, err)
	}
	p.order = nil
	s.o.Patience = 10 * time.Millisecond
	if err := v.WriteAt(ctx, make([]byte, 4096), 4<<20, false); err != nil { // the group has extents left
		t.Error(err)
	}
	var err error
	for at := int64(0); at < 8<<20 && err == nil; at += disk.BlockSize {
		err = v.WriteAt(ctx, make([]byte, 4096), at, false)
	}
	if !errors.Is(err, ErrNoDisk) || errors.Is(err, ErrNoSpace) {
		t.Error(err)
	}
}
