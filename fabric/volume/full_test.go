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
