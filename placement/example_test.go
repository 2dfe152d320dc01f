package placement_test

import (
	"fmt"
	"math/rand/v2"

	"gleaner/placement"
)

// Nine tenants, one in each cell. The block is written on server 0, whose tenant
// is seldom reimaged and seldom busy.
func ExampleGrid_Place() {
	var tenants []placement.Tenant
	var servers []placement.Server
	for i := range 9 {
		tenants = append(tenants, placement.Tenant{
			Environment: fmt.Sprintf("environment %d", i), ReimageRate: float64(i / 3), Peak: float64(i%3) / 3,
		})
		servers = append(servers, placement.Server{Tenant: i, Free: 100})
	}
	inventory := placement.NewInventory(tenants, servers)
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
