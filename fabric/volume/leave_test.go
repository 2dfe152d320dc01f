package volume

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
)

// A deniedDisk takes no writes for a while, and gives no data if it is denied altogether.
type deniedDisk struct {
	Disk
	writes atomic.Int32 // that are still to be refused
	denied atomic.Bool
}

var errDenied = errors.New("its owner needs the server")

func (d *deniedDisk) Write(ctx context.Context, id disk.GroupID, generation, token uint64, offset int64, data []byte, sync bool) error {
	if d.denied.Load() || d.writes.Add(-1) >= 0 {
		return errDenied
	}
	return d.Disk.Write(ctx, id, generation, token, offset, data, sync)
}

func (d *deniedDisk) Read(ctx context.Context, id disk.GroupID, generation uint64, offset int64, buf []byte) error {
	if d.denied.Load() {
		return errDenied
	}
	return d.Disk.Read(ctx, id, generation, offset, buf)
}

// Of four groups, three are being written when a disk denies a write of one of them.
func TestGroupsAtWorkLeaveTogether(t *testing.T) {
	for name, c := range map[string]struct {
		deny func(*deniedDisk)
		left int // groups that leave the disk
	}{
		"its server is busy": {func(d *deniedDisk) { d.denied.Store(true) }, 3},
		"one write fails":    {func(d *deniedDisk) { d.writes.Store(1) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s, p, _ := faultySpace(t, 3)
			d := &deniedDisk{Disk: p.disks["d0"]}
			p.disks["d0"] = d
			vd, err := s.Create(ctx, "v", 16<<20, 3, time.Unix(0, 0))
			must(t, err)
			v, err := s.Open(ctx, vd.ID)
			must(t, err)
			var groups []disk.GroupID
			for group := range int64(4) {
				for block := range int64(maps.ExtentsPerGroup) {
					must(t, v.WriteAt(ctx, make([]byte, 4096), (group*maps.ExtentsPerGroup+block)<<20, false))
				}
				for id := range v.marked {
					if !slices.Contains(groups, id) {
						groups = append(groups, id)
					}
				}
			}
			if len(groups) != 4 {
				t.Fatalf("%d groups", len(groups))
			}
			for i, id := range groups {
				written := time.Now().Add(time.Hour) // also on a slow machine that is just now
				if i == 3 {
					written = time.Now().Add(-time.Minute)
				}
				v.marked[id].lastWrite.Store(written.UnixNano())
			}
			c.deny(d)
			must(t, v.WriteAt(ctx, make([]byte, 4096), 0, false))
			for left := true; left; time.Sleep(time.Millisecond) {
				v.mu.Lock()
				left = len(v.leaving) > 0
				v.mu.Unlock()
			}
			for i, id := range groups {
				rec, _, err := s.maps.Group(ctx, id)
				must(t, err)
				if has := slices.Contains(rec.Good, cluster.DiskID("d0")); has != (i >= c.left) {
					t.Errorf("group %d is on %v", i, rec.Good)
				}
			}
			d.denied.Store(false)
			must(t, v.Close())
		})
	}
}
