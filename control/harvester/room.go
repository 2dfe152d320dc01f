package harvester

import (
	"fmt"

	"gleaner/cluster"
	"gleaner/harvest"
)

// Most is the most that one task may request.
func (h *Harvester) Most() cluster.Resources {
	if !harvest.Guarded(h.Policy) {
		return h.Server.Size()
	}
	return h.Reserve.Most(h.Server.Size())
}

// Room is what tasks can get now, given the primary's use, and why it is not more.
func (h *Harvester) Room(primary cluster.Resources) (now cluster.Resources, because string) {
	size := h.Server.Size()
	now, because = size.RoundUp(), "the policy does not look at the primary"
	if harvest.Guarded(h.Policy) {
		now, because = harvestable(size, primary, h.Reserve, h.Isolated)
	}
	if now.CPU == 0 || now.Memory == 0 { // a task needs both
		now = cluster.Resources{}
	}
	return now, because
}

// harvestable is what tasks can get now, given the primary's use, and who has the
// rest.
func harvestable(size, uses cluster.Resources, kept harvest.Reserve, isolated bool) (now cluster.Resources, because string) {
	reserve, counted := kept.Of(size), kept.Counted(uses)
	now = size.Sub(reserve).Sub(counted).Max(cluster.Resources{})
	now.Memory = now.Memory / cluster.MB * cluster.MB
	because = fmt.Sprintf("of %s the primary uses %s, and %s are kept free for it", size.RoundUp(), counted, reserve)
	switch {
	case kept.Step < cluster.Core:
	case isolated:
		because += "; its use counts in whole cores"
	default:
		because += "; its use counts in whole cores, as the kernel does not isolate tasks from it (control groups with cpu.idle, Linux 5.15)"
	}
	return now, because
}
