package harvest

import (
	"slices"

	"gleaner/cluster"
)

// length is the type of a job (Algorithm 1 line 3).
func (c *Core) length(j *job) Length {
	last, known := c.memory.last[j.spec.Name]
	return c.thresholds.Length(last, known)
}

// ask lets the policy pick classes for j, in addition to those it has. If there
// are none, j may run anywhere: a job that names no class is served by default
// (OSDI'16 §5.3).
func (c *Core) ask(j *job) {
	if c.picker == nil {
		j.anywhere = true
		return
	}
	ask := Ask{Kind: c.length(j), Need: j.need(), Has: j.classes}
	c.picked = c.picker.Classes(ask, c.states, c.rand, c.picked[:0])
	c.unlist(j)
	j.anywhere = len(c.picked) == 0
	for _, k := range c.picked {
		if !slices.Contains(j.classes, k) {
			j.classes, j.shares, j.promised = append(j.classes, k), append(j.shares, 0), append(j.promised, cluster.Resources{})
		}
	}
	c.share(j)
	c.promise(j)
}

// need is the room that j asks classes for: for its widest wave or, once it has
// classes that are too small, for the tasks that cannot start.
func (j *job) need() cluster.Resources {
	if len(j.classes) > 0 {
		return j.toStart()
	}
	return j.width().Sub(j.held).Max(j.toStart())
}

// share splits what is promised to j among its classes, in proportion to their
// room.
func (c *Core) share(j *job) {
	sum := 0.0
	for i, k := range j.classes {
		j.shares[i] = float64(max(c.states[k].Room.CPU-c.states[k].Held.CPU, 1))
		sum += j.shares[i]
	}
	for i := range j.shares {
		j.shares[i] /= sum
	}
}

// promise sets aside for j, in its classes, the most that its unfinished part
// may hold beyond what it holds now, so that no two jobs count on the same room.
func (c *Core) promise(j *job) {
	if len(j.classes) == 0 {
		return
	}
	var more cluster.Resources
	if !j.ended && !j.keptBack && !j.anywhere {
		more = j.width().Sub(j.held).Max(cluster.Resources{})
	}
	for i, k := range j.classes {
		now := cluster.Resources{CPU: cluster.MilliCPU(j.shares[i] * float64(more.CPU)), Memory: cluster.Bytes(j.shares[i] * float64(more.Memory))}
		if now != j.promised[i] {
			c.states[k].Promised = c.states[k].Promised.Add(now).Sub(j.promised[i])
			j.promised[i] = now
		}
	}
}

// place starts the tasks of j that may start and puts j in line for the rest. If
// other jobs may go before it, it is put in line for all of them.
func (c *Core) place(j *job) {
	switch {
	case j.keptBack:
		c.unlist(j)
	case c.ranked():
		if j.unstarted > 0 && !j.anywhere && c.roomless(j) {
			c.ask(j)
		}
		c.list(j)
		c.openFor(j)
	default:
		c.placeSome(j, j.unstarted)
	}
}

// placeSome starts tasks of j, at most as many as given, asks for more classes if
// those it has are too small, and puts j in line for the rest.
func (c *Core) placeSome(j *job, most int) (started int) {
	started = c.startReady(j, most)
	if started < most && !j.anywhere {
		c.ask(j)
		started += c.startReady(j, most-started)
	}
	if j.unstarted > 0 {
		c.list(j)
	} else {
		c.unlist(j)
	}
	return started
}

func (c *Core) startReady(j *job, most int) (started int) {
	if j.unstarted == 0 {
		return 0
	}
	for i := range j.stages {
		st := &j.stages[i]
		for started < most && st.ready() {
			to := c.choose(j, st.spec)
			if to < 0 {
				break
			}
			c.start(j, st, to)
			started++
		}
	}
	return started
}

func (c *Core) start(j *job, st *stage, to int) {
	index := st.take()
	t, s := st.tasks.hold(index), &c.servers[to]
	t.server, t.since = int32(to), c.at
	c.hold(j, s, st.spec)
	if j.Started.IsZero() {
		j.Started = c.at
	}
	j.running++
	j.unstarted--
	id := cluster.TaskID{Job: j.spec.ID, Stage: st.spec.Name, Index: index, Attempt: t.attempt}
	c.actions = append(c.actions, cluster.Action{Kind: cluster.StartTask, Task: id, On: s.id, Request: st.spec.Request})
}

// list puts j in line wherever its tasks may run.
func (c *Core) list(j *job) {
	if j.listed || j.unstarted == 0 {
		return
	}
	j.listed = true
	if c.lined++; c.lined == 1 {
		c.lineSince = c.at
	}
	if j.anywhere {
		c.waiting.add(j)
		return
	}
	for _, k := range j.classes {
		c.classes[k].waiting.add(j)
	}
}

func (c *Core) unlist(j *job) {
	if !j.listed {
		return
	}
	j.listed = false
	c.lined--
	if j.anywhere {
		c.waiting.remove(j)
		return
	}
	for _, k := range j.classes {
		c.classes[k].waiting.remove(j)
	}
}

// serve offers the classes that have more room now to the waiting jobs, in the
// order these came in.
func (c *Core) serve() {
	for _, k := range c.opened {
		c.classes[k].opened = false
		if c.ranked() {
			c.serveByRank(k)
		} else {
			c.serveClass(k)
		}
	}
	c.opened = c.opened[:0]
}

func (c *Core) serveClass(k int) {
	cl := &c.classes[k]
	if len(cl.waiting) == 0 && len(c.waiting) == 0 {
		return
	}
	c.failed = c.failed[:0]
	for number := 0; c.tree(k).total > 0; {
		j := earlier(cl.waiting.after(number), c.waiting.after(number))
		if j == nil {
			return
		}
		number = j.number
		if j.hopeless(c.failed) {
			continue
		}
		c.place(j)
		for i := range j.stages {
			if st := &j.stages[i]; st.ready() {
				c.failed = append(c.failed, st.spec.Request)
			}
		}
	}
}

func earlier(a, b *job) *job {
	if a == nil || b != nil && b.number < a.number {
		return b
	}
	return a
}
