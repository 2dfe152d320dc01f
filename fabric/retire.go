package fabric

import (
	"context"
	"maps"
	"slices"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/upkeep"
	"gleaner/input"
)

// Retire has a disk get no more replicas, and upkeep move those that it has to others, so that it can be taken away.
func (f *Front) Retire(ctx context.Context, id cluster.DiskID) (Lent, error) {
	return f.changeRetired(ctx, id, f.maps.Retire)
}

// Reinstate has a disk used again that was retired.
func (f *Front) Reinstate(ctx context.Context, id cluster.DiskID) (Lent, error) {
	return f.changeRetired(ctx, id, f.maps.Reinstate)
}

// changeRetired changes whether a disk is retired, and gives how it is then.
func (f *Front) changeRetired(ctx context.Context, id cluster.DiskID, change func(context.Context, cluster.DiskID) error) (Lent, error) {
	if _, err := f.lent(ctx, id); err != nil {
		return Lent{}, err
	}
	if err := change(ctx, id); err != nil {
		return Lent{}, err
	}
	if err := f.learnRetired(ctx); err != nil {
		return Lent{}, err
	}
	f.curation.want(upkeep.Retired)
	return f.lent(ctx, id)
}

// lent gives a disk that a server lends, be it away or not.
func (f *Front) lent(ctx context.Context, id cluster.DiskID) (Lent, error) {
	all, err := f.Lent(ctx)
	if err != nil {
		return Lent{}, err
	}
	i := slices.IndexFunc(all, func(l Lent) bool { return l.Disk == string(id) })
	if i < 0 {
		return Lent{}, input.Fieldf("disk", "%s: no server lends such a disk; 'gleaner disk df' lists them", id)
	}
	return all[i], nil
}

// left is what a retired disk still has.
type left struct {
	replicas int
	stuck    int  // of them, that no other disk has room for
	known    bool // to all fronts: none will get it another replica
}

// leaving gives what is left on the retired disks.
func (f *Front) leaving(ctx context.Context) (map[cluster.DiskID]left, error) {
	all := map[cluster.DiskID]left{}
	known := f.o.Now().Add(-f.spread())
	for id, since := range f.pool.allRetired() {
		all[id] = left{known: !since.After(known)}
	}
	if len(all) == 0 {
		return nil, nil
	}
	for g, err := range f.maps.Groups(ctx) {
		if err != nil {
			return nil, err
		}
		for _, d := range append(g.Good, g.Building) {
			if l, retired := all[d]; retired {
				l.replicas++
				if !f.pool.roomFor(d, g.Good) {
					l.stuck++
				}
				all[d] = l
			}
		}
	}
	return all, nil
}

// spread is how long it takes until all fronts know that a disk is retired, after one does: they look every tidyEvery, and are late at times.
func (f *Front) spread() time.Duration {
	if f.o.Holder == "" { // there is no other
		return 0
	}
	return 2 * tidyEvery
}

// learnRetired reads which disks are retired: another front may have changed it.
func (f *Front) learnRetired(ctx context.Context) error {
	retired, err := f.maps.Retired(ctx)
	if err == nil {
		f.pool.retire(retired, f.o.Now())
	}
	return err
}

// retire has replicas placed on no disk of some, as is known now.
func (p *pool) retire(ids map[cluster.DiskID]bool, now time.Time) {
	p.mu.Lock()
	changed, since := len(ids) != len(p.retired), map[cluster.DiskID]time.Time{}
	for id := range ids {
		known, before := p.retired[id]
		if !before {
			known, changed = now, true
		}
		since[id] = known
	}
	p.retired = since
	p.mu.Unlock()
	if !changed {
		return
	}
	for id, d := range p.all() {
		p.report(cluster.DataUse{On: d.on, Busy: d.busy, Disks: []cluster.DiskUse{{ID: id, Free: d.free}}})
	}
}

// allRetired gives the disks that are being emptied, or are empty, and since when that is known here.
func (p *pool) allRetired() map[cluster.DiskID]time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.retired)
}

// roomFor reports whether another disk has room for a replica, on a server that has none of the others.
func (p *pool) roomFor(from cluster.DiskID, good []cluster.DiskID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := map[cluster.ServerID]bool{}
	for _, id := range good {
		if id != from {
			taken[p.homes[id]] = true
		}
	}
	for id, d := range p.disks {
		_, retired := p.retired[id]
		if id != from && !retired && d.free >= kept+disk.GroupSize && !taken[d.on] {
			return true
		}
	}
	return false
}

// isRetired reports whether a disk is being emptied, or is empty.
func (p *pool) isRetired(id cluster.DiskID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, retired := p.retired[id]
	return retired
}
