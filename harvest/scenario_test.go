package harvest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"gleaner/cluster"
)

// A scenario file has events and, below the line, the actions on them.
//
//	core policy=history seed=1            a new core
//	guard cores=2 isolated                a new guard for s1, of 12 cores unless it says so
//	server s1 cores=12 gb=32 tenant=a     it joins (also: left s1)
//	classes                               one a line: ID pattern mean peak tenant…
//	use s1=2.3 s2=0                       cores that primaries use; s1=2.3/4 also GB
//	job 7 name=q19 after=6 time=1h priority=5 user=ann   a stage a line: name tasks cores gb [after…] [keep-going]
//	resume                                what was left: job, stage, running, finished, stopped, ended lines
//	cancel 7, pause 7, continue 7
//	drain s1, open s1
//	done|failed|killed|unstarted job-7/map-3   with #2 behind it: its second run
//	started job-7/map-3 cores=1 gb=2      an event for the guard
//	wait 10m
//	headroom, thresholds, waiting         look inside
type scenario struct {
	core  *Core
	guard *Guard
	at    time.Time
	on    map[cluster.TaskID]cluster.ServerID
}

func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		s := &scenario{at: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC), on: map[cluster.TaskID]cluster.ServerID{}}
		datadriven.RunTest(t, path, s.run)
	})
}

func (s *scenario) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "core":
		return s.newCore(t, d)
	case "guard":
		return s.newGuard(t, d)
	case "wait":
		by, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		s.at = s.at.Add(by)
		return s.step(cluster.Event{Kind: cluster.UseReported})
	case "headroom":
		return s.headroom()
	case "thresholds":
		return fmt.Sprintf("short below %v, long above %v\n", s.core.thresholds.Short, s.core.thresholds.Long)
	case "waiting":
		return s.waiting()
	}
	return s.step(s.event(t, d))
}

func (s *scenario) newGuard(t *testing.T, d *datadriven.TestData) string {
	cores := 12
	d.MaybeScanArgs(t, "cores", &cores)
	server := cluster.Server{ID: "s1", CPU: cluster.MilliCPU(cores) * cluster.Core, Memory: 32 * cluster.GB}
	s.core, s.guard = nil, NewGuard(server, ReserveFor(server.Size(), d.HasArg("isolated")))
	return ""
}

func (s *scenario) newCore(t *testing.T, d *datadriven.TestData) string {
	name, seed := "history", 1
	d.MaybeScanArgs(t, "policy", &name)
	d.MaybeScanArgs(t, "seed", &seed)
	policy, err := PolicyNamed(name)
	if err != nil {
		return err.Error() + "\n"
	}
	s.guard, s.core = nil, New(Options{Policy: policy, Reserve: PaperReserve, Rand: rand.New(rand.NewPCG(uint64(seed), 0))})
	return ""
}

