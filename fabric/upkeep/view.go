package upkeep

import (
	"cmp"
	"fmt"
	"slices"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	fabricmaps "gleaner/fabric/maps"
	"gleaner/fabric/tiering"
)

// A View is what is known beside the maps when a scan begins.
type View struct {
	Tiers  []cluster.Tier          // the fastest first
	Disks  map[cluster.DiskID]Disk // that can be had now
	VDisks map[disk.VDiskID]VDisk
	Spare  map[fabricmaps.ExtentID]bool    // extents that are kept for blocks to come
	Dense  map[disk.GroupID]tiering.Period // groups that packing was of no use for, and when they had last been used
	Now    tiering.Period
	Moving bool // what earlier scans found still goes down or to emptier disks: what else is to go is known when it is there

	Learned bool // when the fastest tier is relieved is learned, and does not depend on f
	Relieve bool // it is to be relieved now
}

// A VDisk is what the space of a vDisk depends on.
type VDisk struct {
	Fixed  bool  // its blocks do not change: it is a snapshot, or removed
	Blocks int64 // up to its end
}

// See takes in a vDisk. One that others are read through is fixed, though a crash may have come before its record said so.
func (v *View) See(vdisk fabricmaps.VDisk) {
	was := v.VDisks[vdisk.ID]
	v.VDisks[vdisk.ID] = VDisk{Fixed: was.Fixed || vdisk.Snapshot || vdisk.Removed, Blocks: (vdisk.Size + disk.BlockSize - 1) / disk.BlockSize}
	if parent := v.VDisks[vdisk.Parent]; vdisk.Parent != 0 {
		parent.Fixed = true
		v.VDisks[vdisk.Parent] = parent
	}
}

// A Disk is how much of a disk is taken.
type Disk struct {
	Tier        cluster.Tier
	Quota, Used cluster.Bytes
	Kept        cluster.Bytes // of the quota: no replica is moved there
	Retired     bool          // it is to be emptied
	Server      cluster.ServerID
	Within      [3]string // the environment, the function and the rack of its server
}

// A Usage is how full the disks of a tier are.
type Usage struct {
	Tier        cluster.Tier
	Quota       cluster.Bytes
	Used        cluster.Bytes
	Least, Most float64          // share of the emptiest disk and of the fullest
	disks       []cluster.DiskID // sorted
}

// Share is how much of the tier is taken.
func (u Usage) Share() float64 {
	if u.Quota == 0 {
		return 0
	}
	return float64(u.Used) / float64(u.Quota)
}

// tight gives the disks of tiers that are fuller than f.
func (v *View) tight(p Policy) map[cluster.DiskID]bool {
	all := map[cluster.DiskID]bool{}
	for _, u := range v.Usages() {
		for _, id := range u.disks {
			all[id] = u.Share() > p.F
		}
	}
	return all
}

func (v *View) anyRetired() bool {
	for _, d := range v.Disks {
		if d.Retired {
			return true
		}
	}
	return false
}

func (d Disk) share() float64 { return float64(d.Used) / float64(max(1, d.Quota)) }

// Usages are those of the tiers that have disks, the fastest first.
func (v *View) Usages() (all []Usage) {
	for _, tier := range v.Tiers {
		u := Usage{Tier: tier, Least: 1}
		for id, d := range v.Disks {
			if d.Tier != tier || d.Retired {
				continue
			}
			u.Quota, u.Used = u.Quota+d.Quota, u.Used+d.Used
			u.Least, u.Most = min(u.Least, d.share()), max(u.Most, d.share())
			u.disks = append(u.disks, id)
		}
		if slices.Sort(u.disks); len(u.disks) > 0 {
			all = append(all, u)
		}
	}
	return all
}

// needs are the bytes that are to leave disks, and why.
type needs struct {
	down map[cluster.Tier]*need   // to the tier below
	over map[cluster.DiskID]*need // to emptier disks of the same tier
}

