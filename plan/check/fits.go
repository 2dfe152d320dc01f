package check

import (
	"fmt"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// Shortages lists what a configuration lacks whatever the load: slots,
// sockets, memory, room for data, somewhere for a task to run.
func Shortages(in plan.Input, c Config) []string {
	var out []string
	short := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for i, s := range c.Servers {
		if s.Count == 0 {
			continue
		}
		name := fmt.Sprintf("server %d (%s)", i+1, s.Type)
		kind := serverOf(in.HW, s.Type)
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
		if need, have := memoryNeed(in, c, s), s.memory(in.HW); need > float64(have)+1e-9 {
			short("%s: %.3g units of memory needed, %d there", name, need, have)
		}
	}
	return append(out, roomShortages(in, c)...)
}

// memoryNeed is what tasks and storage systems on a server hold, in units.
func memoryNeed(in plan.Input, c Config, s Server) float64 {
	m := in.HW.Memory()
	if m < 0 {
		return 0
	}
	needs := plan.NeedsOf(in, c.architecture(in), evenSeconds(in))
	bytes := 0.0
	for _, r := range needs.Roles {
		instances, all := 0, 0
		for _, other := range c.Servers {
			all += other.Count * other.Tasks[in.App.Tasks[r.Tasks[0]].Name]
		}
		instances = s.Tasks[in.App.Tasks[r.Tasks[0]].Name]
		if all == 0 {
			continue
		}
		most := 0.0
		for _, b := range r.Memory {
			most = max(most, b)
		}
		bytes += most * float64(instances) / float64(all)
	}
	for _, system := range in.App.Systems {
		for _, d := range in.App.Datasets {
			if d.Remote && d.System == system.Name && len(s.Datasets[d.Name]) > 0 {
				bytes += system.MemoryPerServer
				break
			}
		}
	}
	return bytes / in.HW.Units[m].Capacity
}

// evenSeconds is a split of a job's time for looking at it statically.
func evenSeconds(in plan.Input) []float64 {
	if in.SLA.Job == nil {
		return nil
	}
	out := make([]float64, len(in.App.Phases()))
	for i := range out {
		out[i] = in.SLA.Job.Time / float64(len(out))
	}
	return out
}

// roomShortages looks at data that has too few units and tasks that have no
// instance.
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
			if float64(units)*u.Capacity < need*(1-1e-9) {
				out = append(out, fmt.Sprintf("%s: %.4g GB on %d x %s of %.4g GB", d.Name, need/1e9, units, u.Name, u.Capacity/1e9))
			}
		}
	}
	for i, s := range c.Servers {
		for j, d := range in.App.Datasets {
			if n := instancesOn(in, s, j); !d.Remote && s.Count > 0 && n > 0 {
				out = append(out, localShortages(in, d, arch[j], s, n, i)...)
			}
		}
	}
	needs := plan.NeedsOf(in, arch, evenSeconds(in))
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

// localShortages looks for the units of local data beside the n instances on a
// server that use it: some if it is partitioned, one each if it is private.
func localShortages(in plan.Input, d spec.Dataset, c plan.Choice, s Server, n, server int) []string {
	var out []string
	for _, unit := range []int{c.Store, c.Cache} {
		if unit == plan.NoCache {
			continue
		}
		need, have := n, s.Datasets[d.Name][in.HW.Units[unit].Name]
		if d.Partitioned {
			need = 1
		}
		if have < need {
			out = append(out, fmt.Sprintf("server %d (%s): %d x %s of %s for %d instances", server+1, s.Type, have, in.HW.Units[unit].Name, d.Name, n))
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

// touches tells whether a task reads or writes a dataset, itself or through
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
