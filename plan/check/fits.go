package check

import (
	"fmt"
	"math"
	"slices"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// Shortages lists what a configuration lacks at any load: slots, sockets, memory,
// room for data, an instance of a task, servers for its replicas or its spread, or what
// limits the whole cluster.
func Shortages(in plan.Input, c Config) []string {
	var out []string
	short := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for i, s := range c.Servers {
		if s.Count == 0 {
			continue
		}
		name := fmt.Sprintf("server %d (%s)", c.number(i), s.Type)
		kind := in.HW.Server(s.Type)
		if s.CPUs > kind.CPUs {
			short("%s: %d CPUs in %d sockets", name, s.CPUs, kind.CPUs)
		}
		for _, u := range in.HW.Units {
			inBus, slots := 0, 0
			for _, b := range kind.Buses {
				if b.Name == u.Bus {
					slots = b.Slots
				}
			}
			for _, v := range in.HW.Units {
				if v.Bus == u.Bus {
					inBus += s.Units[v.Name]
				}
			}
			if s.Units[u.Name] > 0 && inBus > slots {
				short("%s: %d units in %d slots of %s", name, inBus, slots, u.Bus)
			}
		}
		have := kind.Memory
		for _, u := range in.HW.Units {
			have += float64(s.memory(u)) * u.Capacity
		}
		if own := s.ownCPUs(in); float64(s.CPUs) < own*(1-1e-9) {
			short("%s: %d CPUs, and it needs %.4g to boot and for its units", name, s.CPUs, own)
		}
		if need := memoryNeed(in, c, s) + kind.BootMemory/in.SLA.Targets.Full().Memory; need > have*(1+1e-9) {
			short("%s: %s GB of memory needed, %s there", name, plan.Figure(need/1e9), plan.Figure(have/1e9))
		}
	}
	return slices.Concat(out, exceeded(in, c), roomShortages(in, c), crowded(in, c))
}

// memoryNeed is the memory of tasks and storage systems on a server, in bytes, in
// the phase that needs most.
func memoryNeed(in plan.Input, c Config, s Server) float64 {
	needs := plan.NeedsOf(in, c.architecture(in), c.seconds(in))
	bytes := make([]float64, len(needs.Phases))
	for _, r := range needs.Roles {
		task := in.App.Tasks[r.Tasks[0]].Name
		share := c.share(s, task, s.Tasks[task], func(s Server) int { return s.Tasks[task] })
		for p := range bytes {
			bytes[p] += r.Memory[p]*share + r.Held[p]*float64(s.Tasks[task])
		}
	}
	most := slices.Max(bytes)
	for _, system := range in.App.Systems {
		for _, d := range in.App.Datasets {
			if d.System == system.Name && len(s.Datasets[d.Name]) > 0 {
				most += system.MemoryPerServer / needs.Targets.Memory
				break
			}
		}
	}
	return most
}

// share is a server's part of a task or a dataset: as given, or by its part n of all
// instances or units.
func (c Config) share(s Server, name string, n int, of func(Server) int) float64 {
	if c.shared(name) {
		return s.Shares[name]
	}
	all := 0
	for _, other := range c.Servers {
		all += other.Count * of(other)
	}
	if all == 0 {
		return 0
	}
	return float64(n) / float64(all)
}

// seconds is the time of each phase of a job: as given, or equal.
func (c Config) seconds(in plan.Input) []float64 {
	if in.SLA.Job == nil {
		return nil
	}
	out := make([]float64, len(in.App.Phases()))
	for i, phase := range in.App.Phases() {
		out[i] = in.SLA.Job.Time / float64(len(out))
		if c.Phases != nil {
			out[i] = c.Phases[phase]
		}
	}
	return out
}

// roomShortages finds data that has too few units and tasks that have no instance.
func roomShortages(in plan.Input, c Config) []string {
	var out []string
	arch := c.architecture(in)
	for i, d := range in.App.Datasets {
		copies := []struct {
			unit int
			size float64
		}{{arch[i].Store, d.Size}}
		if arch[i].Cache != plan.NoCache {
			copies = append(copies, struct {
				unit int
				size float64
			}{arch[i].Cache, d.CacheSize()})
		}
		for _, copy := range copies {
			u := in.HW.Units[copy.unit]
			units, holders := 0, 0
			for _, s := range c.Servers {
				units += s.Count * s.Datasets[d.Name][u.Name]
				if s.Datasets[d.Name][u.Name] > 0 {
					holders += s.Count * instancesOn(in, s, i)
				}
			}
			need := copy.size
			if !d.Remote && !d.Partitioned {
				need *= float64(max(1, holders))
			}
			if d.Remote && copy.unit == arch[i].Store {
				need *= float64(d.Replicas)
			}
			need /= in.SLA.Targets.Full().Space
			if float64(units)*u.Capacity < need*(1-1e-9) {
				out = append(out, fmt.Sprintf("%s: %s GB on %d x %s of %s GB", d.Name, plan.Figure(need/1e9), units, u.Name, plan.Figure(u.Capacity/1e9)))
			}
		}
	}
	for i, s := range c.Servers {
		for j, d := range in.App.Datasets {
			if n := instancesOn(in, s, j); !d.Remote && s.Count > 0 && n > 0 {
				out = append(out, localShortages(in, d, arch[j], s, n, c.number(i))...)
			}
		}
	}
	needs := plan.NeedsOf(in, arch, c.seconds(in))
	for _, t := range needs.Tasks {
		all := 0
		for _, s := range c.Servers {
			all += s.Count * s.Tasks[in.App.Tasks[t.Task].Name]
		}
		if all == 0 {
			out = append(out, fmt.Sprintf("task %s runs nowhere", in.App.Tasks[t.Task].Name))
		}
	}
	return out
}

// localShortages checks that the n instances on a server have units for their local
// data: some if it is partitioned, a whole copy each if it is private.
func localShortages(in plan.Input, d spec.Dataset, c plan.Choice, s Server, n, server int) []string {
	var out []string
	for _, unit := range []int{c.Store, c.Cache} {
		if unit == plan.NoCache {
			continue
		}
		size := d.Size
		if unit == c.Cache {
			size = d.CacheSize()
		}
		need, have := n*int(math.Ceil(size/in.SLA.Targets.Full().Space/in.HW.Units[unit].Capacity-1e-9)), s.Datasets[d.Name][in.HW.Units[unit].Name]
		if d.Partitioned {
			need = 1
		}
		if have < need {
			out = append(out, fmt.Sprintf("server %d (%s): %d x %s of %s for %d instances", server, s.Type, have, in.HW.Units[unit].Name, d.Name, n))
		}
	}
	return out
}

// instancesOn counts the instances on a server that use a local dataset: those
// of the first task that does.
func instancesOn(in plan.Input, s Server, dataset int) int {
	most := 0
	for t, task := range in.App.Tasks {
		if touches(in, t, dataset) {
			most = max(most, s.Tasks[task.Name])
		}
	}
	return most
}

// touches reports whether a task reads or writes a dataset, itself or through
// tasks that run inside it.
func touches(in plan.Input, task, dataset int) bool {
	for _, op := range in.App.Tasks[task].Path {
		if op.IO != nil && op.IO.Dataset == dataset {
			return true
		}
		if op.Call != nil && op.Call.Inline && touches(in, op.Call.Task, dataset) {
			return true
		}
	}
	return false
}
