package plan

import (
	"fmt"
	"slices"

	"gleaner/plan/spec"
)

// A day with different rates is a list of levels, hours in which rates stay the same. They
// are to a plan what phases are to a job: every resource of a server is there once in
// each. Data stays where it is, so that a copy of a dataset, and a role with local data, is one
// load with a share for all hours. A role without is a load of its own in each level, because a
// balancer can change its weights.
//
// So a server that is rented by the hour and holds no data does in every level something that has
// nothing to do with the others, and is paid by the hour: it is as many servers, each of one level.
// That is exact, and there are as many types of them as levels, and not one for each set of hours.

// At is the input at one level of the day.
func (in Input) At(level int) Input {
	out := in
	out.SLA.Day = nil
	out.SLA.Rates = slices.Clone(in.SLA.Rates)
	for i, r := range in.SLA.Rates {
		out.SLA.Rates[i].PerSecond, out.SLA.Rates[i].Levels = r.Levels[level], nil
	}
	return out
}

// overTheDay computes the needs of each level and puts them together.
func overTheDay(in Input, open [][]Choice) Needs {
	var out Needs
	var tied []Role                           // with local data
	free := make([][]Role, len(in.App.Tasks)) // by task
	for l, level := range in.SLA.Day {
		n := needsOf(in.At(l), open, nil)
		if l == 0 {
			out = n
			out.Phases, out.Tiers, out.Tasks, out.Roles = nil, nil, nil, nil
		}
		out.Phases = append(out.Phases, level.Name)
		for i, t := range n.Tiers {
			if l == 0 {
				out.Tiers = append(out.Tiers, t)
				continue
			}
			out.Tiers[i].then(t)
		}
		for _, t := range n.Tasks {
			out.Tasks = busiest(out.Tasks, t)
		}
		for _, r := range n.Roles {
			r = r.only(l, len(in.SLA.Day))
			if len(r.Locals) > 0 {
				tied = together(tied, r)
				continue
			}
			r.Hours = level.Name
			free[r.Tasks[0]] = append(free[r.Tasks[0]], r)
		}
	}
	slices.SortFunc(out.Tasks, func(a, b TaskNeed) int { return a.Task - b.Task })
	out.Roles = slices.Concat(append(free, tied)...)
	return out
}

// then adds the next level of a tier.
func (t *Tier) then(next Tier) {
	t.IO, t.Net = append(t.IO, next.IO...), append(t.Net, next.Net...)
	t.Traffic, t.CPU = append(t.Traffic, next.Traffic...), append(t.CPU, next.CPU...)
	t.Least, t.Units = max(t.Least, next.Least), max(t.Units, next.Units)
}

// busiest adds what a task needs in another level.
func busiest(all []TaskNeed, t TaskNeed) []TaskNeed {
	i := slices.IndexFunc(all, func(other TaskNeed) bool { return other.Task == t.Task })
	if i < 0 {
		return append(all, t)
	}
	all[i].Rate, all[i].Instances = max(all[i].Rate, t.Rate), max(all[i].Instances, t.Instances)
	return all
}

// only is a role that runs in one of several levels.
func (r Role) only(level, levels int) Role {
	at := func(x []float64) []float64 {
		out := make([]float64, levels)
		out[level] = x[0]
		return out
	}
	r.CPU, r.Net, r.Memory, r.Held = at(r.CPU), at(r.Net), at(r.Memory), at(r.Held)
	r.Locals = slices.Clone(r.Locals)
	for i, l := range r.Locals {
		r.Locals[i].IO, r.Locals[i].Traffic, r.Locals[i].CPU = at(l.IO), at(l.Traffic), at(l.CPU)
	}
	return r
}

// together adds a role with local data to those of other levels: it is one with all that use some of
// the same data, at whatever time.
func together(all []Role, r Role) []Role {
	var out []Role
	for _, other := range all {
		if slices.ContainsFunc(other.Locals, func(l Local) bool {
			return slices.ContainsFunc(r.Locals, func(m Local) bool { return m.Dataset == l.Dataset })
		}) {
			r = other.with(r)
		} else {
			out = append(out, other)
		}
	}
	return append(out, r)
}

