package fabric

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"gleaner/cluster"
	"gleaner/fabric/dataserver"
	"gleaner/fabric/disk"
	"gleaner/fabric/volume"
	"gleaner/placement"
)

// A pool is the disks that can be had now, and where replicas go.
type pool struct {
	mu     sync.Mutex
	rng    *rand.Rand
	disks  map[cluster.DiskID]pooled
	fleets map[cluster.Tier]*fleet // of those
}

// A pooled disk is one with its place in the cluster.
type pooled struct {
	dataserver.Disk
	on     cluster.ServerID
	tier   cluster.Tier
	opened uint64     // as its identity says
	here   *disk.Disk // nil if it is at a data server
	quota  cluster.Bytes
	free   cluster.Bytes // of it, as was last heard
	busy   bool          // its server's owner needs it
}

type fleet struct {
	*placement.Fleet
	grid *placement.Grid
}

// tiers, from the one that writes go to first.
var tiers = []cluster.Tier{cluster.Tier(disk.SSD), cluster.Tier(disk.HDD), cluster.Tier(disk.Cold)}

// keepApart are the wishes for a group's replicas: as many of them as the cluster allows. Two replicas are never on one server.
var keepApart = placement.Rules{Soft: placement.Racks | placement.Cells | placement.Environments | placement.Steady | placement.Seldom}

func newPool(seed uint64) *pool {
	p := &pool{rng: rand.New(rand.NewPCG(seed, 0)), disks: map[cluster.DiskID]pooled{}, fleets: map[cluster.Tier]*fleet{}}
	for _, tier := range tiers {
		f := placement.NewFleet(disk.GroupSize, tier, func(s cluster.Server) (placement.Tenant, bool) {
			return placement.Tenant{Environment: s.Environment, Function: s.Function}, false
		})
		p.fleets[tier] = &fleet{f, placement.NewGrid(f.Inventory, keepApart)}
	}
	return p
}

// tell has all fleets take in an event.
func (p *pool) tell(ev cluster.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.fleets {
		f.Step(ev)
	}
}

// report takes in what is free on a server's disks.
func (p *pool) report(use cluster.DataUse) {
	p.tell(cluster.Event{Kind: cluster.DataReported, Data: []cluster.DataUse{use}})
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range use.Disks {
		if d, ok := p.disks[u.ID]; ok {
			d.free, d.busy = u.Free, use.Busy
			p.disks[u.ID] = d
		}
	}
}

// add takes in a disk of a server that has joined.
func (p *pool) add(id cluster.Disk, d pooled) {
	p.tell(cluster.Event{Kind: cluster.DiskJoined, On: d.on, Disk: &id})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.disks[id.ID] = d
}

// refresh looks at how much is free on the disks of this process.
func (p *pool) refresh() {
	for id, d := range p.all() {
		if d.here == nil {
			continue
		}
		u := d.here.Usage()
		p.report(cluster.DataUse{On: d.on, Disks: []cluster.DiskUse{{ID: id, Free: cluster.Bytes(max(0, u.Quota-u.Used))}}})
	}
}

// Disk gives a disk that can be had.
func (p *pool) Disk(id cluster.DiskID) (volume.Disk, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d, ok := p.disks[id]
	if !ok {
		return nil, fmt.Errorf("disk %s: %w", id, errAway)
	}
	return d.Disk, nil
}

// Place chooses disks for n more replicas, on the fastest tier that has room for any.
func (p *pool) Place(have []cluster.DiskID, n int) []cluster.DiskID {
	if chosen := p.place(have, n); len(chosen) == n {
		return chosen
	}
	p.refresh() // what was booked may not have been used
	return p.place(have, n)
}

func (p *pool) place(have []cluster.DiskID, n int) []cluster.DiskID {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, tier := range tiers {
		f := p.fleets[tier]
		var servers []placement.ServerIndex
		for _, id := range have {
			if s, ok := f.Server(p.disks[id].on); ok && !slices.Contains(servers, s) {
				servers = append(servers, s)
			}
		}
		for more := n; more > 0; more-- {
			placed, err := f.grid.Place(servers, placement.Nowhere, len(servers)+more, p.rng)
			if err != nil {
				continue // fewer may find room
			}
			var chosen []cluster.DiskID
			for _, s := range placed[len(servers):] {
				chosen = append(chosen, f.Fleet.Disk(f.Take(s)))
			}
			return chosen
		}
	}
	return nil
}

// busy reports whether the owner of a server needs it.
func (p *pool) busy(s placement.ServerIndex) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fleets[tiers[0]].Busy(s)
}

// all gives the disks that can be had now.
func (p *pool) all() map[cluster.DiskID]pooled {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.disks)
}
