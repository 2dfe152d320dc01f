package fabric

import (
	"context"
	"errors"
	"slices"
	"sync"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/kv"
)

// damages are replicas that were found to be damaged and are kept all the same, because their group cannot be read without them: what was in them
// may be lost, and what still can be read of them is there. They are known since this front was opened, as far as somebody has read them.
type damages struct {
	mu  sync.Mutex
	all map[damage]bool
}

func (d *damages) set(one damage, damaged bool) (news bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	news = damaged != d.all[one]
	if damaged {
		if d.all == nil {
			d.all = map[damage]bool{}
		}
		d.all[one] = true
	} else {
		delete(d.all, one)
	}
	return news
}

func (d *damages) has(one damage) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all[one]
}

// groups is how many groups have such replicas.
func (d *damages) groups() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	ids := map[disk.GroupID]bool{}
	for one := range d.all {
		ids[one.group] = true
	}
	return len(ids)
}

// discard drops a replica that was found to be damaged, unless it is whole by now: it may have been found several times, and was made anew after the first.
func (f *Front) discard(ctx context.Context, d damage) {
	if f.whole(ctx, d) {
		f.damages.set(d, false)
		return
	}
	if err := f.space.Discard(ctx, d.group, d.on); err != nil && !errors.Is(err, kv.ErrTaken) && ctx.Err() == nil {
		f.log.Warn("replica not dropped", "group", d.group.String(), "error", err)
	}
	g, _, err := f.maps.Group(ctx, d.group)
	kept := err == nil && !g.Dead && slices.Contains(g.Good, d.on)
	news := f.damages.set(d, kept)
	switch {
	case err != nil && !errors.Is(err, maps.ErrNotFound):
	case !kept:
		f.log.Warn("replica is damaged; another is made", "group", d.group.String(), "disk", string(d.on))
	case news:
		f.log.Error("replica is damaged, and its group has no other: what was in it may be lost", "group", d.group.String(), "disk", string(d.on))
	}
}

// whole reads a replica again.
func (f *Front) whole(ctx context.Context, d damage) bool {
	bad, err := f.verify(ctx, d.on, d.group)
	return err == nil && len(bad) == 0
}

// damagedNow reports whether a replica that was found to be damaged still is: what is written anew is good again.
func (f *Front) damagedNow(ctx context.Context, id disk.GroupID, on cluster.DiskID) bool {
	d := damage{id, on}
	if !f.damages.has(d) {
		return false
	}
	if f.whole(ctx, d) {
		f.damages.set(d, false)
		return false
	}
	return true
}