// with is a role that does what both do.
func (r Role) with(other Role) Role {
	r.Tasks = slices.Clone(r.Tasks)
	for _, t := range other.Tasks {
		if !slices.Contains(r.Tasks, t) {
			r.Tasks = append(r.Tasks, t)
		}
	}
	slices.Sort(r.Tasks)
	r.Instances, r.Servers = max(r.Instances, other.Instances), max(r.Servers, other.Servers)
	r.CPU, r.Net, r.Memory, r.Held = sum(r.CPU, other.CPU), sum(r.Net, other.Net), sum(r.Memory, other.Memory), sum(r.Held, other.Held)
	r.Locals = slices.Clone(r.Locals)
	for _, m := range other.Locals {
		i := slices.IndexFunc(r.Locals, func(l Local) bool { return l.Copy == m.Copy })
		if i < 0 {
			r.Locals = append(r.Locals, m)
			continue
		}
		l := &r.Locals[i]
		l.IO, l.Traffic, l.CPU = sum(l.IO, m.IO), sum(l.Traffic, m.Traffic), sum(l.CPU, m.CPU)
	}
	return r
}

func sum(a, b []float64) []float64 {
	out := slices.Clone(a)
	for i, x := range b {
		out[i] += x
	}
	return out
}

// allDay is what servers have that stand all day, and all that holds data demands; during is
// the same of one level.
const allDay = "server all day"

func during(hours string) string { return "server in " + hours }

// elastic reports whether servers may come and go with the hours.
func (in Input) elastic() bool {
	return len(in.SLA.Day) > 0 && slices.ContainsFunc(in.HW.Servers, spec.Server.Rented)
}

// rentedName is the name of a type of server in one level.
func rentedName(s spec.Server, level spec.Level) string {
	return fmt.Sprintf("%q in %s", s.Name, level.Name)
}

// rented finds the type of server, and the level in which it is rented, by that name; the level is nil
// if it stands all day.
func (in Input) rented(name string) (string, *spec.Level) {
	for _, s := range in.HW.Servers {
		for i, level := range in.SLA.Day {
			if s.Rented() && name == rentedName(s, level) {
				return s.Name, &in.SLA.Day[i]
			}
		}
	}
	return name, nil
}

// runs reports whether a server of the problem is there in a level: all are if there is no day.
func (b *builder) runs(server, level int) bool {
	return b.levels[server] == standing || b.levels[server] == level
}

// standing is the level of a server that stands all day.
const standing = -1

// stand gives what stands all day the resources of that.
func (b *builder) stand(v vector) {
	if !b.in.elastic() {
		return
	}
	all := float64(len(b.loads))
	v[allDay] = all
	for _, level := range b.in.SLA.Day {
		v[during(level.Name)] = all
	}
}

// ties makes a load demand servers that are there when it is: in some hours, or all day.
func (b *builder) ties(v vector, hours string) {
	switch {
	case !b.in.elastic():
	case hours == "":
		v[allDay] = 1
	default:
		v[during(hours)] = 1
	}
}

// replaced reports whether servers of a type need not stand all day: nothing in the problem holds data,
// and all hours cost no more one by one.
func (b *builder) replaced(s spec.Server) bool {
	return b.in.elastic() && s.Rented() && s.Price.Price >= s.Rent &&
		!slices.ContainsFunc(b.demands, func(v vector) bool { return v[allDay] > 0 })
}

// hourly is what a server has that is rented in one level: no units but those that come with it.
func (b *builder) hourly(s spec.Server, level int) vector {
	v := serverVector(s, len(b.needs.Phases))
	for _, u := range b.in.HW.Units {
		if u.Cost() > 0 || u.Power > 0 || u.Stock != 0 { // it would count at other hours, too
			delete(v, slotsOf(u.Bus))
		}
	}
	b.boot(s, v)
	for p := range b.needs.Phases {
		if p == level {
			continue
		}
		for _, what := range []string{cores, memory, network} {
			v[byPhase(what, p)] = 0
		}
		for _, bus := range s.Buses {
			v[byPhase(busMBps(bus.Name), p)] = 0
		}
	}
	v[during(b.needs.Phases[level])] = float64(len(b.loads))
	return v
}
