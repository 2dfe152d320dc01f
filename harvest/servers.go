package harvest

import (
	"time"

	"gleaner/cluster"
	"gleaner/dilation"
)

// A server is the core's record of one.
type server struct {
	id      cluster.ServerID
	tenant  cluster.TenantID
	size    cluster.Resources
	reserve cluster.Resources
	primary cluster.Resources // rounded up
	room    cluster.Resources // that harvested tasks may hold, by the policy
	surely  cluster.Resources // the part of room that is sure
	held    cluster.Resources // by harvested tasks, from their start action on
	past    Past
	recent  recent
	machine dilation.Machine // nil if loading vectors are ignored
	load    dilation.Vector  // of its harvested tasks together
	gone    bool

	drained   bool // it is to get no tasks
	shut      bool // it lacks what a process needs
	shutUntil time.Time
	pause     time.Duration // how long it was shut last time; 0 once a task has ended

	class, place int // where it stands among its class's servers
}

func (s *server) free() cluster.Resources { return s.room.Sub(s.held) }

// weight is the server's chance to be chosen: 0 if it has no room.
func (c *Core) weight(s *server) int64 {
	left := s.free()
	if s.gone || s.shut || s.drained || left.CPU <= 0 || left.Memory < 0 {
		return 0
	}
	return c.policy.Weight(left, s.surely.Sub(s.held))
}

// look asks the policy for the server's room; if one resource is short, there is
// none at all.
func (c *Core) look(s *server) {
	if s.room, s.surely = c.policy.Room(c.facts(s)); s.room.CPU <= 0 || s.room.Memory < 0 {
		s.room = cluster.Resources{}
	}
	if s.surely.CPU <= 0 || s.surely.Memory < 0 {
		s.surely = cluster.Resources{}
	}
}

func (c *Core) facts(s *server) Facts {
	return Facts{Size: s.size, Reserve: s.reserve, Primary: s.primary, Recent: s.recent.highest(), Pressed: c.pressed(), Past: &s.past}
}

// longWait is how long tasks must have waited before everything that is free now counts, and
// not only what has been free for a while: waiting longer costs more than being killed
// (docs/decisions/0004). It does not depend on Options.Steady: with the 15 s of one machine
// a noisy primary had 576 tasks killed in an hour instead of 364 (TestKillsBesideANoisyPrimary).
const longWait = 30 * time.Minute

// pressed reports whether tasks have waited that long.
func (c *Core) pressed() bool { return c.lined > 0 && c.at.Sub(c.lineSince) >= longWait }

// A class is the servers of a published class, and the jobs whose tasks wait
// for one of them. Core.states has its state at the same index. The first class
// has the servers without history: its headroom is what is free now, for jobs of
// any length.
type class struct {
	servers []int
	free    tree // weights of servers, by what is left for harvested tasks
	stale   bool // the tree is of other servers
	opened  bool // room has grown since waiting jobs were last served
	waiting line
}

// join takes in a server, or its new size.
func (c *Core) join(spec *cluster.Server) {
	i, known := c.byID[spec.ID]
	if !known {
		i = len(c.servers)
		c.byID[spec.ID] = i
		c.servers = append(c.servers, server{id: spec.ID, class: -1})
	}
	s := &c.servers[i]
	c.leaveClass(s)
	s.tenant, s.size, s.reserve, s.gone = spec.Tenant(), spec.Size(), c.reserve.Of(spec.Size()), false
	if c.machine != nil && s.load == nil {
		s.machine = c.machine(s.size)
		s.load = make(dilation.Vector, len(s.machine))
	}
	c.look(s)
	c.enterClass(i)
}

func (c *Core) enterClass(i int) {
	s := &c.servers[i]
	to := c.byTenant[s.tenant] // the first class, if nothing is known of it
	cl, state := &c.classes[to], &c.states[to]
	s.class, s.place = to, len(cl.servers)
	cl.servers = append(cl.servers, i)
	state.Size, state.Reserve = state.Size.Add(s.size), state.Reserve.Add(s.reserve)
	state.Room, state.Surely, state.Held = state.Room.Add(s.room), state.Surely.Add(s.surely), state.Held.Add(s.held)
	cl.stale = true
	c.open(to)
}

func (c *Core) leaveClass(s *server) {
	if s.class < 0 {
		return
	}
	cl, state := &c.classes[s.class], &c.states[s.class]
	state.Size, state.Reserve = state.Size.Sub(s.size), state.Reserve.Sub(s.reserve)
	state.Room, state.Surely, state.Held = state.Room.Sub(s.room), state.Surely.Sub(s.surely), state.Held.Sub(s.held)
	last := len(cl.servers) - 1
	moved := cl.servers[last]
	cl.servers[s.place] = moved
	c.servers[moved].place = s.place
	cl.servers, cl.stale, s.class = cl.servers[:last], true, -1
}

// report takes in what a primary uses.
func (c *Core) report(at time.Time, use cluster.Use) {
	i, known := c.byID[use.On]
	if !known || c.servers[i].gone {
		return
	}
	s := &c.servers[i]
	now := c.reserve.Counted(use.Primary)
	if s.size.CPU > 0 { // else it offers nothing now
		s.past.Note(at, float64(now.CPU)/float64(s.size.CPU))
	}
	s.primary = now
	s.recent.note(at, now, c.steady)
	state := &c.states[s.class]
	state.Room, state.Surely = state.Room.Sub(s.room), state.Surely.Sub(s.surely)
	before := s.room
	c.look(s)
	state.Room, state.Surely = state.Room.Add(s.room), state.Surely.Add(s.surely)
	c.weigh(s)
	if !s.room.Fits(before) {
		c.open(s.class)
	}
}

// hold reserves a task's request on s for j.
func (c *Core) hold(j *job, s *server, st *cluster.Stage) {
	s.held, j.held = s.held.Add(st.Request), j.held.Add(st.Request)
	j.user.hold(st.Request.CPU, c.at)
	c.states[s.class].Held = c.states[s.class].Held.Add(st.Request)
	if s.machine != nil && len(st.Loading) == len(s.machine) {
		s.load.Add(st.Loading)
	}
	c.weigh(s)
	c.promise(j)
}

// release takes it back.
func (c *Core) release(j *job, s *server, st *cluster.Stage) {
	s.held, j.held = s.held.Sub(st.Request), j.held.Sub(st.Request)
	j.user.hold(-st.Request.CPU, c.at)
	c.states[s.class].Held = c.states[s.class].Held.Sub(st.Request)
	if s.machine != nil && len(st.Loading) == len(s.machine) {
		s.load.Remove(st.Loading)
	}
	c.weigh(s)
	c.open(s.class)
}

// weigh updates the server's chance to be chosen.
func (c *Core) weigh(s *server) {
	if c.classes[s.class].stale {
		return
	}
	free := &c.classes[s.class].free
	free.set(s.place, c.weight(s))
}

// open notes that tasks that wait for class i may fit now.
func (c *Core) open(i int) {
	if cl := &c.classes[i]; !cl.opened {
		cl.opened = true
		c.opened = append(c.opened, i)
	}
}

// tree is the tree of class i, rebuilt if its servers have changed.
func (c *Core) tree(i int) *tree {
	cl := &c.classes[i]
	if cl.stale {
		weights := make([]int64, len(cl.servers))
		for k, i := range cl.servers {
			weights[k] = c.weight(&c.servers[i])
		}
		cl.free, cl.stale = newTree(weights), false
	}
	return &cl.free
}
