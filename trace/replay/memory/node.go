package memory

import (
	"math/rand/v2"

	"gleaner/trace/program"
	"gleaner/trace/replay/plan"
	"gleaner/trace/value"
)

// A Node is who a node is and what it knows by itself.
type Node struct {
	Kind    *plan.Kind
	Rank    int
	Sender  string
	Address string
	Chance  rand.Rand
	Made    []int32 // how often each of its calls was made, by plan.Site.Local

	pcg    rand.PCG  // behind Chance
	own    []posting // its own calls
	pools  [][]*item
	used   map[*item]bool // values from others' calls that it has used
	parked []Waiter       // for a value

	renewals *renewals // nil until there are some
}

// Init makes a node, in its place: its chance points into it.
func (n *Node) Init(k *plan.Kind, rank, scale int, seed uint64) {
	*n = Node{Kind: k, Rank: rank, Made: make([]int32, len(k.Sites)), own: make([]posting, len(k.Own))}
	if k.Pools > 0 {
		n.pools = make([][]*item, k.Pools)
	}
	n.pcg = *rand.NewPCG(seed, uint64(k.At)<<32|uint64(rank))
	n.Chance = *rand.New(&n.pcg)
	scene := value.Scene{Place: value.Place{Scale: scale, Node: rank}, Chance: &n.Chance}
	fill := func(t program.Template) string {
		return t.Fill(func(h *program.Hole) string {
			text, _ := scene.Hole(h)
			return text
		})
	}
	n.Sender, n.Address = fill(k.Sender), value.Address(fill(k.Address))
}

// owns reports whether a pool has values of the node's own calls.
func (n *Node) owns(pool *[]*item) bool {
	for i := range n.pools {
		if &n.pools[i] == pool {
			return true
		}
	}
	return false
}
