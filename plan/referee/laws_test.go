package referee

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"gleaner/input"
	"gleaner/plan"
)

// A law changes documents in a way whose effect on the cost is known: it is
// multiplied by something from least to most.
type law struct {
	name        string
	least, most float64
	change      func(w writer, d documents)
}

var laws = []law{
	{"more hardware on sale", 0, 1, func(w writer, d documents) {
		more := w.hardware(2)
		for _, e := range append(more.all("storage_unit"), more.all("server")...) {
			e.set("name", "more "+e.get("name"))
			if w.chance(0.6) {
				d.hw.add(e)
			}
		}
	}},
	{"a larger server on sale", 0, 1, func(w writer, d documents) {
		servers := d.hw.all("server")
		e := pick(w, servers...).clone()
		e.set("name", "larger")
		e.set("cpus", "8")
		e.set("price", "10000")
		d.hw.add(e)
	}},
	{"lower prices", 0, 1, func(w writer, d documents) {
		for _, kind := range []string{"storage_unit", "server", "cpu"} {
			for _, e := range d.hw.all(kind) {
				if w.chance(0.5) {
					factor := pick(w, 0.3, 0.8, 0.99)
					scale(e, "price", factor)
					scale(e, "hourly", factor)
				}
			}
		}
	}},
	{"a lower rate", 0, 1, func(w writer, d documents) {
		for _, e := range d.sla.all("sla") {
			factor := pick(w, 0.2, 0.7, 0.95)
			if e.get("rate") != "" {
				scale(e, "rate", factor)
				for _, h := range e.all("hours") {
					scale(h, "rate", factor)
				}
			} else {
				scale(e, "time", 1/factor)
			}
		}
	}},
	{"smaller datasets", 0, 1, func(w writer, d documents) {
		for _, e := range d.app.all("dataset") {
			if factor := pick(w, 1, 0.3, 0.8); e.get("working_set") == "" || number(e.get("size"))*factor > 0.6 {
				scale(e, "size", factor)
			}
		}
	}},
	{"all prices times three", 3, 3, func(w writer, d documents) {
		for _, kind := range []string{"storage_unit", "server", "cpu"} {
			for _, e := range d.hw.all(kind) {
				scale(e, "price", 3)
				scale(e, "hourly", 3)
			}
		}
		scale(d.hw, "energy_price", 3)
	}},
	{"another order", 1, 1, func(w writer, d documents) {
		for _, e := range append([]*element{d.app, d.hw, d.sla}, d.hw.all("server")...) {
			w.Shuffle(len(e.kids), func(i, j int) { e.kids[i], e.kids[j] = e.kids[j], e.kids[i] })
			w.Shuffle(len(e.attrs), func(i, j int) { e.attrs[i], e.attrs[j] = e.attrs[j], e.attrs[i] })
		}
	}},
	{"less headroom", 0, 1, func(w writer, d documents) {
		for _, e := range d.sla.all("utilisation") {
			for i := range e.attrs {
				if w.chance(0.5) {
					e.attrs[i][1] = pick(w, "96%", "1")
				}
			}
		}
	}},
	{"more headroom", 1, math.Inf(1), func(w writer, d documents) {
		for _, e := range d.sla.all("utilisation") {
			scale(e, pick(w, "cpu", "memory", "network", "bus", "io", "space"), pick(w, 0.6, 0.9))
		}
	}},
	{"another replica", 1, math.Inf(1), func(w writer, d documents) {
		for _, e := range d.app.all("dataset") {
			if e.get("remote") != "0" && w.chance(0.5) {
				e.set("replicas", fmt.Sprint(1+int(number("0"+e.get("replicas")))+btoi(e.get("replicas") == "")))
			}
		}
	}},
	{"no server may fail", 0, 1, func(w writer, d documents) {
		for i, e := range d.sla.kids {
			if e.name == "survive" {
				d.sla.kids = append(d.sla.kids[:i:i], d.sla.kids[i+1:]...)
				return
			}
		}
	}},
	{"longer latencies", 0, 1, func(w writer, d documents) {
		for _, e := range d.sla.all("sla") {
			scale(e, "latency", pick(w, 1.1, 4))
		}
	}},
	{"a higher percentile", 1, math.Inf(1), func(w writer, d documents) {
		for _, e := range d.sla.all("sla") {
			if e.get("latency") != "" {
				e.set("percentile", "99.9%")
			}
		}
	}},
	{"more stock", 0, 1, func(w writer, d documents) {
		for _, e := range append(d.hw.all("server"), d.hw.all("storage_unit")...) {
			if w.chance(0.7) {
				scale(e, "stock", 2)
			}
		}
	}},
	{"larger budgets", 0, 1, func(w writer, d documents) {
		for _, e := range d.sla.all("budget") {
			scale(e, "power", pick(w, 1.1, 3))
			scale(e, "rack_units", pick(w, 1.1, 3))
		}
	}},
	{"more servers at least", 1, math.Inf(1), func(w writer, d documents) {
		for _, e := range d.sla.all("least") {
			scale(e, "servers", 2)
		}
	}},
	{"other names", 1, 1, func(w writer, d documents) { rename(w, d) }},
}

