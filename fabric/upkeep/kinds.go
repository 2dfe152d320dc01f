package upkeep

import (
	"encoding/binary"
	"fmt"
	"time"

	"gleaner/cluster"
	"gleaner/curator/task"
	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/fabric/tiering"
)

// Kinds of tasks, and what each is to be done to.
const (
	LoseDisk      = "lose-disk"      // a disk that is away: its replicas are given up once it counts as lost
	Evacuate      = "evacuate"       // a replica on a disk that is retired, to another
	Rebuild       = "rebuild"        // a group that lacks replicas
	RollBack      = "roll-back"      // a group that was being moved by one who died
	RemoveVDisk   = "remove-vdisk"   // a vDisk that was removed, or that no name leads to
	RemoveBlocks  = "remove-blocks"  // blocks beyond the end of a vDisk
	RemoveExtents = "remove-extents" // extents of a group that no block refers to
	RemoveGroup   = "remove-group"   // a group without extents, or one that is dead
	Truncate      = "truncate"       // a group whose last blocks are dead
	Merge         = "merge"          // a removed snapshot that one other vDisk is read through, into that
	Flatten       = "flatten"        // blocks of a vDisk that are made of several extents
	Migrate       = "migrate"        // extents of sparse groups of a vDisk, into a group of their own
	Pack          = "pack"           // extents of groups of a vDisk, into fewer groups that are compressed
	Share         = "share"          // a packed extent that is equal to another
	TierDown      = "tier-down"      // a replica of a cold group, to a slower tier
	Balance       = "balance"        // a replica of a cold group, to an emptier disk of its tier
	Finding       = "finding"        // a record that leads nowhere, which must never be

	sparse = "sparse" // a group of which less than half is alive; for the Planner
	loose  = "loose"  // a group that takes more space than it must; for the Planner
	cold   = "cold"   // a group on a disk that is to hold less; for the Planner
)

// Classes say how tasks are queued: what is lost first, then what frees space, then what moves data.
func Classes() []task.Class {
	const most, patience = 1 << 14, 5 * time.Minute
	return []task.Class{
		{Kind: Finding, Synchronous: true},
		{Kind: LoseDisk, Priority: 9, Batch: 1, Most: most},
		{Kind: Rebuild, Priority: 8, Batch: most, Most: most},
		{Kind: Evacuate, Priority: 7, Batch: 1, Most: most, Patience: patience},
		{Kind: RollBack, Priority: 7, Batch: 1, Most: most, Patience: patience},
		{Kind: RemoveVDisk, Priority: 6, Batch: 1, Most: most, Patience: patience},
		{Kind: RemoveBlocks, Priority: 6, Batch: 1, Most: most, Patience: patience},
		{Kind: Merge, Priority: 6, Batch: 1, Most: most, Patience: patience},
		{Kind: RemoveExtents, Priority: 5, Batch: 1, Most: most, Patience: patience},
		{Kind: RemoveGroup, Priority: 4, Batch: 1, Most: most, Patience: patience},
		{Kind: Truncate, Priority: 4, Batch: 1, Most: most, Patience: patience},
		{Kind: Flatten, Priority: 3, Batch: 1, Most: most, Patience: patience},
		{Kind: Migrate, Priority: 3, Batch: 1, Most: most, Patience: patience},
		{Kind: TierDown, Priority: 2, Batch: 1, Most: most, Patience: patience},
		{Kind: Balance, Priority: 1, Batch: 1, Most: most, Patience: patience},
		{Kind: Share, Priority: 1, Batch: 1, Most: most, Patience: patience},
		{Kind: Pack, Priority: 0, Batch: 1, Most: most, Patience: patience},
	}
}

