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
	if in.SLA.Zones.Number > 0 {
		return lostZones(in, c, rng)
	}
	var out []string
	for i, s := range c.Servers {
		if s.Count == 0 || failures == 0 {
			continue
		}
		left := c.clone()
		left.Servers[i].Count = max(0, s.Count-failures)
		name := fmt.Sprintf("with %d of server %d lost, ", min(s.Count, failures), i+1)
		out = append(out, without(in, left, rng, name)...)
	}
	return out
}

// without names what a cluster that lost something does not do.
func without(in plan.Input, left Config, rng *rand.Rand, name string) []string {
	if what := orphan(in, left); what != "" {
		return []string{name + what + " is nowhere"}
	}
	if r := simulate(in, left, rng); r.Share < Enough {
		return []string{fmt.Sprintf("%s%.1f%% of it", name, 100*r.Share)}
	}
	return nil
}

// lostZones is lost for zones, which are alike.
func lostZones(in plan.Input, c Config, rng *rand.Rand) []string {
	z := in.SLA.Zones
	left := c.clone()
	left.replicas = 1 - float64(z.Failed)/float64(z.Number)
	for i := range left.Servers {
		s := &left.Servers[i]
		if s.Count%z.Number != 0 {
			return []string{fmt.Sprintf("server %d is there %d times, which is not as often in each of %d zones", i+1, s.Count, z.Number)}
		}
		s.Count = s.Count / z.Number * (z.Number - z.Failed)
	}
	return without(in, left, rng, fmt.Sprintf("with %d of %d zones lost, ", z.Failed, z.Number))
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
