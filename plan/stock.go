package plan

import (
	"fmt"
	"strings"

	"gleaner/input"
	"gleaner/plan/pack"
	"gleaner/plan/spec"
)

// Stock, budgets and a least number of servers are about all servers of a plan. So data and
// tasks, which otherwise share nothing, are then packed together: every type of server
// is there twice, for data and for tasks, and both count.

// Resources that only the servers for data, for tasks, or for tasks that compute long, have.
const (
	forData  = "server for data"
	forTasks = "server for tasks"
	forLong  = "server for long tasks"
)

// side is what the servers of a role are for.
func (r Role) side() string {
	if r.Long {
		return forLong
	}
	return forTasks
}

// limited reports whether anything limits a plan as a whole.
func (in Input) limited() bool {
	for _, s := range in.HW.Servers {
		if s.Stock != 0 {
			return true
		}
	}
	for _, u := range in.HW.Units {
		if u.Stock != 0 {
			return true
		}
	}
	return in.SLA.Budget.Power > 0 || in.SLA.Budget.RackUnits > 0 || in.SLA.Least > 0
}

// unlimited is the input without stock, budgets and a least number of servers.
func (in Input) unlimited() Input {
	out := in.clone()
	for i := range out.HW.Servers {
		out.HW.Servers[i].Stock = 0
	}
	for i := range out.HW.Units {
		out.HW.Units[i].Stock = 0
	}
	out.SLA.Budget, out.SLA.Least = spec.Budget{}, 0
	return out
}

// asPlenty reports whether units of w may replace as many of u whatever else is bought: w does
// not run out, and draws no more if that is limited.
func (in Input) asPlenty(w, u spec.Unit) bool {
	return w.Name == u.Name || w.Stock == 0 && (in.SLA.Budget.Power == 0 || w.Power <= u.Power)
}

// Limited states the needs as one packing problem with stock and budgets.
func (n Needs) Limited(in Input, colocate bool) pack.Problem {
	return n.limited(in, n.sides(colocate))
}

func (n Needs) limited(in Input, apart [][]string) pack.Problem {
	b := n.builder(in, apart)
	out := b.build()
	out.Limits = b.limits()
	return out
}

// sides are what servers are for, by the parts of the needs; none if there is one part only.
func (n Needs) sides(colocate bool) [][]string {
	var out [][]string
	for _, part := range n.parts(colocate) {
		var side []string
		if len(part.Tiers) > 0 {
			side = append(side, forData)
		}
		if len(part.Roles) > 0 {
			side = append(side, part.Roles[0].side())
		}
		out = append(out, side)
	}
	if len(out) < 2 {
		return nil
	}
	return out
}

// asks makes a load demand a server that is for it.
func (b *builder) asks(v vector, side string) {
	if b.apart != nil {
		v[side] = 1
	}
}

// sides are what the servers of a type are for.
func (b *builder) sides() []vector {
	if b.apart == nil {
		return []vector{{}}
	}
	var out []vector
	for _, side := range b.apart {
		v := vector{forData: 0, forTasks: 0, forLong: 0}
		for _, what := range side {
			v[what] = float64(len(b.loads))
		}
		out = append(out, v)
	}
	return out
}

// limits are those of all servers, at every hour.
func (b *builder) limits() []pack.Limit {
	if !b.in.elastic() {
		return b.limitsAt(standing)
	}
	var out []pack.Limit
	for l := range b.in.SLA.Day {
		out = append(out, b.limitsAt(l)...)
	}
	return out
}

func (b *builder) limitsAt(level int) []pack.Limit {
	var out []pack.Limit
	hw, sla := b.in.HW, b.in.SLA
	add := func(name string, bound float64, server func(int) float64, bought func(piece) float64) *pack.Limit {
		l := pack.Limit{Name: name, Bound: bound}
		for i, kind := range b.kinds {
			l.Servers = append(l.Servers, server(kind)*yes(b.runs(i, level)))
		}
		for _, p := range b.pieces {
			l.Purchases = append(l.Purchases, bought(p))
		}
		out = append(out, l)
		return &out[len(out)-1]
	}
	none := func(piece) float64 { return 0 }
	for i, s := range hw.Servers {
		if s.Stock != 0 {
			add(fmt.Sprintf("number of servers %q", s.Name), float64(max(0, s.Stock)), func(k int) float64 { return yes(k == i) }, none)
		}
	}
	for i, u := range hw.Units {
		if u.Stock != 0 {
			add(fmt.Sprintf("number of units %q", u.Name), float64(max(0, u.Stock)), func(int) float64 { return 0 }, func(p piece) float64 { return yes(p.unit == i) * p.count })
		}
	}
	if sla.Budget.Power > 0 {
		add("power in W", sla.Budget.Power, func(k int) float64 { return hw.Servers[k].Power }, func(p piece) float64 { return p.watts })
	}
	if sla.Budget.RackUnits > 0 {
		add("number of rack units", sla.Budget.RackUnits, func(k int) float64 { return hw.Servers[k].RackUnits }, none)
	}
	if sla.Least > 0 {
		add("number of servers", float64(sla.Least), func(int) float64 { return 1 }, none).Least = true
	}
	return out
}

