package placement

import "gleaner/cluster"

// A Cell is what a cell of a grid has.
type Cell struct {
	Row, Column      int // as Grid.Cell has them
	Tenants, Servers int // with disks
	Free             cluster.Bytes
}

// Cells are the cells of the grid, column by column: nine, or twelve with the rule
// Seldom.
func (g *Grid) Cells() []Cell {
	n := side * side
	if g.Rules.Soft&Seldom != 0 {
		n = columns * side
	}
	all := make([]Cell, n)
	for i := range all {
		all[i] = Cell{Row: i % side, Column: i / side}
	}
	seen := map[TenantIndex]bool{}
	for s, disks := range g.disks {
		if len(disks) == 0 {
			continue
		}
		row, column := g.Cell(ServerIndex(s))
		c := &all[column*side+row]
		c.Servers++
		c.Free += cluster.Bytes(g.Free(ServerIndex(s))) * g.block
		if owner := g.owner[s]; !seen[owner] {
			seen[owner] = true
			c.Tenants++
		}
	}
	return all
}