func (s *scenario) event(t *testing.T, d *datadriven.TestData) cluster.Event {
	switch d.Cmd {
	case "server":
		server := &cluster.Server{ID: cluster.ServerID(d.CmdArgs[0].Key), CPU: 12 * cluster.Core, Memory: 32 * cluster.GB}
		for _, a := range d.CmdArgs[1:] {
			switch a.Key {
			case "cores":
				server.CPU = cluster.MilliCPU(number(t, a.Vals[0]) * 1000)
			case "gb":
				server.Memory = cluster.Bytes(number(t, a.Vals[0]) * float64(cluster.GB))
			case "tenant":
				server.Environment = a.Vals[0]
			}
		}
		return cluster.Event{Kind: cluster.ServerJoined, Server: server}
	case "left":
		return cluster.Event{Kind: cluster.ServerLeft, On: cluster.ServerID(d.CmdArgs[0].Key)}
	case "use":
		ev := cluster.Event{Kind: cluster.UseReported}
		for _, a := range d.CmdArgs {
			cores, gb, _ := strings.Cut(a.Vals[0], "/")
			ev.Use = append(ev.Use, cluster.Use{On: cluster.ServerID(a.Key), Primary: amount(t, cores, gb)})
		}
		return ev
	case "classes":
		ev := cluster.Event{Kind: cluster.ClassesPublished}
		for line := range strings.Lines(d.Input) {
			f := strings.Fields(line)
			class := cluster.Class{ID: f[0], Mean: number(t, f[2]), Peak: number(t, f[3])}
			if err := class.Pattern.UnmarshalText([]byte(f[1])); err != nil {
				t.Fatal(err)
			}
			for _, tenant := range f[4:] {
				class.Tenants = append(class.Tenants, cluster.TenantOf(tenant, ""))
			}
			ev.Classes = append(ev.Classes, class)
		}
		return ev
	case "job":
		id, _ := strconv.Atoi(d.CmdArgs[0].Key)
		job := &cluster.Job{ID: cluster.JobID(id), Name: d.CmdArgs[0].Key}
		d.MaybeScanArgs(t, "name", &job.Name)
		for _, a := range d.CmdArgs[1:] {
			switch a.Key {
			case "after":
				job.After = append(job.After, cluster.JobID(number(t, a.Vals[0])))
			case "priority":
				job.Priority = int(number(t, a.Vals[0]))
			case "user":
				job.User.Name = a.Vals[0]
			case "time":
				limit, err := time.ParseDuration(a.Vals[0])
				if err != nil {
					t.Fatal(err)
				}
				job.Time = limit
			}
		}
		for line := range strings.Lines(d.Input) {
			f := strings.Fields(line)
			keep := f[len(f)-1] == "keep-going"
			if keep {
				f = f[:len(f)-1]
			}
			job.Stages = append(job.Stages, cluster.Stage{Name: f[0], Tasks: int(number(t, f[1])), Request: amount(t, f[2], f[3]), After: f[4:], KeepGoing: keep})
		}
		return cluster.Event{Kind: cluster.JobSubmitted, Job: job}
	case "resume":
		return cluster.Event{Kind: cluster.Resumed, Past: s.past(t, d.Input)}
	case "cancel", "pause", "continue":
		id, _ := strconv.Atoi(d.CmdArgs[0].Key)
		kind := map[string]cluster.EventKind{"cancel": cluster.JobCancelled, "pause": cluster.JobPaused, "continue": cluster.JobContinued}[d.Cmd]
		return cluster.Event{Kind: kind, ID: cluster.JobID(id)}
	case "drain", "open":
		kind := map[string]cluster.EventKind{"drain": cluster.ServerDrained, "open": cluster.ServerOpened}[d.Cmd]
		return cluster.Event{Kind: kind, On: cluster.ServerID(d.CmdArgs[0].Key)}
	case "started":
		ev := cluster.Event{Kind: cluster.TaskStarted, Task: taskID(t, d.CmdArgs[0].Key), On: "s1"}
		for _, a := range d.CmdArgs[1:] {
			if a.Key == "cores" {
				ev.Request.CPU = cluster.MilliCPU(number(t, a.Vals[0]) * 1000)
			} else {
				ev.Request.Memory = cluster.Bytes(number(t, a.Vals[0]) * float64(cluster.GB))
			}
		}
		return ev
	}
	kinds := map[string]cluster.EventKind{"done": cluster.TaskFinished, "failed": cluster.TaskFailed, "killed": cluster.TaskKilled, "unstarted": cluster.TaskNotStarted}
	id := taskID(t, d.CmdArgs[0].Key)
	return cluster.Event{Kind: kinds[d.Cmd], Task: id, On: s.on[id], Reason: "exit code 1"}
}

