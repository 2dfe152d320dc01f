package plan

// Copies of a record lie on different servers. If no server has more than 1/R of all
// copies, they can be laid out that way: one after the other, each server filled up
// in turn (McNaughton's rule). So R replicas are R times the bytes with a limit to
// what a server may hold, and need no decision of their own.
//
// If a load is on k servers or more, none with more than 1/k of it, and f of them
// fail, the others take up to k/(k-f) of what they had. Servers are bought for that.
// k does not follow from R: with more replicas less of a server's load would have to be
// taken over, and a safer cluster could cost less than a plain one.

// kept is how much more of a copy there is than one of every record.
type kept struct {
	reads, writes, space float64
	servers              int // that share it at least
}

// servers is over how many servers a load is spread at least.
func (in Input) servers(spread int) int {
	if in.inZone {
		spread = in.inEach(spread)
	}
	return max(1, spread, in.SLA.Survive+1)
}

// spare is how much more than its part each of so many servers carries when some
// failed.
func (in Input) spare(servers int) float64 {
	return float64(servers) / float64(servers-in.SLA.Survive)
}

// kept says how a remote copy is kept. A cache, and data that may be lost, has no
// replicas: it is filled again on the servers that are left, with all it takes.
func (in Input) kept(c Copy) kept {
	if in.inZone {
		return in.keptInZone(c)
	}
	d := in.data(c)
	replicas := max(1, d.Replicas)
	if c.Cache {
		replicas = 1
	}
	n := in.servers(d.Spread)
	out := kept{in.spare(n), in.spare(n), in.spare(n), max(n, replicas)}
	if replicas > in.SLA.Survive && !c.Cache {
		out.writes, out.space = float64(replicas), float64(replicas)
	}
	return out
}

// sends is how often a task sends what it accesses: a record that it writes goes to
// every replica.
func (in Input) sends(a access) float64 {
	if !a.write {
		return 1
	}
	replicas := float64(max(1, in.App.Datasets[a.dataset].Replicas))
	if in.inZone {
		replicas *= 1 - float64(in.SLA.Zones.Failed)/float64(in.SLA.Zones.Number)
	}
	return max(1, replicas)
}
