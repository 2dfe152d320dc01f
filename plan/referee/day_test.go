package referee

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// always is the level of a load that is there all day, and of a limit if there is no day.
const always = -1

// levels is how many a day has: one if it has none.
func levels(in plan.Input) int { return max(1, len(in.SLA.Day)) }

// comeAndGo reports whether some servers may.
func comeAndGo(in plan.Input) bool {
	return len(in.SLA.Day) > 0 && slices.ContainsFunc(in.HW.Servers, func(s spec.Server) bool { return s.Rent > 0 })
}

// readings are those of each level.
func (r reading) readings() []reading {
	var out []reading
	for l := range r.in.SLA.Day {
		now := r
		now.in.SLA.Day = nil
		now.in.SLA.Rates = slices.Clone(r.in.SLA.Rates)
		for i := range now.in.SLA.Rates {
			now.in.SLA.Rates[i].PerSecond = r.in.SLA.Rates[i].Levels[l]
		}
		out = append(out, now)
	}
	return out
}

// overDay is all loads of an architecture over a day: roles without local data are one in each level.
func (r reading) overDay() []load {
	all := r.readings()
	ever := make([]float64, len(r.in.App.Tasks))
	var f [][]float64
	for l, now := range all {
		f = append(f, now.frequencies())
		for t, n := range f[l] {
			ever[t] += n
		}
	}
	var out []load
	for _, tasks := range r.roles(ever) {
		if len(r.role(tasks, ever, ever).copies) > 0 {
			out = append(out, r.tied(tasks, ever, all, f))
			continue
		}
		for l, now := range all {
			if running := busy(tasks, f[l]); len(running) > 0 {
				one := now.role(running, f[l], f[l])
				one.level, one.name = l, one.name+" in "+r.in.SLA.Day[l].Name
				out = append(out, one.at(l, len(all)))
			}
		}
	}
	for d, data := range r.in.App.Datasets {
		if data.Remote {
			out = append(out, r.remote(d, all, f)...)
		}
	}
	return out
}

// busy are the tasks that run.
func busy(tasks []int, f []float64) []int {
	return slices.DeleteFunc(slices.Clone(tasks), func(t int) bool { return f[t] == 0 })
}

// at is a load of one level in a day of several.
func (l load) at(level, of int) load {
	for _, v := range []*[]float64{&l.cpu, &l.net, &l.memory, &l.held} {
		wide := make([]float64, of)
		wide[level] = (*v)[0]
		*v = wide
	}
	return l
}

// tied is a role with local data: it is there all day, with all that its instances hold.
func (r reading) tied(tasks []int, ever []float64, all []reading, f [][]float64) load {
	out := r.role(tasks, ever, ever)
	held := out.held[0]
	out.instances = 0
	none := make([]float64, len(all))
	out.cpu, out.net, out.memory, out.held = slices.Clone(none), slices.Clone(none), slices.Clone(none), slices.Clone(none)
	for i := range out.copies {
		out.copies[i].units, out.copies[i].traffic = 0, slices.Clone(none)
	}
	for l, now := range all {
		out.held[l] = held
		one := r.empty()
		if running := busy(tasks, f[l]); len(running) > 0 {
			one = now.role(running, f[l], f[l])
		}
		out.instances = max(out.instances, one.instances)
		out.cpu[l], out.net[l], out.memory[l] = one.cpu[0], one.net[0], one.memory[0]
		for i := range out.copies {
			c := &out.copies[i]
			for _, some := range now.copies(c.dataset, f[l]) { // those of a dataset that nobody touches have room only
				if some.cache == c.cache {
					c.units = max(c.units, some.units)
					c.traffic[l] = some.traffic[0]
				}
			}
		}
	}
	return out
}

// remote is the copies of a remote dataset, with units for the level that needs most.
func (r reading) remote(dataset int, all []reading, f [][]float64) []load {
	var out []load
	for l, now := range all {
		for i, one := range now.copiesOf(dataset, f[l]) {
			if l == 0 {
				wide := one.at(0, len(all))
				wide.copies = slices.Clone(one.copies)
				wide.copies[0].traffic = make([]float64, len(all))
				out = append(out, wide)
			}
			out[i].copies[0].units = max(out[i].copies[0].units, one.copies[0].units)
			out[i].copies[0].traffic[l] = one.copies[0].traffic[0]
			out[i].net[l], out[i].cpu[l] = one.net[0], one.cpu[0]
		}
	}
	return out
}

// A when is the levels in which a server is rented; nil if it stands all day.
type when []bool

func (w when) has(level int) bool { return w == nil || level != always && w[level] }

// whens are all that a server may be: all day, and if it is for rent, in any hours.
func whens(in plan.Input, s spec.Server) []when {
	out := []when{nil}
	if s.Rent == 0 || len(in.SLA.Day) == 0 {
		return out
	}
	for set := 1; set < 1<<len(in.SLA.Day); set++ {
		w := make(when, len(in.SLA.Day))
		for l := range w {
			w[l] = set>>l&1 == 1
		}
		out = append(out, w)
	}
	return out
}

// bare is what a server costs without what is put into it.
func bare(in plan.Input, s spec.Server, w when) float64 {
	if w == nil {
		return s.Cost()
	}
	sum := 0.0
	for l, level := range in.SLA.Day {
		if w[l] {
			sum += (s.Rent + s.Energy) * float64(level.Hours) / 24
		}
	}
	return sum
}

