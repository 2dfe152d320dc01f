package check

import (
	"fmt"
	"maps"

	"gleaner/plan"
)

// A Neighbour is a configuration one piece cheaper.
type Neighbour struct {
	Change string
	Saves  float64
	Config Config
}

// Neighbours takes one piece out of one server of each kind, in each zone: a CPU, a
// storage unit of a dataset, a unit of memory; or one server that is rented as it is. If all of these miss the SLA, no single
// piece of the plan is superfluous.
func Neighbours(in plan.Input, c Config) []Neighbour {
	var out []Neighbour
	zones, where := max(1, in.SLA.Zones.Number), ""
	if zones > 1 {
		where = " in each zone"
	}
	add := func(i int, what string, saves float64, edit func(*Server)) {
		n := c.clone()
		one := n.Servers[i].clone()
		one.Count = min(zones, c.Servers[i].Count)
		one.number = c.number(i)
		edit(&one)
		n.Servers[i].Count -= one.Count
		n.Servers = append(n.Servers, one)
		out = append(out, Neighbour{fmt.Sprintf("server %d without %s%s", c.number(i), what, where), saves * float64(one.Count), n})
	}
	for i, s := range c.Servers {
		if s.Count == 0 {
			continue
		}
		if in.HW.Server(s.Type).Rented() {
			n := c.clone()
			n.Servers[i].Count -= min(zones, s.Count)
			out = append(out, Neighbour{fmt.Sprintf("one of server %d less%s", c.number(i), where), s.cost(in) * float64(min(zones, s.Count)), n})
		} else if s.CPUs > 0 {
			add(i, "one CPU", in.HW.CPU.Cost(), func(s *Server) { s.CPUs-- })
		}
		for _, d := range in.App.Datasets {
			for _, u := range in.HW.Units {
				if s.Datasets[d.Name][u.Name] == 0 {
					continue
				}
				add(i, fmt.Sprintf("one %s of %s", u.Name, d.Name), u.Cost(), func(s *Server) {
					s.Datasets[d.Name][u.Name]--
					s.Units[u.Name]--
				})
			}
		}
		for _, u := range in.HW.Units {
			if s.memory(u) <= 0 {
				continue
			}
			add(i, "one "+u.Name+" of memory", u.Cost(), func(s *Server) { s.Units[u.Name]-- })
		}
	}
	return out
}

func (c Config) clone() Config {
	out := c
	out.Servers = nil
	for _, s := range c.Servers {
		out.Servers = append(out.Servers, s.clone())
	}
	return out
}

func (s Server) clone() Server {
	out := s
	out.Units, out.Tasks = maps.Clone(s.Units), maps.Clone(s.Tasks)
	out.Datasets = map[string]map[string]int{}
	for name, units := range s.Datasets {
		out.Datasets[name] = maps.Clone(units)
	}
	return out
}
