package plan

import (
	"fmt"
	"math"

	"gleaner/plan/spec"
)

// An Attribute is one number of the specifications.
type Attribute struct {
	Of          string // the element: dataset "photos"
	Name        string
	Value       float64
	Unit        string // what the value is in
	whole       bool
	least, most float64
	at          func(*Input) *float64
	count       func(*Input) *int // if it is a whole number
}

func (a Attribute) set(in *Input, v float64) {
	if a.whole {
		*a.count(in) = int(v)
		return
	}
	*a.at(in) = v
}

// Attributes lists every number of the three specifications that is given and
// not 0: a factor does not change 0.
func Attributes(in Input) []Attribute {
	l := &attributeList{in: in}
	l.hardware()
	l.application()
	for i, r := range in.SLA.Rates {
		if len(r.Levels) == 0 {
			l.add("sla "+in.App.Tasks[r.Task].Name, "rate", "1/s", func(in *Input) *float64 { return &in.SLA.Rates[i].PerSecond })
		}
		for k := range r.Levels {
			l.add("sla "+in.App.Tasks[r.Task].Name+" in "+in.SLA.Day[k].Name, "rate", "1/s", func(in *Input) *float64 { return &in.SLA.Rates[i].Levels[k] })
		}
		l.add("sla "+in.App.Tasks[r.Task].Name, "latency", "s", func(in *Input) *float64 { return &in.SLA.Rates[i].Latency })
	}
	l.add("budget", "power", "W", func(in *Input) *float64 { return &in.SLA.Budget.Power })
	l.add("budget", "rack_units", "", func(in *Input) *float64 { return &in.SLA.Budget.RackUnits })
	l.given("least", "servers", func(in *Input) *int { return &in.SLA.Least })
	if in.SLA.Job != nil {
		l.add("sla", "time", "s", func(in *Input) *float64 { return &in.SLA.Job.Time })
		l.add("sla", "job", "B", func(in *Input) *float64 { return &in.SLA.Job.Bytes })
		l.add("sla", "job", "records", func(in *Input) *float64 { return &in.SLA.Job.Records })
	}
	return l.out
}

type attributeList struct {
	in  Input
	out []Attribute
}

func (l *attributeList) add(of, name, unit string, at func(*Input) *float64) {
	if v := *at(&l.in); v > 0 && !math.IsNaN(v) {
		a := Attribute{Of: of, Name: name, Value: v, Unit: unit, at: at, most: math.Inf(1)}
		if name == "probability" || name == "hit_rate" {
			a.most = 1
		}
		l.out = append(l.out, a)
	}
}

func (l *attributeList) whole(of, name string, at func(*Input) *int) {
	l.out = append(l.out, Attribute{Of: of, Name: name, Value: float64(*at(&l.in)), whole: true, least: 1, most: 1e6, count: at})
}

// given adds a whole number that is 0 if it is not given.
func (l *attributeList) given(of, name string, at func(*Input) *int) {
	if *at(&l.in) > 0 {
		l.whole(of, name, at)
	}
}

func (l *attributeList) hardware() {
	for i, u := range l.in.HW.Units {
		of := "storage_unit " + u.Name
		unit := func(f func(*spec.Unit) *float64) func(*Input) *float64 {
			return func(in *Input) *float64 { return f(&in.HW.Units[i]) }
		}
		l.add(of, "price", l.in.HW.Currency, unit(func(u *spec.Unit) *float64 { return &u.Price.Price }))
		l.add(of, "energy", l.in.HW.Currency, unit(func(u *spec.Unit) *float64 { return &u.Energy }))
		l.add(of, "capacity", "B", unit(func(u *spec.Unit) *float64 { return &u.Capacity }))
		l.add(of, "rateR", "B/s", unit(func(u *spec.Unit) *float64 { return &u.RateR }))
		l.add(of, "gapR", "s", unit(func(u *spec.Unit) *float64 { return &u.GapR }))
		l.add(of, "rateW", "B/s", unit(func(u *spec.Unit) *float64 { return &u.RateW }))
		l.add(of, "gapW", "s", unit(func(u *spec.Unit) *float64 { return &u.GapW }))
		l.given(of, "stock", func(in *Input) *int { return &in.HW.Units[i].Stock })
	}
	l.add("cpu", "price", l.in.HW.Currency, func(in *Input) *float64 { return &in.HW.CPU.Price })
	l.add("cpu", "energy", l.in.HW.Currency, func(in *Input) *float64 { return &in.HW.CPU.Energy })
	for i, s := range l.in.HW.Servers {
		of := "server " + s.Name
		l.add(of, "price", l.in.HW.Currency, func(in *Input) *float64 { return &in.HW.Servers[i].Price.Price })
		l.add(of, "energy", l.in.HW.Currency, func(in *Input) *float64 { return &in.HW.Servers[i].Energy })
		l.add(of, "rent", l.in.HW.Currency, func(in *Input) *float64 { return &in.HW.Servers[i].Rent })
		l.add(of, "memory", "B", func(in *Input) *float64 { return &in.HW.Servers[i].Memory })
		l.whole(of, "cpus", func(in *Input) *int { return &in.HW.Servers[i].CPUs })
		l.add(of, "BW", "B/s", func(in *Input) *float64 { return &in.HW.Servers[i].BW })
		l.given(of, "stock", func(in *Input) *int { return &in.HW.Servers[i].Stock })
		for j, b := range s.Buses {
			l.whole(of+" bus "+b.Name, "slots", func(in *Input) *int { return &in.HW.Servers[i].Buses[j].Slots })
			l.add(of+" bus "+b.Name, "BW", "B/s", func(in *Input) *float64 { return &in.HW.Servers[i].Buses[j].BW })
		}
	}
}

