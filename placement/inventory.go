package placement

// A ServerIndex is a server's place in the list the Inventory was made of.
type ServerIndex = int32

// Nowhere is the creator of a block that is written from outside the cluster.
const Nowhere ServerIndex = -1

// A Tenant is what placement knows of the owner of some servers.
type Tenant struct {
	Environment string
	Function    string
	ReimageRate float64 // reimages per server and month
	Peak        float64 // highest utilisation to expect
}

// A Server is what placement knows of a server.
type Server struct {
	Tenant int // index of its owner
	Rack   string
	Free   int  // blocks that fit
	Steady bool // its primary is not expected ever to be so busy that accesses are denied
}

// An Inventory is who owns which servers and how much fits on each. It is kept
// up to date by the one who places: every change is O(1).
type Inventory struct {
	tenants     []Tenant
	environment []int32 // of each tenant, numbered
	function    []int32
	open        [][]ServerIndex // servers of each tenant that are neither full nor busy
	openSteady  []int32         // how many of those are steady
	openTenants int
	room        room
	taken       int64 // blocks that room was booked for, given back or not

	owner  []int32
	rack   []int32
	racks  [][]ServerIndex
	steady []bool
	free   []int32
	busy   []bool
	at     []int32 // where each server stands in its tenant's open list; -1 if it does not
}

// A room is how many blocks fit, busy servers included, and how many of them on
// steady servers.
type room struct{ all, steady int64 }

// NewInventory starts with all servers idle.
func NewInventory(tenants []Tenant, servers []Server) *Inventory {
	inv := &Inventory{
		tenants: tenants, environment: make([]int32, len(tenants)), function: make([]int32, len(tenants)),
		open: make([][]ServerIndex, len(tenants)), openSteady: make([]int32, len(tenants)),
		owner: make([]int32, len(servers)), rack: make([]int32, len(servers)), free: make([]int32, len(servers)),
		steady: make([]bool, len(servers)), busy: make([]bool, len(servers)), at: make([]int32, len(servers)),
	}
	var environments, functions, racks numbering
	for i, t := range tenants {
		inv.environment[i], inv.function[i] = environments.of(t.Environment), functions.of(t.Function)
	}
	for i, s := range servers {
		inv.owner[i], inv.free[i], inv.at[i] = int32(s.Tenant), int32(s.Free), -1
		inv.steady[i] = s.Steady
		inv.rack[i] = racks.of(s.Rack)
		if int(inv.rack[i]) == len(inv.racks) {
			inv.racks = append(inv.racks, nil)
		}
		inv.racks[inv.rack[i]] = append(inv.racks[inv.rack[i]], ServerIndex(i))
		inv.settle(ServerIndex(i))
		inv.count(ServerIndex(i), s.Free)
	}
	return inv
}

// count adds room for n blocks on a server.
func (inv *Inventory) count(s ServerIndex, n int) {
	inv.room.all += int64(n)
	if inv.steady[s] {
		inv.room.steady += int64(n)
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

// Take books room for one block on a server.
func (inv *Inventory) Take(s ServerIndex) {
	inv.free[s]--
	inv.count(s, -1)
	inv.taken++
	if inv.free[s] == 0 {
		inv.settle(s)
	}
}

// Release gives room for n blocks back.
func (inv *Inventory) Release(s ServerIndex, n int) {
	full := inv.free[s] <= 0
	inv.free[s] += int32(n)
	inv.count(s, n)
	if full {
		inv.settle(s)
	}
}

// SetBusy says whether the server's primary needs it: a busy server gets no
// replicas from Grid.
func (inv *Inventory) SetBusy(s ServerIndex, busy bool) {
	inv.busy[s] = busy
	inv.settle(s)
}

// Free tells how many blocks still fit on a server.
func (inv *Inventory) Free(s ServerIndex) int { return int(inv.free[s]) }

// Room tells how many tenants have a server that can take a replica.
func (inv *Inventory) Room() (tenants int) { return inv.openTenants }

// isOpen tells whether s can take a replica; Nowhere cannot.
func (inv *Inventory) isOpen(s ServerIndex) bool { return s >= 0 && inv.at[s] >= 0 }

// settle puts s on its tenant's open list or takes it off, as it should be.
func (inv *Inventory) settle(s ServerIndex) {
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

// space gives the blocks that fit on each tenant's servers, busy ones included,
// and on those of them that are steady.
func (inv *Inventory) space() (all, steady []int64) {
	all, steady = make([]int64, len(inv.tenants)), make([]int64, len(inv.tenants))
	for s, t := range inv.owner {
		free := int64(max(inv.free[s], 0))
		all[t] += free
		if inv.steady[s] {
			steady[t] += free
		}
	}
	return all, steady
}