type need struct {
	left cluster.Bytes // to be moved
	to   cluster.Tier
	why  string
}

func (n *needs) none() bool { return len(n.down) == 0 && len(n.over) == 0 }

// even is how many times as full as the mean of its tier a disk may be, whatever the threshold s allows between the fullest and the emptiest.
const even = 1.1

// needs finds the tiers that are too full, and the disks that are fuller than the mean of a tier out of balance.
func (v *View) needs(p Policy) *needs {
	n := &needs{map[cluster.Tier]*need{}, map[cluster.DiskID]*need{}}
	if v.Moving {
		return n
	}
	usages := v.Usages()
	for i, u := range usages {
		if why := v.full(i, u, p); why != "" && i+1 < len(usages) && usages[i+1].Share() <= p.D {
			n.down[u.Tier] = &need{left: cluster.Bytes(p.H * float64(u.Quota)), to: usages[i+1].Tier, why: why}
			continue // what goes down may leave it in balance
		}
		if u.Share() <= p.M || u.Most-u.Least <= p.S && u.Most < even*u.Share() {
			continue
		}
		for _, id := range u.disks {
			d := v.Disks[id]
			if more := d.Used - cluster.Bytes(u.Share()*float64(d.Quota)); more >= disk.GroupSize {
				n.over[id] = &need{left: more, to: u.Tier, why: fmt.Sprintf("disk %s is %.0f%% full, the mean of %s is %.0f%%", id, 100*d.share(), u.Tier, 100*u.Share())}
			}
		}
	}
	return n
}

// full says why a tier is to be relieved; empty if it is not. Nothing is learned about a tier that has hardly any room left.
func (v *View) full(i int, u Usage, p Policy) string {
	limit, name := p.F, "f"
	if i == 0 && v.Learned {
		if v.Relieve {
			return fmt.Sprintf("%s is %.0f%% full, and it was learned that moving data down pays", u.Tier, 100*u.Share())
		}
		limit, name = max(p.F, p.D), "d"
	}
	if u.Share() <= limit {
		return ""
	}
	return fmt.Sprintf("%s is %.0f%% full, more than %s = %.0f%%", u.Tier, 100*u.Share(), name, 100*limit)
}

// Targets are the disks of a tier that have room for a group and are emptier than its mean, the emptiest first. One that takes a group is then less than
// a group fuller than the mean, and gives none back.
func (v *View) Targets(tier cluster.Tier) []cluster.DiskID {
	var share float64
	for _, u := range v.Usages() {
		if u.Tier == tier {
			share = u.Share()
		}
	}
	below := slices.DeleteFunc(v.roomy(tier), func(id cluster.DiskID) bool { return v.Disks[id].share() >= share })
	slices.SortStableFunc(below, func(a, b cluster.DiskID) int { return cmp.Compare(v.Disks[a].share(), v.Disks[b].share()) })
	return below
}

// roomy gives the disks of a tier that have room for a group, sorted.
func (v *View) roomy(tier cluster.Tier) (all []cluster.DiskID) {
	for id, d := range v.Disks {
		if d.Tier == tier && !d.Retired && d.Used+d.Kept+disk.GroupSize <= d.Quota {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return all
}

// permits reports whether the replica on a disk may go to another while the others of its group stay where they are: never to a server that has one,
// and where disks are only balanced, replicas stay as far apart as they are. Of a disk that is away it is not known where it is.
func (v *View) permits(from, to cluster.DiskID, others []cluster.DiskID, kind string) bool {
	was, now := v.Disks[from], v.Disks[to]
	if slices.ContainsFunc(others, func(d cluster.DiskID) bool { return v.Disks[d].Server == now.Server }) {
		return false
	}
	for i := range now.Within {
		shared := func(in string) bool {
			return slices.ContainsFunc(others, func(d cluster.DiskID) bool { return v.Disks[d].Within[i] == in })
		}
		if kind == Balance && shared(now.Within[i]) && !shared(was.Within[i]) {
			return false
		}
	}
	return true
}
