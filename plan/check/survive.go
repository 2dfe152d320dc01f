package check

import (
	"fmt"
	"math/rand/v2"

	"gleaner/plan"
)

// lost names the kinds of servers of which as many as the SLA says cannot fail: the
// others do not meet the rest of it.
func lost(in plan.Input, c Config, rng *rand.Rand) []string {
	failures := in.SLA.Survive
	in.SLA.Targets = in.SLA.Targets.Full() // they are for a whole cluster
	var out []string
	for i, s := range c.Servers {
		if s.Count == 0 || failures == 0 {
			continue
		}
		left := c.clone()
		left.Servers[i].Count = max(0, s.Count-failures)
		name := fmt.Sprintf("with %d of server %d lost, ", min(s.Count, failures), i+1)
		if what := orphan(in, left); what != "" {
			out = append(out, name+what+" is nowhere")
			continue
		}
		if r := simulate(in, left, rng); r.Share < Enough {
			out = append(out, fmt.Sprintf("%s%.1f%% of it", name, 100*r.Share))
		}
	}
	return out
}

// orphan names a task or a dataset that has no instance or unit left; it is empty if
// all have.
func orphan(in plan.Input, c Config) string {
	for _, t := range plan.NeedsOf(in, c.architecture(in), c.seconds(in)).Tasks {
		name, there := in.App.Tasks[t.Task].Name, false
		for _, s := range c.Servers {
			there = there || s.Count*s.Tasks[name] > 0
		}
		if !there {
			return "task " + name
		}
	}
	arch := c.architecture(in)
	for i, d := range in.App.Datasets {
		for _, unit := range []int{arch[i].Store, arch[i].Cache} {
			there := unit == plan.NoCache || !d.Remote
			for _, s := range c.Servers {
				there = there || s.Count*s.Datasets[d.Name][in.HW.Units[unit].Name] > 0
			}
			if !there {
				return "dataset " + d.Name
			}
		}
	}
	return ""
}
