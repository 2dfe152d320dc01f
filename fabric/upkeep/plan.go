package upkeep

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"gleaner/cluster"
	"gleaner/curator/task"
	"gleaner/fabric/disk"
	fabricmaps "gleaner/fabric/maps"
	"gleaner/fabric/tiering"
	"gleaner/kv"
)

// A Planner makes tasks of what a scan proposes, in the order in which it does.
type Planner struct {
	view     View
	needs    *needs
	emptier  map[cluster.Tier][]cluster.DiskID // where replicas may go that are balanced
	roomy    map[cluster.Tier][]cluster.DiskID // and those that go down to a tier
	gathered map[disk.VDiskID]*gathering
	loose    map[looseKey]*packing
}

// A gathering is sparse groups of a vDisk whose extents may share a group.
type gathering struct {
	groups []disk.GroupID
	uses   []Use
}

// Take gives the tasks that are to be done for a proposal, none if more proposals are needed first.
func (p *Planner) Take(t task.Task) ([]task.Task, error) {
	switch t.Kind {
	case cold:
		return p.takeCold(t)
	case sparse:
		return p.takeSparse(t)
	case loose:
		return p.takeLoose(t)
	}
	return []task.Task{t}, nil
}

// Rest gives the tasks that wait for more proposals, when there are no more.
func (p *Planner) Rest() (all []task.Task) {
	for _, v := range slices.Sorted(maps.Keys(p.gathered)) {
		all = append(all, p.gathered[v].task(v))
	}
	p.gathered = map[disk.VDiskID]*gathering{}
	for _, l := range p.loose {
		all = append(all, l.task())
	}
	p.loose = map[looseKey]*packing{}
	slices.SortFunc(all, func(a, b task.Task) int { return bytes.Compare(a.What, b.What) })
	return all
}

// of gives what is to leave a disk, nil if nothing is.
func (n *needs) of(v View, id cluster.DiskID) *need {
	if need := n.down[v.Disks[id].Tier]; need != nil {
		return need
	}
	return n.over[id]
}

// takeCold moves the replicas of a cold group, as long as their disks or tiers are to hold less. One that no disk may take is left out: if it were
// counted as moved, the groups after it would never have their turn, since the coldest are the same in each scan.
func (p *Planner) takeCold(t task.Task) (all []task.Task, err error) {
	g, err := fabricmaps.ReadGroup(&kv.Record{Key: kv.Key{Part: t.What}, Value: t.Seen})
	if err != nil {
		return nil, err
	}
	size, on := replicaSize(g), slices.Clone(g.Good) // on is where they are when the tasks before are done
	for i, d := range g.Good {
		need := p.needs.of(p.view, d)
		if need == nil || need.left < size {
			continue
		}
		kind, targets := Balance, p.emptier[need.to]
		if need.to != p.view.Disks[d].Tier {
			kind, targets = TierDown, p.roomy[need.to]
		}
		others := slices.Delete(slices.Clone(on), i, i+1)
		at := slices.IndexFunc(targets, func(to cluster.DiskID) bool { return p.view.permits(d, to, others, kind) })
		if at < 0 {
			continue
		}
		on[i] = targets[at]
		need.left -= size
		all = append(all, task.Task{Job: t.Job, Kind: kind, Priority: t.Priority, What: append(t.What[:8:8], d...), Seen: move{tiering.Period(-t.Priority), need.to}.append(nil), Why: need.why + "; " + t.Why})
	}
	return all, nil
}

// replicaSize is what a replica of a group takes. Of one that is packed and not coded only the most is known.
func replicaSize(g fabricmaps.NumberedGroup) cluster.Bytes {
	if g.Coded() {
		return cluster.Bytes(g.Length)
	}
	return disk.GroupSize - cluster.Bytes(g.Cut)*disk.BlockSize
}

// takeSparse gathers sparse groups of a vDisk until their extents fill others.
func (p *Planner) takeSparse(t task.Task) ([]task.Task, error) {
	id, err := groupOf(t)
	if err != nil {
		return nil, err
	}
	uses, err := readUses(t.Seen)
	if err != nil || len(uses) == 0 {
		return nil, err
	}
	v := uses[0].VDisk
	g := p.gathered[v]
	if g == nil {
		g = &gathering{}
		p.gathered[v] = g
	}
	g.groups, g.uses = append(g.groups, id), append(g.uses, uses...)
	if len(g.uses)%fabricmaps.ExtentsPerGroup != 0 && len(g.groups) < mostGathered {
		return nil, nil
	}
	delete(p.gathered, v)
	return []task.Task{g.task(v)}, nil
}

// mostGathered is how many groups are gathered at most, if their extents do not fill whole groups before.
const mostGathered = 16

func (g *gathering) task(v disk.VDiskID) task.Task {
	t := task.Task{Job: Space, Kind: Migrate, What: number(uint64(v)), Why: fmt.Sprintf("%d of its groups have dead extents before the %d that are alive", len(g.groups), len(g.uses))}
	for _, id := range g.groups {
		t.What = append(t.What, number(uint64(id))...)
	}
	for _, u := range g.uses {
		t.Seen = u.append(t.Seen)
	}
	return t
}
