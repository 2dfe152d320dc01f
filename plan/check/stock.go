package check

import (
	"fmt"

	"gleaner/plan"
)

// exceeded lists the limits of the whole cluster that a configuration does not keep: stock,
// budgets and the least number of servers.
func exceeded(in plan.Input, c Config) []string {
	var out []string
	short := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	servers, watts, height := 0, 0.0, 0.0
	types, units := map[string]int{}, map[string]int{}
	for _, s := range c.Servers {
		kind := in.HW.Server(s.Type)
		one := kind.Power
		if !kind.Rented() {
			one += float64(s.CPUs) * in.HW.CPU.Power
		}
		for _, u := range in.HW.Units {
			one += float64(s.Units[u.Name]) * u.Power
			units[u.Name] += s.Count * s.Units[u.Name]
		}
		types[s.Type] += s.Count
		servers += s.Count
		watts += float64(s.Count) * one
		height += float64(s.Count) * kind.RackUnits
	}
	for _, s := range in.HW.Servers {
		if s.Stock != 0 && types[s.Name] > max(0, s.Stock) {
			short("%d servers %s, and %d in stock", types[s.Name], s.Name, max(0, s.Stock))
		}
	}
	for _, u := range in.HW.Units {
		if u.Stock != 0 && units[u.Name] > max(0, u.Stock) {
			short("%d units %s, and %d in stock", units[u.Name], u.Name, max(0, u.Stock))
		}
	}
	if most := in.SLA.Budget.Power; most > 0 && watts > most*(1+1e-9) {
		short("%s W of %s W", plan.Figure(watts), plan.Figure(most))
	}
	if most := in.SLA.Budget.RackUnits; most > 0 && height > most*(1+1e-9) {
		short("%s rack units of %s", plan.Figure(height), plan.Figure(most))
	}
	if servers < in.SLA.Least {
		short("%d of the %d servers that are the least", servers, in.SLA.Least)
	}
	return out
}
