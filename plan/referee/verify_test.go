package referee

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// verify checks a plan against the docs: what every server holds fits into it and
// is paid for, it can carry its shares, and shares add up to the whole load. A share
// below the tolerance counts as none.
func verify(in plan.Input, p plan.Plan, colocate bool) error {
	return verifier{in: in}.plan(p, colocate)
}

// carried checks the same of a plan for other numbers. Instances that hold nothing are threads, which are
// started as needed.
func carried(in plan.Input, p plan.Plan, colocate bool) error {
	return verifier{in: in, threads: true}.plan(p, colocate)
}

func (v verifier) plan(p plan.Plan, colocate bool) error {
	most := 0.0
	for _, s := range p.Servers(v.in) {
		i := slices.IndexFunc(v.in.HW.Servers, func(t spec.Server) bool { return t.Name == s.Type })
		most = max(most, slower(v.in.HW.Servers[i]))
	}
	in, possible := hurried(notSlower(v.in, most), architecture(p), colocate)
	if !possible {
		return errors.New("a latency goal is missed")
	}
	how := courseOf(in, p)
	if v.threads && in.SLA.Job != nil { // of one phase, and whatever the plan's was, it takes the time of the job
		how.seconds = []float64{in.SLA.Job.Time}
	}
	v.in, v.loads = in, demand(in, architecture(p), how)
	total, covered, counted := 0.0, make([]float64, len(v.loads)), make([]float64, len(caps(in)))
	for _, s := range p.Servers(in) {
		cost, shares, err := v.server(s, colocate)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Type, err)
		}
		if s.Count%int(zonesOf(in)) != 0 {
			return fmt.Errorf("%d %s in %g zones", s.Count, s.Type, zonesOf(in))
		}
		for i, c := range caps(in) {
			if !c.there(v.when(s)) {
				continue
			}
			counted[i] += float64(s.Count) / zonesOf(in) * c.of(slices.IndexFunc(in.HW.Servers, func(t spec.Server) bool { return t.Name == s.Type }), s.CPUs, unitsOf(in, s))
		}
		total += float64(s.Count) * cost
		for j, x := range shares {
			covered[j] += float64(s.Count) / zonesOf(in) * x
		}
	}
	if math.Abs(total-p.Cost) > tolerance*total {
		return fmt.Errorf("the servers cost %g, the plan %g", total, p.Cost)
	}
	for i, c := range caps(in) {
		if c.broken(counted[i]) {
			return fmt.Errorf("%g %s, and the limit is %g", counted[i], c.name, c.number)
		}
	}
	for j, x := range covered {
		if math.Abs(x-1) > tolerance {
			return fmt.Errorf("the shares of %s add up to %g", v.loads[j].name, x)
		}
	}
	return nil
}

// unitsOf are the units of a server by kind.
func unitsOf(in plan.Input, s plan.Server) []int {
	var out []int
	for _, u := range in.HW.Units {
		out = append(out, s.Units[u.Name])
	}
	return out
}

func architecture(p plan.Plan) []choice {
	var out []choice
	for _, c := range p.Needs.Architecture {
		out = append(out, choice{c.Store, c.Cache})
	}
	return out
}

type verifier struct {
	in      plan.Input
	loads   []load
	threads bool
}

// server checks one server and returns its cost and its share of every load.
func (v verifier) server(s plan.Server, colocate bool) (cost float64, shares []float64, err error) {
	hw := v.in.HW
	stock := newStock(v.in, nil, v.loads)
	q := partial{held: make([]float64, len(v.loads[0].cpu))}
	q.server = slices.IndexFunc(hw.Servers, func(t spec.Server) bool { return t.Name == s.Type })
	q.boot(hw.Servers[q.server])
	if err := v.slots(s, hw.Servers[q.server]); err != nil {
		return 0, nil, err
	}
	left := maps.Clone(s.Units) // after what holds datasets
	systems, kinds, long := map[string]bool{}, [2]bool{}, [2]bool{}
	q.when = v.when(s)
	for _, l := range v.loads {
		x, err := v.load(s, l, &q, left, systems)
		if err != nil {
			return 0, nil, err
		}
		shares, q.most = append(shares, x), append(q.most, 1)
		kinds[btoi(l.tasks == nil)] = kinds[btoi(l.tasks == nil)] || x > tolerance
		disturbs := btoi(disturbs(v.in, l.tasks, colocate))
		long[disturbs] = long[disturbs] || x > tolerance
	}
	if kinds[0] && kinds[1] && !colocate {
		return 0, nil, fmt.Errorf("tasks and remote data on one server")
	}
	if long[0] && long[1] {
		return 0, nil, fmt.Errorf("a task that computes longer beside what those with a latency goal wait for")
	}
	server := hw.Servers[q.server]
	memory := server.Memory
	for _, u := range hw.Units {
		if q.when != nil && s.Units[u.Name] > 0 && barred(hw, u.Bus) {
			return 0, nil, fmt.Errorf("%d %s, and it comes and goes", s.Units[u.Name], u.Name)
		}
		if left[u.Name] < 0 || left[u.Name] > 0 && !u.Volatile {
			return 0, nil, fmt.Errorf("datasets lie on all but %d %s", left[u.Name], u.Name)
		}
		memory += float64(left[u.Name]) * u.Capacity
		cost += float64(s.Units[u.Name]) * u.Cost()
	}
	for name := range systems {
		for ph := range q.held {
			q.held[ph] += v.in.App.SystemOf(name).MemoryPerServer
		}
	}
	for r, free := range stock.limits(q, float64(s.CPUs), memory) {
		used := 0.0
		for j, x := range shares {
			used += (x - tolerance) * stock.use[j][r]
		}
		if used > free*(1+forgiven) {
			return 0, nil, fmt.Errorf("resource %d (cores, network, memory, buses, by phase): %g of %g", r, used, free)
		}
	}
	if server.Rent == 0 {
		cost += float64(s.CPUs) * hw.CPU.Cost()
	}
	return cost + bare(v.in, server, q.when), shares, nil
}

