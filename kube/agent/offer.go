package agent

import (
	"time"

	"gleaner/cluster"
)

// An offer is what a node gives away. It falls at once with what can be harvested and rises
// when there has been more for a while, so that it does not follow every move of a primary.
type offer struct {
	settle      time.Duration
	begun       bool
	cpu, memory figure
}

// A figure is one resource of an offer.
type figure struct {
	given int64
	since time.Time // there has been more; zero: there is not
	least int64     // that there was since then
}

// begin goes on from what is given already.
func (o *offer) begin(given cluster.Resources) {
	o.begun = given != (cluster.Resources{})
	o.cpu.given, o.memory.given = int64(given.CPU), int64(given.Memory)
}

// note takes in what can be harvested at a time, and returns what is given. The first offer
// is made at once.
func (o *offer) note(at time.Time, can cluster.Resources) cluster.Resources {
	if !o.begun {
		o.begin(can)
	}
	return cluster.Resources{CPU: cluster.MilliCPU(o.cpu.note(at, int64(can.CPU), o.settle)), Memory: cluster.Bytes(o.memory.note(at, int64(can.Memory), o.settle))}
}

func (f *figure) note(at time.Time, can int64, settle time.Duration) int64 {
	if can <= f.given {
		*f = figure{given: can}
		return can
	}
	if f.since.IsZero() {
		f.since, f.least = at, can
	}
	if f.least = min(f.least, can); at.Sub(f.since) >= settle {
		*f = figure{given: f.least}
	}
	return f.given
}

// steps is in how many steps memory is offered: a primary's memory moves all the time.
const steps = 64

// harvestable is what can be harvested of a size whose primary, as it is counted, and
// reserve are not to be touched.
func harvestable(size, primary, reserve cluster.Resources) cluster.Resources {
	can := size.Sub(primary).Sub(reserve).Max(cluster.Resources{})
	if step := size.Memory / steps; step > 0 {
		can.Memory = can.Memory / step * step
	}
	return can
}
