package referee

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// An element is a part of a document, to be written as XML or YAML.
type element struct {
	name  string
	attrs [][2]string
	kids  []*element
}

func el(name string, attrs ...string) *element {
	e := &element{name: name}
	for i := 0; i < len(attrs); i += 2 {
		e.set(attrs[i], attrs[i+1])
	}
	return e
}

func (e *element) set(name, value string) {
	for i := range e.attrs {
		if e.attrs[i][0] == name {
			e.attrs[i][1] = value
			return
		}
	}
	e.attrs = append(e.attrs, [2]string{name, value})
}

func (e *element) get(name string) string {
	for _, a := range e.attrs {
		if a[0] == name {
			return a[1]
		}
	}
	return ""
}

func (e *element) add(kids ...*element) *element {
	e.kids = append(e.kids, kids...)
	return e
}

// all are the elements of a name below this one.
func (e *element) all(name string) []*element {
	var out []*element
	for _, k := range e.kids {
		if k.name == name {
			out = append(out, k)
		}
		out = append(out, k.all(name)...)
	}
	return out
}

func (e *element) clone() *element {
	out := &element{name: e.name, attrs: append([][2]string(nil), e.attrs...)}
	for _, k := range e.kids {
		out.kids = append(out.kids, k.clone())
	}
	return out
}

var xmlText = strings.NewReplacer("&", "&amp;", "<", "&lt;", `"`, "&quot;", "\n", "&#10;", "\t", "&#9;", "\r", "&#13;")

func (e *element) xml(b *strings.Builder, indent string) {
	fmt.Fprintf(b, "%s<%s", indent, e.name)
	for _, a := range e.attrs {
		fmt.Fprintf(b, ` %s="%s"`, a[0], xmlText.Replace(a[1]))
	}
	if len(e.kids) == 0 {
		b.WriteString("/>\n")
		return
	}
	b.WriteString(">\n")
	for _, k := range e.kids {
		k.xml(b, indent+" ")
	}
	fmt.Fprintf(b, "%s</%s>\n", indent, e.name)
}

// yaml writes what is below an element's key.
func (e *element) yaml(b *strings.Builder, indent string) {
	for _, a := range e.attrs {
		fmt.Fprintf(b, "%s%s: %q\n", indent, a[0], a[1])
	}
	done := map[string]bool{}
	for _, k := range e.kids {
		if e.name == "task" {
			if !done["path"] {
				fmt.Fprintf(b, "%spath:\n", indent)
			}
			done["path"] = true
			fmt.Fprintf(b, "%s- %s:\n", indent, k.name)
			k.yaml(b, indent+"    ")
			continue
		}
		if slices.Contains([]string{"cpu", "utilisation", "survive", "budget", "least"}, k.name) {
			if len(k.attrs) == 0 {
				fmt.Fprintf(b, "%s%s: {}\n", indent, k.name)
			} else {
				fmt.Fprintf(b, "%s%s:\n", indent, k.name)
				k.yaml(b, indent+"  ")
			}
			continue
		}
		if done[k.name] {
			continue
		}
		done[k.name] = true
		fmt.Fprintf(b, "%s%s:\n", indent, strings.NewReplacer("buss", "buses", "hourss", "hours").Replace(k.name+"s"))
		for _, same := range e.kids {
			if same.name == k.name {
				var one strings.Builder
				same.yaml(&one, indent+"  ")
				fmt.Fprintf(b, "%s-%s", indent, strings.TrimPrefix(one.String(), indent+" "))
			}
		}
	}
}

// documents are the three documents of a plan.
type documents struct {
	app, hw, sla *element
	yaml         [3]bool
	colocate     bool
}

func (d documents) clone() documents {
	d.app, d.hw, d.sla = d.app.clone(), d.hw.clone(), d.sla.clone()
	return d
}

// text writes a whole document.
func (e *element) text(yaml bool) string {
	var b strings.Builder
	switch {
	case !yaml:
		e.xml(&b, "")
	case e.name == "slas" && len(e.all("sla")) == len(e.kids): // the document is the list
		b.WriteString("slas:\n")
		for _, k := range e.kids {
			var one strings.Builder
			k.yaml(&one, "  ")
			fmt.Fprintf(&b, "-%s", strings.TrimPrefix(one.String(), " "))
		}
	default:
		fmt.Fprintf(&b, "%s:\n", e.name)
		e.yaml(&b, "  ")
	}
	return b.String()
}

