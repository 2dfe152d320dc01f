package upkeep

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"gleaner/cluster"
	"gleaner/curator/task"
	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/fabric/tiering"
)

// A Fabric is what tasks are carried out by, which is volume.Space but for choices of disks. Each method looks at the maps again and does nothing
// where there is nothing to do; it may be called twice.
type Fabric interface {
	Lost(ctx context.Context, id cluster.DiskID) (kept []disk.GroupID, err error)
	Rebuild(ctx context.Context, id disk.GroupID, source cluster.DiskID) error
	ReapVDisk(ctx context.Context, id disk.VDiskID) error
	RemoveBeyond(ctx context.Context, id disk.VDiskID) error
	Merge(ctx context.Context, id disk.VDiskID) error
	RemoveIdle(ctx context.Context, id disk.GroupID, quarters []uint8) error
	RemoveGroup(ctx context.Context, id disk.GroupID) error
	Truncate(ctx context.Context, id disk.GroupID) error
	Use(ctx context.Context, id disk.VDiskID, do func(Volume) error) error
	Access(ctx context.Context, id disk.GroupID) (tiering.Access, error)
	Pack(ctx context.Context, ids []disk.GroupID, form Form) error
	Dedup(ctx context.Context, keep, gone maps.ExtentID) error
	Move(ctx context.Context, id disk.GroupID, from cluster.DiskID, choose func(others []cluster.DiskID) (cluster.DiskID, bool)) error
}

// A Volume is a vDisk that stays open meanwhile: what is copied goes into the same group as long as that has room.
type Volume interface {
	Relocate(ctx context.Context, block int64, e maps.ExtentID) error
	Flatten(ctx context.Context, block int64) error
	Adopt(ctx context.Context, parent disk.VDiskID) error
}

// A Chooser gives a disk of a tier for a replica that is on from now, by the disks of the others; false if there is none. balance asks for
// one that is emptier than the mean.
type Chooser func(from cluster.DiskID, tier cluster.Tier, balance bool, others []cluster.DiskID) (cluster.DiskID, bool)

// Do carries out a task.
func Do(ctx context.Context, f Fabric, choose Chooser, t task.Task) error {
	switch t.Kind {
	case LoseDisk:
		_, err := f.Lost(ctx, cluster.DiskID(t.What))
		return err
	case Migrate:
		return migrate(ctx, f, t)
	case Pack:
		return packCold(ctx, f, t)
	case Share:
		e, err := readExtents(t.What)
		if err != nil || len(e) != 2 {
			return fmt.Errorf("upkeep: %x does not name two extents", t.What)
		}
		return f.Dedup(ctx, e[0], e[1])
	}
	if len(t.What) < 8 {
		return fmt.Errorf("upkeep: task %s of %x names nothing", t.Kind, t.What)
	}
	n := binary.BigEndian.Uint64(t.What)
	id := disk.GroupID(n)
	switch t.Kind {
	case RemoveVDisk:
		return f.ReapVDisk(ctx, disk.VDiskID(n))
	case Merge:
		return merge(ctx, f, disk.VDiskID(n), t)
	case Flatten:
		return flatten(ctx, f, disk.VDiskID(n), t)
	case RemoveBlocks:
		return f.RemoveBeyond(ctx, disk.VDiskID(n))
	case Rebuild, RollBack:
		return f.Rebuild(ctx, id, "")
	case RemoveExtents:
		return f.RemoveIdle(ctx, id, t.Seen)
	case RemoveGroup:
		return f.RemoveGroup(ctx, id)
	case Truncate:
		return f.Truncate(ctx, id)
	case TierDown, Balance, Evacuate:
		return moveCold(ctx, f, choose, t, id)
	}
	return fmt.Errorf("upkeep: there is no task %q", t.Kind)
}

// ErrUsed refuses to move a group that was used since it was found cold.
var ErrUsed = errors.New("it was used since")

func moveCold(ctx context.Context, f Fabric, choose Chooser, t task.Task, id disk.GroupID) error {
	m, err := readMove(t.Seen)
	if err != nil {
		return err
	}
	used, err := f.Access(ctx, id)
	if err != nil {
		return err
	}
	if max(used.Read, used.Written) > m.used {
		return ErrUsed
	}
	from := cluster.DiskID(t.What[8:])
	return f.Move(ctx, id, from, func(others []cluster.DiskID) (cluster.DiskID, bool) {
		return choose(from, m.to, t.Kind == Balance, others)
	})
}

// packCold packs those of some groups that were not used since.
func packCold(ctx context.Context, f Fabric, t task.Task) error {
	p, err := readPacking(t.What)
	if err != nil {
		return err
	}
	var still []disk.GroupID
	for _, id := range p.groups {
		used, err := f.Access(ctx, id)
		if err != nil {
			return err
		}
		if max(used.Read, used.Written) <= p.used {
			still = append(still, id)
		}
	}
	if len(still) == 0 {
		return ErrUsed
	}
	return f.Pack(ctx, still, p.form)
}

// merge merges a snapshot into its heir.
func merge(ctx context.Context, f Fabric, id disk.VDiskID, t task.Task) error {
	into, err := readHeir(t.Seen)
	if err != nil {
		return err
	}
	if into.snapshot {
		return f.Merge(ctx, id)
	}
	return f.Use(ctx, into.id, func(v Volume) error { return v.Adopt(ctx, id) })
}

// flatten makes one extent of each block that has several.
func flatten(ctx context.Context, f Fabric, id disk.VDiskID, t task.Task) error {
	blocks := t.What[8:]
	if len(blocks)%8 != 0 {
		return fmt.Errorf("upkeep: %x names no blocks", t.What)
	}
	return f.Use(ctx, id, func(v Volume) error {
		for ; len(blocks) > 0; blocks = blocks[8:] {
			if err := v.Flatten(ctx, int64(binary.BigEndian.Uint64(blocks))); err != nil {
				return err
			}
		}
		return nil
	})
}

// migrate copies each extent elsewhere. A group goes with its last one.
func migrate(ctx context.Context, f Fabric, t task.Task) error {
	uses, err := readUses(t.Seen)
	if err != nil || len(uses) == 0 {
		return err
	}
	return f.Use(ctx, uses[0].VDisk, func(v Volume) error {
		for _, u := range uses {
			if err := v.Relocate(ctx, u.Block, u.Extent); err != nil {
				return err
			}
		}
		return nil
	})
}
