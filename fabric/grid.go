package fabric

import (
	"context"

	"gleaner/cluster"
	"gleaner/placement"
)

// A Grid is how the disks of a tier are divided by the habits of their owners, and how far apart the replicas are (OSDI'16 §4.2).
type Grid struct {
	Tier      string
	Cells     []GridCell
	Placement Placement // of the groups whose first good replica is on this tier
}

// A GridCell is what a cell of a grid has.
type GridCell struct {
	placement.Cell
	Replicas int
}

// Grids are those of the tiers that have disks. It reads all groups.
func (f *Front) Grids(ctx context.Context) ([]Grid, error) {
	all := f.pool.grids()
	for g, err := range f.maps.Groups(ctx) {
		if err != nil {
			return nil, err
		}
		f.pool.count(all, g.Good)
	}
	var out []Grid
	for _, tier := range tiers {
		if g := all[tier]; g != nil {
			out = append(out, *g)
		}
	}
	return out, nil
}

// grids are without replicas yet.
func (p *pool) grids() map[cluster.Tier]*Grid {
	rules := p.rules()
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[cluster.Tier]*Grid{}
	for _, tier := range tiers {
		g := &Grid{Tier: string(tier), Placement: newPlacement(rules)}
		servers := 0
		for _, c := range p.fleets[tier].grid.Cells() {
			g.Cells = append(g.Cells, GridCell{Cell: c})
			servers += c.Servers
		}
		if servers > 0 {
			all[tier] = g
		}
	}
	return all
}

// count adds a group's good replicas to the cells that they are in.
func (p *pool) count(all map[cluster.Tier]*Grid, disks []cluster.DiskID) {
	quality, choice, tier := p.quality(disks)
	if g := all[tier]; g != nil {
		g.Placement.add(quality, choice, tier)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range disks {
		d, here := p.disks[id]
		if !here || all[d.tier] == nil {
			continue
		}
		s, known := p.fleets[d.tier].Server(d.on)
		if !known {
			continue
		}
		row, column := p.fleets[d.tier].grid.Cell(s)
		for i, c := range all[d.tier].Cells {
			if c.Row == row && c.Column == column {
				all[d.tier].Cells[i].Replicas++
			}
		}
	}
}
