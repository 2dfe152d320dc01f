package placement

import "gleaner/cluster"

// Indices number tenants, servers and disks in the order in which they were added to
// an Inventory. An index is never used again, so that replicas on servers and disks
// that are gone remain distinct.
type (
	TenantIndex int32
	ServerIndex int32
	DiskIndex   int32
)

// Nowhere is the creator of a block that is written from outside the cluster.
const Nowhere ServerIndex = -1

// A Tenant is the owner of some servers.
type Tenant struct {
	Environment string
	Function    string
	ReimageRate float64 // reimages per server and month
	Peak        float64 // highest utilisation to expect
}

// A Server is what matters of a server for placement.
type Server struct {
	Tenant TenantIndex // its owner
	Rack   string
	Steady bool // its primary is expected never to be so busy that accesses are denied
}

// An Inventory is who owns which servers and how much fits on their disks. The
// caller keeps it up to date: every change is O(1), except that the disks of a
// server are searched one by one.
type Inventory struct {
	block        cluster.Bytes
	environments numbering
	functions    numbering
	rackNames    numbering

	tenants     []Tenant
	environment []int32 // of each tenant, numbered
	function    []int32
	open        [][]ServerIndex // servers of each tenant that are neither full nor busy
	openSteady  []int32         // how many of those are steady
	openTenants int
	room        room
	taken       int64 // blocks ever booked, whether released or not
	shift       int64 // blocks of room that have come or gone with disks

	owner  []TenantIndex
	rack   []int32
	racks  [][]ServerIndex
	steady []bool
	free   []int32 // blocks that fit
	busy   []bool
	at     []int32 // index of each server in its tenant's open list; -1 if it is not there
	disks  [][]DiskIndex

	diskOn   []ServerIndex // Nowhere once it is gone
	diskFree []cluster.Bytes
}

// A room is how many blocks fit, busy servers included, and how many of them on
// steady servers.
type room struct{ all, steady int64 }

// NewInventory returns an empty inventory for blocks of one size.
func NewInventory(block cluster.Bytes) *Inventory { return &Inventory{block: block} }

// AddTenant adds an owner of servers.
func (inv *Inventory) AddTenant(t Tenant) TenantIndex {
	inv.tenants = append(inv.tenants, t)
	inv.environment = append(inv.environment, inv.environments.of(t.Environment))
	inv.function = append(inv.function, inv.functions.of(t.Function))
	inv.open, inv.openSteady = append(inv.open, nil), append(inv.openSteady, 0)
	return TenantIndex(len(inv.tenants) - 1)
}

// SetHabits sets what history says of a tenant. A NewGrid uses it.
func (inv *Inventory) SetHabits(t TenantIndex, reimageRate, peak float64) {
	inv.tenants[t].ReimageRate, inv.tenants[t].Peak = reimageRate, peak
}

// AddServer adds an idle server, with a disk for each amount of free space.
func (inv *Inventory) AddServer(s Server, free ...cluster.Bytes) ServerIndex {
	i := ServerIndex(len(inv.owner))
	rack := inv.rackNames.of(s.Rack)
	if int(rack) == len(inv.racks) {
		inv.racks = append(inv.racks, nil)
	}
	inv.racks[rack] = append(inv.racks[rack], i)
	inv.owner, inv.rack, inv.steady = append(inv.owner, s.Tenant), append(inv.rack, rack), append(inv.steady, s.Steady)
	inv.free, inv.busy, inv.at = append(inv.free, 0), append(inv.busy, false), append(inv.at, -1)
	inv.disks = append(inv.disks, nil)
	for _, f := range free {
		inv.AddDisk(i, f)
	}
	return i
}

// AddDisk adds a disk to a server.
func (inv *Inventory) AddDisk(s ServerIndex, free cluster.Bytes) DiskIndex {
	d := DiskIndex(len(inv.diskOn))
	inv.diskOn, inv.diskFree = append(inv.diskOn, s), append(inv.diskFree, 0)
	inv.disks[s] = append(inv.disks[s], d)
	inv.SetFree(d, free)
	return d
}

// RemoveDisk removes a disk; a server is gone when all its disks are. Calls about
// a disk that is gone change nothing.
func (inv *Inventory) RemoveDisk(d DiskIndex) {
	s := inv.diskOn[d]
	if s == Nowhere {
		return
	}
	inv.SetFree(d, 0)
	inv.diskOn[d] = Nowhere
	for i, other := range inv.disks[s] {
		if other == d {
			inv.disks[s] = append(inv.disks[s][:i], inv.disks[s][i+1:]...)
			return
		}
	}
}