func yes(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// explain notes why needs fit no servers within stock and budgets: they fit none at all, or what the
// cheapest servers would take without.
func (s *search) explain(needs Needs) {
	if s.over != "" {
		return // it is explained
	}
	b := needs.builder(s.in, nil)
	problem := b.build()
	limits := b.limits()
	over := make([]float64, len(limits))
	for _, part := range needs.parts(s.o.Colocate) {
		got := s.remember(part.Problem(s.in))
		if unfit, ok := got.err.(*pack.UnfitError); ok {
			s.keep(unfit)
			return
		}
		for _, f := range got.Fillings {
			c := widen(f, got.problem, problem)
			for i, l := range limits {
				over[i] += float64(f.Count) * l.Of(c)
			}
		}
	}
	var short []string
	zones := 1.0
	if s.in.inZone { // all are alike, and their limits parts of those given
		zones = float64(s.in.SLA.Zones.Number)
	}
	for i, l := range limits {
		if over[i] > l.Bound*(1+1e-9) && !l.Least {
			short = append(short, fmt.Sprintf("a %s of %s, and the limit is %s", l.Name, Figure(zones*over[i]), Figure(zones*l.Bound)))
		}
	}
	s.over = strings.Join(short, "; ")
}

// exhausted is the error if stock or budgets leave no cluster.
func (s *search) exhausted() error {
	text := "no cluster of %s meets this within its stock and the budgets"
	if s.over != "" {
		text += ": without them it takes " + s.over
	}
	return input.Errorf(s.in.SLA.File, text, s.in.HW.File)
}

// Power is what everything in a plan draws, in watts, when that is most.
func (p Plan) Power(in Input) float64 {
	return p.most(in, func(s spec.Server) float64 { return s.Power }, func(c spec.Price) float64 { return c.Power })
}

// RackUnits is the height of all servers of a plan, when that is most.
func (p Plan) RackUnits(in Input) float64 {
	return p.most(in, func(s spec.Server) float64 { return s.RackUnits }, func(spec.Price) float64 { return 0 })
}

// Most is how many servers of a plan there are at a time.
func (p Plan) Most(in Input) int {
	return int(p.most(in, func(spec.Server) float64 { return 1 }, func(spec.Price) float64 { return 0 }))
}

// Energy is the part of the cost that is not purchase or rent.
func (p Plan) Energy(in Input) float64 {
	sum := 0.0
	for _, s := range p.Servers(in) {
		part := 1.0
		if s.Hours != nil {
			part = float64(s.Hours.Hours) / spec.DayHours
		}
		sum += part * s.total(in, func(s spec.Server) float64 { return s.Energy }, func(c spec.Price) float64 { return c.Energy })
	}
	return sum
}

// most adds up servers, and the CPUs and units in them, at the level of the day with most.
func (p Plan) most(in Input, server func(spec.Server) float64, piece func(spec.Price) float64) float64 {
	always, most := 0.0, 0.0
	by := map[string]float64{}
	for _, s := range p.Servers(in) {
		sum := s.total(in, server, piece)
		if s.Hours == nil {
			always += sum
			continue
		}
		by[s.Hours.Name] += sum
		most = max(most, by[s.Hours.Name])
	}
	return always + most
}

// total adds up all servers of this kind. The CPUs of a rented one are part of it.
func (s Server) total(in Input, server func(spec.Server) float64, piece func(spec.Price) float64) float64 {
	one := 0.0
	for _, t := range in.HW.Servers {
		if t.Name != s.Type {
			continue
		}
		one += server(t)
		if !t.Rented() {
			one += float64(s.CPUs) * piece(in.HW.CPU)
		}
	}
	for _, u := range in.HW.Units {
		one += float64(s.Units[u.Name]) * piece(u.Price)
	}
	return one * float64(s.Count)
}
