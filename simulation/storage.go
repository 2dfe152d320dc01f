package simulation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"gleaner/cluster"
	"gleaner/input"
	"gleaner/placement"
	"gleaner/sim/datacenter"
	"gleaner/sim/storage"
)

// BlockBytes is the size of a block (OSDI'16 §5.1).
const BlockBytes = 256 << 20

// Placements are the policies by name: ours, the paper's, HDFS's, and chance.
var Placements = []string{"history", "paper", "stock", "random"}

// Known is what history says of a datacenter when blocks are placed.
type Known struct {
	tenants []placement.Tenant
	servers []placement.Server
	disks   []cluster.Bytes // one a server
}

// inventory is all servers, empty.
func (k Known) inventory() *placement.Inventory {
	inv := placement.NewInventory(BlockBytes)
	for _, t := range k.tenants {
		inv.AddTenant(t)
	}
	for i, s := range k.servers {
		inv.AddServer(s, k.disks[i])
	}
	return inv
}

// Learn finds out how the tenants behave from the time before d.Now.
func Learn(d *datacenter.Datacenter) Known {
	rates := make([]float64, len(d.Tenants))
	if len(d.Reimages) > 0 {
		rates = d.ReimageRates(d.Reimages[0].At, d.Now)
	}
	past := min(max(d.SlotAt(d.Now), 0), d.Window.Len)
	peaks := d.Peaks(0, past)
	k := Known{make([]placement.Tenant, len(d.Tenants)), make([]placement.Server, len(d.Servers)), make([]cluster.Bytes, len(d.Servers))}
	for i, t := range d.Tenants {
		environment := cmp.Or(t.Environment, string(t.ID)) // not known: apart from all others
		k.tenants[i] = placement.Tenant{Environment: environment, Function: t.Function, ReimageRate: rates[i], Peak: peaks[i]}
	}
	for i, s := range d.Servers {
		k.servers[i] = placement.Server{Tenant: placement.TenantIndex(d.Owner[i]), Rack: s.Rack, Steady: steady(d, i, past)}
		k.disks[i] = s.Disk
	}
	return k
}

// Placer makes a policy that starts with all servers empty; apart are further hard
// rules of history and paper. An unknown name is an input.Error.
func (k Known) Placer(name string, apart placement.RuleSet) (storage.Placer, error) {
	inv := k.inventory()
	switch name {
	case "history":
		return placement.NewGrid(inv, placement.Rules{Hard: placement.History.Hard | apart, Soft: placement.History.Soft}), nil
	case "paper":
		return placement.NewGrid(inv, placement.Rules{Hard: placement.Paper.Hard | apart}), nil
	case "stock":
		return placement.Stock{Inventory: inv}, nil
	case "random":
		return placement.Random{Inventory: inv}, nil
	}
	return nil, input.Fieldf("placement", "unknown placement %q; there are %s", name, strings.Join(Placements, ", "))
}

// steady reports whether a server is expected never to be busy: whether its peak
// plus twice the range of its daily peaks stays below the utilisation that makes
// it busy. That is little more than the peak for a constant tenant, and far more
// for an unpredictable one. A server without a past is not steady.
func steady(d *datacenter.Datacenter, server, past int) bool {
	day := int(24 * time.Hour / d.Window.Step)
	high, low := 0.0, 1.0 // of the daily peaks
	for from := 0; from < past; from += day {
		peak := 0.0
		for slot := from; slot < min(from+day, past); slot++ {
			peak = max(peak, float64(d.CPU(server, slot)))
		}
		high, low = max(high, peak), min(low, peak)
	}
	return past > 0 && high+2*(high-low) <= storage.BusyAbove
}

// A Storage is a simulation of blocks on the spare disks of a datacenter.
type Storage struct {
	Placement string
	Apart     placement.RuleSet // further hard rules of history and paper
	Blocks    int
	Replicas  int
	Days      int // of reimages from the datacenter's Now on; 0 for none
	Accesses  int // reads in the slots from Now on; 0 for none
	Seed      uint64
}

// A StorageResult is the outcome of a Storage.
type StorageResult struct {
	storage.Result
	Placed, Ended  Columns // where replicas are before and after the days
	FailedAccesses int
}

// RebuiltBytes is what was sent to rebuild replicas.
func (r StorageResult) RebuiltBytes() int64 { return int64(r.Rebuilt) * BlockBytes }

// Columns counts replicas by the reimages of the tenants they are with: in the
// columns of Algorithm 2, each a third of the space, the least reimaged first.
type Columns [3]int

// columns counts the replicas of a store, whatever placed them.
func (k Known) columns(store *storage.Store, blocks int) (c Columns) {
	grid := placement.NewGrid(k.inventory(), placement.Paper)
	for b := range blocks {
		for _, server := range store.Replicas(b) {
			_, column := grid.Cell(server)
			c[column]++
		}
	}
	return c
}

// String returns the shares of the columns.
func (c Columns) String() string {
	all := float64(max(c[0]+c[1]+c[2], 1)) / 100
	return fmt.Sprintf("%.0f%% %.0f%% %.0f%%", float64(c[0])/all, float64(c[1])/all, float64(c[2])/all)
}

// Run simulates the accesses on the blocks as they were placed, then the days of
// reimages. It calls progress, if not nil, with the share of the days that is
// done, and stops if that returns an error.
func (run Storage) Run(d *datacenter.Datacenter, progress func(float64) error) (StorageResult, error) {
	known := Learn(d)
	placer, err := known.Placer(run.Placement, run.Apart)
	if err != nil {
		return StorageResult{}, err
	}
	store, err := storage.Fill(placer, len(d.Servers), run.Blocks, run.Replicas, rand.New(rand.NewPCG(run.Seed, 1)))
	if err != nil {
		return StorageResult{}, err
	}
	out := StorageResult{Placed: known.columns(store, run.Blocks)}
	if run.Accesses > 0 {
		out.FailedAccesses = store.Access(d, d.SlotAt(d.Now), d.Window.Len, run.Accesses, rand.New(rand.NewPCG(run.Seed, 2)))
	}
	if run.Days > 0 {
		out.Result, err = store.Run(d.Reimages, d.Now, d.Now.AddDate(0, 0, run.Days), progress)
	}
	out.Ended = known.columns(store, run.Blocks)
	return out, err
}
