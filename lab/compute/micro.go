package compute

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"gleaner/chart"
	"gleaner/cluster"
	"gleaner/harvest"
	"gleaner/lab"
	"gleaner/placement"
	"gleaner/sim/datacenter"
	"gleaner/simulation"
)

// micro is §6.2: what the expensive operations cost in DC-9, on one thread.
// Times differ from run to run; everything else does not.
func micro(_ context.Context, o lab.Options) ([]lab.Table, []chart.Figure, error) {
	size := sizeOf(o)
	if !o.Quick {
		size.servers, size.past = 0, 30
	}
	profile, err := datacenter.Find("DC-9")
	if err != nil {
		return nil, nil, err
	}
	d := datacenter.Generate(profile, datacenter.Options{Servers: size.servers, Past: size.past, Seed: 1})
	t := lab.Table{Name: "micro", Title: "§6.2: what the expensive operations cost", Columns: []string{"operation", "ours", "paper"}}
	begun := time.Now()
	classes := simulation.Classes(d, 1)
	t.Add(fmt.Sprintf("clustering %d tenants, %d days, into %d classes", len(d.Tenants), size.past, len(classes)), time.Since(begun).Round(time.Millisecond), "2 min, 23 classes")

	states := classStates(d, classes)
	r := rand.New(rand.NewPCG(1, 1))
	need := cluster.Resources{CPU: 469 * cluster.Core, Memory: 938 * cluster.GB}
	var picked []int
	t.Add(fmt.Sprintf("class selection among %d classes", len(states)), each(100_000, func() {
		picked = harvest.Select(harvest.Medium, need, states, r, picked[:0])
	}), "< 1 ms")

	known := simulation.Learn(d)
	for _, name := range []string{"history", "stock"} {
		placer, err := known.Placer(name, 0)
		if err != nil {
			return nil, nil, err
		}
		replicas := make([]placement.ServerIndex, 0, 3)
		per := each(100_000, func() {
			_, err = placer.Place(replicas, placement.ServerIndex(r.IntN(len(d.Servers))), 3, r)
		})
		if err != nil {
			return nil, nil, err
		}
		t.Add(fmt.Sprintf("placing a block of 3 replicas on %d servers, %s", len(d.Servers), name), per, map[string]string{"history": "2.55 ms", "stock": "0.81 ms"}[name])
	}
	return one(t)
}

// each is the mean time of n calls.
func each(n int, do func()) time.Duration {
	begun := time.Now()
	for range n {
		do()
	}
	return time.Since(begun) / time.Duration(n)
}

// classStates are the states of the classes while primaries use their mean.
func classStates(d *datacenter.Datacenter, classes []cluster.Class) []harvest.ClassState {
	server := d.Servers[0].Size()
	reserve := harvest.PaperReserve.Of(server)
	states := make([]harvest.ClassState, len(classes))
	for i, c := range classes {
		size, kept := server.Times(c.Servers), reserve.Times(c.Servers)
		room := size.Sub(kept)
		room.CPU -= cluster.MilliCPU(c.Mean * float64(size.CPU))
		states[i] = harvest.ClassState{Pattern: c.Pattern, Mean: c.Mean, Peak: c.Peak, Size: size, Reserve: kept, Room: room, Surely: room}
	}
	return states
}
