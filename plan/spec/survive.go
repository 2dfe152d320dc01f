package spec

// Zones are parts of a cluster that fail as a whole. None are planned if their number is 0.
type Zones struct {
	Number int
	Failed int // that may fail at once while the SLA is met
}

// mostZones is how many can be planned.
const mostZones = 100

// survive reads <survive servers="1"/> or <survive zones="1" of="3"/>: what may fail at
// once while the SLA is met. What would be lost with it is a mistake.
func (r *reader) survive(n *node, app Application) (servers int, zones Zones) {
	if _, _, zoned := r.take(n, "zones"); zoned {
		zones.Failed = r.whole(n, "zones", want{kind: countKind, positive: true, otherwise: 1, most: mostZones})
		zones.Number = r.whole(n, "of", want{kind: countKind, required: true, positive: true, otherwise: mostZones, most: mostZones})
		if zones.Failed >= zones.Number {
			r.mistake(n.line, "survive: %d of %d zones fail: one at least must be left", zones.Failed, zones.Number)
		}
		if _, line, both := r.take(n, "servers"); both {
			r.mistake(line, "survive: either servers or zones may fail: both are given")
		}
	} else {
		servers = r.whole(n, "servers", want{kind: countKind, required: true, positive: true, otherwise: 1, most: 10})
	}
	r.done(n)
	failures := max(servers, zones.Failed)
	for _, d := range app.Datasets {
		switch {
		case d.Remote && d.Persistent && d.Replicas <= failures:
			r.mistake(n.line, "survive: dataset %q of %s must persist and has %d of the %d replicas that survive this", d.Name, app.File, d.Replicas, failures+1)
		case !d.Remote && d.Partitioned:
			r.mistake(n.line, "survive: dataset %q of %s is partitioned over servers: a part of it would be lost", d.Name, app.File)
		}
	}
	return servers, zones
}
