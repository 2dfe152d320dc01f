package patterns

import (
	"math/rand/v2"

	"gleaner/classify"
	"gleaner/cluster"
	"gleaner/history/reimages"
	"gleaner/placement"
)

// A Divided cluster is one whose servers are divided by how often their tenants are reimaged and how busy those get, as replicas
// would be placed on their disks (OSDI'16 §4.2).
type Divided struct {
	Cells []placement.Cell
	// Blocks were placed on trial, with three replicas each. Well are those whose replicas are in different rows, columns and environments;
	// for Refused there was no such place.
	Blocks, Well, Refused int
}

// trialBlocks are how many blocks are placed on trial, and blockSize is how large they are.
const (
	trialBlocks = 1000
	replicas    = 3
	blockSize   = 256 * cluster.MB
)

// Divide divides servers by a log of reimages and the classes of their tenants. A server of which no disk is known has one block.
func Divide(servers []cluster.Server, log reimages.Report, classes classify.Result, seed uint64) Divided {
	peaks, rates := map[cluster.TenantID]float64{}, map[cluster.TenantID]float64{}
	for _, t := range classes.Tenants {
		peaks[t.ID] = t.Peak
	}
	for _, t := range log.Tenants {
		rates[t.ID] = t.PerMonth
	}
	inv := placement.NewInventory(blockSize)
	tenants := map[cluster.TenantID]placement.TenantIndex{}
	for _, s := range servers {
		id := s.Tenant()
		owner, known := tenants[id]
		if !known {
			owner = inv.AddTenant(placement.Tenant{Environment: s.Environment, Function: s.Function, ReimageRate: rates[id], Peak: peaks[id]})
			tenants[id] = owner
		}
		inv.AddServer(placement.Server{Tenant: owner, Rack: s.Rack}, max(s.Disk, blockSize))
	}
	grid := placement.NewGrid(inv, placement.Paper)
	d := Divided{Cells: grid.Cells(), Blocks: trialBlocks}
	rng := rand.New(rand.NewPCG(seed, 0))
	for range trialBlocks {
		placed, err := grid.Place(nil, placement.Nowhere, replicas, rng)
		switch {
		case err != nil:
			d.Refused++
		case grid.Quality(placed).Share(placement.Cells|placement.Environments) == 1:
			d.Well++
		}
	}
	return d
}
