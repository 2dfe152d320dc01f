package volume

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"gleaner/cluster"
	"gleaner/fabric/disk"
)

const (
	// justNow is how long ago a group was written last that is likely to be written again soon.
	justNow = time.Second / 2
	// leftAtOnce is how many groups leave a disk at a time: changes of their records share syncs.
	leftAtOnce = 32
)

// leave has the groups that are being written leave disks that did not take a write of one of them. Else the next write to each would find out for itself,
// and wait for the change of a record: one after the other, where a client writes one at a time.
func (v *Volume) leave(disks []cluster.DiskID) {
	for _, id := range disks {
		v.mu.Lock()
		begun := v.leaving[id]
		v.leaving[id] = true
		v.mu.Unlock()
		if begun {
			continue
		}
		helpers.Go(func() {
			v.leaveDisk(id)
			v.mu.Lock()
			defer v.mu.Unlock()
			delete(v.leaving, id)
		})
	}
}

func (v *Volume) leaveDisk(id cluster.DiskID) {
	v.held.RLock() // and with it the lease
	defer v.held.RUnlock()
	if v.space.opened(v.id) != v || v.broken.Load() != nil {
		return
	}
	groups := v.atWork(id)
	defer func() {
		for g := range groups {
			v.space.unpin(g)
		}
	}()
	var all errgroup.Group
	all.SetLimit(leftAtOnce)
	first := true
	for g, generation := range groups {
		if first && !g.denied(v.space.term(), id, generation) { // it did not take that one write
			return
		}
		first = false
		all.Go(func() error {
			g.drop(context.Background(), generation, id) // if that fails, the next write tries it
			return nil
		})
	}
	all.Wait()
}

// atWork gives the groups on a disk that were written a moment ago, pinned, and their generations.
func (v *Volume) atWork(on cluster.DiskID) map[*liveGroup]uint64 {
	since := time.Now().Add(-justNow).UnixNano()
	v.mu.Lock()
	var all []*liveGroup
	for id, g := range v.marked {
		if g.lastWrite.Load() >= since {
			all = append(all, v.space.pin(id))
		}
	}
	v.mu.Unlock()
	groups := map[*liveGroup]uint64{}
	for _, g := range all {
		g.mu.RLock()
		if g.loaded && !g.rec.Dead && len(g.rec.Good) > 1 && slices.Contains(g.rec.Good, on) {
			groups[g] = g.rec.Generation
		} else {
			defer v.space.unpin(g)
		}
		g.mu.RUnlock()
	}
	return groups
}

// denied reports whether a disk does nothing for a group now.
func (g *liveGroup) denied(ctx context.Context, id cluster.DiskID, generation uint64) bool {
	d, err := g.space.pool.Disk(id)
	if err == nil {
		err = d.Read(ctx, g.id, generation, 0, make([]byte, disk.SliceSize))
	}
	var stale *disk.GenerationError
	return err != nil && !isDamage(err) && !errors.As(err, &stale)
}
