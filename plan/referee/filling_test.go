package referee

import (
	"cmp"
	"math"
	"slices"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// forgiven is the relative tolerance of rounding up.
const forgiven = 1e-9

// tolerance is the relative difference at which two costs count as the same.
const tolerance = 1e-6

func up(x float64) int { return int(math.Ceil(x * (1 - forgiven))) }

// A filling is a server with what is bought for it, whole. Shares of the loads
// lie within a polytope: x[j] <= most[j], and what they use of the joint
// resources (cores, network, memory and buses, phase by phase) is within free.
type filling struct {
	server    int
	when      when
	cost      float64
	cpus      int
	units     []int // by copy of a dataset, in the order of the loads
	instances []int // by load; 0 where they are not counted
	memory    []int // by kind of unit
	most      []float64
	free      []float64
	corners   [][]float64
	counts    []float64 // in the limits of the cluster
}

// A stock lists the fillings worth buying for some loads.
type stock struct {
	in       plan.Input
	hw       spec.Hardware
	most     spec.Targets
	memoryOf func(system string) float64
	loads    []load
	use      [][]float64 // of the joint resources, by load
	buses    []string
	kinds    []int // of volatile units
	caps     []cap
	out      []filling
	large    bool // there are more than the model can compare
}

// tooMany fillings are too large for the model.
const tooMany = 6000

func newStock(in plan.Input, memoryOf func(string) float64, loads []load) *stock {
	s := &stock{in: in, hw: in.HW, most: in.SLA.Targets, memoryOf: memoryOf, loads: loads, caps: caps(in)}
	for i, u := range s.hw.Units {
		if u.Volatile {
			s.kinds = append(s.kinds, i)
		}
		if !slices.Contains(s.buses, u.Bus) {
			s.buses = append(s.buses, u.Bus)
		}
	}
	for _, l := range loads {
		s.use = append(s.use, s.joint(l))
	}
	return s
}

// fillings are all servers for the loads that no other dominates.
// It reports whether those are all.
func fillings(in plan.Input, memoryOf func(string) float64, loads []load) ([]filling, bool) {
	s := newStock(in, memoryOf, loads)
	for i, server := range in.HW.Servers {
		for _, w := range whens(in, server) {
			s.fill(i, w)
		}
	}
	if s.large {
		return nil, false
	}
	s.prune()
	for i := range s.out {
		if slices.Max(s.out[i].most) == 0 { // it is there to be counted
			s.out[i].corners = [][]float64{make([]float64, len(loads))}
			continue
		}
		s.out[i].corners = corners(s.use, s.out[i].most, s.out[i].free)
	}
	return s.out, true
}

// joint is what a whole load uses of cores, network, memory and each bus, by phase.
func (s *stock) joint(l load) []float64 {
	use := slices.Concat(l.cpu, l.net, l.memory)
	for _, b := range s.buses {
		sum := make([]float64, len(l.cpu))
		for _, c := range l.copies {
			for ph, bytes := range c.traffic {
				if s.hw.Units[c.unit].Bus == b {
					sum[ph] += bytes
				}
			}
		}
		use = append(use, sum...)
	}
	return use
}

// A partial is a server while it is being filled.
type partial struct {
	filling
	slots map[string]int
	held  []float64
	cores float64
}

func (s *stock) fill(server int, w when) {
	p := partial{filling: filling{server: server, when: w}, slots: map[string]int{}, held: make([]float64, len(s.loads[0].cpu))}
	p.boot(s.hw.Servers[server])
	for _, b := range s.hw.Servers[server].Buses {
		if w == nil || !barred(s.hw, b.Name) {
			p.slots[b.Name] = b.Slots
		}
	}
	s.load(p, 0, map[string]bool{})
}

// boot takes what a server needs for itself.
func (p *partial) boot(s spec.Server) {
	p.cores += s.BootCPUs
	for ph := range p.held {
		p.held[ph] += s.BootMemory
	}
}

// load tries all that a server may hold of the load at j and of those after it.
func (s *stock) load(p partial, j int, systems map[string]bool) {
	if s.large = s.large || len(s.out) > tooMany; s.large {
		return
	}
	if j == len(s.loads) {
		p.held = slices.Clone(p.held)
		for name := range systems {
			for ph := range p.held {
				p.held[ph] += s.memoryOf(name)
			}
		}
		s.buy(p)
		return
	}
	l := s.loads[j]
	none := p
	none.most = append(slices.Clone(p.most), 0)
	none.instances = append(slices.Clone(p.instances), 0)
	none.units = append(slices.Clone(p.units), make([]int, len(l.copies))...)
	s.load(none, j+1, systems)
	if !p.when.has(l.level) {
		return
	}

	known := map[string]bool{}
	for name := range systems {
		known[name] = true
	}
	for _, c := range l.copies {
		if c.system != "" {
			known[c.system] = true
		}
	}
	most := 1
	if l.counted() {
		most = max(1, up(l.instances))
	}
	for k := 1; k <= most; k++ {
		q := p
		q.held = slices.Clone(p.held)
		share := 1 / float64(l.servers)
		if l.counted() {
			share = min(share, float64(k)/l.instances)
			for ph := range q.held {
				q.held[ph] += float64(k) * l.held[ph]
			}
			q.instances = append(slices.Clone(p.instances), k)
		} else {
			q.instances = append(slices.Clone(p.instances), 0)
		}
		if slices.Max(q.held) > s.largestMemory(q) {
			break
		}
		s.copy(q, j, 0, k, share, known)
	}
}

// copy tries the units for a load's copies from c on.
func (s *stock) copy(p partial, j, c, instances int, share float64, systems map[string]bool) {
	l := s.loads[j]
	if c == len(l.copies) {
		p.most = append(slices.Clone(p.most), share)
		s.load(p, j+1, systems)
		return
	}
	d := l.copies[c]
	bus := s.hw.Units[d.unit].Bus
	least := max(1, instances*d.perInstance)
	for n := least; n <= min(max(least, up(d.units)), p.slots[bus]); n++ {
		q := p
		q.slots = map[string]int{}
		for b, free := range p.slots {
			q.slots[b] = free
		}
		q.slots[bus] -= n
		q.units = append(slices.Clone(p.units), n)
		q.cost += float64(n) * s.hw.Units[d.unit].Cost()
		q.cores += float64(n) * d.cpuPerUnit
		s.copy(q, j, c+1, instances, min(share, float64(n)/d.units), systems)
	}
}

// largestMemory is the most memory that fits into the free slots.
func (s *stock) largestMemory(p partial) float64 {
	sum := s.hw.Servers[p.server].Memory
	for bus, slots := range p.slots {
		best := 0.0
		for _, u := range s.kinds {
			if s.hw.Units[u].Bus == bus {
				best = max(best, s.hw.Units[u].Capacity)
			}
		}
		sum += float64(slots) * best
	}
	return sum * target(s.most.Memory) * (1 + forgiven)
}

// buy adds memory and CPUs to a server whose units and instances are fixed.
func (s *stock) buy(p partial) {
	if slices.Max(p.most) == 0 && !slices.ContainsFunc(s.caps, func(c cap) bool { return c.least }) {
		return
	}
	phases := len(p.held)
	peak := func(from int) float64 { // the most that all shares together can use of a joint resource
		most := 0.0
		for r := from; r < from+phases; r++ {
			sum := 0.0
			for j := range s.loads {
				sum += s.use[j][r] * p.most[j]
			}
			most = max(most, sum)
		}
		return most
	}
	server := s.hw.Servers[p.server]
	cost := p.cost + bare(s.in, server, p.when)
	used := target(s.most.CPU)
	price := s.hw.CPU.Cost()
	if server.Rent > 0 {
		price = 0 // they come with it
	}
	for _, m := range s.memories(p.slots, (slices.Max(p.held)+peak(2*phases))/target(s.most.Memory)-server.Memory) {
		m.capacity += server.Memory
		if m.capacity*target(s.most.Memory)*(1+forgiven) < slices.Max(p.held) {
			continue
		}
		for cpus := up(p.cores / used); cpus <= min(server.CPUs, up((p.cores+peak(0))/used)); cpus++ {
			f := p.filling
			f.cpus, f.memory = cpus, m.units
			if server.Rent > 0 && cpus < server.CPUs && cpus < up((p.cores+peak(0))/used) {
				continue // more cost nothing
			}
			f.cost = cost + m.cost + float64(cpus)*price
			f.free = s.free(p, float64(cpus), m.capacity)
			f.counts = s.counted(f)
			if s.useful(f) {
				s.out = append(s.out, f)
			}
		}
	}
}

// limits are the joint resources of a server less what is held of them.
func (s *stock) limits(p partial, cpus, memory float64) []float64 {
	var out []float64
	each := func(value func(ph int) float64) {
		for ph := range p.held {
			out = append(out, value(ph))
		}
	}
	each(func(int) float64 { return cpus*target(s.most.CPU) - p.cores })
	each(func(int) float64 { return s.hw.Servers[p.server].BW * target(s.most.Network) })
	each(func(ph int) float64 { return memory*target(s.most.Memory) - p.held[ph] })
	for _, name := range s.buses {
		each(func(int) float64 {
			for _, b := range s.hw.Servers[p.server].Buses {
				if b.Name == name {
					return b.BW * target(s.most.Bus)
				}
			}
			return 0
		})
	}
	return out
}

// free is what shares can use of the joint resources, limited to what all of them
// together need.
func (s *stock) free(p partial, cpus, memory float64) []float64 {
	out := s.limits(p, cpus, memory)
	for r := range out {
		sum := 0.0
		for j := range s.loads {
			sum += s.use[j][r] * p.most[j]
		}
		out[r] = max(0, min(out[r], sum))
	}
	return out
}

// useful reports whether every load that was given units can be served at all.
func (s *stock) useful(f filling) bool {
	for j := range s.loads {
		for r, use := range s.use[j] {
			if f.most[j] > 0 && use > 0 && f.free[r] <= 0 {
				return false
			}
		}
	}
	return true
}

// A memory is units bought to be memory.
type memory struct {
	units          []int // by kind of unit
	capacity, cost float64
}

// memories are the undominated ways to fill slots with memory, up to need.
func (s *stock) memories(slots map[string]int, need float64) []memory {
	all := []memory{{units: make([]int, len(s.hw.Units))}}
	for _, kind := range s.kinds {
		unit := s.hw.Units[kind]
		for i := 0; i < len(all); i++ { // all grows: each kind is added to all before it
			m := all[i]
			used := 0
			for u, n := range m.units {
				if s.hw.Units[u].Bus == unit.Bus {
					used += n
				}
			}
			if m.capacity < need && used < slots[unit.Bus] {
				next := memory{slices.Clone(m.units), m.capacity + unit.Capacity, m.cost + unit.Cost()}
				next.units[kind]++
				all = append(all, next)
			}
		}
		all = s.cheapest(all, need)
	}
	return all
}

// cheapest drops ways with no more capacity and free slots than a cheaper one.
func (s *stock) cheapest(all []memory, need float64) []memory {
	slices.SortStableFunc(all, func(a, b memory) int { return cmp.Compare(a.cost, b.cost) })
	var out []memory
	for _, m := range all {
		if !slices.ContainsFunc(out, func(o memory) bool {
			return min(o.capacity, need) >= min(m.capacity, need) && s.fewer(o.units, m.units) && s.plainer(o.units, m.units)
		}) {
			out = append(out, m)
		}
	}
	return out
}

// plainer reports whether units a count no more in any limit than units b.
func (s *stock) plainer(a, b []int) bool {
	return !slices.ContainsFunc(s.caps, func(c cap) bool { return c.of(0, 0, a) > c.of(0, 0, b) })
}

// fewer reports whether units a leave as many slots free as units b on every bus.
func (s *stock) fewer(a, b []int) bool {
	used := map[string]int{}
	for u := range a {
		used[s.hw.Units[u].Bus] += a[u] - b[u]
	}
	for _, n := range used {
		if n > 0 {
			return false
		}
	}
	return true
}

// prune drops fillings that can carry no more than one that costs no more.
func (s *stock) prune() {
	slices.SortStableFunc(s.out, func(a, b filling) int { return cmp.Compare(a.cost, b.cost) })
	var kept []filling
	for _, f := range s.out {
		if !slices.ContainsFunc(kept, func(k filling) bool { return covers(k.most, f.most) && covers(k.free, f.free) && s.fewest(k, f) }) {
			kept = append(kept, f)
		}
	}
	s.out = kept
}

func covers(a, b []float64) bool {
	for i := range a {
		if a[i] < b[i]*(1-1e-12) {
			return false
		}
	}
	return true
}