// files returns names and texts, application first.
func (d documents) files() [3][2]string {
	var out [3][2]string
	for i, e := range []*element{d.app, d.hw, d.sla} {
		ending := ".xml"
		if d.yaml[i] {
			ending = ".yaml"
		}
		out[i] = [2]string{[]string{"app", "hw", "sla"}[i] + ending, e.text(d.yaml[i])}
	}
	return out
}

func parse(f [3][2]string) (in plan.Input, err error) {
	if in.App, err = spec.ReadApplication(f[0][0], []byte(f[0][1])); err != nil {
		return in, err
	}
	if in.HW, err = spec.ReadHardware(f[1][0], []byte(f[1][1])); err != nil {
		return in, err
	}
	in.SLA, err = spec.ReadSLA(f[2][0], []byte(f[2][1]), in.App)
	return in, err
}

// keep writes documents to a directory that outlives the test, and says how to run them.
func keep(t testing.TB, seed uint64, f [3][2]string, colocate bool) {
	dir, err := os.MkdirTemp("", fmt.Sprintf("referee-%d-", seed))
	if err != nil {
		t.Error(err)
		return
	}
	for _, d := range f {
		if err := os.WriteFile(filepath.Join(dir, d[0]), []byte(d[1]), 0o600); err != nil {
			t.Error(err)
		}
	}
	flag := ""
	if colocate {
		flag = " --colocate"
	}
	t.Logf("seed %d; again with REFEREE_SEED=%d go test -run '^%s$' ./plan/referee, or\n  gleaner plan --app %s --hw %s --sla %s%s", seed, seed, t.Name(),
		filepath.Join(dir, f[0][0]), filepath.Join(dir, f[1][0]), filepath.Join(dir, f[2][0]), flag)
}

// A writer generates documents: small ones that use everything in the formats.
type writer struct {
	*rand.Rand
	datasets, tasks int
	phases          int // of a job; 0 for request rates
}

func (w writer) chance(p float64) bool { return w.Float64() < p }

func pick[T any](w writer, from ...T) T { return from[w.IntN(len(from))] }

// number is a figure of two digits within a range, evenly spaced in ratio.
func (w writer) number(from, to float64) string {
	v := from * math.Pow(to/from, w.Float64())
	digit := math.Pow(10, math.Floor(math.Log10(v))-1)
	return strconv.FormatFloat(math.Round(v/digit)*digit, 'g', 6, 64)
}

// documentsOf generates documents; the model can solve those of size 1.
func documentsOf(seed uint64, size int) documents {
	w := writer{Rand: rand.New(rand.NewPCG(seed, 12))}
	w.datasets, w.tasks = w.IntN(3*size)+1, w.IntN(2*size)+1
	if w.chance(0.15) {
		w.tasks++
	}
	if w.chance(0.25) {
		w.phases = 1 + w.IntN(2)
	}
	d := documents{hw: w.hardware(size), colocate: w.chance(0.4)}
	for i := range d.yaml {
		d.yaml[i] = w.chance(0.25)
	}
	if d.colocate && size == 1 {
		w.datasets, w.tasks = min(w.datasets, 2), min(w.tasks, 2)
	}
	w.tasks = max(w.tasks, w.phases)
	d.app, d.sla = w.application()
	w.targets(d.sla)
	w.durability(d.app, d.sla)
	for _, e := range d.hw.all("server") {
		if w.chance(0.15) {
			e.set("boot_cpus", pick(w, "0.5", "1", "1"))
			if cpus, _ := strconv.Atoi(e.get("cpus")); cpus < 2 {
				e.set("boot_cpus", "0.3")
			}
		}
		if w.chance(0.15) {
			e.set("boot_memory", pick(w, "0.5GB", "2GB"))
		}
	}
	limits(seed, d)
	zone(seed, d)
	latencies(seed, &d, 0.25)
	day(seed, d, 0.1)
	return d
}

// durability gives some datasets replicas, spreads some tasks, and in some documents
// lets a server fail.
func (w writer) durability(app, sla *element) {
	fails := w.chance(0.15)
	for _, e := range app.all("dataset") {
		switch {
		case e.get("remote") == "0" && e.get("partitioned") != "":
			fails = false
		case e.get("remote") != "0" && (fails || w.chance(0.15)):
			e.set("replicas", pick(w, "2", "2", "3"))
		}
	}
	for _, e := range app.all("task") {
		if w.chance(0.1) {
			e.set("spread", pick(w, "2", "3"))
		}
	}
	if fails {
		for _, e := range app.all("dataset") { // those before the decision
			if e.get("remote") != "0" && e.get("replicas") == "" {
				e.set("replicas", "2")
			}
		}
		sla.add(el("survive", "servers", "1"))
	}
}

