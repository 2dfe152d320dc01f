package harvest

import (
	"slices"
	"time"

	"gleaner/cluster"
)

// patience is how long a job waits for room that suits its length before it is
// treated as one step shorter: as long as it took last time, but within bounds.
// Without it, a long job would never run where every class peaks at some time.
var PatienceFactor = 1.0
const (
	leastPatience = 2 * time.Minute
	mostPatience  = time.Hour
)

func (c *Core) patience(j *job) time.Duration {
	last, known := c.memory.last[j.spec.Name]
	if !known {
		last = c.thresholds.Long
	}
	return min(max(time.Duration(float64(last)*PatienceFactor), 1), mostPatience)
}

// length is the type of a job (Algorithm 1 line 3), eased while it waits;
// anywhere when all its patience is gone.
func (c *Core) length(j *job) (kind Length, anywhere bool) {
	last, known := c.memory.last[j.spec.Name]
	kind = c.thresholds.Length(last, known)
	eased := Length(min(c.at.Sub(j.asked)/c.patience(j), 3))
	if eased > kind {
		return Short, true
	}
	return kind - eased, false
}

// askForClasses gives classes to those in the queue for whom there are some now.
func (c *Core) askForClasses() {
	if len(c.queue) == 0 || !c.retry {
		return
	}
	rooms := c.headrooms()
	hope := c.look || rooms[Short].CPU >= c.least[Short] || rooms[Medium].CPU >= c.least[Medium] || rooms[Long].CPU >= c.least[Long]
	c.retry, c.look = false, false
	if !hope {
		return
	}
	const most = 1 << 62
	c.least = [3]cluster.MilliCPU{most, most, most}
	for i := 0; i < len(c.queue); {
		j := c.queue[i]
		kind, anywhere := c.length(j)
		need := j.width()
		switch {
		case anywhere:
			j.anywhere = true
		case need.Fits(rooms[kind]):
			c.label(j, kind, need)
			rooms = c.headrooms()
		default:
			c.least[kind] = min(c.least[kind], need.CPU)
			i++
			continue
		}
		c.queue = slices.Delete(c.queue, i, i+1)
		c.place(j)
	}
}

// headrooms are those of all classes together, for each length. A job fits in
// one class, or in several combined, just when it fits in all of them.
func (c *Core) headrooms() (rooms [3]cluster.Resources) {
	for i := range c.states {
		for kind := range rooms {
			rooms[kind] = rooms[kind].Add(c.states[i].Headroom(Length(kind)))
		}
	}
	return rooms
}

// label lets the policy pick the job's classes, and promises it their room in
// proportion to what each has.
func (c *Core) label(j *job, kind Length, need cluster.Resources) {
	j.classes = c.picker.Classes(kind, need, c.states, c.rand, j.classes[:0])
	j.shares, j.promised = j.shares[:0], j.promised[:0]
	for _, k := range j.classes {
		j.shares = append(j.shares, float64(c.states[k].Headroom(kind).CPU))
		j.promised = append(j.promised, cluster.Resources{})
	}
	normalise(j.shares)
	c.promise(j)
}

func normalise(shares []float64) {
	sum := 0.0
	for _, s := range shares {
		sum += s
	}
	for i := range shares {
		shares[i] /= sum
	}
}

// promise keeps for j, in its classes, what its unfinished part may hold at
// once, so that no two jobs count on the same room.
func (c *Core) promise(j *job) {
	if len(j.classes) == 0 {
		return
	}
	width := j.width()
	if j.ended {
		width = cluster.Resources{}
	}
	for i, k := range j.classes {
		now := cluster.Resources{CPU: cluster.MilliCPU(j.shares[i] * float64(width.CPU)), Memory: cluster.Bytes(j.shares[i] * float64(width.Memory))}
		if now != j.promised[i] {
			c.states[k].Taken = c.states[k].Taken.Add(now).Sub(j.promised[i])
			j.promised[i] = now
			c.retry = true
		}
	}
}

// place starts what may start of j, and puts j in line for the rest.
func (c *Core) place(j *job) {
	if !j.anywhere && len(j.classes) == 0 {
		return // it is in the queue
	}
	for i := range j.stages {
		st := &j.stages[i]
		for st.ready() {
			to := c.choose(j, st.spec)
			if to < 0 {
				break
			}
			c.start(j, st, to)
		}
	}
	if j.unstarted > 0 {
		c.list(j)
	} else {
		c.unlist(j)
	}
}

func (c *Core) start(j *job, st *stage, to int) {
	index := st.take()
	t, s := &st.tasks[index], &c.servers[to]
	t.server, t.since = int32(to), c.at
	s.held = s.held.Add(st.spec.Request)
	if s.machine != nil && len(st.spec.Loading) == len(s.machine) {
		s.load.Add(st.spec.Loading)
	}
	if j.anywhere {
		c.states[s.class].Taken = c.states[s.class].Taken.Add(st.spec.Request)
	}
	c.weigh(s)
	if j.started.IsZero() {
		j.started = c.at
	}
	j.running++
	j.unstarted--
	id := cluster.TaskID{Job: j.spec.ID, Stage: st.spec.Name, Index: index, Attempt: t.attempt}
	c.actions = append(c.actions, cluster.Action{Kind: cluster.StartTask, Task: id, On: s.id, Request: st.spec.Request})
}

// list puts j in line wherever its tasks may go.
func (c *Core) list(j *job) {
	if j.listed || j.unstarted == 0 {
		return
	}
	j.listed = true
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
	if j.anywhere {
		c.waiting.remove(j)
		return
	}
	for _, k := range j.classes {
		c.classes[k].waiting.remove(j)
	}
}

// serve lets those who wait look at the classes that have more room now, in
// the order they came in.
func (c *Core) serve() {
	for _, k := range c.opened {
		c.classes[k].opened = false
		c.serveClass(k)
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
