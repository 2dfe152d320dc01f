package check

import (
	"fmt"
	"math"
	"slices"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// A host is one server.
type host struct {
	name  string
	cpu   *station
	nic   *station
	bw    float64
	buses map[string]*lane
}

// A lane is a bus or a network: seconds follow from bytes.
type lane struct {
	*station
	bw float64
}

// A unit is one storage unit.
type unit struct {
	kind int
	dev  *station
	bus  *lane
	host *host
}

// A spread hands out places in proportion to weights; without weights, in turn.
type spread struct {
	upto []float64 // sums of weights
}

// golden steps from place to place such that any stretch of steps is even.
const golden = 0.6180339887498949

func (s *spread) add(weight float64) {
	if n := len(s.upto); n > 0 {
		weight += s.upto[n-1]
	}
	s.upto = append(s.upto, weight)
}

// pick is the place of the k-th of n, counted from start.
func (s *spread) pick(start float64, k, n int) int {
	if len(s.upto) != n || s.upto[n-1] <= 0 {
		return k % n
	}
	_, at := math.Modf(start + float64(k)*golden)
	i, _ := slices.BinarySearch(s.upto, at*s.upto[n-1])
	for i < n-1 && s.upto[i] <= at*s.upto[n-1] {
		i++
	}
	return min(i, n-1)
}

// An instance is one process of a task, on its server with its local data.
type instance struct {
	host  *host
	local map[place][]*unit
	open  int  // executions whose I/O is still under way
	held  bool // computed, and waits for the I/O of the execution before
}

// A place is one copy of a dataset.
type place struct {
	dataset int
	cache   bool
}

// A pool is all instances of a task and the executions that wait for one.
type pool struct {
	instances []*instance
	// bound instances take one execution at a time, because of their local data.
	// Others are threads: a server starts as many as it needs.
	bound   bool
	idle    []*instance
	waiting []func(*instance)
	head    int
	next    int // of the instances, in turn
	spread  spread
}

type cluster struct {
	in       plan.Input
	arch     plan.Architecture
	stations []*station
	remote   map[place][]*unit
	spreads  map[place]*spread // of remote
	pools    []*pool
}

func newCluster(e *engine, in plan.Input, c Config) *cluster {
	out := &cluster{in: in, arch: c.architecture(in), remote: map[place][]*unit{}, spreads: map[place]*spread{}}
	for range in.App.Tasks {
		out.pools = append(out.pools, &pool{})
	}
	named := map[int]int{} // servers so far, by number
	for i, s := range c.Servers {
		for range s.Count {
			named[c.number(i)]++
			out.server(e, c, s, fmt.Sprintf("server %d.%d", c.number(i), named[c.number(i)]))
		}
	}
	for t, p := range out.pools {
		p.bound = in.SLA.Job != nil
		for d, data := range in.App.Datasets {
			p.bound = p.bound || !data.Remote && touches(in, t, d)
		}
		p.idle = append(p.idle, p.instances...)
	}
	return out
}

func (c *cluster) station(e *engine, name string, servers int, most float64) *station {
	s := &station{e: e, name: name, have: servers, servers: servers, slow: 1, most: most}
	c.stations = append(c.stations, s)
	return s
}

func (c *cluster) server(e *engine, config Config, s Server, name string) {
	kind := c.in.HW.Server(s.Type)
	h := &host{name: name, bw: kind.BW, buses: map[string]*lane{}}
	most := c.in.SLA.Targets.Full()
	h.cpu = c.station(e, name+" CPU", s.CPUs, most.CPU)
	h.cpu.keep(s.ownCPUs(c.in), kind.Pace())
	h.nic = c.station(e, name+" network", 1, most.Network)
	for _, b := range kind.Buses {
		h.buses[b.Name] = &lane{c.station(e, name+" "+b.Name, 1, most.Bus), b.BW}
	}
	local := map[place][]*unit{}
	next := make([]int, len(c.in.HW.Units)) // by kind; datasets share units if there are too few
	there := map[[2]int]*unit{}
	for d, data := range c.in.App.Datasets {
		for _, copy := range c.copies(d) {
			kind := c.in.HW.Units[copy.unit].Name
			for range s.Datasets[data.Name][kind] {
				slot := [2]int{copy.unit, next[copy.unit] % max(1, s.Units[kind])}
				next[copy.unit]++
				if there[slot] == nil {
					there[slot] = c.unit(e, h, copy.unit, name+" "+kind+" of "+data.Name)
				}
				u := there[slot]
				if data.Remote {
					c.remote[copy.place] = append(c.remote[copy.place], u)
					c.weigh(config, s, copy.place, s.Datasets[data.Name][kind])
				} else {
					local[copy.place] = append(local[copy.place], u)
				}
			}
		}
	}
	for t, task := range c.in.App.Tasks {
		n := s.Tasks[task.Name]
		for i := range n {
			c.pools[t].instances = append(c.pools[t].instances, &instance{host: h, local: c.share(local, i, n)})
			if config.shared(task.Name) {
				c.pools[t].spread.add(s.Shares[task.Name] / float64(n))
			}
		}
	}
}

// weigh gives one of n units of a copy its part of the server's share.
func (c *cluster) weigh(config Config, s Server, at place, n int) {
	name := c.in.App.Datasets[at.dataset].Name
	if at.cache {
		name += " cache"
	}
	if !config.shared(name) {
		return
	}
	if c.spreads[at] == nil {
		c.spreads[at] = &spread{}
	}
	c.spreads[at].add(s.Shares[name] / float64(n))
}

// A copy is the store or the cache of a dataset.
type copyOf struct {
	place
	unit int
}

func (c *cluster) copies(dataset int) []copyOf {
	choice := c.arch[dataset]
	out := []copyOf{{place{dataset, false}, choice.Store}}
	if choice.Cache != plan.NoCache {
		out = append(out, copyOf{place{dataset, true}, choice.Cache})
	}
	return out
}

func (c *cluster) unit(e *engine, h *host, kind int, name string) *unit {
	return &unit{kind: kind, dev: c.station(e, name, 1, c.in.SLA.Targets.Full().IO), bus: h.buses[c.in.HW.Units[kind].Bus], host: h}
}

// share gives the i-th of n instances on a server its units: all of them of
// partitioned data, its own of private data.
func (c *cluster) share(local map[place][]*unit, i, n int) map[place][]*unit {
	out := map[place][]*unit{}
	for at, units := range local {
		if c.in.App.Datasets[at.dataset].Partitioned || len(units) < n {
			out[at] = units
			if !c.in.App.Datasets[at.dataset].Partitioned {
				out[at] = units[i%len(units) : i%len(units)+1]
			}
			continue
		}
		for j := i; j < len(units); j += n {
			out[at] = append(out[at], units[j])
		}
	}
	return out
}

// take calls run with an instance, now or when one is free.
func (p *pool) take(run func(*instance)) {
	if !p.bound {
		p.next++
		run(p.instances[p.spread.pick(0, p.next, len(p.instances))])
		return
	}
	if n := len(p.idle); n > 0 {
		inst := p.idle[n-1]
		p.idle = p.idle[:n-1]
		run(inst)
		return
	}
	p.waiting = append(p.waiting, run)
}

// give returns an instance to the pool.
func (p *pool) give(inst *instance) {
	if !p.bound {
		return
	}
	if p.head < len(p.waiting) {
		next := p.waiting[p.head]
		p.waiting[p.head] = nil
		p.head++
		next(inst)
		return
	}
	p.idle = append(p.idle, inst)
}

// device is the rate of a unit, and its gap before each record.
func (c *cluster) device(d spec.Dataset, kind int, write bool) (rate, gap float64) {
	read, wr := c.in.App.Through(d.System, c.in.HW.Units[kind])
	if write {
		return wr.RateW, wr.GapW
	}
	return read.RateR, read.GapR
}