// Subject says in words what a task is to be done to.
func Subject(t task.Task) string {
	switch t.Kind {
	case LoseDisk:
		return "disk " + string(t.What)
	case RemoveVDisk, RemoveBlocks, Merge, Flatten, Migrate, Pack:
		if len(t.What) >= 8 {
			return fmt.Sprintf("vDisk %d", binary.BigEndian.Uint64(t.What))
		}
	case Share:
		if e, err := readExtents(t.What); err == nil && len(e) == 2 {
			return fmt.Sprintf("extent %s with %s", e[1], e[0])
		}
	case Finding:
		return "maps"
	}
	id, err := groupOf(t)
	switch {
	case err != nil:
	case t.Kind == TierDown, t.Kind == Balance, t.Kind == Evacuate:
		return fmt.Sprintf("group %s on disk %s", id, t.What[8:])
	default:
		return "group " + id.String()
	}
	return fmt.Sprintf("%x", t.What)
}

func number(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

func groupOf(t task.Task) (disk.GroupID, error) {
	if len(t.What) < 8 {
		return 0, fmt.Errorf("upkeep: task %s of %x names no group", t.Kind, t.What)
	}
	return disk.GroupID(binary.BigEndian.Uint64(t.What)), nil
}

// A Use is a block that refers to an extent.
type Use struct {
	VDisk  disk.VDiskID
	Block  int64
	Extent maps.ExtentID
}

const useBytes = 8 + 8 + 8 + 1

func (u Use) append(out []byte) []byte {
	out = binary.BigEndian.AppendUint64(out, uint64(u.VDisk))
	out = binary.BigEndian.AppendUint64(out, uint64(u.Block))
	out = binary.BigEndian.AppendUint64(out, uint64(u.Extent.Group))
	return append(out, u.Extent.Quarter)
}

func readUses(b []byte) (all []Use, err error) {
	for ; len(b) >= useBytes; b = b[useBytes:] {
		all = append(all, Use{disk.VDiskID(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:])),
			maps.ExtentID{Group: disk.GroupID(binary.BigEndian.Uint64(b[16:])), Quarter: b[24]}})
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("upkeep: %d bytes are left of a list of blocks", len(b))
	}
	return all, nil
}

// An heir is what a removed snapshot is merged into.
type heir struct {
	id       disk.VDiskID
	snapshot bool
}

func (h heir) append(out []byte) []byte {
	out = binary.BigEndian.AppendUint64(out, uint64(h.id))
	if h.snapshot {
		return append(out, 1)
	}
	return append(out, 0)
}

func readHeir(b []byte) (heir, error) {
	if len(b) != 9 {
		return heir{}, fmt.Errorf("upkeep: %x names no vDisk to merge into", b)
	}
	return heir{disk.VDiskID(binary.BigEndian.Uint64(b)), b[8] == 1}, nil
}

// A move says where the replica of a cold group goes, and when the group was last used.
type move struct {
	used tiering.Period
	to   cluster.Tier
}

func (m move) append(out []byte) []byte {
	return append(binary.BigEndian.AppendUint32(out, uint32(m.used)), m.to...)
}

func readMove(b []byte) (move, error) {
	if len(b) < 4 {
		return move{}, fmt.Errorf("upkeep: %x does not say where a replica goes", b)
	}
	return move{tiering.Period(binary.BigEndian.Uint32(b)), cluster.Tier(b[4:])}, nil
}

// RebuildOf is the task for a group that was seen to lose a replica.
func RebuildOf(id disk.GroupID) task.Task {
	return task.Task{Kind: Rebuild, Priority: first, What: number(uint64(id)), Why: "it has lost a replica"}
}

// GroupOf gives the group that a task is to be done to, if it is one.
func GroupOf(t task.Task) (disk.GroupID, bool) {
	switch t.Kind {
	case RemoveExtents, RemoveGroup, Truncate, TierDown, Balance, Evacuate, RollBack:
		id, err := groupOf(t)
		return id, err == nil
	}
	return 0, false
}

// Rebuilds gives the group of a task to rebuild one.
func Rebuilds(t task.Task) (disk.GroupID, bool) {
	id, err := groupOf(t)
	return id, err == nil && t.Kind == Rebuild
}