// past reads jobs as they were left:
//
//	job 7 name=q19
//	stage map 3 1 2              as in a job
//	finished map-0
//	running map-1#2 s1
//	stopped map-2 failures=1
//	paused                       by its user
//	ended 20m                    how long it took; with a reason behind it when it did not run to its end
func (s *scenario) past(t *testing.T, text string) []cluster.PastJob {
	var past []cluster.PastJob
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if f[0] == "job" {
			job := &cluster.Job{ID: cluster.JobID(number(t, f[1])), Name: strings.TrimPrefix(f[2], "name=")}
			for _, a := range f[3:] {
				job.After = append(job.After, cluster.JobID(number(t, strings.TrimPrefix(a, "after="))))
			}
			past = append(past, cluster.PastJob{Job: job, Submitted: s.at, Account: cluster.Account{Started: s.at.Add(-time.Hour)}})
			continue
		}
		p := &past[len(past)-1]
		switch f[0] {
		case "stage":
			keep := f[len(f)-1] == "keep-going"
			if keep {
				f = f[:len(f)-1]
			}
			p.Job.Stages = append(p.Job.Stages, cluster.Stage{Name: f[1], Tasks: int(number(t, f[2])), Request: amount(t, f[3], f[4]), After: f[5:], KeepGoing: keep})
		case "paused":
			p.Paused = true
		case "ended":
			took, err := time.ParseDuration(f[1])
			if err != nil {
				t.Fatal(err)
			}
			p.Ended, p.Reason = p.Started.Add(took), strings.Join(f[2:], " ")
		case "finished":
			id := taskID(t, fmt.Sprintf("%s/%s", p.Job.ID, f[1]))
			p.Stages = append(p.Stages, cluster.PastStage{Name: id.Stage, Finished: cluster.IndicesOf([]int32{id.Index})})
		default:
			run := cluster.PastRun{Task: taskID(t, fmt.Sprintf("%s/%s", p.Job.ID, f[1])), Since: p.Started}
			if err := run.State.UnmarshalText([]byte(f[0])); err != nil {
				t.Fatal(err)
			}
			for _, a := range f[2:] {
				if n, ok := strings.CutPrefix(a, "failures="); ok {
					run.Failures, run.Reason = int(number(t, n)), "exit code 1"
				} else {
					run.On = cluster.ServerID(a)
				}
			}
			s.on[run.Task] = run.On
			p.Runs = append(p.Runs, run)
		}
	}
	return past
}

func (s *scenario) step(ev cluster.Event) string {
	ev.At = s.at
	var out strings.Builder
	step := func(a []cluster.Action) {
		for _, a := range a {
			if a.Kind == cluster.StartTask {
				s.on[a.Task] = a.On
			}
			out.WriteString(a.String() + "\n")
		}
	}
	if s.guard != nil {
		step(s.guard.Step(ev))
	} else {
		step(s.core.Step(ev))
	}
	return out.String()
}

// headroom writes each class's headroom for the three lengths in cores.
func (s *scenario) headroom() string {
	var out strings.Builder
	for i := range s.core.states {
		state := &s.core.states[i]
		if state.Size.CPU == 0 {
			continue
		}
		fmt.Fprintf(&out, "%s:", state.Pattern)
		for kind := Short; kind <= Long; kind++ {
			fmt.Fprintf(&out, " %s %g", kind, float64(state.Headroom(kind).CPU)/1000)
		}
		out.WriteString("\n")
	}
	return out.String()
}

func (s *scenario) waiting() string {
	var out strings.Builder
	for _, j := range s.core.active {
		where := "anywhere"
		if !j.anywhere {
			where = fmt.Sprintf("in classes %v", j.classes)
		}
		fmt.Fprintf(&out, "%s: %s, %s, %d running, %d to start\n", j.spec.ID, s.core.length(j), where, j.running, j.unstarted)
	}
	return out.String()
}

func number(t *testing.T, s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func amount(t *testing.T, cores, gb string) cluster.Resources {
	r := cluster.Resources{CPU: cluster.MilliCPU(number(t, cores) * 1000)}
	if gb != "" {
		r.Memory = cluster.Bytes(number(t, gb) * float64(cluster.GB))
	}
	return r
}

// taskID reads "job-7/map-3#2".
func taskID(t *testing.T, s string) cluster.TaskID {
	s, run, again := strings.Cut(s, "#")
	job, task, _ := strings.Cut(strings.TrimPrefix(s, "job-"), "/")
	dash := strings.LastIndex(task, "-")
	id := cluster.TaskID{Job: cluster.JobID(number(t, job)), Stage: task[:dash], Index: int32(number(t, task[dash+1:]))}
	if again {
		id.Attempt = int32(number(t, run)) - 1
	}
	return id
}