// slots checks the use of slots and sockets.
func (v verifier) slots(s plan.Server, server spec.Server) error {
	used := map[string]int{}
	for _, u := range v.in.HW.Units {
		used[u.Bus] += s.Units[u.Name]
	}
	for bus, n := range used {
		at := slices.IndexFunc(server.Buses, func(b spec.Bus) bool { return b.Name == bus })
		if n > 0 && (at < 0 || n > server.Buses[at].Slots) {
			return fmt.Errorf("%d units on bus %s, which has fewer slots", n, bus)
		}
	}
	if s.CPUs > server.CPUs {
		return fmt.Errorf("%d CPUs in %d sockets", s.CPUs, server.CPUs)
	}
	return nil
}

// load checks that a server has whole instances and units enough for its share of a
// load, and adds what they take.
func (v verifier) load(s plan.Server, l load, q *partial, left map[string]int, systems map[string]bool) (x float64, err error) {
	app, hw := v.in.App, v.in.HW
	x = v.share(s, l)
	if x > tolerance && !q.when.has(l.level) {
		return x, fmt.Errorf("%g of %s, when it is not there", x, l.name)
	}
	tasks, parts := v.work(s, l)
	if x > 1/float64(l.servers)+tolerance {
		return x, fmt.Errorf("%g of %s, which is on %d servers at least", x, l.name, l.servers)
	}
	instances := 0
	for i, t := range l.tasks {
		name := app.Tasks[t].Name
		if i == 0 {
			instances = tasks[name]
		}
		if tasks[name] != instances || parts[name]*zonesOf(v.in) != x {
			return x, fmt.Errorf("%s has other instances or another share than tasks beside it", name)
		}
	}
	if l.tasks != nil && (l.counted() || !v.threads) && float64(instances) < math.Ceil((x-tolerance)*max(1, l.instances)) {
		return x, fmt.Errorf("%d instances of %s for %g of it", instances, l.name, x)
	}
	for ph := range q.held {
		q.held[ph] += float64(instances) * l.held[ph]
	}
	for _, c := range l.copies {
		name, unit := app.Datasets[c.dataset].Name, hw.Units[c.unit].Name
		n := s.Datasets[name][unit]
		if n < instances*c.perInstance || float64(n) < (x-tolerance)*c.units || x > tolerance && n == 0 {
			return x, fmt.Errorf("%d %s of %s for %g of it and %d instances", n, unit, name, x, instances)
		}
		left[unit] -= n
		q.cores += float64(n) * c.cpuPerUnit
		if n > 0 && c.system != "" {
			systems[c.system] = true
		}
	}
	return x, nil
}

// work is the instances and the shares of a server's tasks when a load is there.
func (v verifier) work(s plan.Server, l load) (map[string]int, map[string]float64) {
	if l.level == always {
		return s.Tasks, s.Shares
	}
	work := s.ByHours[v.in.SLA.Day[l.level].Name]
	return work.Tasks, work.Shares
}

// when is the hours in which a server is there.
func (v verifier) when(s plan.Server) when {
	if s.Hours == nil {
		return nil
	}
	out := make(when, len(v.in.SLA.Day))
	for l, level := range v.in.SLA.Day {
		out[l] = level == *s.Hours
	}
	return out
}

// share is what a server has of its zone's part of a load.
func (v verifier) share(s plan.Server, l load) float64 {
	if l.tasks != nil {
		_, parts := v.work(s, l)
		return zonesOf(v.in) * parts[v.in.App.Tasks[l.tasks[0]].Name]
	}
	name := v.in.App.Datasets[l.copies[0].dataset].Name
	if l.copies[0].cache {
		name += " cache"
	}
	return zonesOf(v.in) * s.Shares[name]
}