// targets asks for headroom of some resources, in every fourth document.
func (w writer) targets(sla *element) {
	if !w.chance(0.25) {
		return
	}
	e := el("utilisation")
	for _, name := range []string{"cpu", "memory", "network", "bus", "io", "space"} {
		if w.chance(0.5) {
			e.set(name, pick(w, "50%", "0.7", "80%", "0.95"))
		}
	}
	sla.add(e)
}

func (w writer) hardware(size int) *element {
	hw := el("resources", "energy_price", "0")
	if w.chance(0.3) {
		hw = el("resources", "energy_price", pick(w, "0.1", "0.25"), "years", pick(w, "1", "5"))
	}
	unit := func(name, bus string, capacity, rate, gap [2]float64, scale, price string, volatile string) {
		u := el("storage_unit", "name", name, "capacity", w.number(capacity[0], capacity[1])+"GB", "bus", bus,
			"rateR", w.number(rate[0], rate[1])+"MBps", "gapR", w.number(gap[0], gap[1])+scale,
			"rateW", w.number(rate[0], rate[1])+"MBps", "gapW", w.number(gap[0], gap[1])+scale, "volatile", volatile, "price", price)
		if w.chance(0.3) {
			u.set("power", w.number(1, 10)+"W")
		}
		hw.add(u)
	}
	memoryBus := "M"
	if w.chance(0.15) {
		memoryBus = "S"
	}
	for i := range w.IntN(size + 1) {
		unit(fmt.Sprint("hdd", i), "S", [2]float64{300, 2000}, [2]float64{50, 200}, [2]float64{2, 10}, "ms", w.number(50, 300), "0")
	}
	for i := range w.IntN(size+1) + btoi(len(hw.kids) == 0) {
		unit(fmt.Sprint("ssd", i), "S", [2]float64{50, 1000}, [2]float64{200, 1000}, [2]float64{100, 1000}, "us", w.number(80, 600), "0")
	}
	for i := range w.IntN(size+1) + btoi(w.chance(0.9)) {
		unit(fmt.Sprint("dram", i), memoryBus, [2]float64{2, 20}, [2]float64{5000, 20000}, [2]float64{1, 1000}, "ns", w.number(10, 150), "1")
	}
	hw.add(el("cpu", "price", w.number(20, 200), "power", pick(w, "0", "10W")))
	for i := range 1 + w.IntN(1+size) {
		s := el("server", "name", fmt.Sprint("srv", i), "price", w.number(100, 3000), "cpus", fmt.Sprint(1+w.IntN(6)), "BW", pick(w, "1Gbps", "10Gbps", "20MBps", "50MBps"))
		if i == 0 || w.chance(0.8) {
			s.add(el("bus", "name", "S", "slots", fmt.Sprint(1+w.IntN(4)), "BW", pick(w, "50MBps", "300MBps", "3GBps")))
		}
		if i == 0 || w.chance(0.8) {
			s.add(el("bus", "name", "M", "slots", fmt.Sprint(1+w.IntN(4)), "BW", pick(w, "2GBps", "21.3GBps")))
		}
		hw.add(s)
	}
	return hw
}

func (w writer) application() (app, sla *element) {
	app, sla = el("application"), el("slas")
	systems := 0
	if w.chance(0.35) {
		systems = 1 + w.IntN(2)
	}
	for i := range systems {
		s := el("storage_system", "name", fmt.Sprint("sys", i))
		if w.chance(0.8) {
			s.set("memory_per_server", w.number(0.5, 8)+"GB")
		}
		for _, unit := range []string{"hdd0", "ssd0", "dram0", "none"} {
			if u := el("unit", "name", unit); w.chance(0.3) {
				for _, a := range [][2]string{{"rateR", "MBps"}, {"gapR", "us"}, {"rateW", "MBps"}, {"gapW", "us"}} {
					if w.chance(0.5) {
						u.set(a[0], w.number(30, 500)+a[1])
					}
				}
				s.add(u)
			}
		}
		app.add(s)
	}
	remote := make([]bool, w.datasets)
	for i := range w.datasets {
		remote[i] = w.chance(0.6)
		app.add(w.dataset(i, remote[i], systems))
	}
	phase := make([]int, w.tasks)
	for t := range phase {
		phase[t] = t % max(1, w.phases)
	}
	tasks := make([]*element, w.tasks)
	for t := range tasks {
		tasks[t] = el("task", "name", fmt.Sprint("t", t))
		if w.phases > 0 {
			tasks[t].set("phase", fmt.Sprint("p", phase[t]))
		}
	}
	w.paths(tasks, phase)
	invoked := map[string]bool{}
	for _, c := range app.clone().add(tasks...).all("dependency") {
		invoked[c.get("task")] = true
	}
	app.add(tasks...)
	w.sla(sla, app, tasks, invoked)
	return app, sla
}

