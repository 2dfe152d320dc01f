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
	return in.flat(func(r spec.Rate) float64 { return r.Levels[level] })
}

// flat is the input with one rate of each task all day.
func (in Input) flat(rate func(spec.Rate) float64) Input {
	out := in
	out.SLA.Day = nil
	out.SLA.Rates = slices.Clone(in.SLA.Rates)
	for i, r := range in.SLA.Rates {
		out.SLA.Rates[i].PerSecond, out.SLA.Rates[i].Levels = rate(r), nil
	}
	return out
}

// overTheDay computes the needs of each level and puts them together.
func overTheDay(in Input, open [][]Choice) Needs {
	levels := make([]Needs, len(in.SLA.Day))
	for l := range levels {
		levels[l] = needsOf(in.At(l), open, nil)
	}
	// All that runs at any time, and what belongs together. Tasks are busiest at different times, so that
	// how much there is of each is known from the levels only.
	out := needsOf(in.flat(func(r spec.Rate) float64 { return slices.Max(r.Levels) }), open, nil)
	roles := out.Roles
	out.Phases, out.Roles = nil, nil
	for _, level := range in.SLA.Day {
		out.Phases = append(out.Phases, level.Name)
	}
	for i := range out.Tiers {
		out.Tiers[i] = tierOver(levels, i)
	}
	for i := range out.Tasks {
		out.Tasks[i].busiest(levels)
	}
	for _, r := range roles {
		if len(r.Locals) > 0 {
			out.Roles = append(out.Roles, r.over(levels))
			continue
		}
		for l, level := range levels {
			for _, now := range level.Roles {
				if slices.Equal(now.Tasks, r.Tasks) {
					now.Hours = out.Phases[l]
					out.Roles = append(out.Roles, now.widened(l, len(levels)))
				}
			}
		}
	}
	return out
}

// busiest sets a task's rate to that of the level in which it is highest.
func (t *TaskNeed) busiest(levels []Needs) {
	t.Rate, t.Instances = 0, 0
	for _, level := range levels {
		for _, now := range level.Tasks {
			if now.Task == t.Task {
				t.Rate, t.Instances = max(t.Rate, now.Rate), max(t.Instances, now.Instances)
			}
		}
	}
}

// tierOver is a tier of all levels: what it needs in each, and units for all of them.
func tierOver(levels []Needs, i int) Tier {
	out := levels[0].Tiers[i]
	for _, level := range levels[1:] {
		next := level.Tiers[i]
		out.IO, out.Net = append(out.IO, next.IO...), append(out.Net, next.Net...)
		out.Traffic, out.CPU = append(out.Traffic, next.Traffic...), append(out.CPU, next.CPU...)
		out.Least, out.Units = max(out.Least, next.Least), max(out.Units, next.Units)
	}
	return out
}

// over is a role with local data in all levels. Its instances, and what they hold, are there all day; what
// they do is what those of its tasks do that run in a level.
func (r Role) over(levels []Needs) Role {
	held := r.Held[0]
	out := r.widened(-1, len(levels))
	out.Instances = 1
	for l := range levels {
		out.Held[l] = held
		for _, now := range levels[l].Roles {
			if !slices.Contains(r.Tasks, now.Tasks[0]) {
				continue
			}
			out.Instances = max(out.Instances, now.Instances)
			out.CPU[l] += now.CPU[0]
			out.Net[l] += now.Net[0]
			out.Memory[l] += now.Memory[0]
			for _, some := range now.Locals {
				i := slices.IndexFunc(out.Locals, func(of Local) bool { return of.Copy == some.Copy })
				out.Locals[i].IO[l] += some.IO[0]
				out.Locals[i].Traffic[l] += some.Traffic[0]
				out.Locals[i].CPU[l] += some.CPU[0]
			}
		}
	}
	return out
}

// widened is a role that does in one of several levels what it did in the only one; in none if the level is
// not one of them.
func (r Role) widened(level, levels int) Role {
	at := func(x []float64) []float64 {
		out := make([]float64, levels)
		if level >= 0 {
			out[level] = x[0]
		}
		return out
	}
	r.CPU, r.Net, r.Memory, r.Held = at(r.CPU), at(r.Net), at(r.Memory), at(r.Held)
	r.Locals = slices.Clone(r.Locals)
	for i, l := range r.Locals {
		r.Locals[i].IO, r.Locals[i].Traffic, r.Locals[i].CPU = at(l.IO), at(l.Traffic), at(l.CPU)
	}
	return r
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
// nothing is put into them that costs, and all hours cost no more one by one.
func (b *builder) replaced(s spec.Server) bool {
	return b.in.elastic() && s.Rented() && s.Price.Price >= s.Rent &&
		!slices.ContainsFunc(s.Buses, func(bus spec.Bus) bool { return b.in.paid(bus.Name) }) &&
		!slices.ContainsFunc(b.demands, func(v vector) bool { return v[allDay] > 0 })
}

// paid reports whether a unit on a bus costs anything, or counts in the power or the stock of other hours:
// a server that is rented by the hour has none of these.
func (in Input) paid(bus string) bool {
	return slices.ContainsFunc(in.HW.Units, func(u spec.Unit) bool {
		return u.Bus == bus && (u.Cost() > 0 || u.Power > 0 || u.Stock != 0)
	})
}

// hourly is what a server has that is rented in one level: no units but those that come with it.
func (b *builder) hourly(s spec.Server, level int) vector {
	v := serverVector(s, len(b.needs.Phases))
	for _, bus := range s.Buses {
		if b.in.paid(bus.Name) {
			delete(v, slotsOf(bus.Name))
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
