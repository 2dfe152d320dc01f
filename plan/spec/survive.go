package spec

// survive reads <survive servers="1"/>: how many servers may fail at once while the
// SLA is met. What would be lost with a server is a mistake.
func (r *reader) survive(n *node, app Application) int {
	failures := r.whole(n, "servers", want{kind: countKind, required: true, positive: true, otherwise: 1, most: 10})
	r.done(n)
	for _, d := range app.Datasets {
		switch {
		case d.Remote && d.Persistent && d.Replicas <= failures:
			r.mistake(n.line, "survive: dataset %q of %s must persist and has %d of the %d replicas that survive this", d.Name, app.File, d.Replicas, failures+1)
		case !d.Remote && d.Partitioned:
			r.mistake(n.line, "survive: dataset %q of %s is partitioned over servers: a part of it would be lost", d.Name, app.File)
		}
	}
	return failures
}
