package placement

import (
	"cmp"
	"slices"

	"gleaner/cluster"
)

// A Fleet is an Inventory of the disks of one tier, updated by the events of a cluster.
// Events about unknown servers and disks change nothing.
type Fleet struct {
	*Inventory
	tier     cluster.Tier
	known    func(cluster.Server) (owner Tenant, steady bool)
	byTenant map[cluster.TenantID]TenantIndex
	byServer map[cluster.ServerID]member
	byDisk   map[cluster.DiskID]DiskIndex
	names    map[DiskIndex]cluster.DiskID
}

type member struct {
	index ServerIndex
	cluster.Server
}

// NewFleet is for blocks of one size. known returns what history says of a server that
// joins and of its owner; the first answer for an owner is kept until Learn asks again.
func NewFleet(block cluster.Bytes, tier cluster.Tier, known func(cluster.Server) (owner Tenant, steady bool)) *Fleet {
	return &Fleet{Inventory: NewInventory(block), tier: tier, known: known,
		byTenant: map[cluster.TenantID]TenantIndex{}, byServer: map[cluster.ServerID]member{}, byDisk: map[cluster.DiskID]DiskIndex{}, names: map[DiskIndex]cluster.DiskID{}}
}

// Step updates the inventory by an event.
func (f *Fleet) Step(ev cluster.Event) {
	switch ev.Kind {
	case cluster.ServerJoined:
		f.join(*ev.Server)
	case cluster.DataServerLeft, cluster.ServerLeft:
		f.leave(ev.On)
	case cluster.DiskJoined:
		if m, known := f.byServer[ev.On]; known && ev.Disk.Tier == f.tier {
			f.remove(ev.Disk.ID) // it may have been moved
			d := f.AddDisk(m.index, ev.Disk.Free)
			f.byDisk[ev.Disk.ID], f.names[d] = d, ev.Disk.ID
		}
	case cluster.DiskLeft:
		f.remove(ev.Disk.ID)
	case cluster.DataReported:
		for _, use := range ev.Data {
			f.report(use)
		}
	}
}

// Learn asks again what history says of the owners. A NewGrid uses it.
func (f *Fleet) Learn() {
	all := make([]member, 0, len(f.byServer))
	for _, m := range f.byServer {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b member) int { return cmp.Compare(a.index, b.index) })
	for _, m := range all {
		owner, _ := f.known(m.Server)
		f.SetHabits(f.byTenant[m.Tenant()], owner.ReimageRate, owner.Peak)
	}
}

// join adds a server. One whose owner or rack has changed is another server. If its rack
// is not known, it is apart from all others.
func (f *Fleet) join(s cluster.Server) {
	m, known := f.byServer[s.ID]
	if known && m.Tenant() == s.Tenant() && m.Rack == s.Rack {
		return
	}
	f.leave(s.ID)
	tenant, steady := f.known(s)
	owner, known := f.byTenant[s.Tenant()]
	if !known {
		owner = f.AddTenant(tenant)
		f.byTenant[s.Tenant()] = owner
	}
	index := f.AddServer(Server{Tenant: owner, Rack: cmp.Or(s.Rack, string(s.ID)), Steady: steady})
	f.byServer[s.ID] = member{index, s}
}

// leave removes a server's disks; the server keeps its index for when they come back.
func (f *Fleet) leave(id cluster.ServerID) {
	m, known := f.byServer[id]
	if !known {
		return
	}
	for disk, d := range f.byDisk {
		if f.diskOn[d] == m.index {
			f.remove(disk)
		}
	}
	f.SetBusy(m.index, false)
}

func (f *Fleet) remove(id cluster.DiskID) {
	if d, known := f.byDisk[id]; known {
		f.RemoveDisk(d)
		delete(f.byDisk, id)
		delete(f.names, d)
	}
}

func (f *Fleet) report(use cluster.DataUse) {
	m, known := f.byServer[use.On]
	if !known {
		return
	}
	f.SetBusy(m.index, use.Busy)
	for _, u := range use.Disks {
		if d, known := f.byDisk[u.ID]; known {
			f.SetFree(d, u.Free)
		}
	}
}

// Server returns the index of a server.
func (f *Fleet) Server(id cluster.ServerID) (ServerIndex, bool) {
	m, known := f.byServer[id]
	return m.index, known
}

// Disk returns the name of a disk that Take returned.
func (f *Fleet) Disk(d DiskIndex) cluster.DiskID { return f.names[d] }
