package spec

import (
	"fmt"
	"math"
	"strings"
)

// ReadApplication reads an application document (Figure 2(c)).
func ReadApplication(file string, data []byte, edits ...Edit) (Application, error) {
	root, err := document(file, data, "application")
	if err != nil {
		return Application{}, err
	}
	r := applicationReader{reader: reader{file: file}, dataset: map[string]int{}, task: map[string]int{}}
	r.prepare(root, edits)
	return r.read(root)
}

type applicationReader struct {
	reader
	app           Application
	dataset, task map[string]int // name -> index
}

func (r *applicationReader) read(root *node) (Application, error) {
	r.app.File = r.file
	r.done(root, "dataset", "task", "storage_system")
	systems, datasets, tasks := map[string]int{}, map[string]int{}, map[string]int{}
	for _, n := range root.children {
		switch n.name {
		case "storage_system":
			r.system(n, systems)
		case "dataset":
			name := r.word(n, "name", "", true)
			r.unique(datasets, n, name)
			r.dataset[name] = len(r.app.Datasets)
			r.app.Datasets = append(r.app.Datasets, Dataset{Name: name, Line: n.line})
		case "task":
			name := r.word(n, "name", "", true)
			r.unique(tasks, n, name)
			r.task[name] = len(r.app.Tasks)
			r.app.Tasks = append(r.app.Tasks, Task{Name: name, Line: n.line})
		}
	}
	d, t := 0, 0
	for _, n := range root.children {
		switch n.name {
		case "dataset":
			r.datasetOf(n, &r.app.Datasets[d])
			d++
		case "task":
			r.taskOf(n, &r.app.Tasks[t])
			t++
		}
	}
	if t == 0 {
		r.mistake(root.line, "application: no <task>")
	}
	r.untouched()
	r.phases()
	r.cycles()
	return r.app, r.err()
}

func (r *applicationReader) system(n *node, seen map[string]int) {
	s := System{Line: n.line}
	s.Name = r.word(n, "name", "", true)
	r.unique(seen, n, s.Name)
	s.MemoryPerServer = r.number(n, "memory_per_server", want{kind: byteKind})
	r.done(n, "unit")
	units := map[string]int{}
	for _, c := range n.children {
		if c.name != "unit" {
			continue
		}
		rates := Rates{Unit: r.word(c, "name", "", true), Line: c.line}
		r.unique(units, c, rates.Unit)
		nan := math.NaN()
		rates.Read, rates.Write = r.speed(c, Read{nan, nan}, Write{nan, nan}, false)
		r.done(c)
		s.Rates = append(s.Rates, rates)
	}
	r.app.Systems = append(r.app.Systems, s)
}

func (r *applicationReader) datasetOf(n *node, d *Dataset) {
	d.Size = r.number(n, "size", want{kind: byteKind, required: true, positive: true, otherwise: 1})
	d.Persistent = r.word(n, "persistent", "1", false, "0", "1", "*") == "1"
	d.Remote = r.flag(n, "remote", true)
	private := r.flag(n, "private", false)
	d.Partitioned = r.flag(n, "partitioned", false)
	d.System = r.word(n, "system", "", false)
	d.CPUPerOp = r.number(n, "cpu_per_op", want{kind: timeKind})
	d.CPUPerUnit = r.number(n, "cpu_per_unit", want{kind: plainKind})
	d.WorkingSet = r.number(n, "working_set", want{kind: byteKind, positive: true})
	d.HitRate = r.number(n, "hit_rate", want{kind: shareKind, otherwise: 1, most: 1})
	d.Replicas = r.whole(n, "replicas", want{kind: countKind, positive: true, otherwise: 1, most: 100})
	d.Spread = r.whole(n, "spread", want{kind: countKind, positive: true, most: 1000})
	r.done(n)
	if !d.Remote && (d.Replicas > 1 || d.Spread > 0) {
		r.mistake(n.line, "%s: replicas and spread are about remote data, and this is local", n.describe())
	}
	_, line, _ := r.take(n, "system")
	if d.System != "" && r.app.SystemOf(d.System) == nil {
		r.mistake(line, "%s: system: there is no storage_system %q", n.describe(), d.System)
	}
	if _, line, _ := r.take(n, "working_set"); d.WorkingSet > d.Size {
		r.mistake(line, "%s: working_set: larger than the dataset", n.describe())
	}
	if d.Remote && (private || d.Partitioned) {
		r.mistake(n.line, "%s: private and partitioned are about local data, and this is remote", n.describe())
	}
	if private && d.Partitioned {
		r.mistake(n.line, "%s: private and partitioned exclude each other", n.describe())
	}
}