func (l *attributeList) application() {
	for i, s := range l.in.App.Systems {
		of := "storage_system " + s.Name
		l.add(of, "memory_per_server", "B", func(in *Input) *float64 { return &in.App.Systems[i].MemoryPerServer })
		for j, r := range s.Rates {
			rates := func(f func(*spec.Rates) *float64) func(*Input) *float64 {
				return func(in *Input) *float64 { return f(&in.App.Systems[i].Rates[j]) }
			}
			of := of + " unit " + r.Unit
			l.add(of, "rateR", "B/s", rates(func(r *spec.Rates) *float64 { return &r.RateR }))
			l.add(of, "gapR", "s", rates(func(r *spec.Rates) *float64 { return &r.GapR }))
			l.add(of, "rateW", "B/s", rates(func(r *spec.Rates) *float64 { return &r.RateW }))
			l.add(of, "gapW", "s", rates(func(r *spec.Rates) *float64 { return &r.GapW }))
		}
	}
	for i, d := range l.in.App.Datasets {
		of := "dataset " + d.Name
		l.add(of, "size", "B", func(in *Input) *float64 { return &in.App.Datasets[i].Size })
		l.add(of, "cpu_per_op", "s", func(in *Input) *float64 { return &in.App.Datasets[i].CPUPerOp })
		l.add(of, "cpu_per_unit", "cores", func(in *Input) *float64 { return &in.App.Datasets[i].CPUPerUnit })
		l.add(of, "working_set", "B", func(in *Input) *float64 { return &in.App.Datasets[i].WorkingSet })
	}
	for i, t := range l.in.App.Tasks {
		l.add("task "+t.Name, "memory", "B", func(in *Input) *float64 { return &in.App.Tasks[i].Memory })
		for j := range t.Path {
			l.operation(i, j)
		}
	}
}

func (l *attributeList) operation(task, step int) {
	op := l.in.App.Tasks[task].Path[step]
	of := fmt.Sprintf("task %s step %d", l.in.App.Tasks[task].Name, step+1)
	at := func(f func(*spec.Op) *float64) func(*Input) *float64 {
		return func(in *Input) *float64 { return f(&in.App.Tasks[task].Path[step]) }
	}
	if op.Probability < 1 {
		l.add(of, "probability", "", at(func(op *spec.Op) *float64 { return &op.Probability }))
	}
	switch {
	case op.IO != nil:
		of += " " + l.in.App.Datasets[op.IO.Dataset].Name
		l.add(of, "num_records", "", at(func(op *spec.Op) *float64 { return &op.IO.Records }))
		l.add(of, "record_size", "B", at(func(op *spec.Op) *float64 { return &op.IO.RecordSize }))
		l.add(of, "stream_rate", "B/s", at(func(op *spec.Op) *float64 { return &op.IO.StreamRate }))
	case op.Call != nil:
		l.add(of+" "+l.in.App.Tasks[op.Call.Task].Name, "num_invocations", "", at(func(op *spec.Op) *float64 { return &op.Call.Invocations }))
	default:
		l.add(of, "time", "s", at(func(op *spec.Op) *float64 { return &op.Compute }))
	}
}
