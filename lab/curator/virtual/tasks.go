package virtual

import (
	"context"
	"slices"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/fabric/tiering"
	"gleaner/fabric/upkeep"
	"gleaner/fabric/volume"
	"gleaner/kv"
)

// An op is one read or write of a task, of several disks at once.
type op struct {
	on    []*Disk
	size  int64
	write bool
	frees bool // it removes replicas
}

type others interface{ upkeep.Fabric }

// removal is what is written to remove a replica: its name, synced.
const removal = 4 << 10

// tasks carry out what upkeep has found: they change the maps and list the reads and writes of disks.
type tasks struct {
	*Fabric
	others // nil: no other tasks arise here
	at     time.Duration
	ops    []op
}

// copies reads a replica in pieces, writes another, and reads that back.
func (t *tasks) copies(from, to *Disk) {
	for range maps.ExtentsPerGroup {
		t.ops = append(t.ops, op{on: []*Disk{from}, size: disk.BlockSize}, op{on: []*Disk{to}, size: disk.BlockSize, write: true}, op{on: []*Disk{to}, size: disk.BlockSize})
	}
}

func (t *tasks) removes(on ...cluster.DiskID) {
	o := op{size: removal, write: true, frees: true}
	for _, id := range on {
		o.on = append(o.on, t.disks[id])
	}
	t.ops = append(t.ops, o)
}

// Access gives when a group was last used.
func (t *tasks) Access(_ context.Context, id disk.GroupID) (tiering.Access, error) {
	if g := t.groups[id]; g != nil {
		return tiering.WrittenIn(g.used), nil
	}
	return tiering.Access{}, volume.ErrMoot
}

// Move puts a replica on another disk.
func (t *tasks) Move(ctx context.Context, id disk.GroupID, from cluster.DiskID, choose func([]cluster.DiskID) (cluster.DiskID, bool)) error {
	g := t.groups[id]
	if g == nil || !slices.Contains(g.Good, from) || g.State() != group.Whole {
		return volume.ErrMoot
	}
	name, ok := choose(slices.DeleteFunc(slices.Clone(g.Good), func(d cluster.DiskID) bool { return d == from }))
	if !ok {
		return volume.ErrNoTarget
	}
	to := t.disks[name]
	moving, err := g.Group.Move(name)
	if err == nil {
		moving, err = moving.Moved(from)
	}
	if err != nil {
		return err
	}
	t.copies(t.disks[from], to)
	t.removes(from)
	return t.set(ctx, id, g, moving)
}

// choose books room for a replica that is moved. Neither server's owner may need it.
func (t *tasks) choose(from cluster.DiskID, tier cluster.Tier, balance bool, others []cluster.DiskID) (cluster.DiskID, bool) {
	if d := t.disks[from]; d.gone || t.busy(d.Server, t.at) {
		return "", false
	}
	if !balance {
		if to := t.place(tier, others, 1); to != nil {
			return to[0].ID, true
		}
		return "", false
	}
	v := t.view()
	for _, id := range v.Targets(tier) {
		to := t.disks[id]
		if !t.busy(to.Server, t.at) && !slices.ContainsFunc(others, func(d cluster.DiskID) bool { return t.disks[d].Server == to.Server }) {
			t.take(to)
			return id, true
		}
	}
	return "", false
}

// Lost drops the replicas on a disk that is gone from all groups of which another can be read, and gives the other groups.
func (t *tasks) Lost(ctx context.Context, id cluster.DiskID) (kept []disk.GroupID, err error) {
	for rec, err := range t.maps.Groups(ctx) {
		if err != nil {
			return kept, err
		}
		if !slices.Contains(rec.Good, id) {
			continue
		}
		g := t.groups[rec.ID]
		if !slices.ContainsFunc(g.Good, func(d cluster.DiskID) bool { return !t.disks[d].gone }) {
			kept = append(kept, rec.ID)
			continue
		}
		fewer, err := g.Drop(id)
		if err == nil {
			err = t.set(ctx, rec.ID, g, fewer)
		}
		if err != nil {
			return kept, err
		}
		t.keeper.rebuild(rec.ID)
	}
	return kept, nil
}

// Rebuild makes a replica that is missing.
func (t *tasks) Rebuild(ctx context.Context, id disk.GroupID, source cluster.DiskID) error {
	g := t.groups[id]
	if g == nil || g.State() != group.Degraded {
		return volume.ErrMoot
	}
	var to []*Disk
	for _, tier := range t.o.Tiers {
		if to = t.place(tier, g.Good, 1); to != nil {
			break
		}
	}
	if to == nil {
		return volume.ErrNoTarget
	}
	built, err := g.Group.Rebuild(to[0].ID)
	if err == nil {
		built, err = built.Built()
	}
	if err != nil {
		return err
	}
	t.copies(t.disks[source], to[0])
	return t.set(ctx, id, g, built)
}

// ReapVDisk removes the data of a vDisk in stages: its blocks, their extents, and groups without extents.
func (t *tasks) ReapVDisk(ctx context.Context, id disk.VDiskID) error {
	v := t.vdisks[id]
	if v == nil || !v.Removed {
		return volume.ErrMoot
	}
	end := int64(len(v.groups)) * maps.ExtentsPerGroup
	for next := int64(0); next < end; {
		var found []int64
		var versions []kv.Version
		var err error
		next, err = t.maps.Blocks(ctx, id, next, end, func(block int64, _ maps.Block, version kv.Version) error {
			found, versions = append(found, block), append(versions, version)
			return nil
		})
		for i := 0; i < len(found) && err == nil; i++ {
			err = t.maps.DeleteBlock(ctx, id, found[i], versions[i])
		}
		if err != nil {
			return err
		}
	}
	for _, n := range v.groups {
		if n == 0 {
			continue
		}
		if err := t.RemoveIdle(ctx, n, []uint8{0, 1, 2, 3}); err != nil {
			return err
		}
	}
	delete(t.vdisks, id)
	return t.maps.DeleteVDisk(ctx, id, v.version)
}

// RemoveIdle removes extents that no block refers to, and their group with the last of them.
func (t *tasks) RemoveIdle(ctx context.Context, id disk.GroupID, quarters []uint8) error {
	for _, q := range quarters {
		if _, err := t.maps.DeleteExtent(ctx, maps.ExtentID{Group: id, Quarter: q}); err != nil {
			return err
		}
	}
	if left, err := t.maps.Extents(ctx, id); err != nil || len(left) > 0 {
		return err
	}
	return t.RemoveGroup(ctx, id)
}

// RemoveGroup removes a group without extents.
func (t *tasks) RemoveGroup(ctx context.Context, id disk.GroupID) error {
	g := t.groups[id]
	if g == nil {
		return volume.ErrMoot
	}
	t.removes(g.Good...)
	delete(t.groups, id)
	delete(t.dirty, id)
	if err := t.maps.DeleteAccess(ctx, id); err != nil {
		return err
	}
	return t.maps.DeleteGroup(ctx, id, g.version)
}
