// Package group decides what becomes of an extent group: which disks hold its replicas,
// and under which generation (NSDI'17 §2).
//
//	           Drop                     Rebuild
//	Whole ───────────────> Degraded ──────────────> Repairing
//	  ^                      ^   ^                   │  │  │
//	  │ Built, none missing  │   └──── GiveUp ───────┘  │  │
//	  └──────────────────────┼──────────────────────────┘  │
//	                         └── Built, others missing ────┘
//
//	Whole ── Move ──> Moving ── Moved, or GiveUp ──> Whole
//	any ── Kill ──> Dead ── Forget each replica ──> no record
//
// Whole groups are created or sealed: created while a writer may be changing them, which
// is kept beside the group (see fabric/maps), and sealed when all replicas are known to be equal and synced.
//
// Drop, Built, Moved and Renew raise the generation. A replica answers only callers of its own generation,
// so one that was dropped is never read again, though its disk may come back.
// The metadata is changed first and the replicas are raised to it afterwards: whoever
// finds a replica of the list below the list's generation may raise it.
//
// The last replica cannot be dropped: it is the only one that has what was answered.
//
// # Packed and coded groups
//
// A packed group is written once, before it has a record, and holds extents of other groups. In a coded one each of the disks has
// a shard in the place of a replica. Then Drop leaves as many shards as the data is made of, and Built and Moved keep which disk has which.
package group

import (
	"errors"
	"fmt"
	"slices"

	"gleaner/cluster"
	"gleaner/fabric/disk"
)

// A Group is an extent group as the metadata has it. Methods return the changed group
// and leave the one that they are called on as it was.
type Group struct {
	VDisk      disk.VDiskID
	Generation uint64
	Wanted     int              // replicas
	Good       []cluster.DiskID // disks that have all that was answered, in the order they were added
	Building   cluster.DiskID   // disk that a replica is being copied to; empty if none
	Dead       bool
	Cut        int // blocks at its end that its disks have given back

	// Of a packed group:
	Tenants []ExtentID // that may be in it; nobody else is
	Level   uint8      // of compression, as package pack numbers them

	// Of a coded group:
	Data   int   // shards that the bytes are cut into; the others are parity; 0 if every disk has all
	Length int64 // of a shard, in bytes
	Shards []int // which of them each of Good has
}

// An ExtentID names an extent by the group and the quarter of it that it was made in.
type ExtentID struct {
	Group   disk.GroupID
	Quarter uint8
}

func (e ExtentID) String() string { return fmt.Sprintf("%s/%d", e.Group, e.Quarter) }

// Packed reports whether the group was written once, for good.
func (g Group) Packed() bool { return len(g.Tenants) > 0 }

// Coded reports whether each disk has a shard, and not all.
func (g Group) Coded() bool { return g.Data > 0 }

// Needs is how many of the disks must answer for a read.
func (g Group) Needs() int { return max(1, g.Data) }

// Shorten says that the disks have given back blocks at the end.
func (g Group) Shorten(cut int) (Group, error) {
	switch {
	case g.Dead:
		return g, ErrDead
	case g.Packed(), cut < g.Cut, cut >= disk.GroupSize/disk.BlockSize:
		return g, fmt.Errorf("%w: %d blocks cannot be cut off", ErrState, cut)
	}
	g.Cut = cut
	return g, nil
}

// Admit adds a tenant to a packed group.
func (g Group) Admit(e ExtentID) (Group, error) {
	switch {
	case g.Dead:
		return g, ErrDead
	case !g.Packed():
		return g, fmt.Errorf("%w: not packed", ErrState)
	case slices.Contains(g.Tenants, e):
		return g, nil
	case len(g.Tenants) == MaxTenants:
		return g, ErrFull
	}
	g.Tenants = append(slices.Clone(g.Tenants), e)
	return g, nil
}

// MaxTenants is how many a packed group may have: its record is read and written as a whole.
const MaxTenants = 128

// A State says what a group needs.
type State uint8

const (
	Whole State = iota + 1
	Degraded
	Repairing
	Dead
	Moving
)

func (s State) String() string {
	return map[State]string{Whole: "whole", Degraded: "degraded", Repairing: "repairing", Dead: "dead", Moving: "moving"}[s]
}

// Errors of a change that the group does not allow.
var (
	ErrLast   = errors.New("last good replica")
	ErrDead   = errors.New("group is dead")
	ErrState  = errors.New("group is not in a state for that")
	ErrMember = errors.New("disk has a replica already")
	ErrAbsent = errors.New("disk has no good replica")
	ErrFull   = errors.New("group has no room for another tenant")
)

