package board

import (
	"gleaner/cluster"
	"gleaner/dilation"
)

// loads are the loads of servers.
type loads map[cluster.ServerID]*load

type load struct {
	machine dilation.Machine
	total   dilation.Vector
}

// loads adds up all that runs: primaries, by the cores they use, and the tasks
// whose loading is known.
func (b *Board) loads() loads {
	all := loads{}
	if b.Machine == nil {
		return all
	}
	for id, s := range b.servers {
		l := &load{machine: b.Machine(s.Size())}
		l.total = make(dilation.Vector, len(l.machine))
		l.total[0] = float64(s.primary.CPU) / float64(cluster.Core)
		all[id] = l
	}
	for _, j := range b.jobs {
		for _, r := range j.Running {
			if on, own := all.of(j, r); own != nil {
				on.total.Add(own)
			}
		}
	}
	return all
}

// of returns the load of the server that a task runs on and the task's own, which
// is nil if not known.
func (all loads) of(j *Job, r RunningTask) (on *load, own dilation.Vector) {
	on, st := all[r.On], j.stage(r.Task.Stage)
	if on == nil || st == nil || len(st.Loading) != len(on.machine) {
		return on, nil
	}
	return on, st.Loading
}

// factor is by how much a task is slowed down; 0 if its loading is not known.
func (all loads) factor(j *Job, r RunningTask) float64 {
	on, own := all.of(j, r)
	if own == nil {
		return 0
	}
	return on.machine.Factor(own, on.total)
}

func (b *Board) meanDilation() float64 {
	sum, n := 0.0, 0
	all := b.loads()
	for _, j := range b.jobs {
		for _, r := range j.Running {
			if f := all.factor(j, r); f > 0 {
				sum, n = sum+f, n+1
			}
		}
	}
	return sum / float64(max(n, 1))
}
