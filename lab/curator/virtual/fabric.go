package virtual

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/fabric/tiering"
	"gleaner/fabric/upkeep"
	"gleaner/kv"
	"gleaner/kv/mem"
	"gleaner/placement"
	"gleaner/sim/disks"
)

// Options say what a fabric is made of. Servers are numbered from 0 on.
type Options struct {
	Start   time.Time
	Faster  float64        // how many times faster its clock runs than its disks
	Tiers   []cluster.Tier // the fastest first
	Owners  []placement.Tenant
	Servers []placement.Server
	Busy    func(server placement.ServerIndex, now time.Time) bool // its owner needs it; nil: none does ever
	Policy  upkeep.Policy
	Off     bool // there is no upkeep
	Seed    uint64
}

// A Fabric is vDisks on simulated disks.
type Fabric struct {
	o       Options
	maps    *maps.Maps
	rng     *rand.Rand
	shelves map[cluster.Tier]*shelf
	disks   map[cluster.DiskID]*Disk // also those that are gone
	vdisks  map[disk.VDiskID]*vdisk
	groups  map[disk.GroupID]*held
	dirty   map[disk.GroupID]bool // used since the access map was written
	last    disk.GroupID
	keeper  *keeper // nil without upkeep
}

// A Disk is a simulated disk and where it is.
type Disk struct {
	disks.Disk
	ID     cluster.DiskID
	Server placement.ServerIndex
	Tier   cluster.Tier
	index  placement.DiskIndex
	gone   bool
}

// A shelf is the disks of a tier.
type shelf struct {
	*placement.Inventory
	grid *placement.Grid
	on   [][]*Disk // of each server
}

type vdisk struct {
	maps.VDisk
	version kv.Version
	groups  []disk.GroupID // by offset; 0 if nothing was written
}

// A held group is its record as the maps have it, and when it was used.
type held struct {
	group.Group
	version kv.Version
	used    tiering.Period
}

// apart is the first of the wishes that a front has for a group's replicas: a whole environment may be reimaged at once.
const apart = placement.Environments

// New gives a fabric without disks.
func New(ctx context.Context, o Options) (*Fabric, error) {
	store, writer := mem.New(), kv.NewWriter(1)
	m, err := maps.Open(ctx, store, writer)
	if err != nil {
		return nil, err
	}
	f := &Fabric{o: o, maps: m, rng: rand.New(rand.NewPCG(o.Seed, 2)), shelves: map[cluster.Tier]*shelf{}, disks: map[cluster.DiskID]*Disk{},
		vdisks: map[disk.VDiskID]*vdisk{}, groups: map[disk.GroupID]*held{}, dirty: map[disk.GroupID]bool{}}
	for _, tier := range o.Tiers {
		inv := placement.NewInventory(disk.GroupSize)
		for _, t := range o.Owners {
			inv.AddTenant(t)
		}
		for _, s := range o.Servers {
			inv.AddServer(s)
		}
		f.shelves[tier] = &shelf{inv, placement.NewGrid(inv, placement.Rules{Soft: apart}), make([][]*Disk, len(o.Servers))}
	}
	if !o.Off {
		f.keeper, err = newKeeper(ctx, f, store, writer)
	}
	return f, err
}

// wall is what the clock says.
func (f *Fabric) wall(at time.Duration) time.Time {
	return f.o.Start.Add(time.Duration(float64(at) * f.o.Faster))
}

// scaled is how long the disks have while the clock goes on by a time.
func (f *Fabric) scaled(t time.Duration) time.Duration { return time.Duration(float64(t) / f.o.Faster) }

// AddDisk puts an empty disk into a server.
func (f *Fabric) AddDisk(id cluster.DiskID, server placement.ServerIndex, tier cluster.Tier, kind disks.Kind) {
	s := f.shelves[tier]
	d := &Disk{Disk: disks.Disk{Kind: kind}, ID: id, Server: server, Tier: tier, index: s.AddDisk(server, cluster.Bytes(kind.Capacity))}
	s.on[server] = append(s.on[server], d)
	f.disks[id] = d
}

// Pull takes the disks out of a server, with all that is on them.
func (f *Fabric) Pull(server placement.ServerIndex) {
	for _, s := range f.shelves {
		for _, d := range s.on[server] {
			s.RemoveDisk(d.index)
			d.gone = true
		}
		s.on[server] = nil
	}
	if f.keeper != nil {
		f.keeper.want(upkeep.Disks)
	}
}

// Disks gives the disks of a tier that are there, by server.
func (f *Fabric) Disks(tier cluster.Tier) []*Disk { return slices.Concat(f.shelves[tier].on...) }

func (f *Fabric) busy(s placement.ServerIndex, at time.Duration) bool {
	return f.o.Busy != nil && f.o.Busy(s, f.wall(at))
}

// take books room for a group on a disk.
func (f *Fabric) take(d *Disk) {
	if !d.Take(disk.GroupSize) {
		panic("virtual: a group is put where there is no room")
	}
	f.shelves[d.Tier].SetFree(d.index, cluster.Bytes(d.Kind.Capacity-d.Used))
}

func (f *Fabric) give(d *Disk) {
	if !d.gone {
		d.Give(disk.GroupSize)
		f.shelves[d.Tier].SetFree(d.index, cluster.Bytes(d.Kind.Capacity-d.Used))
	}
}

// place books room for n more replicas on disks of a tier; nil if there is not so much.
func (f *Fabric) place(tier cluster.Tier, have []cluster.DiskID, n int) (chosen []*Disk) {
	s := f.shelves[tier]
	servers := make([]placement.ServerIndex, 0, len(have)+n)
	for _, id := range have {
		servers = append(servers, f.disks[id].Server)
	}
	placed, err := s.grid.Place(servers, placement.Nowhere, len(have)+n, f.rng)
	if err != nil {
		return nil
	}
	for _, server := range placed[len(have):] {
		d := slices.MinFunc(s.on[server], func(a, b *Disk) int { return int(a.Used - b.Used) })
		f.take(d)
		chosen = append(chosen, d)
	}
	return chosen
}
