package plan

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"gleaner/input"
	"gleaner/plan/pack"
	"gleaner/plan/spec"
)

// A Certain is the cheapest plan found that meets the SLA in a share of all draws of
// the uncertain numbers.
type Certain struct {
	Level float64 // the share that was asked for
	Plan  *Plan   // nil if none of those tried meets it so often
	Met   float64 // the share of draws in which it meets the SLA
	Bound float64 // no plan that meets so many of these draws costs less
}

// Uncertain is a plan's documents with their uncertain numbers.
type Uncertain struct {
	Median Input   // all at their median; its prices are those of every plan
	Draws  []Input // each a draw of all
	// Worse is the input with every number at the share q of its range that is worse for
	// the SLA.
	Worse func(q float64) (Input, error)
}

// Limits of the search for certainty.
const (
	candidatesOfDraws = 40 // plans of single draws that are tried for all
	worseSteps        = 12 // plans for worse and worse numbers
)

// Certainties finds a plan for each level. Candidates are the plans for single draws and those
// for all numbers at the worse end of their ranges, further and further. A plan meets a
// draw if its servers, with the shares of load they have in the plan, carry it. All
// levels have the same candidates, so that a higher one never costs less.
func Certainties(u Uncertain, o Options, levels []float64, progress func(done, of int)) ([]Certain, error) {
	c := &certainty{u: u, o: o}
	if c.o.Nodes == 0 {
		c.o.Nodes = pointNodes
	}
	for i := range c.u.Draws {
		c.u.Draws[i] = c.u.Draws[i].pricedAs(u.Median)
	}
	steps := len(u.Draws) + worseSteps + candidatesOfDraws
	if err := c.alone(func(i int) { progress(i, steps) }); err != nil {
		return nil, err
	}
	candidates, err := c.candidates()
	if err != nil {
		return nil, err
	}
	for i := range candidates {
		if o.Stop != nil && o.Stop() {
			return nil, ErrStopped
		}
		candidates[i].met = c.met(candidates[i].plan)
		progress(len(u.Draws)+i+1, steps)
	}
	var out []Certain
	for _, level := range levels {
		out = append(out, c.choose(level, candidates))
	}
	return out, nil
}

type certainty struct {
	u      Uncertain
	o      Options
	plans  []*Plan // of each draw alone; nil if nothing meets it
	bounds []float64
}

type candidate struct {
	plan *Plan
	met  int
}

// alone plans for each draw.
func (c *certainty) alone(progress func(int)) error {
	for i, in := range c.u.Draws {
		p, err := c.solve(in)
		if err != nil {
			return err
		}
		c.plans = append(c.plans, p)
		bound := math.Inf(1)
		if p != nil {
			bound = p.LowerBound
		}
		c.bounds = append(c.bounds, bound)
		progress(i + 1)
	}
	slices.Sort(c.bounds)
	return nil
}

