package plan

import (
	"fmt"

	"gleaner/plan/pack"
	"gleaner/plan/spec"
)

// Homogeneous is what scaling out costs: every dataset is on one kind of unit, there
// are no caches, and every server that holds data is a building block with all slots
// of the unit's bus filled (Section 5.2). Tasks without local data run on servers
// without units. It knows no stock and no budgets. It serves only for comparison, so that a gap of 1% suffices.
func Homogeneous(in Input, o Options, unit int) (Plan, error) {
	if in.zoned() {
		one, err := in.unlimited().zone()
		if err != nil {
			return Plan{}, err
		}
		p, err := Homogeneous(one, o, unit)
		p.Cost *= float64(in.SLA.Zones.Number)
		p.LowerBound *= float64(in.SLA.Zones.Number)
		return p, err
	}
	if o.Pack == nil {
		o.Pack = pack.Solve
	}
	in = in.unlimited()
	arch := make(Architecture, len(in.App.Datasets))
	for d := range arch {
		arch[d] = Choice{unit, NoCache}
	}
	o.Gap = max(o.Gap, 1e-2)
	if o.Nodes == 0 {
		o.Nodes = 5 * pointNodes // there are no choices to rule out
	}
	out := Plan{Needs: NeedsOf(in, arch, nil), Space: 1}
	if out.Needs.Late() {
		return Plan{}, fmt.Errorf("plan: all on %s is too slow for the latency goals", in.HW.Units[unit].Name)
	}
	if in.SLA.Job != nil {
		p, err := Fixed(in, o, arch) // it splits the time of the job
		if err != nil {
			return Plan{}, err
		}
		out.Needs, out.Packed, out.Stopped = p.Needs, p.Packed, p.Stopped
	}
	needs := out.Needs
	plain, blocks := needs, needs
	plain.Tiers, plain.Roles, blocks.Roles = nil, nil, nil
	for _, r := range needs.Roles {
		if len(r.Locals) > 0 {
			blocks.Roles = append(blocks.Roles, r)
		} else {
			plain.Roles = append(plain.Roles, r)
		}
	}
	for _, kind := range []struct {
		needs Needs
		in    Input
	}{{plain, in}, {blocks, in.blocks(unit)}} {
		for _, part := range kind.needs.parts(false) {
			sol, err := o.Pack(part.Problem(kind.in), pack.Options{Gap: o.Gap, NodeLimit: o.Nodes, Interrupt: o.Stop})
			if err != nil {
				return Plan{}, fmt.Errorf("plan: all on %s: %w", in.HW.Units[unit].Name, err)
			}
			out.Cost += sol.Cost
			out.LowerBound += sol.LowerBound
		}
	}
	return out, nil
}

// blocks is the input with servers that come with all slots filled.
func (in Input) blocks(unit int) Input {
	out := in
	out.HW.Servers = append([]spec.Server(nil), in.HW.Servers...)
	out.HW.Units = append([]spec.Unit(nil), in.HW.Units...)
	u := in.HW.Units[unit]
	for i, s := range out.HW.Servers {
		for _, b := range s.Buses {
			if b.Name == u.Bus {
				out.HW.Servers[i].Price.Price += float64(b.Slots) * u.Cost()
			}
		}
	}
	out.HW.Units[unit].Price = spec.Price{}
	return out
}

// Blocks lists the kinds of units that any dataset may lie on.
func Blocks(in Input) []int {
	var out []int
	for u, unit := range in.HW.Units {
		if !unit.Volatile {
			out = append(out, u)
		}
	}
	return out
}
