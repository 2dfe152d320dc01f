package plan

import (
	"slices"

	"gleaner/input"
)

// Unbudgeted is an error if the SLA has a budget of something that a server does not say how much it takes of: it
// would be planned as if it took nothing.
func (in Input) Unbudgeted() error {
	for _, budget := range []struct {
		name  string
		given bool
	}{{"power", in.SLA.Budget.Power > 0}, {"rack_units", in.SLA.Budget.RackUnits > 0}} {
		for _, s := range in.HW.Servers {
			if budget.given && slices.Contains(s.Unsaid, budget.name) {
				return input.Linef(in.HW.File, s.Line, "server %q: %s is missing, of which %s has a budget on line %d; 0 is none", s.Name, budget.name, in.SLA.File, in.SLA.Budget.Line)
			}
		}
	}
	return nil
}
