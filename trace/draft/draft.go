// Package draft sketches the application behind recorded calls, as documents of a
// plan: what each method is asked to do how often, the records it moves and the calls
// it triggers. What a trace does not show, such as the size of data and the CPU time of
// a call, is left for people to fill in, and said so in the documents.
package draft

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"gleaner/trace"
)

// A Sketch is what is known of an application.
type Sketch struct {
	Calls   int
	Seconds float64 // from the first call to the last
	Targets []string
	Tasks   []Task
	Left    []string // methods that are called too rarely to be listed
	Cycles  []string // invocations left out because they would close a cycle
}

// A Task is one method of one target.
type Task struct {
	Name     string
	Target   string
	Calls    int
	Asked    int     // of them that no other call triggered
	Rate     float64 // of those, a second, on average
	Peak     float64 // in the busiest minute
	Writes   bool    // by its name; see reads
	Request  float64 // bytes of a call, on average
	Response float64
	Took     time.Duration // median, waiting included; 0 if no reply was recorded
	Triggers []Trigger
}

// A Trigger is calls that a task makes.
type Trigger struct {
	Task     string
	Each     float64 // in one execution, on average
	Blocking bool    // most of them ended before the caller did
	Bytes    float64 // of request and reply
}

// Of sketches the application of recorded calls, with the most called methods up to
// a limit.
func Of(calls []*trace.Call, limit int) Sketch {
	s := sketching{byID: map[string]*trace.Call{}, tasks: map[string]*method{}}
	for _, c := range calls {
		if c.ID != "" {
			s.byID[c.Run+"\x00"+c.ID] = c
		}
	}
	for _, c := range calls {
		s.add(c)
	}
	return s.sketch(len(calls), limit)
}

type sketching struct {
	byID        map[string]*trace.Call
	tasks       map[string]*method
	first, last int64
}

// A method collects its calls.
type method struct {
	Task
	took     []time.Duration
	minutes  map[int64]int // calls that nothing triggered, by minute
	request  float64       // bytes of all calls
	response float64
	triggers map[string]*triggers
}

type triggers struct {
	calls, ended int
	bytes        float64
}

func nameOf(c *trace.Call) string { return c.Target + " " + c.Method }

func (s *sketching) method(c *trace.Call) *method {
	name := nameOf(c)
	m := s.tasks[name]
	if m == nil {
		m = &method{Task: Task{Name: name, Target: c.Target, Writes: !reads(c.Method)}, minutes: map[int64]int{}, triggers: map[string]*triggers{}}
		s.tasks[name] = m
	}
	return m
}

func (s *sketching) add(c *trace.Call) {
	m := s.method(c)
	if s.first == 0 || c.Start < s.first {
		s.first = c.Start
	}
	s.last = max(s.last, c.Start, c.End)
	m.Calls++
	m.request += size(c.Request)
	m.response += size(c.Response)
	if c.End > c.Start {
		m.took = append(m.took, time.Duration(c.End-c.Start))
	}
	parent := s.byID[c.Run+"\x00"+c.Parent]
	if c.Parent == "" || parent == nil {
		m.Asked++
		m.minutes[c.Start/int64(time.Minute)]++
		return
	}
	p := s.method(parent)
	t := p.triggers[m.Name]
	if t == nil {
		t = &triggers{}
		p.triggers[m.Name] = t
	}
	t.calls++
	t.bytes += size(c.Request) + size(c.Response)
	if c.End > 0 && parent.End > 0 && c.End <= parent.End {
		t.ended++
	}
}

// size is about how many bytes a message has: its names and values.
func size(leaves []trace.Leaf) float64 {
	sum := 0
	for _, l := range leaves {
		sum += len(l.Path) + len(l.Value)
	}
	return float64(sum)
}

// reads reports whether a method reads, by the first word of its name: a guess.
func reads(method string) bool {
	name := method[strings.LastIndexAny(method, "./")+1:]
	if verb, _, ok := strings.Cut(method, " "); ok {
		name = verb
	}
	name = strings.ToLower(name)
	for _, word := range []string{"get", "list", "read", "watch", "find", "query", "search", "describe", "head", "fetch", "look", "check", "is", "has", "range", "version"} {
		if strings.HasPrefix(name, word) {
			return true
		}
	}
	return false
}

func (s *sketching) sketch(calls, limit int) Sketch {
	out := Sketch{Calls: calls, Seconds: float64(s.last-s.first) / float64(time.Second)}
	var all []*method
	for _, m := range s.tasks {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *method) int { return cmp.Or(b.Calls-a.Calls, cmp.Compare(a.Name, b.Name)) })
	kept := map[string]bool{}
	for i, m := range all {
		if i < limit {
			kept[m.Name] = true
		} else {
			out.Left = append(out.Left, m.Name)
		}
	}
	for _, m := range all[:min(limit, len(all))] {
		out.Tasks = append(out.Tasks, m.finish(out.Seconds, kept))
		if !slices.Contains(out.Targets, m.Target) {
			out.Targets = append(out.Targets, m.Target)
		}
	}
	slices.Sort(out.Targets)
	out.breakCycles()
	return out
}

// finish computes the means.
func (m *method) finish(seconds float64, kept map[string]bool) Task {
	t := m.Task
	t.Request, t.Response = m.request/float64(m.Calls), m.response/float64(m.Calls)
	if seconds > 0 {
		t.Rate = float64(m.Asked) / seconds
	}
	most := 0
	for _, n := range m.minutes {
		most = max(most, n)
	}
	t.Peak = max(t.Rate, float64(most)/60)
	if n := len(m.took); n > 0 {
		slices.Sort(m.took)
		t.Took = m.took[n/2]
	}
	for name, x := range m.triggers {
		if kept[name] {
			t.Triggers = append(t.Triggers, Trigger{name, float64(x.calls) / float64(m.Calls), 2*x.ended > x.calls, x.bytes / float64(x.calls)})
		}
	}
	slices.SortFunc(t.Triggers, func(a, b Trigger) int { return cmp.Compare(a.Task, b.Task) })
	return t
}

// breakCycles leaves out invocations that lead back to their caller, seen from what
// was asked for most: an application of a plan has no cycles.
func (s *Sketch) breakCycles() {
	at := map[string]int{}
	for i, t := range s.Tasks {
		at[t.Name] = i
	}
	state := make([]int, len(s.Tasks)) // 1: open, 2: done
	var visit func(i int)
	visit = func(i int) {
		state[i] = 1
		t := &s.Tasks[i]
		t.Triggers = slices.DeleteFunc(t.Triggers, func(x Trigger) bool {
			to := at[x.Task]
			if state[to] == 1 {
				s.Cycles = append(s.Cycles, t.Name+" -> "+x.Task)
				return true
			}
			if state[to] == 0 {
				visit(to)
			}
			return false
		})
		state[i] = 2
	}
	order := make([]int, len(s.Tasks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return s.Tasks[b].Asked - s.Tasks[a].Asked })
	for _, i := range order {
		if state[i] == 0 {
			visit(i)
		}
	}
}

// round keeps three digits: a draft promises no more.
func round(x float64) float64 {
	if x == 0 {
		return 0
	}
	digits := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*digits) / digits
}
