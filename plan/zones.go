package plan

import (
	"math"
	"slices"

	"gleaner/input"
	"gleaner/plan/spec"
)

// A zone is what fails as a whole: a rack, a room, a site. All zones of a plan are alike,
// so that one is planned and bought as often as there are zones. If f of Z zones fail, each
// of the others has 1 / (Z - f) of all executions. R replicas of a record are in R zones, or
// evenly in all if these are fewer: a zone has R / Z of all bytes and takes R / Z of all
// writes, whether others fail or not. What has no replica that outlives the failure is
// filled again in the zones that are left.

// zoned reports whether an input is about several zones.
func (in Input) zoned() bool { return in.SLA.Zones.Number > 0 && !in.inZone }

// zone is the input of one zone.
func (in Input) zone() (Input, error) {
	z := float64(in.SLA.Zones.Number)
	part := 1 / float64(in.SLA.Zones.Number-in.SLA.Zones.Failed)
	out := in.clone()
	out.inZone = true
	for i, r := range in.SLA.Rates {
		out.SLA.Rates[i] = r.Times(part)
	}
	if in.SLA.Job != nil {
		job := *in.SLA.Job
		job.Bytes, job.Records = job.Bytes*part, job.Records*part
		out.SLA.Job = &job
	}
	out.SLA.Budget = spec.Budget{Line: in.SLA.Budget.Line, Power: in.SLA.Budget.Power / z, RackUnits: in.SLA.Budget.RackUnits / z}
	out.SLA.Least = int(math.Ceil(float64(in.SLA.Least) / z))
	for i, s := range in.HW.Servers {
		out.HW.Servers[i].Stock = in.stockInZone(s.Stock)
	}
	for i, u := range in.HW.Units {
		out.HW.Units[i].Stock = in.stockInZone(u.Stock)
	}
	if in.Harvested != nil && in.SLA.Job != nil {
		return out, input.Errorf(in.SLA.File, "survive: harvested capacity is not planned in zones")
	}
	return out, nil
}

// stockInZone is the part of a stock that a zone may have.
func (in Input) stockInZone(stock int) int {
	if stock != 0 && stock < in.SLA.Zones.Number {
		return spec.NoStock
	}
	return stock / in.SLA.Zones.Number
}

// inEach is how many of some servers there are at least in each zone.
func (in Input) inEach(servers int) int {
	return (servers + in.SLA.Zones.Number - 1) / in.SLA.Zones.Number
}

// keptInZone says how a remote copy is kept in a zone.
func (in Input) keptInZone(c Copy) kept {
	d := in.data(c)
	z, left := float64(in.SLA.Zones.Number), float64(in.SLA.Zones.Number-in.SLA.Zones.Failed)
	out := kept{1, 1, 1 / left, max(1, in.inEach(d.Spread))}
	if c.Cache {
		return out
	}
	out.servers = max(out.servers, in.inEach(d.Replicas))
	if replicas := float64(max(1, d.Replicas)); d.Replicas > in.SLA.Zones.Failed {
		out.writes, out.space = replicas*left/z, replicas/z
	}
	return out
}

// everywhere is the plan of all zones, given that of one.
func (p Plan) everywhere(in Input) Plan {
	z := in.SLA.Zones.Number
	p.Cost *= float64(z)
	p.LowerBound *= float64(z)
	p.Packing.Cost *= float64(z)
	p.Packing.LowerBound *= float64(z)
	p.Packing.Fillings = slices.Clone(p.Packing.Fillings)
	for i := range p.Packing.Fillings {
		p.Packing.Fillings[i].Count *= z
	}
	p.Needs = p.Needs.times(float64(z))
	for i := range p.Needs.Tasks {
		p.Needs.Tasks[i].Rate *= float64(z - in.SLA.Zones.Failed)
	}
	p.count(in)
	return p
}

// times are the needs of so many clusters that each have these.
func (n Needs) times(z float64) Needs {
	all := func(of []float64) []float64 {
		out := slices.Clone(of)
		for i := range out {
			out[i] *= z
		}
		return out
	}
	n.Tasks, n.Tiers, n.Roles = slices.Clone(n.Tasks), slices.Clone(n.Tiers), slices.Clone(n.Roles)
	for i := range n.Tiers {
		t := &n.Tiers[i]
		t.Capacity, t.Least = z*t.Capacity, z*t.Least
		t.IO, t.Net, t.Traffic, t.CPU = all(t.IO), all(t.Net), all(t.Traffic), all(t.CPU)
	}
	for i := range n.Roles {
		r := &n.Roles[i]
		r.Instances *= z
		r.CPU, r.Net, r.Memory, r.Locals = all(r.CPU), all(r.Net), all(r.Memory), slices.Clone(r.Locals)
		for k := range r.Locals {
			l := &r.Locals[k]
			l.Capacity *= z
			l.IO, l.Traffic, l.CPU = all(l.IO), all(l.Traffic), all(l.CPU)
		}
	}
	return n
}
