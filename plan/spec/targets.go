package spec

// Targets are the most of each resource that may be used, as a share of what is
// there; 0 is all of it. The rest is headroom.
type Targets struct {
	CPU     float64 // cores of a server
	Memory  float64 // memory of a server for tasks and storage systems
	Network float64
	Bus     float64 // traffic of a bus
	IO      float64 // time of storage units and of task instances
	Space   float64 // capacity of storage units
}

// Full are the targets with all of a resource where none is given.
func (t Targets) Full() Targets {
	for _, x := range t.each() {
		if *x == 0 {
			*x = 1
		}
	}
	return t
}

func (t *Targets) each() []*float64 {
	return []*float64{&t.CPU, &t.Memory, &t.Network, &t.Bus, &t.IO, &t.Space}
}

// targetNames are the attributes of <utilisation>, in the order of each.
var targetNames = []string{"cpu", "memory", "network", "bus", "io", "space"}

// targets reads <utilisation cpu="70%" …/>.
func (r *reader) targets(n *node) Targets {
	var out Targets
	for i, x := range out.each() {
		*x = r.number(n, targetNames[i], want{kind: shareKind, positive: true, most: 1})
	}
	r.done(n)
	return out
}
