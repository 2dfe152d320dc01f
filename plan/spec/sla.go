package spec

import "strings"

// ReadSLA reads an SLA document (Figure 2(a)) for an application.
func ReadSLA(file string, data []byte, app Application, edits ...Edit) (SLA, error) {
	root, err := document(file, data, "slas", "sla", "utilisation", "survive", "budget", "least")
	if err != nil {
		return SLA{}, err
	}
	r := reader{file: file}
	r.prepare(root, edits)
	out := SLA{File: file}
	r.done(root, "sla", "utilisation", "survive", "budget", "least")
	seen, once := map[string]int{}, map[string]int{}
	var curves []curve
	for _, n := range root.children {
		if n.name != "sla" {
			r.goal(n, &out, app, once)
			continue
		}
		if _, _, batch := r.take(n, "job"); batch {
			job := r.job(n)
			if out.Job != nil {
				r.mistake(n.line, "sla: there is one job, and it is given on line %d", out.Job.Line)
			}
			out.Job = &job
		} else {
			name := r.word(n, "task", "", true)
			if first, twice := seen[name]; twice {
				r.mistake(n.line, "sla: task: %q has a rate on line %d", name, first)
			}
			seen[name] = n.line
			curves = append(curves, r.curve(n))
			out.Rates = append(out.Rates, r.rate(n, name, app))
			r.done(n, "hours")
			continue
		}
		r.done(n)
	}
	r.day(&out, curves, app)
	if len(out.Rates) == 0 && out.Job == nil {
		r.mistake(root.line, "slas: no <sla>")
	}
	if out.Job != nil && len(out.Rates) > 0 {
		r.mistake(out.Job.Line, "sla: a job and request rates exclude each other")
	}
	if out.Job != nil {
		r.inputs(out, app)
	}
	return out, r.err()
}

// goal reads an element beside those of rates and jobs; each may be given once.
func (r *reader) goal(n *node, out *SLA, app Application, once map[string]int) {
	if first, twice := once[n.name]; twice {
		r.mistake(n.line, "%s: given on line %d already", n.name, first)
	}
	once[n.name] = n.line
	switch n.name {
	case "utilisation":
		out.Targets = r.targets(n)
	case "survive":
		out.Survive, out.Zones = r.survive(n, app)
	case "budget":
		out.Budget = r.budget(n)
	case "least":
		out.Least = r.whole(n, "servers", want{kind: countKind, required: true, positive: true, otherwise: 1})
		r.done(n)
	}
}

func (r *reader) rate(n *node, name string, app Application) Rate {
	out := Rate{Line: n.line}
	i, err := app.Task(name)
	r.latency(n, &out)
	if err == nil {
		out.Task = i
		if d := app.local(i); d != "" && out.Latency > 0 {
			r.mistake(n.line, "sla: latency: an execution of task %q waits for dataset %q, which is local: latencies are planned for remote data only", name, d)
		}
	} else if name != "" && len(app.Tasks) > 0 { // an unreadable application was already reported
		_, line, _ := r.take(n, "task")
		r.mistake(line, "sla: task: %v", err)
	}
	return out
}

// latency reads latency="50ms" percentile="99%".
func (r *reader) latency(n *node, out *Rate) {
	out.Latency = r.number(n, "latency", want{kind: timeKind, positive: true})
	out.Percentile = r.number(n, "percentile", want{kind: shareKind, positive: true, otherwise: 0.99, most: 1})
	_, line, given := r.take(n, "percentile")
	_, _, goal := r.take(n, "latency")
	switch {
	case given && !goal:
		r.mistake(line, "sla: percentile: there is no latency that it would be of")
	case out.Percentile == 1:
		r.mistake(line, "sla: percentile: must be less than 100%%")
	}
}

// local names a local dataset that executions of a task wait for, "" if there is none:
// instances with local data take one request at a time.
func (a Application) local(task int) string {
	seen := map[int]bool{}
	var visit func(int) string
	visit = func(t int) string {
		if seen[t] {
			return ""
		}
		seen[t] = true
		for _, op := range a.Tasks[t].Path {
			if op.IO != nil && !a.Datasets[op.IO.Dataset].Remote {
				return a.Datasets[op.IO.Dataset].Name
			}
			if op.Call != nil && (op.Call.Inline || op.Blocking) {
				if d := visit(op.Call.Task); d != "" {
					return d
				}
			}
		}
		return ""
	}
	return visit(task)
}

// job reads job="50GB" or job="500M" (records), and the time for it.
func (r *reader) job(n *node) Job {
	out := Job{Line: n.line}
	text, _, _ := r.take(n, "job")
	if strings.Contains(text, "B") {
		out.Bytes = r.number(n, "job", want{kind: byteKind, positive: true, otherwise: 1})
	} else {
		out.Records = r.number(n, "job", want{kind: countKind, positive: true, otherwise: 1})
	}
	out.Time = r.number(n, "time", want{kind: timeKind, required: true, positive: true, otherwise: 1})
	out.Start = r.start(n)
	return out
}

// inputs reports tasks that start a phase of a job but read nothing, so that it is
// not known how often they run.
func (r *reader) inputs(s SLA, app Application) {
	for _, t := range app.Starts() {
		if app.Intake(t, s.Job.Records > 0) == 0 {
			r.mistake(s.Job.Line, "sla: job: task %q of %s reads nothing; its consumes= would say how much of the job one execution takes", app.Tasks[t].Name, app.File)
		}
	}
}

// Starts are the tasks that no other task invokes.
func (a Application) Starts() []int {
	invoked := make([]bool, len(a.Tasks))
	for _, t := range a.Tasks {
		for _, op := range t.Path {
			if op.Call != nil {
				invoked[op.Call.Task] = true
			}
		}
	}
	var out []int
	for t := range a.Tasks {
		if !invoked[t] {
			out = append(out, t)
		}
	}
	return out
}

// Intake is how much of a job's input one execution of a task takes, in records or
// in bytes: its consumes=, or what it reads.
func (a Application) Intake(task int, records bool) float64 {
	t := a.Tasks[task]
	if t.Consumes > 0 {
		return t.Consumes
	}
	sum := 0.0
	for _, op := range t.Path {
		if op.IO == nil || op.IO.Write {
			continue
		}
		n := op.Probability * op.IO.Records
		if !records {
			n *= op.IO.RecordSize
		}
		sum += n
	}
	return sum
}