// barred reports whether a bus has units that a server which comes and goes may not have.
func barred(hw spec.Hardware, bus string) bool {
	return slices.ContainsFunc(hw.Units, func(u spec.Unit) bool {
		return u.Bus == bus && (u.Cost() > 0 || u.Power > 0 || u.Stock > 0)
	})
}

// day gives rates of some documents hours, and puts some servers up for rent.
func day(seed uint64, d documents, chance float64) {
	w := writer{Rand: rand.New(rand.NewPCG(seed, 16))}
	if !w.chance(chance) || d.sla.all("sla")[0].get("job") != "" {
		return
	}
	from, more := w.IntN(20), w.chance(0.15) // two levels, or three
	to := (from + 1 + w.IntN(8)) % 24
	for i, e := range d.sla.all("sla") {
		if i > 0 && !w.chance(0.5) {
			continue
		}
		hours := el("hours", "from", strconv.Itoa(from), "to", strconv.Itoa(to), "rate", e.get("rate"))
		scale(hours, "rate", pick(w, 0, 0.2, 2, 3, 6))
		e.add(hours)
		if more {
			e.add(el("hours", "from", strconv.Itoa(to), "to", strconv.Itoa((to+1)%24), "rate", e.get("rate")))
			scale(e.kids[1], "rate", 1.5)
		}
	}
	years := 3.0
	if y := d.hw.get("years"); y != "" {
		years = number(y)
	}
	if w.chance(0.6) {
		e := pick(w, d.hw.all("server")...).clone()
		e.set("name", "other")
		e.drop("stock")
		e.set("price", w.number(100, 2000))
		d.hw.add(e)
	}
	for _, e := range d.hw.all("server") {
		if e.get("price") == "0" || e.get("name") != "other" && !w.chance(0.4) {
			continue
		}
		hourly := number(e.get("price")) / years / 8760 * pick(w, 0.5, 1, 2)
		e.set("hourly", strconv.FormatFloat(hourly, 'g', 4, 64))
		if w.chance(0.7) {
			e.drop("price")
		}
		if w.chance(0.8) {
			e.set("memory", pick(w, "1GB", "4GB", "16GB"))
		}
	}
}

// drop removes an attribute.
func (e *element) drop(name string) {
	e.attrs = slices.DeleteFunc(e.attrs, func(a [2]string) bool { return a[0] == name })
}

// tried changes documents in a way that may make a mistake of them: then it does nothing.
func tried(d documents, change func(documents)) {
	after := d.clone()
	change(after)
	if _, err := parse(after.files()); err == nil {
		change(d)
	}
}

// onSale keeps some servers, and the units that fit into one of them.
func onSale(d documents, keep func(*element) bool) {
	d.hw.kids = slices.DeleteFunc(d.hw.kids, func(e *element) bool { return e.name == "server" && !keep(e) })
	buses := map[string]bool{}
	for _, b := range d.hw.all("bus") {
		buses[b.get("name")] = true
	}
	d.hw.kids = slices.DeleteFunc(d.hw.kids, func(e *element) bool { return e.name == "storage_unit" && !buses[e.get("bus")] })
}

// As TestAgainstModel, with documents that all have a day.
func TestDaysAgainstModel(t *testing.T) {
	from, to := seeds(t, 15, 600)
	agree(t, from, to, func(seed uint64) documents {
		d := documentsOf(seed, 1)
		if len(d.sla.all("hours")) == 0 {
			day(seed, d, 1)
		}
		return d
	})
}

// Laws of days, with documents that all have one.
func TestDayLaws(t *testing.T) {
	from, to := seeds(t, 20, 200)
	hold(t, from, to, dayLaws, func(seed uint64) documents {
		d := documentsOf(seed, 1)
		if len(d.sla.all("hours")) == 0 {
			day(seed, d, 1)
		}
		return d
	})
}

// dayLaws are about rates that change over the day: owned and rented servers together cost no more than
// either alone.
var dayLaws = []law{
	{"owned servers alone", 1, math.Inf(1), func(w writer, d documents) {
		tried(d, func(d documents) { onSale(d, func(e *element) bool { return e.get("hourly") == "" }) })
	}},
	{"rented servers alone", 1, math.Inf(1), func(w writer, d documents) {
		tried(d, func(d documents) { onSale(d, func(e *element) bool { return e.get("hourly") != "" }) })
	}},
	{"the busiest rates all day", 1, math.Inf(1), func(w writer, d documents) {
		for _, e := range d.sla.all("sla") { // what is highest, all day
			most := e.get("rate")
			if len(e.kids) == 0 {
				continue
			}
			for _, h := range e.all("hours") {
				if number(h.get("rate")) > number(most) {
					most = h.get("rate")
				}
			}
			e.set("rate", most)
			e.kids = nil
		}
	}},
	{"a server for rent as well", 0, 1, func(w writer, d documents) {
		if len(d.sla.all("hours")) > 0 {
			d.hw.add(el("server", "name", "for rent", "hourly", fmt.Sprintf("%.4g", 0.002*float64(1+w.IntN(30))), "cpus", fmt.Sprint(1+w.IntN(6)), "BW", "1Gbps", "memory", "8GB"))
		}
	}},
}
