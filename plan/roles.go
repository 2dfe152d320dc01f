package plan

import "slices"

// roles sizes tasks: instances, and what they need together.
func (n *needing) roles() {
	app := n.in.App
	batch := n.in.SLA.Job != nil
	for t := range app.Tasks {
		bought := n.freq[t] * (1 - n.share[t])
		if bought <= dust*n.freq[t] {
			continue
		}
		p := n.clock.profile(t)
		need := TaskNeed{Task: t, Rate: bought, Runtime: p.runtime(batch), CPU: p.cpu}
		n.out.Tasks = append(n.out.Tasks, need)
	}
	for _, members := range n.sideBySide() {
		r := n.role(members)
		n.out.Roles = append(n.out.Roles, r)
		for _, i := range members {
			n.out.Tasks[i].Instances = ceil(r.Instances)
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
	most := n.out.Targets
	r := Role{CPU: make([]float64, phases), Net: make([]float64, phases), Memory: make([]float64, phases), Held: make([]float64, phases), Instances: 1}
	local := map[int][][]access{} // dataset -> phase -> accesses a second
	var datasets []int
	r.Servers = n.in.servers(0)
	for _, i := range members {
		r.Servers = max(r.Servers, n.in.servers(n.in.App.Tasks[n.out.Tasks[i].Task].Spread))
	}
	spare := n.in.spare(r.Servers)
	for _, i := range members {
		need := n.out.Tasks[i]
		need.Rate *= spare
		p, phase := n.clock.profile(need.Task), n.phase(need.Task)
		r.Tasks = append(r.Tasks, need.Task)
		r.Instances = max(r.Instances, need.Rate*need.Runtime/most.IO)
		r.CPU[phase] += need.Rate * p.cpu / most.CPU
		r.Memory[phase] += need.Rate * p.cpu * p.memory / most.Memory
		r.Held[phase] += p.held / most.Memory
		r.Net[phase] += spare * n.inNet[need.Task] / most.Network
		for _, c := range p.calls {
			r.Net[phase] += need.Rate * c.n * c.message / most.Network
		}
		for _, a := range p.accesses {
			a.records *= need.Rate
			if n.in.App.Datasets[a.dataset].Remote {
				r.Net[phase] += a.records * a.size * n.in.sends(a) / most.Network
				continue
			}
			if local[a.dataset] == nil {
				local[a.dataset] = make([][]access, phases)
				datasets = append(datasets, a.dataset)
			}
			local[a.dataset][phase] = append(local[a.dataset][phase], a)
		}
	}
	for _, d := range datasets {
		for _, c := range n.copies(d) {
			r.Locals = append(r.Locals, n.local(c, local[d]))
		}
	}
	r.Long = slices.ContainsFunc(r.Tasks, n.hurry.disturbs)
	return r
}

// local sizes a copy of a dataset local to a role. If it is partitioned, a server's
// share of it lies on the server's units; otherwise every instance has a whole copy
// on units of its own.
func (n *needing) local(c Copy, accesses [][]access) Local {
	d := n.in.App.Datasets[c.Dataset]
	most := n.out.Targets
	l := Local{Copy: c}
	if capacity := n.in.size(c) / n.in.HW.Units[c.Unit].Capacity / most.Space; d.Partitioned {
		l.Capacity = capacity
	} else {
		l.Each = max(1, ceil(capacity))
	}
	for _, phase := range accesses {
		dem := n.demand(c, kept{1, 1, 1, 1}, phase)
		l.IO = append(l.IO, dem.busy/most.IO)
		l.Traffic = append(l.Traffic, dem.bytes/most.Bus)
		l.CPU = append(l.CPU, dem.records*d.CPUPerOp/most.CPU)
	}
	return l
}
