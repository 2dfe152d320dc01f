package fabric

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/dataserver"
	"gleaner/fabric/disk"
	"gleaner/fabric/upkeep"
	"gleaner/fabric/volume"
	"gleaner/placement"
)

// A pool is the disks that can be had now, and where replicas go.
type pool struct {
	mu      sync.Mutex
	rng     *rand.Rand
	disks   map[cluster.DiskID]pooled
	fleets  map[cluster.Tier]*fleet             // of those
	homes   map[cluster.DiskID]cluster.ServerID // where disks were last heard of, also those that are away
	habits  habits
	servers map[cluster.ServerID]cluster.Server // that have joined

	retired map[cluster.DiskID]time.Time // disks that are being emptied, and get no replicas, and since when that is known here
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
	grid    *placement.Grid
	choices *placement.Quality // nil if disks have come or gone
}

// choice is in how many environments, racks and so on there are disks.
func (f *fleet) choice() placement.Quality {
	if f.choices == nil {
		q := f.grid.Choice(nil)
		f.choices = &q
	}
	return *f.choices
}

// choose appends servers to those that have replicas already, until there are n. A wish that there are too few environments, functions or racks
// for is kept for as many replicas as it can be: of three in two environments, one is apart.
func (f *fleet) choose(have []placement.ServerIndex, n int, rng *rand.Rand) (placed []placement.ServerIndex, err error) {
	fresh, more := f.choice(), n-len(have)
	if len(have) > 0 && min(fresh.Environments, fresh.Functions, fresh.Racks) < n { // else enough are left, whichever they are in
		fresh = f.grid.Choice(have)
	}
	stages := []int{min(fresh.Environments, more), min(fresh.Functions, more), min(fresh.Racks, more), more}
	slices.Sort(stages)
	placed = have
	for _, stage := range slices.Compact(stages) {
		if placed, err = f.chooseBy(f.wishes(fresh, stage), placed, len(have)+stage, rng); err != nil {
			return nil, err
		}
	}
	return placed, nil
}

// wishes are those that so many more replicas can keep: to look for what there is not takes long.
func (f *fleet) wishes(fresh placement.Quality, more int) placement.RuleSet {
	wishes := f.grid.Rules.Soft
	if fresh.Environments < more {
		wishes &^= placement.Environments
	}
	if fresh.Functions < more {
		wishes &^= placement.Functions
	}
	if fresh.Racks < more {
		wishes &^= placement.Racks
	}
	return wishes
}

// chooseBy keeps environments apart before all other wishes, because a whole one may be reimaged at once. If those that have room are too few, it
// takes what there is of them, and the rest from any.
func (f *fleet) chooseBy(wishes placement.RuleSet, have []placement.ServerIndex, n int, rng *rand.Rand) (placed []placement.ServerIndex, err error) {
	first, rest := wishes&placement.Environments, wishes&^placement.Environments
	placed = have
	for k := n; first != 0 && k > len(placed); k-- {
		placed, _, _ = f.grid.PlaceBy(placement.Rules{Hard: first, Soft: rest}, have, placement.Nowhere, k, rng)
	}
	placed, _, err = f.grid.PlaceBy(placement.Rules{Soft: rest}, placed, placement.Nowhere, n, rng)
	return placed, err
}

// tiers, from the one that writes go to first.
var tiers = []cluster.Tier{cluster.Tier(disk.SSD), cluster.Tier(disk.HDD), cluster.Tier(disk.Cold)}

// keepApart are the wishes for a group's replicas: as many of them as the cluster allows. Two replicas are never on one server.
const keepApart = placement.Racks | placement.Functions | placement.Environments

func newPool(seed uint64) *pool {
	p := &pool{rng: rand.New(rand.NewPCG(seed, 0)), disks: map[cluster.DiskID]pooled{}, fleets: map[cluster.Tier]*fleet{}, homes: map[cluster.DiskID]cluster.ServerID{}, servers: map[cluster.ServerID]cluster.Server{}}
	for _, tier := range tiers {
		f := placement.NewFleet(disk.GroupSize, tier, p.known)
		p.fleets[tier] = &fleet{Fleet: f, grid: placement.NewGrid(f.Inventory, placement.Rules{Soft: keepApart})}
	}
	return p
}

// known gives what is known of a server's owner. What is not said keeps it apart from all others.
func (p *pool) known(s cluster.Server) (owner placement.Tenant, steady bool) {
	tenant, habit := s.Tenant(), p.habits.of(s.Tenant())
	return placement.Tenant{Environment: cmp.Or(s.Environment, string(tenant)), Function: cmp.Or(s.Function, string(tenant)),
		ReimageRate: habit.Reimages, Peak: habit.Peak}, false
}

// within gives the environment, the function and the rack of a server, as replicas are kept apart by them. What is not known of one keeps it apart from all others.
func (p *pool) within(on cluster.ServerID) [3]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.servers[on]
	owner, _ := p.known(s)
	return [3]string{owner.Environment, owner.Function, cmp.Or(s.Rack, string(on))}
}

// learn takes in what is newly known of tenants, and divides them anew by it.
func (p *pool) learn(news func(*habits)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	news(&p.habits)
	rules := placement.Rules{Soft: keepApart | p.habits.wishes()}
	for _, f := range p.fleets {
		f.Learn()
		f.grid, f.choices = placement.NewGrid(f.Inventory, rules), nil
	}
}

