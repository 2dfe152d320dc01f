package value

import (
	"testing"

	"gleaner/trace/program"
)

func TestAddressCarriesOver(t *testing.T) {
	for in, want := range map[string]string{"127.0.1.26": "127.0.1.26", "127.0.1.300": "127.0.2.44", "127.0.1.60000": "127.0.235.96",
		"node-300": "node-300", "1.2.3": "1.2.3", "300.0.0.1": "300.0.0.1", "": "", "10.0.0.x": "10.0.0.x"} {
		if got := Address(in); got != want {
			t.Errorf("%s became %s, not %s", in, got, want)
		}
	}
}

// Portions add up to the calls that all nodes make together, and no two nodes differ by
// more than one.
func TestPortionsAddUp(t *testing.T) {
	for _, total := range []int{0, 1, 7, 26, 40, 1000} {
		const nodes = 26
		each := program.MustFormula("%d/n", total)
		sum, least, most := 0, total, 0
		for node := range nodes {
			v := Portion(&each, nodes, node)
			sum, least, most = sum+v, min(least, v), max(most, v)
		}
		if sum != total || most > least+1 {
			t.Errorf("%d calls of %d nodes: %d in all, %d to %d each", total, nodes, sum, least, most)
		}
	}
}
