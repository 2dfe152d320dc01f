package referee

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gleaner/plan"
)

// The model is of one zone, and all are alike.

// zones is how many there are.
func (r reading) zones() float64 { return zonesOf(r.in) }

func zonesOf(in plan.Input) float64 { return float64(max(1, in.SLA.Zones.Number)) }

// left is how many are when others have failed.
func (r reading) left() float64 { return r.zones() - float64(r.in.SLA.Zones.Failed) }

// inZone is how many of some servers are in a zone at least.
func (r reading) inZone(servers int) int { return int(math.Ceil(float64(servers) / r.zones())) }

// room is how much of a dataset's bytes there is.
func (r reading) room(dataset int, cache bool) float64 {
	data := r.in.App.Datasets[dataset]
	switch {
	case r.zones() == 1 || !data.Remote:
		return r.times(dataset, cache, true)
	case cache || data.Replicas <= r.in.SLA.Zones.Failed:
		return 1 / r.left()
	}
	return float64(data.Replicas) / r.zones()
}

// zone lets zones fail instead of servers in two of three documents that let these.
func zone(seed uint64, d documents) {
	w := writer{Rand: rand.New(rand.NewPCG(seed, 15))}
	for i, e := range d.sla.kids {
		if e.name == "survive" && w.chance(0.67) {
			d.sla.kids[i] = el("survive", "zones", "1", "of", fmt.Sprint(2+w.IntN(3)))
		}
	}
}