// number is the number before a unit.
func number(s string) float64 {
	v, err := strconv.ParseFloat(s[:len(s)-len(unitOf(s))], 64)
	if err != nil {
		panic(err)
	}
	return v
}

func unitOf(s string) string {
	trimmed := strings.TrimRight(s, "abcdfghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ%/")
	return s[len(trimmed):]
}

func scale(e *element, attribute string, factor float64) {
	if old := e.get(attribute); old != "" {
		e.set(attribute, strconv.FormatFloat(number(old)*factor, 'g', -1, 64)+unitOf(old))
	}
}

// rename renames everything, so that sorting by name gives another order.
func rename(w writer, d documents) {
	known := map[string]string{}
	fresh := w.Perm(1000)
	other := func(kind, name string) string {
		key := kind + " " + name
		if known[key] == "" {
			known[key] = fmt.Sprintf("n%d", fresh[len(known)])
		}
		return known[key]
	}
	swap := func(root *element, element, attribute, kind string) {
		for _, e := range root.all(element) {
			if old := e.get(attribute); old != "" {
				e.set(attribute, other(kind, old))
			}
		}
	}
	swap(d.app, "dataset", "name", "dataset")
	swap(d.app, "io", "dataset", "dataset")
	swap(d.app, "task", "name", "task")
	swap(d.app, "dependency", "task", "task")
	swap(d.sla, "sla", "task", "task")
	swap(d.app, "task", "phase", "phase")
	swap(d.app, "storage_system", "name", "system")
	swap(d.app, "dataset", "system", "system")
	swap(d.app, "unit", "name", "unit")
	swap(d.hw, "storage_unit", "name", "unit")
	swap(d.hw, "storage_unit", "bus", "bus")
	swap(d.hw, "bus", "name", "bus")
	swap(d.hw, "server", "name", "server")
}

// Laws of planning that need no model to be checked. They are checked against costs
// if both plans are proven, and against the bound if one is not.
func TestLaws(t *testing.T) {
	from, to := seeds(t, 12, 300)
	hold(t, from, to, laws, func(seed uint64) documents { return documentsOf(seed, 1+int(seed%2)) })
}

// hold checks laws on documents of some seeds.
func hold(t *testing.T, from, to uint64, laws []law, of func(seed uint64) documents) {
	t.Helper()
	held, idle := 0, 0
	for seed := from; seed <= to; seed++ {
		d := of(seed)
		before, err := priced(d)
		if err != nil && !input.Is(err) && !errors.Is(err, plan.ErrStopped) {
			t.Errorf("seed %d: %v", seed, err)
			keep(t, seed, d.files(), d.colocate)
		}
		if err != nil {
			idle++
			continue
		}
		for i, l := range laws {
			after := d.clone()
			l.change(writer{Rand: rand.New(rand.NewPCG(seed, uint64(i)))}, after)
			if after.files() == d.files() { // it is about something that is not there
				continue
			}
			now, err := priced(after)
			if errors.Is(err, plan.ErrStopped) {
				idle++
				continue
			}
			held++
			if now[0] > l.most*before[1]*(1+tolerance) || now[1] < l.least*before[0]*(1-tolerance) {
				t.Errorf("seed %d: %s: a cost from %.2f to %.2f became one from %.2f to %.2f (%v)", seed, l.name, before[0], before[1], now[0], now[1], err)
				keep(t, seed, d.files(), d.colocate)
				keep(t, seed, after.files(), d.colocate)
			}
		}
	}
	t.Logf("%d held, %d not asked", held, idle)
}

// priced is the cost of documents, as a range; infinite if the SLA cannot be met.
func priced(d documents) ([2]float64, error) {
	in, err := parse(d.files())
	if err != nil {
		panic(fmt.Sprintf("the writer of documents makes mistakes: %v", err))
	}
	p, err := planned(in, d.colocate, 2*time.Second)
	if err != nil {
		return [2]float64{math.Inf(1), math.Inf(1)}, err
	}
	return [2]float64{p.LowerBound, p.Cost}, nil
}
