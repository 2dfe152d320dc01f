package harvest

import (
	"time"

	"gleaner/cluster"
)

// A server is what the core knows of one.
type server struct {
	id      cluster.ServerID
	tenant  cluster.TenantID
	size    cluster.Resources
	reserve cluster.Resources
	primary cluster.Resources // rounded up
	room    cluster.Resources // that harvested tasks may hold, by the policy
	held    cluster.Resources // by them, from the moment they are told to start
	past    Past
	loading []float64 // sum of its tasks' loading vectors
	gone    bool

	class, place int // where it stands among its class's servers
}

func (s *server) free() cluster.Resources { return s.room.Sub(s.held) }

// weight is the server's chance to be chosen: its available CPU.
func (s *server) weight() int64 {
	free := s.free()
	if s.gone || free.CPU <= 0 || free.Memory < 0 {
		return 0
	}
	return int64(free.CPU)
}

// A class is a published class and its servers here. The first of a core's
// classes holds the servers of which no history is known.
type class struct {
	ClassState
	servers []int
	free    tree // of each of servers, what harvested tasks may still be given
	stale   bool // the tree is of other servers
	roomier bool // since waiting tasks were last looked at
	waiting []*job
}

// unclassified is where headroom is what is free now, for jobs of any length.
const unclassified = 0

// join takes in a server, or its new size.
func (c *Core) join(at time.Time, spec *cluster.Server) {
	i, known := c.byID[spec.ID]
	if !known {
		i = len(c.servers)
		c.byID[spec.ID] = i
		c.servers = append(c.servers, server{id: spec.ID, class: -1})
	}
	s := &c.servers[i]
	c.leaveClass(s)
	s.tenant, s.size, s.reserve, s.gone = spec.Tenant(), spec.Size(), c.reserve.Of(spec.Size()), false
	s.room = c.policy.Room(s.facts())
	c.enterClass(i, c.byTenant[s.tenant])
}

func (s *server) facts() Facts {
	return Facts{Size: s.size, Reserve: s.reserve, Primary: s.primary, Past: &s.past}
}

func (c *Core) enterClass(i, to int) {
	s, cl := &c.servers[i], &c.classes[to]
	s.class, s.place = to, len(cl.servers)
	cl.servers = append(cl.servers, i)
	cl.Size, cl.Reserve = cl.Size.Add(s.size), cl.Reserve.Add(s.reserve)
	cl.Primary = cl.Primary.Add(s.primary)
	cl.stale = true
	c.roomier(to)
}

func (c *Core) leaveClass(s *server) {
	if s.class < 0 {
		return
	}
	cl := &c.classes[s.class]
	cl.Size, cl.Reserve = cl.Size.Sub(s.size), cl.Reserve.Sub(s.reserve)
	cl.Primary = cl.Primary.Sub(s.primary)
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
	now := use.Primary.RoundUp()
	s.past.note(at, float64(now.CPU)/float64(max(s.size.CPU, 1)))
	cl := &c.classes[s.class]
	cl.Primary = cl.Primary.Add(now).Sub(s.primary)
	s.primary = now
	s.room = c.policy.Room(s.facts())
	c.weigh(s)
}

// hold gives amount, or with a negative sign takes it back, on s.
func (c *Core) hold(s *server, request cluster.Resources, loading []float64, sign int) {
	s.held = s.held.Add(request.Times(sign))
	if loading != nil {
		for len(s.loading) < len(loading) {
			s.loading = append(s.loading, 0)
		}
		for k, share := range loading {
			s.loading[k] += float64(sign) * share
		}
	}
	c.weigh(s)
}

// weigh brings the server's chance up to date.
func (c *Core) weigh(s *server) {
	if s.class < 0 {
		return
	}
	cl := &c.classes[s.class]
	if cl.stale {
		return
	}
	w := s.weight()
	more := w > cl.free.weight[s.place]
	cl.free.set(s.place, w)
	if more {
		c.roomier(s.class)
	}
}

// roomier notes that tasks that wait for class i may fit now.
func (c *Core) roomier(i int) {
	if cl := &c.classes[i]; !cl.roomier {
		cl.roomier = true
		c.opened = append(c.opened, i)
	}
}

// tree is the class's, of its present servers.
func (c *Core) tree(cl *class) *tree {
	if cl.stale {
		weights := make([]int64, len(cl.servers))
		for k, i := range cl.servers {
			weights[k] = c.servers[i].weight()
		}
		cl.free, cl.stale = newTree(weights), false
	}
	return &cl.free
}