func (r *applicationReader) taskOf(n *node, t *Task) {
	t.Phase = r.word(n, "phase", "exec", false)
	t.Memory = r.number(n, "memory", want{kind: byteKind})
	t.PerInstance = r.word(n, "memory_per", "core", false, "core", "instance") == "instance"
	t.Harvest = r.number(n, "harvest", want{kind: timeKind, positive: true})
	t.Consumes = r.number(n, "consumes", want{kind: consumes, positive: true})
	t.Spread = r.whole(n, "spread", want{kind: countKind, positive: true, most: 1000})
	r.done(n, "io", "compute", "dependency")
	for _, c := range n.children {
		op := Op{Line: c.line}
		op.Probability = r.number(c, "probability", want{kind: shareKind, otherwise: 1, most: 1})
		op.Blocking = r.flag(c, "blocking", true)
		switch c.name {
		case "io":
			op.IO = r.io(c)
		case "compute":
			op.Compute = r.number(c, "time", want{kind: timeKind, required: true})
		case "dependency":
			op.Call = r.call(c, op.Blocking)
		default:
			continue
		}
		r.done(c)
		t.Path = append(t.Path, op)
	}
	if len(n.children) == 0 {
		r.mistake(n.line, "%s: an empty execution path", n.describe())
	}
}

// consumes is a size or a number of records.
var consumes = kind{what: "a size or a count", example: "1MB or 10K", bare: true, suffixes: byteKind.suffixes}

func (r *applicationReader) io(n *node) *IO {
	out := &IO{Write: r.word(n, "op", "R", true, "R", "W") == "W"}
	out.Dataset = r.reference(n, "dataset", r.dataset)
	out.Records = r.number(n, "num_records", want{kind: countKind, positive: true, otherwise: 1})
	out.RecordSize = r.number(n, "record_size", want{kind: byteKind, required: true, positive: true, otherwise: 1})
	out.Parallel = r.flag(n, "parallel", false)
	out.StreamRate = r.number(n, "stream_rate", want{kind: rateKind, positive: true})
	return out
}

func (r *applicationReader) call(n *node, blocking bool) *Call {
	return &Call{
		Task:        r.reference(n, "task", r.task),
		Invocations: r.number(n, "num_invocations", want{kind: countKind, positive: true, otherwise: 1}),
		Parallel:    r.flag(n, "parallel", false),
		Inline:      r.flag(n, "inline", blocking),
		MessageSize: r.number(n, "message_size", want{kind: byteKind}),
	}
}

// reference is the index of what an attribute names; 0 if it is a mistake.
func (r *applicationReader) reference(n *node, attribute string, known map[string]int) int {
	name := r.word(n, attribute, "", true)
	i, ok := known[name]
	if !ok && name != "" {
		_, line, _ := r.take(n, attribute)
		r.mistake(line, "%s: %s: there is no %s %q", n.name, attribute, attribute, name)
	}
	return i
}

// untouched reports datasets that no task reads or writes: their needs are unknown.
func (r *applicationReader) untouched() {
	touched := make([]bool, len(r.app.Datasets))
	for _, t := range r.app.Tasks {
		for _, op := range t.Path {
			if op.IO != nil && len(touched) > 0 {
				touched[op.IO.Dataset] = true
			}
		}
	}
	for i, d := range r.app.Datasets {
		if !touched[i] {
			r.mistake(d.Line, "dataset %q: no task reads or writes it", d.Name)
		}
	}
}

// phases reports invocations from one phase into another.
func (r *applicationReader) phases() {
	for _, t := range r.app.Tasks {
		for _, op := range t.Path {
			if op.Call == nil {
				continue
			}
			if to := r.app.Tasks[op.Call.Task]; to.Phase != t.Phase {
				r.mistake(op.Line, "dependency: task: %q of phase %q is invoked from phase %q", to.Name, to.Phase, t.Phase)
			}
		}
	}
}

// cycles reports tasks that invoke themselves, directly or through others.
func (r *applicationReader) cycles() {
	const (
		unseen = iota
		open
		closed
	)
	state := make([]int, len(r.app.Tasks))
	var path []string
	var visit func(t int) bool
	visit = func(t int) bool {
		state[t] = open
		path = append(path, r.app.Tasks[t].Name)
		for _, op := range r.app.Tasks[t].Path {
			if op.Call == nil {
				continue
			}
			switch to := op.Call.Task; state[to] {
			case open:
				start := 0
				for path[start] != r.app.Tasks[to].Name {
					start++
				}
				ring := append(append([]string(nil), path[start:]...), r.app.Tasks[to].Name)
				r.mistake(op.Line, "dependency: task: a cycle: %s", strings.Join(ring, " -> "))
				return false
			case unseen:
				if !visit(to) {
					return false
				}
			}
		}
		path = path[:len(path)-1]
		state[t] = closed
		return true
	}
	for t := range r.app.Tasks {
		if state[t] == unseen && !visit(t) {
			return
		}
	}
}

// Task returns the index of a task by its name.
func (a Application) Task(name string) (int, error) {
	var known []string
	for i, t := range a.Tasks {
		if t.Name == name {
			return i, nil
		}
		known = append(known, t.Name)
	}
	return 0, fmt.Errorf("there is no task %q; %s has %s", name, a.File, strings.Join(known, ", "))
}