func (w writer) dataset(i int, remote bool, systems int) *element {
	d := el("dataset", "name", fmt.Sprint("d", i), "size", w.number(0.5, 40)+"GB", "persistent", pick(w, "1", "1", "0", "*"))
	if w.chance(0.15) {
		d.set("size", w.number(100, 2000)+"GB")
	}
	if !remote {
		d.set("remote", "0")
		if kind := pick(w, "private", "partitioned", ""); kind != "" {
			d.set(kind, "1")
		}
	}
	if w.chance(0.3) {
		d.set("working_set", w.number(0.1, 0.5)+"GB")
	}
	if w.chance(0.4) {
		d.set("hit_rate", pick(w, "0.5", "80%", "0.95", "1"))
	}
	if w.chance(0.3) {
		d.set("cpu_per_op", w.number(0.1, 20)+"ms")
	}
	if w.chance(0.2) {
		d.set("cpu_per_unit", pick(w, "0.25", "0.5", "1"))
	}
	if systems > 0 && w.chance(0.6) {
		d.set("system", fmt.Sprint("sys", w.IntN(systems)))
	}
	return d
}

// paths gives every task steps, and every dataset a task that touches it.
func (w writer) paths(tasks []*element, phase []int) {
	for i := range w.datasets {
		for n := 1 + btoi(w.chance(0.3)); n > 0; n-- {
			t := tasks[w.IntN(len(tasks))]
			io := el("io", "op", pick(w, "R", "R", "W"), "dataset", fmt.Sprint("d", i), "record_size", w.number(1, 300)+"KB")
			if w.chance(0.6) {
				io.set("num_records", pick(w, "2", "3", "5", "10"))
			}
			if w.chance(0.2) {
				io.set("stream_rate", w.number(1, 300)+"MBps")
			}
			t.add(w.step(io, true))
		}
	}
	for t, e := range tasks {
		if len(e.kids) == 0 || w.chance(0.6) {
			e.add(w.step(el("compute", "time", w.number(1, 100)+"ms"), false))
		}
		if w.chance(0.4) {
			e.set("memory", w.number(0.2, 4)+"GB")
			if w.chance(0.4) {
				e.set("memory_per", "instance")
			}
		}
		for u := t + 1; u < len(tasks); u++ {
			if phase[t] != phase[u] || w.chance(0.5) {
				continue
			}
			call := w.step(el("dependency", "task", fmt.Sprint("t", u)), true)
			if w.chance(0.4) {
				call.set("num_invocations", pick(w, "2", "3"))
			}
			if call.get("blocking") == "0" || w.chance(0.3) {
				call.set("inline", "0")
				call.set("message_size", w.number(1, 1000)+"KB")
			}
			e.add(call)
		}
	}
}

func (w writer) step(e *element, parallel bool) *element {
	if w.chance(0.3) {
		e.set("blocking", "0")
	}
	if w.chance(0.2) {
		e.set("probability", pick(w, "0.1", "0.5", "30%"))
	}
	if parallel && w.chance(0.3) {
		e.set("parallel", "1")
	}
	return e
}

// sla generates a job, or rates of the tasks that no task invokes and of some others.
func (w writer) sla(sla, app *element, tasks []*element, invoked map[string]bool) {
	if w.phases > 0 {
		w.job(sla, app, tasks)
		return
	}
	for _, t := range tasks {
		if chance := 0.95 - 0.75*float64(btoi(invoked[t.get("name")])); w.chance(chance) {
			sla.add(el("sla", "task", t.get("name"), "rate", w.number(1, 200)))
		}
	}
	if len(sla.kids) == 0 {
		sla.add(el("sla", "task", "t0", "rate", w.number(1, 200)))
	}
}

// job generates a job in bytes or records, of which tasks take their consumes= or what they read.
func (w writer) job(sla, app *element, tasks []*element) {
	size, unit, least := "100GB", "MB", 0.5e6
	if w.chance(0.3) {
		size, unit, least = "100K", "", 0.5
	}
	sla.add(el("sla", "job", size, "time", w.number(100, 2000)+"s"))
	parsed, err := spec.ReadApplication("app.xml", []byte(app.text(false)))
	if err != nil {
		panic(err)
	}
	for i, t := range tasks {
		if w.chance(0.6) || intake(parsed.Tasks[i], unit != "") < least {
			t.set("consumes", w.number(0.5, 100)+unit)
		}
	}
}
