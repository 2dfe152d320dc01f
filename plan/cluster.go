package plan

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"gleaner/plan/pack"
	"gleaner/plan/spec"
)

// A Server is one kind of server of a plan, Count times.
type Server struct {
	Type     string
	Count    int
	CPUs     int
	Cost     float64                   // of one, with all that is in it
	Units    map[string]int            // storage units by kind, memory included
	Memory   map[string]int            // units of memory for tasks and storage systems, by kind
	Shares   map[string]float64        // of a task's executions and of a remote dataset's records; "tags cache" is a cache's
	Tasks    map[string]int            // instances
	Datasets map[string]map[string]int // units by dataset and kind
	Hours    *spec.Level               // in which it is rented; nil if it stands all day
	ByHours  map[string]Work           // of tasks whose shares change over the day, by level; Tasks has the most instances of each
	// Bottleneck is the fullest resource at peak: the first of Loads.
	Bottleneck string
	Loads      []Load // the fullest first
}

// Work is what a server does in some hours of the day.
type Work struct {
	Tasks  map[string]int     `json:"tasks"`
	Shares map[string]float64 `json:"shares"`
}

// A Load is how much of a resource a server uses at peak.
type Load struct {
	What       string
	Used, Have float64
	Most       float64 // of it that may be used, as a share
}

// Share is the load as a share of what there is.
func (l Load) Share() float64 {
	if l.Have <= 0 {
		return 0
	}
	return l.Used / l.Have
}

// Servers describes each kind of server.
func (p Plan) Servers(in Input) []Server {
	var out []Server
	for _, f := range p.Packing.Fillings {
		out = append(out, p.server(in, f))
	}
	return out
}

// count sets the plan's units and instances to those of its servers.
func (p *Plan) count(in Input) {
	tasks, units := p.instances(in), map[string]int{}
	for _, f := range p.Packing.Fillings {
		for i, n := range f.Bought {
			units[p.Problem.Purchases[i].Name] += n * f.Count
		}
	}
	for i, t := range p.Needs.Tasks {
		p.Needs.Tasks[i].Instances = tasks[in.App.Tasks[t.Task].Name]
	}
	for i, t := range p.Needs.Tiers {
		p.Needs.Tiers[i].Units = units[in.unitsName(t.Copy)]
	}
}

// instances counts those of all servers, at the level of the day with most.
func (p Plan) instances(in Input) map[string]int {
	out := map[string]int{}
	by := map[string]map[string]int{}
	for _, s := range p.Servers(in) {
		for name, n := range s.Tasks {
			if !s.changes(name) {
				out[name] += n * s.Count
			}
		}
		for hours, work := range s.ByHours {
			if by[hours] == nil {
				by[hours] = map[string]int{}
			}
			for name, n := range work.Tasks {
				by[hours][name] += n * s.Count
				out[name] = max(out[name], by[hours][name])
			}
		}
	}
	return out
}

// changes reports whether a task's share changes over the day.
func (s Server) changes(task string) bool {
	for _, work := range s.ByHours {
		if work.Tasks[task] > 0 {
			return true
		}
	}
	return false
}

// copyWord is the name of a copy for people: tags, or tags cache.
func copyWord(in Input, c Copy) string {
	if c.Cache {
		return in.data(c).Name + " cache"
	}
	return in.data(c).Name
}

// noise is an amount of a load that counts as none: a server holds about 1, and
// less than noise is an error of the linear program. So is less than small of what
// another server holds of it.
const (
	noise = 1e-6
	small = 1e-5
)

// noiseOf is an amount of a load that counts as none.
func (p Plan) noiseOf(load int) float64 {
	most := 0.0
	for _, f := range p.Packing.Fillings {
		most = max(most, f.Loads[load])
	}
	return max(noise, small*most)
}

// hosted is how much of a load is on servers that hold more than noise.
func (p Plan) hosted(load int) float64 {
	sum, none := 0.0, p.noiseOf(load)
	for _, f := range p.Packing.Fillings {
		if y := f.Loads[load]; y > none {
			sum += y * float64(f.Count)
		}
	}
	return sum
}

