package check

import (
	"fmt"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// A load is a task, or a copy of a remote dataset, that servers share.
type load struct {
	name    string        // as in Shares
	dataset *spec.Dataset // nil for a task
	cache   bool
	spread  int
	part    func(Server) float64 // what a server has of it, in parts of any size
}

// all is what the servers of a cluster have of a load.
func (l load) all(c Config) float64 {
	sum := 0.0
	for _, s := range c.Servers {
		sum += float64(s.Count) * l.part(s)
	}
	return sum
}

// loads are all that servers share. What has no shares is shared evenly by its pieces, and a server without a
// piece has no share.
func (c Config) loads(in plan.Input) []load {
	var out []load
	add := func(l load, pieces func(Server) int) {
		shared := c.shared(l.name)
		l.part = func(s Server) float64 {
			if n := pieces(s); n == 0 || !shared {
				return float64(n)
			}
			return s.Shares[l.name]
		}
		out = append(out, l)
	}
	for i, choice := range c.architecture(in) {
		d := &in.App.Datasets[i]
		if !d.Remote {
			continue
		}
		on := func(unit int) func(Server) int {
			return func(s Server) int { return s.Datasets[d.Name][in.HW.Units[unit].Name] }
		}
		add(load{name: d.Name, dataset: d, spread: d.Spread}, on(choice.Store))
		if choice.Cache != plan.NoCache {
			add(load{name: d.Name + " cache", dataset: d, cache: true, spread: d.Spread}, on(choice.Cache))
		}
	}
	for _, t := range in.App.Tasks {
		add(load{name: t.Name, spread: t.Spread}, func(s Server) int { return s.Tasks[t.Name] })
	}
	return out
}

// crowded lists the servers that have more of a load than its replicas or its spread allow: with k
// of them, a server may have 1/k.
func crowded(in plan.Input, c Config) []string {
	if uneven := uneven(in, c); len(uneven) > 0 {
		return uneven
	}
	var out []string
	for _, l := range c.loads(in) {
		if l.dataset != nil && !l.cache {
			out = append(out, c.crowd(in, l, l.dataset.Replicas, "%d replicas")...)
		}
		out = append(out, c.crowd(in, l, l.spread, "a spread of %d")...)
	}
	return out
}

// crowd names the first server that has more of a load than one of k in each zone may.
func (c Config) crowd(in plan.Input, l load, k int, of string) []string {
	zones := max(1, in.SLA.Zones.Number)
	most, all := 1/float64(zones*((k+zones-1)/zones)), l.all(c)
	for i, s := range c.Servers {
		if x := l.part(s) / all; s.Count > 0 && k > 1 && x > most*(1+1e-6) {
			return []string{fmt.Sprintf("server %d (%s): %.4g%% of %s, and at most %.4g%% with "+of, c.number(i), s.Type, 100*x, l.name, 100*most, k)}
		}
	}
	return nil
}

// uneven lists the servers that are not as often in one zone as in another.
func uneven(in plan.Input, c Config) []string {
	var out []string
	zones := max(1, in.SLA.Zones.Number)
	for i, s := range c.Servers {
		if s.Count%zones != 0 {
			out = append(out, fmt.Sprintf("server %d (%s) is there %d times, which is not as often in each of %d zones", c.number(i), s.Type, s.Count, zones))
		}
	}
	return out
}
