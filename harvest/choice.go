package harvest

import (
	"math"

	"gleaner/cluster"
	"gleaner/dilation"
)

// A Choice is how a server is chosen among those where a task may run.
type Choice uint8

// The choices. For tasks whose loading is not known it is always ByWeight.
const (
	ByWeight   Choice = iota // with probability proportional to the policy's weight (OSDI'16 §5.3)
	ByDilation               // where it slows the tasks there, and itself, the least (PEVA'16 Definition 2)
	ByBoth                   // the least dilation among a few drawn by weight
)

const (
	few   = 4 // servers that ByBoth compares: enough to find a good one, too few to send everyone there
	tries = 8 // draws before all servers are examined for room
)

// choose returns a server for a task of st, -1 if there is none now.
func (c *Core) choose(j *job, st *cluster.Stage) int {
	classes := j.classes
	if j.anywhere {
		classes = c.everywhere
	}
	total := int64(0)
	for _, k := range classes {
		total += c.tree(k).total
	}
	if total <= 0 {
		return -1
	}
	if c.choice == ByWeight || c.machine == nil || st.Loading == nil {
		return c.byWeight(classes, total, st.Request)
	}
	if c.choice == ByDilation {
		return c.byDilation(classes, st)
	}
	best, least := -1, math.Inf(1)
	for range few {
		i := c.byWeight(classes, total, st.Request)
		if i < 0 {
			return -1
		}
		if harm := c.servers[i].harm(st.Loading); harm < least {
			best, least = i, harm
		}
	}
	return best
}

// byWeight draws a server by its weight. If the task does not fit, it draws
// again, which does not change the proportions of the others.
func (c *Core) byWeight(classes []int, total int64, request cluster.Resources) int {
	for range tries {
		point := c.rand.Int64N(total)
		for _, k := range classes {
			free := &c.classes[k].free
			if point >= free.total {
				point -= free.total
				continue
			}
			i := c.classes[k].servers[free.find(point)]
			if request.Fits(c.servers[i].free()) {
				return i
			}
			break
		}
	}
	return c.fromAll(classes, request)
}

// fromAll examines all servers and draws among those where the task fits.
func (c *Core) fromAll(classes []int, request cluster.Resources) int {
	total := int64(0)
	c.fitting(classes, request, func(_ int, s *server) bool { total += c.weight(s); return true })
	if total == 0 {
		return -1
	}
	point, found := c.rand.Int64N(total), -1
	c.fitting(classes, request, func(i int, s *server) bool {
		found = i
		point -= c.weight(s)
		return point >= 0
	})
	return found
}

func (c *Core) byDilation(classes []int, st *cluster.Stage) int {
	best, least := -1, math.Inf(1)
	c.fitting(classes, st.Request, func(i int, s *server) bool {
		if harm := s.harm(st.Loading); harm < least {
			best, least = i, harm
		}
		return true
	})
	return best
}

// fitting visits the servers where request fits, until visit returns false.
func (c *Core) fitting(classes []int, request cluster.Resources, visit func(int, *server) bool) {
	for _, k := range classes {
		for _, i := range c.classes[k].servers {
			s := &c.servers[i]
			if c.weight(s) > 0 && request.Fits(s.free()) && !visit(i, s) {
				return
			}
		}
	}
}

func (s *server) harm(loading []float64) float64 {
	if len(loading) != len(s.machine) {
		return 0
	}
	return s.machine.Harm(dilation.Vector(loading), s.load)
}