func (p Plan) server(in Input, f pack.Filling) Server {
	s := Server{Count: f.Count, Cost: f.Cost,
		Units: map[string]int{}, Memory: map[string]int{}, Shares: map[string]float64{}, Tasks: map[string]int{}, Datasets: map[string]map[string]int{}}
	s.Type, s.Hours = in.rented(f.Server)
	bought := map[string]int{}
	for i, n := range f.Bought {
		bought[p.Problem.Purchases[i].Name] = n
	}
	hosted := map[string]float64{} // share of each load
	for i, y := range f.Loads {
		if y > p.noiseOf(i) {
			hosted[p.Problem.Loads[i].Name] = y / p.hosted(i)
		}
	}
	put := func(c Copy, n int) {
		if n == 0 {
			return
		}
		name, kind := in.App.Datasets[c.Dataset].Name, in.HW.Units[c.Unit].Name
		if s.Datasets[name] == nil {
			s.Datasets[name] = map[string]int{}
		}
		s.Datasets[name][kind] += n
		s.Units[kind] += n
	}
	share := func(name string, x float64) {
		if x > 0 {
			s.Shares[name] = x
		}
	}
	s.CPUs = bought[cpuPurchase]
	if t := in.HW.Server(s.Type); t.Rented() {
		s.CPUs = t.CPUs
	}
	for _, u := range in.HW.Units {
		if n := bought[memoryPurchase(u)]; n > 0 {
			s.Memory[u.Name] = n
			s.Units[u.Name] += n
		}
	}
	for _, t := range p.Needs.Tiers {
		put(t.Copy, bought[in.unitsName(t.Copy)])
		share(copyWord(in, t.Copy), hosted[in.copyName(t.Copy)])
	}
	for _, r := range p.Needs.Roles {
		x := hosted[roleName(in, r)]
		if x == 0 {
			continue
		}
		n := max(1, int(math.Ceil(x*r.Instances*(1-1e-6)))) // shares are as exact as packing is
		for _, l := range r.Locals {
			units := bought[in.unitsName(l.Copy)]
			if l.Each > 0 && slices.Max(l.IO) <= float64(l.Each)*r.Instances { // bought by the copy
				n = max(n, units)
				units *= l.Each
			}
			put(l.Copy, units)
		}
		for _, t := range r.Tasks {
			name := in.App.Tasks[t].Name
			s.Tasks[name] = max(s.Tasks[name], n)
			if r.Hours == "" {
				share(name, x)
			} else {
				s.during(r.Hours, name, n, x)
			}
		}
	}
	s.Loads = p.loads(in, f, s)
	s.Bottleneck = s.Loads[0].What
	return s
}

// during notes a task's instances and share in some hours.
func (s *Server) during(hours, task string, n int, share float64) {
	if s.ByHours == nil {
		s.ByHours = map[string]Work{}
	}
	if s.ByHours[hours].Tasks == nil {
		s.ByHours[hours] = Work{map[string]int{}, map[string]float64{}}
	}
	s.ByHours[hours].Tasks[task], s.ByHours[hours].Shares[task] = n, share
}

// loads lists how full a server is: cores, slots, network, buses and the storage
// units themselves. Every server has a bottleneck, because superfluous resources are
// not bought.
func (p Plan) loads(in Input, f pack.Filling, s Server) []Load {
	var out []Load
	targets := p.Needs.Targets
	note := func(what string, used, have, target float64) { // used is what must be there for the target
		if used > 0 && have > 0 {
			out = append(out, Load{what, used * target, have, target})
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
	if server := in.HW.Server(s.Type); server != nil {
		own := server.BootCPUs // and what its units keep busy
		for _, d := range in.App.Datasets {
			for _, n := range s.Datasets[d.Name] {
				own += float64(n) * d.CPUPerUnit
			}
		}
		note("CPU cores", most(cores)+own/targets.CPU, float64(s.CPUs), targets.CPU)
		note("network", most(network), server.BW/mega, targets.Network)
		for _, bus := range server.Buses {
			units := 0
			for _, u := range in.HW.Units {
				if u.Bus == bus.Name {
					units += s.Units[u.Name]
				}
			}
			note(slotsOf(bus.Name), float64(units), float64(bus.Slots), 1)
			note(bus.Name+" bandwidth", most(busMBps(bus.Name)), bus.BW/mega, targets.Bus)
		}
	}
	of := func(c Copy, busy []float64, share float64) {
		name, kind := copyWord(in, c), in.HW.Units[c.Unit].Name
		note(fmt.Sprintf("%s I/O of %s", kind, name), share*slices.Max(busy), float64(s.Datasets[in.data(c).Name][kind]), targets.IO)
	}
	for _, t := range p.Needs.Tiers {
		of(t.Copy, t.IO, s.Shares[copyWord(in, t.Copy)])
	}
	for _, r := range p.Needs.Roles {
		for _, l := range r.Locals {
			of(l.Copy, l.IO, s.Shares[in.App.Tasks[r.Tasks[0]].Name])
		}
	}
	slices.SortStableFunc(out, func(a, b Load) int {
		switch {
		case a.Share()/a.Most > b.Share()/b.Most+1e-9:
			return -1
		case b.Share()/b.Most > a.Share()/a.Most+1e-9:
			return 1
		}
		return 0
	})
	if len(out) == 0 {
		out = append(out, Load{What: "presence", Used: 1, Have: 1, Most: 1})
	}
	return out
}

// A Line is one line of a bill of materials.
type Line struct {
	What  string
	Count int
	Each  float64
}

// Bill lists everything to buy; its lines add up to the plan's cost.
func (p Plan) Bill(in Input) []Line {
	servers, units, cpus := map[string]int{}, map[string]int{}, 0
	for _, f := range p.Packing.Fillings {
		servers[f.Server] += f.Count
	}
	for _, s := range p.Servers(in) {
		if !in.HW.Server(s.Type).Rented() {
			cpus += s.CPUs * s.Count
		}
		for name, n := range s.Units {
			units[name] += n * s.Count
		}
	}
	var out []Line
	for _, s := range in.HW.Servers {
		if n := servers[s.Name]; n > 0 {
			out = append(out, Line{s.Name, n, s.Cost()})
		}
		for _, level := range in.SLA.Day {
			if n := servers[rentedName(s, level)]; n > 0 {
				out = append(out, Line{fmt.Sprintf("%s, %s h", s.Name, level.Name), n, s.RentFor(level.Hours)})
			}
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

// Sorted returns the keys of a count in order.
func Sorted(counts map[string]int) []string { return slices.Sorted(maps.Keys(counts)) }
