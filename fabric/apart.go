package fabric

import (
	"fmt"
	"slices"

	"gleaner/cluster"
	"gleaner/placement"
)

// A Placement is how far apart the replicas of a vDisk's groups are (OSDI'16 §7, lesson 1).
type Placement struct {
	Groups int            `json:"groups"` // with more than one good replica
	Apart  map[string]int `json:"apart"`  // how many of them have each replica in another environment, rack, and so on
	All    int            `json:"all"`    // how many keep all of these wishes
	Short  []Shortfall    `json:"short"`  // why the others do not
}

// A Shortfall is a wish that some groups do not keep.
type Shortfall struct {
	Wish   string `json:"wish"`
	Groups int    `json:"groups"`
	Why    string `json:"why"`
}

// Wishes are what the replicas of a group differ in, in the order in which that matters.
var Wishes = func() (names []string) {
	for _, w := range wishes {
		names = append(names, w.name)
	}
	return names
}()

var wishes = []struct {
	name string
	rule placement.RuleSet
	in   func(placement.Quality) int
	most int // the grid has three rows, and replicas are spread over three columns
}{
	{"environments", placement.Environments, func(q placement.Quality) int { return q.Environments }, MaxReplicas},
	{"rows", placement.Cells, func(q placement.Quality) int { return q.Rows }, 3},
	{"columns", placement.Cells, func(q placement.Quality) int { return q.Columns }, 3},
	{"functions", placement.Functions, func(q placement.Quality) int { return q.Functions }, MaxReplicas},
	{"racks", placement.Racks, func(q placement.Quality) int { return q.Racks }, MaxReplicas},
}

// add counts a group. choice is what there is to choose from.
func (p *Placement) add(group, choice placement.Quality, rules placement.RuleSet) {
	if group.Replicas < 2 {
		return
	}
	p.Groups++
	all := true
	for _, w := range wishes {
		if rules&w.rule == 0 {
			continue
		}
		p.Apart[w.name] += 0 // it is a wish
		want := min(group.Replicas, w.most)
		if w.in(group) >= want {
			p.Apart[w.name]++
			continue
		}
		all = false
		why := "no room elsewhere then, or the servers or their habits have changed since"
		if there := w.in(choice); there < want {
			why = fmt.Sprintf("there are %d for %d replicas", there, want)
		}
		p.fallShort(w.name, why)
	}
	if all {
		p.All++
	}
}

func (p *Placement) fallShort(wish, why string) {
	at := slices.IndexFunc(p.Short, func(s Shortfall) bool { return s.Wish == wish && s.Why == why })
	if at < 0 {
		at = len(p.Short)
		p.Short = append(p.Short, Shortfall{Wish: wish, Why: why})
	}
	p.Short[at].Groups++
}

// quality measures the replicas on some disks, also those that are away, and gives what there is to choose from, and by which wishes.
func (p *pool) quality(disks []cluster.DiskID) (group, choice placement.Quality, rules placement.RuleSet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.fleets[tiers[0]]
	for _, id := range disks {
		if d, here := p.disks[id]; here {
			f = p.fleets[d.tier]
		}
	}
	return f.grid.Quality(p.holders(f, disks)), f.choice(), f.grid.Rules.Soft
}
