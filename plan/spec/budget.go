package spec

// A Budget is the most that a plan may take of what its servers share: 0 is any amount.
type Budget struct {
	Power     float64 // watts
	RackUnits float64
	Line      int
}

// budget reads <budget power="5kW" rack_units="42"/>.
func (r *reader) budget(n *node) Budget {
	out := Budget{Line: n.line, Power: r.number(n, "power", want{kind: powerKind, positive: true}),
		RackUnits: r.number(n, "rack_units", want{kind: plainKind, positive: true})}
	_, _, power := r.take(n, "power")
	if _, _, height := r.take(n, "rack_units"); !power && !height {
		r.mistake(n.line, "budget: neither power nor rack_units is given")
	}
	r.done(n)
	return out
}

// NoStock is the Stock of what there is none of: 0 is any number.
const NoStock = -1

// stock reads how many pieces of a kind there are.
func (r *reader) stock(n *node) int {
	if _, _, given := r.take(n, "stock"); !given {
		return 0
	}
	if stock := r.whole(n, "stock", want{kind: countKind}); stock > 0 {
		return stock
	}
	return NoStock
}
