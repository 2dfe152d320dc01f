package virtual

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/fabric/tiering"
	"gleaner/fabric/upkeep"
	"gleaner/kv"
)

// ErrFull is returned for a write that no tier has room for.
var ErrFull = errors.New("virtual: the disks are full")

// Create makes an empty vDisk.
func (f *Fabric) Create(ctx context.Context, size int64, replicas int) (disk.VDiskID, error) {
	drawn, err := f.maps.Draw(ctx, maps.VDiskIDs, 1)
	if err != nil {
		return 0, err
	}
	id := disk.VDiskID(drawn)
	v := maps.VDisk{ID: id, Name: fmt.Sprintf("vdisk-%d", id), Size: size, Replicas: replicas}
	version, err := f.maps.SetVDisk(ctx, v, kv.Version{})
	if err != nil {
		return 0, err
	}
	f.vdisks[id] = &vdisk{v, version, make([]disk.GroupID, (size+disk.GroupSize-1)/disk.GroupSize)}
	_, err = f.maps.Bind(ctx, v.Name, id)
	return id, err
}

// Remove takes a vDisk away. Upkeep removes its data.
func (f *Fabric) Remove(ctx context.Context, id disk.VDiskID) (err error) {
	v := f.vdisks[id]
	v.Removed = true
	if v.version, err = f.maps.SetVDisk(ctx, v.VDisk, v.version); err != nil {
		return err
	}
	if f.keeper != nil {
		f.keeper.want(upkeep.VDisks)
	}
	return f.maps.Unbind(ctx, v.Name, id)
}

// Write writes bytes of one group at a time not before the last request's, and returns when all replicas have them.
func (f *Fabric) Write(ctx context.Context, at time.Duration, id disk.VDiskID, offset, size int64) (time.Duration, error) {
	if err := f.Advance(ctx, at); err != nil {
		return 0, err
	}
	n := f.vdisks[id].groups[offset/disk.GroupSize]
	if n == 0 {
		var err error
		if n, err = f.allocate(ctx, f.vdisks[id], offset/disk.GroupSize); err != nil {
			return 0, err
		}
	}
	done := at
	for _, d := range f.touch(n, at).Good {
		if d := f.disks[d]; !d.gone {
			done = max(done, d.Do(at, size, true))
		}
	}
	return done, nil
}

// Read reads bytes of one group, at a time not before the last request's, and returns when that is done.
func (f *Fabric) Read(ctx context.Context, at time.Duration, id disk.VDiskID, offset, size int64) (time.Duration, error) {
	if err := f.Advance(ctx, at); err != nil {
		return 0, err
	}
	n := f.vdisks[id].groups[offset/disk.GroupSize]
	if n == 0 {
		return at, nil // nothing was written there
	}
	var from *Disk
	for _, d := range f.touch(n, at).Good {
		if d := f.disks[d]; !d.gone && (from == nil || d.Backlog(at) < from.Backlog(at)) {
			from = d
		}
	}
	if from == nil {
		return at, nil // it is lost
	}
	return from.Do(at, size, false), nil
}

// touch remembers that a group is used.
func (f *Fabric) touch(id disk.GroupID, at time.Duration) *held {
	g := f.groups[id]
	if now := tiering.PeriodOf(f.wall(at)); g.used != now {
		g.used = now
		f.dirty[id] = true
	}
	return g
}

// allocate makes a group of a vDisk, on the fastest tier that has room, and its extents and blocks.
func (f *Fabric) allocate(ctx context.Context, v *vdisk, number int64) (disk.GroupID, error) {
	var on []*Disk
	for _, tier := range f.o.Tiers {
		if on = f.place(tier, nil, v.Replicas); on != nil {
			break
		}
	}
	if on == nil {
		return 0, ErrFull
	}
	f.last++
	id := f.last
	g := &held{Group: group.New(v.ID, v.Replicas, names(on))}
	if err := f.set(ctx, id, g, g.Group); err != nil {
		return 0, err
	}
	if err := f.maps.CreateExtents(ctx, id); err != nil {
		return 0, err
	}
	for q := range int64(maps.ExtentsPerGroup) {
		b := maps.Block{Pile: []maps.ExtentID{{Group: id, Quarter: uint8(q)}}}
		if _, err := f.maps.SetBlock(ctx, v.ID, number*maps.ExtentsPerGroup+q, b, kv.Version{}); err != nil {
			return 0, err
		}
	}
	f.groups[id], v.groups[number] = g, id
	return id, nil
}

func names(on []*Disk) (ids []cluster.DiskID) {
	for _, d := range on {
		ids = append(ids, d.ID)
	}
	return ids
}

// set changes the record of a group.
func (f *Fabric) set(ctx context.Context, id disk.GroupID, g *held, to group.Group) (err error) {
	g.Group = to
	g.version, err = f.maps.SetGroup(ctx, id, to, g.version)
	return err
}
