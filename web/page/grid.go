package page

import (
	"fmt"

	"gleaner/cluster"
	"gleaner/fabric"
)

// A Grid is how the tenants are divided: in columns by how often they are reimaged and in rows by how busy they get.
type Grid struct {
	Title string
	Cells []Cell
	Says  []string // how well replicas are placed by it
}

// A Cell is one of a grid, by its row (0 the lowest peaks) and its column (0 the fewest reimages, 3 what gets no replicas
// while there is room elsewhere).
type Cell struct {
	Row, Column      int
	Tenants, Servers int
	Free             cluster.Bytes
	Replicas         int // -1 if they are not known
}

// Columns are the headings of the grid.
func (g Grid) Columns() []string {
	names := []string{"Reimaged seldom", "Sometimes", "Often"}
	for _, c := range g.Cells {
		if c.Column == len(names) {
			return append(names, "Most often")
		}
	}
	return names
}

// A GridRow is one row of a grid, with its cells from left to right.
type GridRow struct {
	Name  string
	Cells []Cell
}

// Rows are those of the grid, the highest peaks first.
func (g Grid) Rows() (rows []GridRow) {
	for row, name := range []string{"Low peaks", "Medium peaks", "High peaks"} {
		r := GridRow{Name: name, Cells: make([]Cell, len(g.Columns()))}
		for _, c := range g.Cells {
			if c.Row == row {
				r.Cells[c.Column] = c
			}
		}
		rows = append([]GridRow{r}, rows...)
	}
	return rows
}

// lentGrids are the grids of the disks that are lent.
func lentGrids(all []fabric.Grid) (out []Grid) {
	for _, g := range all {
		shown := Grid{Title: "Disks of " + g.Tier + " that are lent"}
		for _, c := range g.Cells {
			shown.Cells = append(shown.Cells, Cell{c.Row, c.Column, c.Tenants, c.Servers, c.Free, c.Replicas})
		}
		shown.Says = placed(g.Placement)
		out = append(out, shown)
	}
	return out
}

// placed says how well replicas are kept apart.
func placed(p fabric.Placement) []string {
	if p.Groups == 0 {
		return []string{"No group has two replicas here, so there is nothing to keep apart."}
	}
	says := []string{fmt.Sprintf("Of %s with two replicas or more, %d keep every wish.", count(p.Groups, "group"), p.Well)}
	for _, w := range p.Wishes {
		says = append(says, fmt.Sprintf("Different %s: %d of %d.", w.Different, w.Kept, p.Groups))
	}
	return says
}
