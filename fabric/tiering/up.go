// Package tiering decides which groups go to a faster tier (NSDI'17 §3.2): writes go to the fastest tier that has room, upkeep
// brings what is cold down, and what is read again and again comes up.
//
// A group is hot when it was read in several periods of late. One read of everything, as a backup does, makes nothing hot. What is hot
// comes up as long as the faster tier is not so full that upkeep would bring something down for it.
package tiering

import (
	"cmp"
	"fmt"
	"slices"

	"gleaner/cluster"
	"gleaner/fabric/disk"
)

// A Tier is how much of a tier's space is taken.
type Tier struct {
	Name        cluster.Tier
	Quota, Used cluster.Bytes
}

// A Group is a group that was used just now.
type Group struct {
	ID     disk.GroupID
	Access Access
	Whole  bool // it lacks no replica, and none is being made
	On     []Replica
}

// A Replica is one that can be reached.
type Replica struct {
	Disk cluster.DiskID
	Tier cluster.Tier
}

// A Move brings one replica of a group to another tier.
type Move struct {
	Group disk.GroupID
	From  cluster.DiskID
	To    cluster.Tier
	Why   string
}

// Up lists the replicas that are to come up, the hottest groups first. Tiers are in order, the fastest first. full is the share of a tier's space above
// which nothing is brought up: the rest is for writes, and upkeep brings down what is above.
func Up(groups []Group, tiers []Tier, now Period, full float64) (moves []Move) {
	tiers = slices.Clone(tiers)
	groups = slices.Clone(groups)
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Access.ReadOfLate(now), a.Access.ReadOfLate(now)), cmp.Compare(a.ID, b.ID))
	})
	for _, g := range groups {
		if !g.Access.Hot(now) || !g.Whole {
			continue
		}
		for _, r := range g.On {
			if to, ok := faster(tiers, r.Tier, full); ok {
				moves = append(moves, Move{g.ID, r.Disk, to, fmt.Sprintf("read again in %d of the last %d periods", g.Access.ReadOfLate(now), Remembered)})
			}
		}
	}
	return moves
}

// faster takes room for a group on the fastest tier above one that has some.
func faster(tiers []Tier, than cluster.Tier, full float64) (cluster.Tier, bool) {
	for i := range tiers {
		t := &tiers[i]
		if t.Name == than {
			break
		}
		if float64(t.Used+disk.GroupSize) <= full*float64(t.Quota) {
			t.Used += disk.GroupSize
			return t.Name, true
		}
	}
	return "", false
}
