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
}

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
	case len(g.Good) == 1:
		return g, fmt.Errorf("%w: %s", ErrLast, d)
	}
	g.Good = slices.Delete(slices.Clone(g.Good), i, i+1)
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
	g.Good = append(slices.Clone(g.Good), g.Building)
	g.Building = ""
	g.Generation++
	return g, nil
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
	g.Good = slices.DeleteFunc(slices.Clone(g.Good), func(have cluster.DiskID) bool { return have == d })
	return g, nil
}