// SetFree sets how much is free on a disk, whatever was booked on it before.
func (inv *Inventory) SetFree(d DiskIndex, free cluster.Bytes) {
	s := inv.diskOn[d]
	if s == Nowhere {
		return
	}
	before := inv.fit(d)
	inv.diskFree[d] = free
	more := inv.fit(d) - before
	inv.shift += max(more, -more)
	inv.add(s, more)
}

// fit is how many blocks fit on a disk.
func (inv *Inventory) fit(d DiskIndex) int64 { return int64(max(inv.diskFree[d], 0) / inv.block) }

// Take books room for one block on a server, and returns the disk to store it on:
// the emptiest.
func (inv *Inventory) Take(s ServerIndex) DiskIndex {
	disks := inv.disks[s]
	disk := disks[0]
	for _, d := range disks[1:] {
		if inv.diskFree[d] > inv.diskFree[disk] {
			disk = d
		}
	}
	inv.diskFree[disk] -= inv.block
	inv.taken++
	if inv.diskFree[disk] >= 0 {
		inv.add(s, -1)
	}
	return disk
}

// Release returns the room of n blocks to a disk.
func (inv *Inventory) Release(d DiskIndex, n int) {
	s := inv.diskOn[d]
	if s == Nowhere {
		return
	}
	before := inv.fit(d)
	inv.diskFree[d] += cluster.Bytes(n) * inv.block
	inv.add(s, inv.fit(d)-before)
}

// add counts room for n more blocks on a server.
func (inv *Inventory) add(s ServerIndex, n int64) {
	full := inv.free[s] == 0
	inv.free[s] += int32(n)
	inv.room.all += n
	if inv.steady[s] {
		inv.room.steady += n
	}
	if full != (inv.free[s] == 0) {
		inv.updateOpen(s)
	}
}

// numbering gives equal names equal numbers, from 0 on.
type numbering map[string]int32

func (n *numbering) of(name string) int32 {
	if *n == nil {
		*n = numbering{}
	}
	i, ok := (*n)[name]
	if !ok {
		i = int32(len(*n))
		(*n)[name] = i
	}
	return i
}

// SetBusy sets whether the server's primary needs it: Grid puts no replicas on a
// busy server.
func (inv *Inventory) SetBusy(s ServerIndex, busy bool) {
	inv.busy[s] = busy
	inv.updateOpen(s)
}

// Busy reports whether a server is busy.
func (inv *Inventory) Busy(s ServerIndex) bool { return inv.busy[s] }

// Free is how many blocks still fit on a server.
func (inv *Inventory) Free(s ServerIndex) int { return int(inv.free[s]) }

// Room is how many tenants have a server that can take a replica.
func (inv *Inventory) Room() (tenants int) { return inv.openTenants }

// isOpen reports whether s can take a replica; Nowhere cannot.
func (inv *Inventory) isOpen(s ServerIndex) bool { return s >= 0 && inv.at[s] >= 0 }

// updateOpen puts s on its tenant's open list if s can take a replica, and
// takes it off if not.
func (inv *Inventory) updateOpen(s ServerIndex) {
	t := inv.owner[s]
	should := inv.free[s] > 0 && !inv.busy[s]
	switch {
	case should && inv.at[s] < 0:
		if len(inv.open[t]) == 0 {
			inv.openTenants++
		}
		inv.at[s] = int32(len(inv.open[t]))
		inv.open[t] = append(inv.open[t], s)
		if inv.steady[s] {
			inv.openSteady[t]++
		}
	case !should && inv.at[s] >= 0:
		last := len(inv.open[t]) - 1
		moved := inv.open[t][last]
		inv.open[t][inv.at[s]], inv.at[moved] = moved, inv.at[s]
		inv.open[t], inv.at[s] = inv.open[t][:last], -1
		if inv.steady[s] {
			inv.openSteady[t]--
		}
		if last == 0 {
			inv.openTenants--
		}
	}
}

// space returns how many blocks fit on each tenant's servers, busy ones included,
// and how many of these on its steady servers.
func (inv *Inventory) space() (all, steady []int64) {
	all, steady = make([]int64, len(inv.tenants)), make([]int64, len(inv.tenants))
	for s, t := range inv.owner {
		free := int64(inv.free[s])
		all[t] += free
		if inv.steady[s] {
			steady[t] += free
		}
	}
	return all, steady
}