// solve plans for an input; nil if nothing meets it.
func (c *certainty) solve(in Input) (*Plan, error) {
	p, err := solved(in, c.o)
	if input.Is(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &p, nil
}

// candidates are plans to try on all draws, the cheapest first.
func (c *certainty) candidates() ([]candidate, error) {
	var own []*Plan
	for _, p := range c.plans {
		if p != nil {
			own = append(own, p)
		}
	}
	byCost := func(a, b *Plan) int { return cmp.Compare(a.Cost, b.Cost) }
	slices.SortStableFunc(own, byCost)
	own = slices.CompactFunc(own, func(a, b *Plan) bool { return a.Cost == b.Cost && a.Needs.Architecture.Equal(b.Needs.Architecture) })
	var all []*Plan
	for i := range min(candidatesOfDraws, len(own)) {
		all = append(all, own[len(own)-1-i*len(own)/min(candidatesOfDraws, len(own))])
	}
	for i := range worseSteps {
		q := 1 - 0.5*float64(worseSteps-1-i)/(worseSteps-1) // from the median to the end
		in, err := c.u.Worse(q)
		if input.Is(err) {
			continue // numbers that make no sense together
		}
		if err != nil {
			return nil, err
		}
		p, err := c.solve(in.pricedAs(c.u.Median))
		if err != nil {
			return nil, err
		}
		if p != nil {
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, byCost)
	var out []candidate
	for _, p := range all {
		out = append(out, candidate{plan: p})
	}
	return out, nil
}

// met counts the draws that a plan meets.
func (c *certainty) met(p *Plan) int {
	n := 0
	for _, in := range c.u.Draws {
		if p.Carries(in) {
			n++
		}
	}
	return n
}

// choose takes the cheapest candidate that meets enough draws.
func (c *certainty) choose(level float64, all []candidate) Certain {
	enough := max(1, ceil(level*float64(len(c.u.Draws))))
	out := Certain{Level: level, Bound: c.bounds[enough-1]}
	for _, k := range all {
		if k.met >= enough {
			out.Plan, out.Met = k.plan, float64(k.met)/float64(len(c.u.Draws))
			out.Bound = min(out.Bound, k.plan.Cost)
			break
		}
	}
	return out
}

// Carries reports whether the servers of a plan, with what is in them and their shares of every load,
// meet an SLA of other numbers.
func (p Plan) Carries(in Input) bool {
	zones := 1
	if in.zoned() {
		one, err := in.zone()
		if err != nil {
			return false
		}
		in, zones = one, in.SLA.Zones.Number
	}
	in.colocated, in.slowest = p.colocated, p.slowest
	needs := NeedsOf(in, p.Needs.Architecture, p.secondsIn(in))
	if needs.Late() {
		return false
	}
	problem := needs.limited(in, nil)
	var contents []pack.Content
	for _, f := range p.Packing.Fillings {
		content := widen(f, p.Problem, problem)
		content.Count /= zones
		for i, n := range f.Bought {
			k := slices.IndexFunc(problem.Purchases, func(b pack.Purchase) bool { return b.Name == p.Problem.Purchases[i].Name })
			if n > 0 && k >= 0 && problem.Purchases[k].Cost != p.Problem.Purchases[i].Cost {
				return false // it is bought by the piece in one and by the copy in the other
			}
		}
		if needs.disturbed(in, problem, content) {
			return false
		}
		contents = append(contents, content)
	}
	_, err := problem.Assemble(contents, nil, 0)
	return err == nil
}

// secondsIn is the time of each phase if the job has the time of another input, in the plan's proportion.
func (p Plan) secondsIn(in Input) []float64 {
	total := 0.0
	for _, s := range p.Needs.Seconds {
		total += s
	}
	var out []float64
	for _, s := range p.Needs.Seconds {
		out = append(out, s*in.SLA.Job.Time/total)
	}
	return out
}

// pricedAs is the input with the prices of another of the same documents.
func (in Input) pricedAs(other Input) Input {
	out := in.clone()
	out.HW.CPU = other.HW.CPU
	for i := range out.HW.Units {
		out.HW.Units[i].Price = other.HW.Units[i].Price
	}
	for i := range out.HW.Servers {
		out.HW.Servers[i].Price, out.HW.Servers[i].Rent = other.HW.Servers[i].Price, other.HW.Servers[i].Rent
	}
	return out
}

// Worse says whether more of a number is worse for the SLA: 1 if it is, -1 if less is
// worse, 0 for prices.
func Worse(n spec.Number) int {
	switch n.Name {
	case "power":
		if n.Of == "budget" {
			return -1
		}
		return 0
	case "price", "hourly", "energy", "energy_price", "years":
		return 0
	case "capacity", "rateR", "rateW", "BW", "slots", "cpus", "hit_rate", "stream_rate", "consumes":
		return -1
	case "stock":
		return -1
	case "memory":
		if strings.HasPrefix(n.Of, "server") {
			return -1 // it comes with it
		}
	case "rack_units":
		if n.Of == "budget" {
			return -1
		}
	case "rate":
		if strings.HasPrefix(n.Of, "currency") {
			return 0
		}
	case "time":
		if strings.HasPrefix(n.Of, "sla") {
			return -1
		}
	}
	return 1
}
