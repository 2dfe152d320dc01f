package placement

import (
	"math/rand/v2"
	"slices"
)

// Stock places as HDFS does by default (OSDI'16 §5.1): the first replica on the
// server that creates the block, the second in its rack, the third in another,
// more anywhere. It ignores tenants: busy servers are as good as any.
type Stock struct{ *Inventory }

// Place appends servers to those that hold a block's replicas already until there are n.
func (p Stock) Place(have []ServerIndex, creator ServerIndex, n int, r *rand.Rand) ([]ServerIndex, error) {
	placed := have
	if len(placed) == 0 && n > 0 && creator >= 0 && p.free[creator] > 0 {
		placed = append(placed, creator)
	}
	for len(placed) < n {
		next, ok := p.next(placed, r)
		if !ok {
			return have, &DiversityError{Replicas: n, Room: p.openTenants}
		}
		placed = append(placed, next)
	}
	return placed, nil
}

// next puts two replicas in one rack and the third in another; if these have no
// room, it takes any server.
func (p Stock) next(have []ServerIndex, r *rand.Rand) (ServerIndex, bool) {
	switch {
	case len(have) == 2 && p.rack[have[0]] == p.rack[have[1]]:
		for range 4 * tries {
			if s := ServerIndex(r.IntN(len(p.owner))); p.rack[s] != p.rack[have[0]] && p.free[s] > 0 {
				return s, true
			}
		}
	case len(have) == 1 || len(have) == 2:
		near := p.rack[have[r.IntN(len(have))]]
		if s, ok := p.drawFrom(p.racks[near], have, r); ok {
			return s, true
		}
	}
	return p.anywhere(have, r)
}

// Random places replicas on any servers that have room.
type Random struct{ *Inventory }

// Place appends servers to those that hold a block's replicas already until there are n.
func (p Random) Place(have []ServerIndex, _ ServerIndex, n int, r *rand.Rand) ([]ServerIndex, error) {
	placed := have
	for len(placed) < n {
		next, ok := p.anywhere(placed, r)
		if !ok {
			return have, &DiversityError{Replicas: n, Room: p.openTenants}
		}
		placed = append(placed, next)
	}
	return placed, nil
}

// anywhere draws a server with room that is none of have.
func (inv *Inventory) anywhere(have []ServerIndex, r *rand.Rand) (ServerIndex, bool) {
	if len(inv.owner) == 0 {
		return 0, false
	}
	for range 4 * tries {
		if s := ServerIndex(r.IntN(len(inv.owner))); inv.free[s] > 0 && !slices.Contains(have, s) {
			return s, true
		}
	}
	from := r.IntN(len(inv.owner))
	for i := range inv.owner {
		if s := ServerIndex((from + i) % len(inv.owner)); inv.free[s] > 0 && !slices.Contains(have, s) {
			return s, true
		}
	}
	return 0, false
}

// drawFrom draws a server with room that is none of have from a list.
func (inv *Inventory) drawFrom(servers []ServerIndex, have []ServerIndex, r *rand.Rand) (ServerIndex, bool) {
	from := r.IntN(len(servers))
	for i := range servers {
		if s := servers[(from+i)%len(servers)]; inv.free[s] > 0 && !slices.Contains(have, s) {
			return s, true
		}
	}
	return 0, false
}
