package plan

import (
	"fmt"
	"maps"
	"slices"

	"gleaner/plan/pack"
)

// A Server is one kind of server of a plan, Count times.
type Server struct {
	Type     string
	Count    int
	CPUs     int
	Cost     float64                   // of one, with all that is in it
	Units    map[string]int            // storage units by kind, memory included
	Memory   int                       // units of memory for tasks and storage systems
	Tasks    map[string]int            // instances
	Datasets map[string]map[string]int // units by dataset and kind
	// Bottleneck is what is used most at peak: the first of Loads.
	Bottleneck string
	Loads      []Load // the fullest first
}

// A Load is how much of something a server uses at peak.
type Load struct {
	What       string
	Used, Have float64
}

// Share is the load as a share of what there is.
func (l Load) Share() float64 {
	if l.Have <= 0 {
		return 0
	}
	return l.Used / l.Have
}

// Servers tells what is in each kind of server.
func (p Plan) Servers(in Input) []Server {
	var out []Server
	for _, f := range p.Packing.Fillings {
		out = append(out, p.server(in, f))
	}
	return out
}

func (p Plan) server(in Input, f pack.Filling) Server {
	s := Server{Type: f.Server, Count: f.Count, Cost: f.Cost,
		Units: map[string]int{}, Tasks: map[string]int{}, Datasets: map[string]map[string]int{}}
	put := func(dataset, unit, n int) {
		if n == 0 {
			return
		}
		name, kind := in.App.Datasets[dataset].Name, in.HW.Units[unit].Name
		if s.Datasets[name] == nil {
			s.Datasets[name] = map[string]int{}
		}
		s.Datasets[name][kind] += n
		s.Units[kind] += n
	}
	bought := map[string]int{}
	for i, n := range f.Bought {
		bought[p.Problem.Purchases[i].Name] = n
	}
	s.CPUs, s.Memory = bought[cpuPurchase], bought[memoryPurchase]
	if s.Memory > 0 {
		s.Units[in.HW.Units[in.HW.Memory()].Name] += s.Memory
	}
	for i, t := range p.Needs.Tiers {
		put(t.Dataset, t.Unit, f.Items[i])
	}
	for i, r := range p.Needs.Roles {
		n := f.Items[len(p.Needs.Tiers)+i]
		if n == 0 {
			continue
		}
		for _, t := range r.Tasks {
			s.Tasks[in.App.Tasks[t].Name] = n
		}
		for _, l := range r.Locals {
			units := l.PerInstance * n
			if l.PerInstance == 0 {
				units = bought[partitionName(in, l)]
			}
			put(l.Dataset, l.Unit, units)
		}
	}
	s.Loads = p.loads(in, f, s)
	s.Bottleneck = s.Loads[0].What
	return s
}

// loads lists how full a server is: cores, slots, network, buses and the
// storage units themselves. Every server has a bottleneck, for whatever it
// has more of than it needs would not have been bought.
func (p Plan) loads(in Input, f pack.Filling, s Server) []Load {
	var out []Load
	note := func(what string, used, have float64) {
		if used > 0 && have > 0 {
			out = append(out, Load{what, used, have})
		}
	}
	at := map[string]int{}
	for i, name := range p.Problem.Resources {
		at[name] = i
	}
	most := func(what string) float64 {
		used := 0.0
		for phase := range p.Needs.Phases {
			if i, ok := at[byPhase(what, phase)]; ok {
				used = max(used, f.Used[i])
			}
		}
		return used
	}
	note("CPU cores", most(cores), float64(s.CPUs))
	for _, server := range in.HW.Servers {
		if server.Name != s.Type {
			continue
		}
		note("network", most(network), server.BW/mega)
		for _, bus := range server.Buses {
			units := 0
			for _, u := range in.HW.Units {
				if u.Bus == bus.Name {
					units += s.Units[u.Name]
				}
			}
			note(slotsOf(bus.Name), float64(units), float64(bus.Slots))
			note(bus.Name+" bandwidth", most(busMBps(bus.Name)), bus.BW/mega)
		}
	}
	for i, t := range p.Needs.Tiers {
		share := float64(f.Items[i]) / float64(t.Units)
		note(fmt.Sprintf("%s I/O of %s", in.HW.Units[t.Unit].Name, tierName(in, t)), share*slices.Max(t.IO), float64(f.Items[i]))
	}
	for i, r := range p.Needs.Roles {
		n := f.Items[len(p.Needs.Tiers)+i]
		for _, l := range r.Locals {
			have := s.Datasets[in.App.Datasets[l.Dataset].Name][in.HW.Units[l.Unit].Name]
			note(fmt.Sprintf("%s I/O of %s", in.HW.Units[l.Unit].Name, localName(in, l)),
				slices.Max(l.IO)*float64(n)/float64(r.Instances), float64(have))
		}
	}
	slices.SortStableFunc(out, func(a, b Load) int {
		switch {
		case a.Share() > b.Share()+1e-9:
			return -1
		case b.Share() > a.Share()+1e-9:
			return 1
		}
		return 0
	})
	if len(out) == 0 {
		out = append(out, Load{What: "presence", Used: 1, Have: 1})
	}
	return out
}

// A Line is one line of a bill of materials.
type Line struct {
	What  string
	Count int
	Each  float64
}

// Bill lists all that is to be bought; its lines add up to the plan's cost.
func (p Plan) Bill(in Input) []Line {
	servers, units, cpus := map[string]int{}, map[string]int{}, 0
	for _, s := range p.Servers(in) {
		servers[s.Type] += s.Count
		cpus += s.CPUs * s.Count
		for name, n := range s.Units {
			units[name] += n * s.Count
		}
	}
	var out []Line
	for _, s := range in.HW.Servers {
		if n := servers[s.Name]; n > 0 {
			out = append(out, Line{s.Name, n, s.Cost()})
		}
	}
	if cpus > 0 {
		out = append(out, Line{"CPU core", cpus, in.HW.CPU.Cost()})
	}
	for _, u := range in.HW.Units {
		if n := units[u.Name]; n > 0 {
			out = append(out, Line{u.Name, n, u.Cost()})
		}
	}
	return out
}

// Sorted gives the keys of a count in order.
func Sorted(counts map[string]int) []string { return slices.Sorted(maps.Keys(counts)) }
