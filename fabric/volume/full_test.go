package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"gleaner/cluster"
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