// settle remembers which server a disk is of, be it up or not.
func (p *pool) settle(id cluster.DiskID, on cluster.ServerID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.homes[id] = on
}

// tell has all fleets take in an event.
func (p *pool) tell(ev cluster.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := ev.Server; s != nil {
		p.servers[s.ID] = *s
	}
	for _, f := range p.fleets {
		f.step(ev)
	}
}

func (f *fleet) step(ev cluster.Event) {
	f.Step(ev)
	if ev.Kind != cluster.DataReported {
		f.choices = nil
	}
}

// kept is how much of a disk is for upkeep alone: to collect garbage on a full disk, a group is made there before others are removed.
const kept = disk.GroupSize * 3 / 2

// placeable is what is free of a disk for new replicas.
func (p *pool) placeable(id cluster.DiskID, free cluster.Bytes) cluster.Bytes {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, retired := p.retired[id]; retired {
		return 0
	}
	return max(0, free-kept)
}

// report takes in what is free on a server's disks.
func (p *pool) report(use cluster.DataUse) {
	told := use
	told.Disks = slices.Clone(use.Disks)
	for i := range told.Disks {
		told.Disks[i].Free = p.placeable(told.Disks[i].ID, told.Disks[i].Free)
	}
	p.tell(cluster.Event{Kind: cluster.DataReported, Data: []cluster.DataUse{told}})
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
	told := id
	told.Free = p.placeable(id.ID, id.Free)
	p.tell(cluster.Event{Kind: cluster.DiskJoined, On: d.on, Disk: &told})
	p.mu.Lock()
	defer p.mu.Unlock()
	d.quota, d.free = id.Quota, id.Free
	p.disks[id.ID], p.homes[id.ID] = d, d.on
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

// full says that a disk has no room, whatever it reported. It holds until its next report.
func (p *pool) full(id cluster.DiskID) {
	p.mu.Lock()
	d, ok := p.disks[id]
	p.mu.Unlock()
	if ok {
		p.report(cluster.DataUse{On: d.on, Busy: d.busy, Disks: []cluster.DiskUse{{ID: id, Free: 0}}})
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
	if chosen := p.place(tiers, have, n); len(chosen) == n {
		return chosen
	}
	p.refresh() // what was booked may not have been used
	return p.place(tiers, have, n)
}

// Reserve chooses disks as Place does. Where those have no room left for writes, it takes the ones with most room of what is kept.
func (p *pool) Reserve(have []cluster.DiskID, n int) []cluster.DiskID {
	chosen := p.Place(have, n)
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := map[cluster.ServerID]bool{}
	for _, id := range slices.Concat(have, chosen) {
		taken[p.homes[id]] = true
	}
	free := maps.Clone(p.disks)
	maps.DeleteFunc(free, func(id cluster.DiskID, d pooled) bool {
		_, retired := p.retired[id]
		return retired || d.busy || d.free < disk.GroupSize
	})
	for _, id := range slices.SortedFunc(maps.Keys(free), func(a, b cluster.DiskID) int {
		return cmp.Or(cmp.Compare(free[b].free, free[a].free), cmp.Compare(a, b))
	}) {
		if on := free[id].on; len(chosen) < n && !taken[on] {
			chosen, taken[on] = append(chosen, id), true
		}
	}
	return chosen
}

// place chooses disks on the first of some tiers that has room for any.
func (p *pool) place(among []cluster.Tier, have []cluster.DiskID, n int) []cluster.DiskID {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, tier := range among {
		f := p.fleets[tier]
		servers := p.holders(f, have)
		for more := n; more > 0; more-- {
			placed, err := f.choose(servers, len(servers)+more, p.rng)
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

// holders gives the servers that disks are of, also those that are away: they may come back.
func (p *pool) holders(f *fleet, disks []cluster.DiskID) (servers []placement.ServerIndex) {
	for _, id := range disks {
		on := p.homes[id]
		if d, here := p.disks[id]; here {
			on = d.on // its copy may be at another
		}
		if s, ok := f.Server(on); ok && !slices.Contains(servers, s) {
			servers = append(servers, s)
		}
	}
	return servers
}

// usable reports whether there is a disk whose server is not busy.
func (p *pool) usable() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.disks {
		if !d.busy {
			return true
		}
	}
	return false
}

// enough reports whether so many servers have a disk that replicas may go to, and are not busy.
func (p *pool) enough(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	servers := map[cluster.ServerID]bool{}
	for id, d := range p.disks {
		if _, retired := p.retired[id]; !retired && !d.busy {
			servers[d.on] = true
		}
	}
	return len(servers) >= n
}

// busy reports whether the owner of a server needs it.
func (p *pool) busy(s placement.ServerIndex) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fleets[tiers[0]].Busy(s)
}

// load is the highest of the servers of some disks in an hour of the day: 1 if the owner of one needs it now.
func (p *pool) load(disks []cluster.DiskID, hour int) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	highest, known := 0.0, false
	for _, id := range disks {
		d, here := p.disks[id]
		if !here {
			continue
		}
		if d.busy {
			return 1
		}
		highest, known = max(highest, p.habits.of(p.servers[d.on].Tenant()).load(hour)), true
	}
	if !known {
		return upkeep.Usual
	}
	return highest
}

// all gives the disks that can be had now.
func (p *pool) all() map[cluster.DiskID]pooled {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.disks)
}
