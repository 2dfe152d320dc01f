package check

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// overTheDay simulates each level of a day, with the servers that are there then, and reports what
// is worst in any.
func overTheDay(in plan.Input, c Config, rng *rand.Rand) Result {
	out := Result{Share: 1}
	var short [][]string // by level
	for l, level := range in.SLA.Day {
		now := in.At(l)
		now.SLA.Rates = slices.DeleteFunc(now.SLA.Rates, func(r spec.Rate) bool { return r.PerSecond == 0 })
		r := Result{Share: 1, Shortages: Shortages(now, c.at(level.Name))}
		if len(now.SLA.Rates) > 0 {
			r = Run(now, c.at(level.Name), rng)
		}
		short = append(short, r.Shortages)
		out.add(r, level.Name+" h: ")
	}
	if all := always(in, short); len(all) > 0 {
		return Result{Shortages: all}
	}
	slices.SortStableFunc(out.Busiest, func(a, b Busy) int { return -cmp.Compare(a.Share, b.Share) })
	out.Busiest = out.Busiest[:min(5, len(out.Busiest))]
	return out
}

// always names what is short by its hours, unless it is at all times.
func always(in plan.Input, short [][]string) []string {
	var out []string
	for l, all := range short {
		for _, what := range all {
			ever := !slices.ContainsFunc(short, func(other []string) bool { return !slices.Contains(other, what) })
			switch {
			case !ever:
				out = append(out, in.SLA.Day[l].Name+" h: "+what)
			case l == 0:
				out = append(out, what)
			}
		}
	}
	return out
}

// add adds the result of some hours.
func (r *Result) add(other Result, hours string) {
	named := func(to *[]string, from []string) {
		for _, s := range from {
			*to = append(*to, hours+s)
		}
	}
	r.Share = min(r.Share, other.Share)
	named(&r.Over, other.Over)
	named(&r.Lost, other.Lost)
	named(&r.Slow, other.Slow)
	r.Failures.Sets, r.Failures.Tried = max(r.Failures.Sets, other.Failures.Sets), max(r.Failures.Tried, other.Failures.Tried)
	for _, t := range other.Tasks {
		t.Task = hours + t.Task
		r.Tasks = append(r.Tasks, t)
	}
	for _, l := range other.Latencies {
		l.Task = hours + l.Task
		r.Latencies = append(r.Latencies, l)
	}
	for _, b := range other.Busiest {
		b.Station = hours + b.Station
		r.Busiest = append(r.Busiest, b)
	}
}

// at is the cluster at some hours: the servers that are there, with what they do then.
func (c Config) at(hours string) Config {
	out := c.clone()
	for i, s := range c.Servers {
		now := &out.Servers[i]
		if s.Hours != "" && s.Hours != hours {
			now.Count = 0
		}
		now.Shares = maps.Clone(s.Shares)
		for _, work := range s.ByHours {
			for name := range work.Tasks {
				delete(now.Tasks, name)
			}
		}
		for name, n := range s.ByHours[hours].Tasks {
			now.Tasks[name] = n
		}
		for name, x := range s.ByHours[hours].Shares {
			if now.Shares == nil {
				now.Shares = map[string]float64{}
			}
			now.Shares[name] = x
		}
	}
	return out
}
