package referee

import (
	"fmt"
	"math"
	"slices"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// verify checks a plan against the docs: what every server holds fits into it and
// is paid for, and shares of all loads can be found that the servers carry.
func verify(in plan.Input, p plan.Plan, colocate bool) error {
	v := verifier{in: in, loads: demand(in, architecture(p), p.Needs.Seconds)}
	c := &cover{loads: len(v.loads), rows: make([][]float64, len(v.loads))}
	total := 0.0
	var counts []float64
	for _, s := range p.Servers(in) {
		f, err := v.filling(s, colocate)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Type, err)
		}
		total += float64(s.Count) * f.cost
		c.add(f)
		counts = append(counts, float64(s.Count))
	}
	if math.Abs(total-p.Cost) > tolerance*total {
		return fmt.Errorf("the servers cost %g, the plan %g", total, p.Cost)
	}
	var limits []limit
	for i, n := range counts {
		w := make([]float64, len(counts))
		w[i] = 1
		limits = append(limits, limit{w, false, n * (1 + tolerance)})
	}
	if _, _, ok := c.relax(limits); !ok {
		return fmt.Errorf("the servers do not carry the load, however it is cut")
	}
	return nil
}

func architecture(p plan.Plan) []choice {
	var out []choice
	for _, c := range p.Needs.Architecture {
		out = append(out, choice{c.Store, c.Cache})
	}
	return out
}

type verifier struct {
	in    plan.Input
	loads []load
}

// filling is a server of a plan as the model sees it.
func (v verifier) filling(s plan.Server, colocate bool) (filling, error) {
	app, hw := v.in.App, v.in.HW
	stock := newStock(hw, nil, v.loads)
	f := filling{server: slices.IndexFunc(hw.Servers, func(t spec.Server) bool { return t.Name == s.Type }), cpus: s.CPUs}
	server := hw.Servers[f.server]
	f.cost = server.Cost() + float64(s.CPUs)*hw.CPU.Cost()
	left, slots := map[string]int{}, map[string]int{}
	for _, u := range hw.Units {
		n := s.Units[u.Name]
		left[u.Name] = n
		slots[u.Bus] += n
		f.cost += float64(n) * u.Cost()
	}
	for bus, n := range slots {
		at := slices.IndexFunc(server.Buses, func(b spec.Bus) bool { return b.Name == bus })
		if n > 0 && (at < 0 || n > server.Buses[at].Slots) {
			return f, fmt.Errorf("%d units on bus %s, which has fewer slots", n, bus)
		}
	}
	if s.CPUs > server.CPUs {
		return f, fmt.Errorf("%d CPUs in %d sockets", s.CPUs, server.CPUs)
	}
	q := partial{filling: f, held: make([]float64, len(v.loads[0].cpu))}
	systems := map[string]bool{}
	kinds := [2]bool{}
	for _, l := range v.loads {
		share := math.Inf(1)
		instances := 0
		if l.tasks != nil {
			instances = s.Tasks[app.Tasks[l.tasks[0]].Name]
			for _, t := range l.tasks {
				if n := s.Tasks[app.Tasks[t].Name]; n != instances {
					return f, fmt.Errorf("%d instances of %s and %d of %s, which run side by side", n, app.Tasks[t].Name, instances, app.Tasks[l.tasks[0]].Name)
				}
			}
			share = float64(instances) * (1 + forgiven) / l.instances
		}
		for _, c := range l.copies {
			n := s.Datasets[app.Datasets[c.dataset].Name][hw.Units[c.unit].Name]
			left[hw.Units[c.unit].Name] -= n
			if n < instances*c.perInstance {
				return f, fmt.Errorf("%d units for %d copies of %s", n, instances, app.Datasets[c.dataset].Name)
			}
			share = min(share, float64(n)*(1+forgiven)/c.units)
			q.cores += float64(n) * c.cpuPerUnit
			if n > 0 && c.system != "" {
				systems[c.system] = true
			}
		}
		q.most = append(q.most, min(1, share))
		for ph := range q.held {
			q.held[ph] += float64(instances) * l.held[ph]
		}
		if share > 0 {
			kinds[btoi(l.tasks == nil)] = true
		}
	}
	if kinds[0] && kinds[1] && !colocate {
		return f, fmt.Errorf("tasks and remote data on one server")
	}
	memory := 0.0
	for _, u := range hw.Units {
		if left[u.Name] < 0 {
			return f, fmt.Errorf("datasets lie on %d more %s than there are", -left[u.Name], u.Name)
		}
		if u.Volatile {
			memory += float64(left[u.Name]) * u.Capacity
		}
	}
	for name := range systems {
		for ph := range q.held {
			q.held[ph] += app.SystemOf(name).MemoryPerServer
		}
	}
	if slices.Max(q.held) > memory*(1+forgiven) {
		return f, fmt.Errorf("%g bytes of memory where %g are held", memory, slices.Max(q.held))
	}
	if q.cores > float64(s.CPUs)*(1+forgiven) {
		return f, fmt.Errorf("%d CPUs where units keep %g busy", s.CPUs, q.cores)
	}
	f.most, f.free = q.most, stock.free(q, float64(s.CPUs), memory)
	for j := range f.most { // what cannot be served at all has no share
		for r, use := range stock.use[j] {
			if use > 0 && f.free[r] <= 0 {
				f.most[j] = 0
			}
		}
	}
	f.corners = corners(stock.use, f.most, f.free)
	return f, nil
}
