package plan

import "slices"

// roles sizes tasks: instances, and what they need together.
func (n *needing) roles() {
	app := n.in.App
	batch := n.in.SLA.Job != nil
	for t := range app.Tasks {
		if n.freq[t] == 0 {
			continue
		}
		p := n.clock.profile(t)
		need := TaskNeed{Task: t, Rate: n.freq[t], Runtime: p.runtime(batch), CPU: p.cpu}
		need.Instances = max(1, ceil(need.Rate*need.Runtime))
		n.out.Tasks = append(n.out.Tasks, need)
	}
	for _, members := range n.sideBySide() {
		r := n.role(members)
		n.out.Roles = append(n.out.Roles, r)
		for _, i := range members {
			n.out.Tasks[i].Instances = r.Instances
		}
	}
}

// sideBySide groups the running tasks (indices into out.Tasks) that touch a
// common local dataset.
func (n *needing) sideBySide() [][]int {
	group := make([]int, len(n.out.Tasks))
	first := map[int]int{} // local dataset -> a task that touches it
	for i, need := range n.out.Tasks {
		group[i] = i
		for _, a := range n.clock.profile(need.Task).accesses {
			if n.in.App.Datasets[a.dataset].Remote {
				continue
			}
			if other, ok := first[a.dataset]; ok {
				from, to := group[i], group[other]
				for j := range i + 1 {
					if group[j] == from {
						group[j] = to
					}
				}
			} else {
				first[a.dataset] = i
			}
		}
	}
	var out [][]int
	at := map[int]int{}
	for i, g := range group {
		if _, ok := at[g]; !ok {
			at[g] = len(out)
			out = append(out, nil)
		}
		out[at[g]] = append(out[at[g]], i)
	}
	return out
}

// role adds up what tasks that run side by side need.
func (n *needing) role(members []int) Role {
	phases := len(n.out.Phases)
	r := Role{CPU: make([]float64, phases), Net: make([]float64, phases), Memory: make([]float64, phases)}
	local := map[int][][]access{} // dataset -> phase -> accesses a second
	var datasets []int
	most := 0.0
	for _, i := range members {
		need := n.out.Tasks[i]
		p, phase := n.clock.profile(need.Task), n.phase(need.Task)
		r.Tasks = append(r.Tasks, need.Task)
		r.Instances = max(r.Instances, need.Instances)
		r.CPU[phase] += need.Rate * p.cpu
		r.Memory[phase] += need.Rate*p.cpu*p.memory + float64(need.Instances)*p.held
		r.Net[phase] += n.inNet[need.Task]
		for _, c := range p.calls {
			r.Net[phase] += need.Rate * c.n * c.message
		}
		for _, a := range p.accesses {
			a.records *= need.Rate
			if n.in.App.Datasets[a.dataset].Remote {
				r.Net[phase] += a.records * a.size
				continue
			}
			if local[a.dataset] == nil {
				local[a.dataset] = make([][]access, phases)
				datasets = append(datasets, a.dataset)
			}
			local[a.dataset][phase] = append(local[a.dataset][phase], a)
		}
		most = max(most, n.in.hosts("", r.CPU[phase], r.Net[phase], 0))
	}
	r.Instances = max(r.Instances, ceil(most))
	for _, d := range datasets {
		n.locals(&r, d, local[d])
	}
	r.Instances = max(r.Instances, n.shares(r))
	return r
}

// shares is the fewest parts that partitioned data must be cut into for the
// units of one to fit into the slots of some server.
func (n *needing) shares(r Role) int {
	units := map[string]float64{} // by bus
	for _, l := range r.Locals {
		if l.PerInstance == 0 {
			units[n.in.HW.Units[l.Unit].Bus] += max(l.Capacity, slices.Max(l.IO))
		}
	}
	slots := map[string]int{}
	for _, s := range n.in.HW.Servers {
		for _, b := range s.Buses {
			slots[b.Name] = max(slots[b.Name], b.Slots)
		}
	}
	most := 0
	for bus, u := range units {
		if slots[bus] > 0 {
			most = max(most, ceil(u/float64(slots[bus])))
		}
	}
	return most
}

// locals sizes a dataset local to a role. Partitioned, the instances on a
// server share its units, and rounding up is left to the packing; otherwise
// every instance has units of its own for a whole copy and its share of I/O.
func (n *needing) locals(r *Role, dataset int, accesses [][]access) {
	d := n.in.App.Datasets[dataset]
	n.copies(dataset, func(cache bool, unit int, size float64) {
		l := Local{Dataset: dataset, Cache: cache, Unit: unit, Capacity: size / n.in.HW.Units[unit].Capacity}
		most := l.Capacity
		for _, phase := range accesses {
			dem := n.demand(dataset, cache, phase)
			l.IO = append(l.IO, dem.busy)
			l.Traffic = append(l.Traffic, dem.bytes)
			most = max(most, dem.busy/float64(r.Instances))
		}
		if !d.Partitioned {
			l.PerInstance = max(1, ceil(most))
		}
		r.Locals = append(r.Locals, l)
	})
}
