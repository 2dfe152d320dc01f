package plan

import (
	"math"
	"slices"

	"gleaner/input"
)

// A Reason answers why a dataset does not use a storage unit, or what not using it
// would cost.
type Reason struct {
	Dataset int
	Unit    int
	Uses    bool  // it does, in the cheapest plan
	Other   *Plan // the cheapest plan in which that is the other way round; nil if there is none
	// Price is the highest purchase price of the unit, up to today's, at which the cheapest plan uses it for
	// the dataset; NaN if it never does, not even if the unit is free.
	Price float64
}

// Why finds the reasons of one storage unit for the given datasets. Best is the
// cheapest plan.
func Why(in Input, o Options, best Plan, unit int, datasets []int) ([]Reason, error) {
	plans, err := cheapestByPrice(in, o, unit)
	if err != nil {
		return nil, err
	}
	var out []Reason
	for _, d := range datasets {
		r := Reason{Dataset: d, Unit: unit, Price: highest(plans, in.HW.Units[unit].Price.Price, func(a Architecture) bool { return a[d].uses(unit) })}
		r.Uses = best.Needs.Architecture[d].uses(unit)
		limit := Limit{Dataset: d, Unit: unit, Cache: NoCache, Forbid: r.Uses}
		with := o
		with.Limits = append(slices.Clone(o.Limits), limit)
		p, err := solved(in, with)
		switch {
		case input.Is(err): // no cluster does it
		case err != nil:
			return nil, err
		default:
			r.Other = &p
		}
		out = append(out, r)
	}
	return out, nil
}

// uses reports whether a unit is the store or the cache.
func (c Choice) uses(unit int) bool { return c.Store == unit || c.Cache == unit }

// highest is the highest price, up to today's, at which one of the cheapest plans is
// as wanted; NaN if none is. Cost is a line for every plan, so that the borders are
// where lines cross.
func highest(plans []priced, today float64, wanted func(Architecture) bool) float64 {
	prices := []float64{0, today}
	for i, p := range plans {
		for _, q := range plans[:i] {
			if x := (p.fixed - q.fixed) / (q.units - p.units); x > 0 && x < today {
				prices = append(prices, x)
			}
		}
	}
	slices.Sort(prices)
	slices.Reverse(prices)
	for _, price := range prices {
		least := cheapestAt(plans, price).cost(price)
		for _, p := range plans {
			if wanted(p.arch) && p.cost(price) <= least*(1+1e-9) {
				return price
			}
		}
	}
	return math.NaN()
}
