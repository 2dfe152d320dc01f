package spec

// A Budget is the most that a plan may take of what its servers share: 0 is any amount.
type Budget struct {
	Power     float64 // watts
	RackUnits float64
}

// budget reads <budget power="5kW" rack_units="42"/>.
func (r *reader) budget(n *node) Budget {
	out := Budget{Power: r.number(n, "power", want{kind: powerKind, positive: true}),
		RackUnits: r.number(n, "rack_units", want{kind: plainKind, positive: true})}
	if out == (Budget{}) {
		r.mistake(n.line, "budget: neither power nor rack_units is given")
	}
	r.done(n)
	return out
}

// stock reads how many pieces of a kind there are.
func (r *reader) stock(n *node) int {
	return r.whole(n, "stock", want{kind: countKind, positive: true})
}
