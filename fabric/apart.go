package fabric

import (
	"fmt"

	"gleaner/cluster"
	"gleaner/placement"
)

// A Placement is how far apart the replicas of a vDisk's groups are (OSDI'16 §7, lesson 1).
type Placement struct {
	Groups int    `json:"groups"` // with more than one good replica
	Well   int    `json:"well"`   // of them, with every wish kept
	Wishes []Wish `json:"wishes"` // in the order in which they matter
}

// A Wish is that each replica of a group is in another environment, rack, and so on.
type Wish struct {
	Different string         `json:"different"` // what they are to differ in, as "racks"
	Kept      int            `json:"kept"`      // groups
	Short     map[string]int `json:"short"`     // groups that do not keep it, by the reason

	in   func(placement.Quality) int
	most int // that replicas are spread over
}

// newPlacement is of no groups yet. Their wishes are those of the rules.
func newPlacement(rules placement.RuleSet) Placement {
	p := Placement{Wishes: []Wish{}}
	add := func(different string, rule placement.RuleSet, most int, in func(placement.Quality) int) {
		if rules&rule != 0 {
			p.Wishes = append(p.Wishes, Wish{Different: different, Short: map[string]int{}, in: in, most: most})
		}
	}
	add("environments", placement.Environments, MaxReplicas, func(q placement.Quality) int { return q.Environments })
	add("rows", placement.Cells, 3, func(q placement.Quality) int { return q.Rows })
	add("columns", placement.Cells, 3, func(q placement.Quality) int { return q.Columns })
	add("functions", placement.Functions, MaxReplicas, func(q placement.Quality) int { return q.Functions })
	add("racks", placement.Racks, MaxReplicas, func(q placement.Quality) int { return q.Racks })
	return p
}

// add counts a group. choice is what there is to choose from on its tier.
func (p *Placement) add(group, choice placement.Quality, tier cluster.Tier) {
	if group.Replicas < 2 {
		return
	}
	p.Groups++
	kept := 0
	for i, w := range p.Wishes {
		want := min(group.Replicas, w.most)
		switch there := w.in(choice); {
		case w.in(group) >= want:
			p.Wishes[i].Kept++
			kept++
		case there < want:
			w.Short[fmt.Sprintf("%d on %s for %d replicas", there, tier, want)]++
		default:
			w.Short["no room elsewhere then, or servers or their habits have changed since"]++
		}
	}
	if kept == len(p.Wishes) {
		p.Well++
	}
}

// rules are the wishes for replicas.
func (p *pool) rules() placement.RuleSet {
	p.mu.Lock()
	defer p.mu.Unlock()
	return keepApart | p.habits.wishes()
}

// quality measures the replicas on some disks, also those that are away, and what there is to choose from on their tier: that of the last that is here.
func (p *pool) quality(disks []cluster.DiskID) (group, choice placement.Quality, tier cluster.Tier) {
	p.mu.Lock()
	defer p.mu.Unlock()
	tier = tiers[0]
	for _, id := range disks {
		if d, here := p.disks[id]; here {
			tier = d.tier
		}
	}
	f := p.fleets[tier]
	return f.grid.Quality(p.holders(f, disks)), f.choice(), tier
}
