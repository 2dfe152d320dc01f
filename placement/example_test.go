package placement_test

import (
	"fmt"
	"math/rand/v2"

	"gleaner/placement"
)

// Nine tenants, one in each cell. The block is written on server 0, whose tenant
// is seldom reimaged and seldom busy.
func ExampleGrid_Place() {
	inventory := placement.NewInventory(256 << 20)
	for i := range 9 {
		tenant := inventory.AddTenant(placement.Tenant{
			Environment: fmt.Sprintf("environment %d", i), ReimageRate: float64(i / 3), Peak: float64(i%3) / 3,
		})
		inventory.AddServer(placement.Server{Tenant: tenant}, 25<<30)
	}
	grid := placement.NewGrid(inventory, placement.Paper)

	replicas, err := grid.Place(nil, 0, 3, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range replicas {
		inventory.Take(s)
	}
	fmt.Printf("%+v\n", grid.Quality(replicas))
	// Output: {Replicas:3 Rows:3 Columns:3 Environments:3 Functions:1 Racks:1}
}
