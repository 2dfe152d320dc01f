package plan

import (
	"math"

	"gleaner/input"
	"gleaner/plan/spec"
)

// A Range is how far an attribute may move before another architecture, not
// just more of the same, is cheapest (Table 3(a)).
type Range struct {
	Attribute
	Low, High float64 // the last values that keep the architecture
	// Open sides: nothing changed down to 0, or up to Far times the value.
	LowOpen, HighOpen bool
}

// Far is the largest factor that is tried.
const Far = 100.0

// Keeps finds the range of one attribute around its value, each side to 1%.
func Keeps(in Input, o Options, base Architecture, a Attribute) (Range, error) {
	out := Range{Attribute: a, Low: a.Value, High: a.Value}
	same := func(v float64) (bool, error) {
		changed := in.clone()
		a.set(&changed, v)
		p, err := solved(changed, o)
		if input.Is(err) {
			return false, nil // no cluster at all
		}
		return err == nil && p.Needs.Architecture.Equal(base), err
	}
	var err error
	if out.Low, out.LowOpen, err = a.walk(same, []float64{.9, .8, .7, .6, .5, .4, .3, .2, .1, .05, .01}, a.least); err != nil {
		return out, err
	}
	out.High, out.HighOpen, err = a.walk(same, []float64{1.1, 1.25, 1.5, 2, 3, 5, 10, 20, 50, Far}, math.Inf(1))
	return out, err
}

// walk moves away from the value by factors until the architecture changes, and then
// narrows down where it did.
func (a Attribute) walk(same func(float64) (bool, error), factors []float64, end float64) (last float64, open bool, err error) {
	last = a.Value
	for _, f := range factors {
		v := a.Value * f
		if a.whole {
			v = math.Round(v)
		}
		v = min(max(v, a.least), a.most)
		if v == last {
			continue
		}
		ok, err := same(v)
		if err != nil {
			return last, false, err
		}
		if !ok {
			last, err = a.close(same, last, v)
			return last, false, err
		}
		last = v
	}
	if end == 0 {
		if ok, err := same(0); err != nil || ok {
			return 0, true, err
		}
	}
	return last, true, nil
}

// close bisects between a value that keeps the architecture and one that does not.
func (a Attribute) close(same func(float64) (bool, error), keeps, breaks float64) (float64, error) {
	for math.Abs(keeps-breaks) > 0.01*a.Value {
		v := (keeps + breaks) / 2
		if a.whole {
			if v = math.Round(v); v == keeps || v == breaks {
				return keeps, nil
			}
		}
		ok, err := same(v)
		if err != nil {
			return keeps, err
		}
		if ok {
			keeps = v
		} else {
			breaks = v
		}
	}
	return keeps, nil
}

// A Sensitivity is the smallest drop in a storage unit's price that moves a
// dataset (Table 3(b)).
type Sensitivity struct {
	Dataset int
	Unit    int     // whose price drops; -1 if no drop moves the dataset
	Drop    float64 // share of its price, in whole percents
	To      Choice  // where the dataset moves
}

// Sensitivities lowers the price of each storage unit percent by percent and
// notes when the choice for a dataset changes.
func Sensitivities(in Input, o Options, base Architecture) ([]Sensitivity, error) {
	out := make([]Sensitivity, len(base))
	for d := range out {
		out[d] = Sensitivity{Dataset: d, Unit: -1, Drop: math.Inf(1)}
	}
	for u := range in.HW.Units {
		plans, err := cheapestByPrice(in, o, u)
		if err != nil {
			return nil, err
		}
		for percent := 1; percent <= 100; percent++ {
			drop := float64(percent) / 100
			for d, c := range cheapestAt(plans, in.HW.Units[u].Price.Price*(1-drop)).arch {
				if c != base[d] && drop < out[d].Drop {
					out[d] = Sensitivity{d, u, drop, c}
				}
			}
		}
	}
	return out, nil
}

// A priced is a plan's cost as a function of the price of one storage unit: a line.
type priced struct {
	arch  Architecture
	fixed float64 // its cost without the prices of these units
	units float64 // how many it has
}

func (p priced) cost(price float64) float64 { return p.fixed + price*p.units }

// cheapestByPrice returns plans of which one is the cheapest at every price of a unit
// up to today's. The cheapest cost is the minimum of all plans' lines: so at the
// intersection of two lines, either no plan is cheaper, and none is cheapest in
// between, or another line is found.
func cheapestByPrice(in Input, o Options, unit int) ([]priced, error) {
	at := func(price float64) (priced, error) {
		cheaper := in.Priced(unit, price)
		p, err := solved(cheaper, o)
		out := priced{arch: p.Needs.Architecture, fixed: p.Cost}
		for _, l := range p.Bill(cheaper) {
			if l.What == in.HW.Units[unit].Name {
				out.units = float64(l.Count)
			}
		}
		out.fixed -= price * out.units
		return out, err
	}
	now, err := at(in.HW.Units[unit].Price.Price)
	if err != nil {
		return nil, err
	}
	free, err := at(0)
	if err != nil {
		return nil, err
	}
	out := []priced{now, free}
	var between func(low, high priced) error
	between = func(low, high priced) error {
		if low.units <= high.units {
			return nil // the same line, except for ties
		}
		price := (high.fixed - low.fixed) / (low.units - high.units)
		mid, err := at(price)
		if err != nil || mid.cost(price) >= high.cost(price)*(1-1e-9) {
			return err
		}
		out = append(out, mid)
		if err := between(low, mid); err != nil {
			return err
		}
		return between(mid, high)
	}
	return out, between(free, now)
}

// cheapestAt is the cheapest plan at a price; of equals the one found first.
func cheapestAt(plans []priced, price float64) priced {
	best := plans[0]
	for _, p := range plans[1:] {
		if p.cost(price) < best.cost(price)*(1-1e-9) {
			best = p
		}
	}
	return best
}

// Energy returns the input with all energy costs times k.
func (in Input) Energy(k float64) Input {
	out := in.clone()
	out.HW.CPU.Energy *= k
	for i := range out.HW.Units {
		out.HW.Units[i].Energy *= k
	}
	for i := range out.HW.Servers {
		out.HW.Servers[i].Energy *= k
	}
	return out
}

// clone copies the input so that attributes may be changed.
func (in Input) clone() Input {
	out := in
	out.HW.Units = append([]spec.Unit(nil), in.HW.Units...)
	out.HW.Servers = append([]spec.Server(nil), in.HW.Servers...)
	for i := range out.HW.Servers {
		out.HW.Servers[i].Buses = append([]spec.Bus(nil), in.HW.Servers[i].Buses...)
	}
	out.App.Datasets = append([]spec.Dataset(nil), in.App.Datasets...)
	out.App.Systems = append([]spec.System(nil), in.App.Systems...)
	for i := range out.App.Systems {
		out.App.Systems[i].Rates = append([]spec.Rates(nil), in.App.Systems[i].Rates...)
	}
	out.App.Tasks = append([]spec.Task(nil), in.App.Tasks...)
	for t := range out.App.Tasks {
		path := append([]spec.Op(nil), in.App.Tasks[t].Path...)
		for i := range path {
			if path[i].IO != nil {
				io := *path[i].IO
				path[i].IO = &io
			}
			if path[i].Call != nil {
				call := *path[i].Call
				path[i].Call = &call
			}
		}
		out.App.Tasks[t].Path = path
	}
	out.SLA = in.SLA.Scaled(1)
	return out
}

// Priced returns the input with another price of one storage unit.
func (in Input) Priced(unit int, price float64) Input {
	out := in.clone()
	out.HW.Units[unit].Price.Price = price
	return out
}