// New gives a group with replicas on those disks.
func New(vdisk disk.VDiskID, wanted int, on []cluster.DiskID) Group {
	return Group{VDisk: vdisk, Generation: 1, Wanted: wanted, Good: slices.Clone(on)}
}

// State says what the group needs.
func (g Group) State() State {
	switch {
	case g.Dead:
		return Dead
	case g.Building != "" && len(g.Good) < g.Wanted:
		return Repairing
	case g.Building != "":
		return Moving
	case len(g.Good) < g.Wanted:
		return Degraded
	}
	return Whole
}

// Drop takes a replica out: its disk is lost, or has missed a write.
func (g Group) Drop(d cluster.DiskID) (Group, error) {
	i := slices.Index(g.Good, d)
	switch {
	case g.Dead:
		return g, ErrDead
	case i < 0:
		return g, fmt.Errorf("%w: %s", ErrAbsent, d)
	case len(g.Good) == g.Needs():
		return g, fmt.Errorf("%w: %s", ErrLast, d)
	}
	g.Good = slices.Delete(slices.Clone(g.Good), i, i+1)
	if g.Coded() {
		g.Shards = slices.Delete(slices.Clone(g.Shards), i, i+1)
	}
	g.Generation++
	return g, nil
}

// Renew raises the generation and changes nothing else: a request that is still on its way to a
// replica is refused there from now on.
func (g Group) Renew() (Group, error) {
	if g.Dead {
		return g, ErrDead
	}
	g.Generation++
	return g, nil
}

// Rebuild begins a new replica on a disk that has none.
func (g Group) Rebuild(d cluster.DiskID) (Group, error) { return g.build(d, Degraded) }

// Move begins a new replica on a disk that has none, in place of one that another disk has.
func (g Group) Move(d cluster.DiskID) (Group, error) { return g.build(d, Whole) }

func (g Group) build(d cluster.DiskID, in State) (Group, error) {
	switch {
	case g.State() != in:
		return g, fmt.Errorf("%w: %s", ErrState, g.State())
	case slices.Contains(g.Good, d):
		return g, fmt.Errorf("%w: %s", ErrMember, d)
	}
	g.Building = d
	return g, nil
}

// Built adds the replica that was being built: it has all that the others have, synced.
func (g Group) Built() (Group, error) {
	if g.State() != Repairing {
		return g, fmt.Errorf("%w: %s", ErrState, g.State())
	}
	if g.Coded() {
		g.Shards = append(slices.Clone(g.Shards), g.Lost())
	}
	g.Good = append(slices.Clone(g.Good), g.Building)
	g.Building = ""
	g.Generation++
	return g, nil
}

// Lost is the first shard of a coded group that no disk has, the one to build next.
func (g Group) Lost() int {
	for shard := range g.Wanted {
		if !slices.Contains(g.Shards, shard) {
			return shard
		}
	}
	return g.Wanted
}

// Moved puts the replica that was being built in the place of another: it has all that the others have, synced.
func (g Group) Moved(from cluster.DiskID) (Group, error) {
	i := slices.Index(g.Good, from)
	switch {
	case g.State() != Moving:
		return g, fmt.Errorf("%w: %s", ErrState, g.State())
	case i < 0:
		return g, fmt.Errorf("%w: %s", ErrAbsent, from)
	}
	g.Good = slices.Clone(g.Good)
	g.Good[i] = g.Building
	g.Building = ""
	g.Generation++
	return g, nil
}

// GiveUp ends a rebuild or a move that failed.
func (g Group) GiveUp() (Group, error) {
	if s := g.State(); s != Repairing && s != Moving {
		return g, fmt.Errorf("%w: %s", ErrState, g.State())
	}
	g.Building = ""
	return g, nil
}

// Kill says that nothing refers to the group any more: its replicas may be removed.
func (g Group) Kill() (Group, error) {
	g.Dead = true
	return g, nil
}

// Forget takes out a replica of a dead group: it is removed, or its disk is lost.
func (g Group) Forget(d cluster.DiskID) (Group, error) {
	if !g.Dead {
		return g, fmt.Errorf("%w: %s", ErrState, g.State())
	}
	if g.Building == d {
		g.Building = ""
	}
	if i := slices.Index(g.Good, d); i >= 0 {
		g.Good = slices.Delete(slices.Clone(g.Good), i, i+1)
		if g.Coded() {
			g.Shards = slices.Delete(slices.Clone(g.Shards), i, i+1)
		}
	}
	return g, nil
}
