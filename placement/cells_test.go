package placement

import (
	"testing"

	"gleaner/cluster"
)

// Nine tenants of equal space have a cell each: by how often they are reimaged, and then by their peaks. A server without a disk is in none.
func TestCellsHaveTheirTenants(t *testing.T) {
	inv := NewInventory(cluster.MB)
	for i := range 9 {
		owner := inv.AddTenant(Tenant{ReimageRate: float64(i / 3), Peak: float64(i % 3)})
		inv.AddServer(Server{Tenant: owner}, 10*cluster.MB)
		inv.AddServer(Server{Tenant: owner})
	}
	cells := NewGrid(inv, Paper).Cells()
	if len(cells) != 9 {
		t.Fatalf("%d cells", len(cells))
	}
	for i, c := range cells {
		if want := (Cell{Row: i % 3, Column: i / 3, Tenants: 1, Servers: 1, Free: 10 * cluster.MB}); c != want {
			t.Errorf("%+v, want %+v", c, want)
		}
	}
	servers := 0
	cells = NewGrid(inv, History).Cells()
	for _, c := range cells {
		servers += c.Servers
	}
	if len(cells) != 12 || servers != 9 {
		t.Errorf("with the rule Seldom %d cells have %d servers", len(cells), servers)
	}
}
