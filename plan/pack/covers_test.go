package pack

import "testing"

// A role needs its data beside it, on one of two kinds of disk. A solution that takes one option is none if a server has the role
// beside the other: that is left out in the end.
func TestCovers(t *testing.T) {
	p := Problem{
		Resources: []string{"cores", "beside"},
		Servers:   []Server{{Name: "s", Cost: 100, Capacity: []float64{1, 0}}},
		Loads: []Load{
			{Name: "role", Amount: 1, Demand: []float64{0.5, 1}},
			{Name: "on hdd", Amount: 1, Demand: []float64{0.1, -1}},
			{Name: "on ssd", Amount: 1, Demand: []float64{0.1, -1}},
		},
		Choices: []Choice{{Name: "data", Options: []Option{{Loads: []int{1}}, {Loads: []int{2}}}}},
	}
	tree, err := newTree(&p, Options{NodeLimit: 1})
	if err != nil {
		t.Fatal(err)
	}
	server := func(role, hdd, ssd float64) stock {
		return stock{column{0, filling{y: []float64{role, hdd, ssd}, v: []int{}}, 100}, 1}
	}
	for _, tc := range []struct {
		stocks []stock
		taken  int
		want   bool
	}{
		{[]stock{server(1, 1, 0)}, 0, true},
		{[]stock{server(1, 1, 1)}, 0, true}, // what is on ssd is left out, and nothing needs it
		{[]stock{server(1, 1, 0)}, 1, false},
		{[]stock{server(0.5, 1, 0), server(0.5, 0, 0.5)}, 0, false}, // half of the role is beside the other
	} {
		if got := tree.covers(tc.stocks, []int{tc.taken}); got != tc.want {
			t.Errorf("%+v with option %d: %v", tc.stocks, tc.taken, got)
		}
	}
}
