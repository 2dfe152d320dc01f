package lab

import (
	"math"
	"time"

	"gleaner/cluster"
	"gleaner/harvest"
	"gleaner/kube/agent"
)

// A koordinator offers by Koordinator's rules: what its policy gives, written when it differs by
// more than a tenth from what stands, or every five minutes.
type koordinator struct {
	size    cluster.Resources
	policy  harvest.Policy
	past    harvest.Past
	given   cluster.Resources
	written time.Time
}

func newKoordinator(s cluster.Server) agent.Offering {
	policy, err := harvest.PolicyNamed("koordinator")
	if err != nil {
		panic(err) // it is one of the house
	}
	return &koordinator{size: s.Size(), policy: policy}
}

const (
	differs = 0.1
	rewrite = 5 * time.Minute
)

func (k *koordinator) Note(at time.Time, primary cluster.Resources) cluster.Resources {
	k.past.Note(at, float64(primary.CPU)/float64(k.size.CPU))
	can, _ := k.policy.Room(harvest.Facts{Size: k.size, Reserve: harvest.PaperReserve.Of(k.size), Primary: harvest.PaperReserve.Counted(primary), Past: &k.past})
	can = can.Max(cluster.Resources{})
	off := math.Abs(float64(can.CPU - k.given.CPU))
	if k.written.IsZero() || at.Sub(k.written) >= rewrite || off > differs*float64(k.given.CPU) {
		k.given, k.written = can, at
	}
	return k.given
}
