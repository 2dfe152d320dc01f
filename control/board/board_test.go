package board

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/dilation"
	"gleaner/harvest"
)

// A day of a board: events, and what it shows then.
func TestBoard(t *testing.T) {
	at := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	request := cluster.Resources{CPU: cluster.Core, Memory: cluster.GB}
	job := &cluster.Job{ID: 7, Name: "sort", Stages: []cluster.Stage{{Name: "map", Tasks: 3, Request: request}, {Name: "merge", Tasks: 1, Request: request, After: []string{"map"}}}}
	task := func(index, attempt int32) cluster.TaskID {
		return cluster.TaskID{Job: 7, Stage: "map", Index: index, Attempt: attempt}
	}
	b := New(harvest.Reserve{Fixed: cluster.Resources{CPU: 2 * cluster.Core}})
	for _, step := range []struct {
		ev   cluster.Event
		want string
	}{
		{cluster.Event{Kind: cluster.ServerJoined, Server: &cluster.Server{ID: "s", CPU: 8 * cluster.Core, Memory: 8 * cluster.GB}}, "0 jobs, 0 running, 0 waiting, 0 blocked, 0 kills; held nothing"},
		{cluster.Event{Kind: cluster.JobSubmitted, Job: job}, "1 jobs, 0 running, 3 waiting, 1 blocked, 0 kills; held nothing; sort waiting, map waiting 0+0/3 0 failures"},
		{cluster.Event{Kind: cluster.TaskStarted, Task: task(0, 0), Request: request}, "1 jobs, 1 running, 2 waiting, 1 blocked, 0 kills; held 1 core and 1 GiB; sort running, map running 1+0/3 0 failures"},
		{cluster.Event{Kind: cluster.TaskStarted, Task: task(1, 0), Request: request}, "1 jobs, 2 running, 1 waiting, 1 blocked, 0 kills; held 2 cores and 2 GiB; sort running, map running 2+0/3 0 failures"},
		{cluster.Event{Kind: cluster.TaskFinished, Task: task(0, 0)}, "1 jobs, 1 running, 1 waiting, 1 blocked, 0 kills; held 1 core and 1 GiB; sort running, map running 1+1/3 0 failures"},
		{cluster.Event{Kind: cluster.TaskKilled, Task: task(1, 0), Reason: "reserve"}, "1 jobs, 0 running, 2 waiting, 1 blocked, 1 kills; held nothing; sort waiting, map waiting 0+1/3 0 failures"},
		{cluster.Event{Kind: cluster.TaskStarted, Task: task(1, 1), Request: request}, "1 jobs, 1 running, 1 waiting, 1 blocked, 1 kills; held 1 core and 1 GiB; sort running, map running 1+1/3 0 failures"},
		{cluster.Event{Kind: cluster.TaskFailed, Task: task(1, 1), Reason: "exit code 1"}, "1 jobs, 0 running, 2 waiting, 1 blocked, 1 kills; held nothing; sort waiting, map waiting 0+1/3 1 failures"},
	} {
		step.ev.At, step.ev.On = at, "s"
		if err := b.Event(step.ev); err != nil {
			t.Fatal(err)
		}
		if got := shown(b); got != step.want {
			t.Errorf("after %s\n got %s\nwant %s", step.ev.Kind, got, step.want)
		}
	}
	if err := b.Action(cluster.Action{Kind: cluster.DelayTask, Task: task(1, 2), Pause: time.Minute, Reason: "exit code 1"}); err != nil {
		t.Fatal(err)
	}
	if j, _ := b.Job(7); len(j.Delayed) != 1 || j.Delayed[0].Name != "job-7/map-1#3" || !j.Delayed[0].Until.Equal(at.Add(time.Minute)) {
		t.Errorf("what waits to be run again: %+v", j.Delayed)
	}
	for _, ev := range []cluster.Event{
		{At: at, Kind: cluster.TaskStarted, Task: task(1, 2), On: "s", Request: request},
		{At: at.Add(time.Second), Kind: cluster.TaskNotStarted, Task: task(1, 2), Reason: "too many open files"},
	} {
		if err := b.Event(ev); err != nil {
			t.Fatal(err)
		}
	}
	if j, _ := b.Job(7); len(j.Delayed) != 0 || len(j.Running) != 0 || j.Stages[0].Failures != 1 || j.Kills != 1 {
		t.Errorf("after a start for which there was no room: %+v", j)
	}
	var runs []string
	for _, r := range b.Runs(7) {
		runs = append(runs, fmt.Sprintf("%s %s %q", r.Task, r.End, r.Reason))
	}
	if got, want := fmt.Sprint(runs), `[job-7/map-0 finished "" job-7/map-1 killed "reserve" job-7/map-1#2 failed "exit code 1"]`; got != want {
		t.Errorf("runs %s, want %s", got, want)
	}
	if err := b.Action(cluster.Action{Kind: cluster.FinishJob, ID: 7, Reason: "cancelled", Cancelled: true}); err != nil {
		t.Fatal(err)
	}
	if got, want := shown(b), "0 jobs, 0 running, 0 waiting, 0 blocked, 1 kills; held nothing; sort cancelled, map cancelled 0+1/3 1 failures"; got != want {
		t.Errorf("at the end\n got %s\nwant %s", got, want)
	}
	if j, _ := b.Job(7); !j.Ended.Equal(at.Add(time.Second)) {
		t.Errorf("ended at %s, not when it was decided", j.Ended)
	}
	b.Forget(at)
	if jobs := b.Jobs(); len(jobs) != 1 {
		t.Errorf("forgotten too early: %+v", jobs)
	}
	b.Forget(at.Add(time.Hour))
	if jobs := b.Jobs(); len(jobs) != 0 || len(b.Runs(7)) != 0 {
		t.Errorf("not forgotten: %+v", jobs)
	}
}

// What is resumed is shown as it was left.
func TestBoardAfterARestart(t *testing.T) {
	at := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	request := cluster.Resources{CPU: cluster.Core, Memory: cluster.GB}
	job := func(id cluster.JobID) *cluster.Job {
		return &cluster.Job{ID: id, Name: "sort", Stages: []cluster.Stage{{Name: "map", Tasks: 3, Request: request}}}
	}
	adopted := cluster.TaskID{Job: 2, Stage: "map", Index: 1}
	b := New(harvest.Reserve{})
	for _, ev := range []cluster.Event{
		{At: at, Kind: cluster.ServerJoined, Server: &cluster.Server{ID: "s", CPU: 8 * cluster.Core, Memory: 8 * cluster.GB}},
		{At: at, Kind: cluster.Resumed, Past: []cluster.PastJob{
			{Job: job(1), Submitted: at, Account: cluster.Account{Started: at}, Ended: at},
			{Job: job(3), Submitted: at, Account: cluster.Account{Started: at}, Ended: at, Reason: "map-2 failed", Stages: []cluster.PastStage{{Name: "map", Finished: cluster.Indices{{First: 0, Last: 1}}, Failures: 4}}},
			{Job: job(2), Submitted: at, Account: cluster.Account{Started: at}, Stages: []cluster.PastStage{{Name: "map", Finished: cluster.Indices{{First: 0, Last: 0}}, Failures: 1}},
				Runs: []cluster.PastRun{{Task: adopted, On: "s", State: cluster.Running, Failures: 1}}},
		}},
		{At: at, Kind: cluster.TaskStarted, Task: adopted, On: "s", Request: request},
	} {
		if err := b.Event(ev); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := shown(b), "1 jobs, 1 running, 1 waiting, 0 blocked, 0 kills; held 1 core and 1 GiB; sort finished, map finished 0+3/3 0 failures; sort running, map running 1+1/3 1 failures; sort failed, map failed 0+2/3 4 failures"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func shown(b *Board) string {
	s := b.Status()
	text := fmt.Sprintf("%d jobs, %d running, %d waiting, %d blocked, %d kills; held %s", s.Jobs, s.Running, s.Waiting, s.Blocked, s.Kills, s.Held)
	for _, j := range b.Jobs() {
		m := j.Stages[0]
		text += fmt.Sprintf("; %s %s, %s %s %d+%d/%d %d failures", j.Name, j.State, m.Name, m.State, m.Running, m.Finished, m.Tasks, m.Failures)
	}
	return text
}

// Two servers are shown separately and summed up; tasks on one that leaves are gone.
func TestTwoServers(t *testing.T) {
	at := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	request := cluster.Resources{CPU: cluster.Core, Memory: cluster.GB}
	b := New(harvest.Reserve{Fixed: cluster.Resources{CPU: cluster.Core}, Step: cluster.Core})
	b.Machine = func(size cluster.Resources) dilation.Machine { return dilation.Machine{int(size.CPU / cluster.Core)} }
	tell := func(events ...cluster.Event) {
		for _, ev := range events {
			at = at.Add(time.Second)
			ev.At = at
			if err := b.Event(ev); err != nil {
				t.Fatal(err)
			}
		}
	}
	task := func(i int32) cluster.TaskID { return cluster.TaskID{Job: 1, Stage: "map", Index: i} }
	tell(cluster.Event{Kind: cluster.ServerJoined, Server: &cluster.Server{ID: "b", Environment: "web", CPU: 2 * cluster.Core, Memory: 8 * cluster.GB}},
		cluster.Event{Kind: cluster.ServerJoined, Server: &cluster.Server{ID: "a", CPU: 4 * cluster.Core, Memory: 8 * cluster.GB}},
		cluster.Event{Kind: cluster.ClassesPublished, Classes: []cluster.Class{{Pattern: cluster.Constant, Mean: 0.2, Tenants: []cluster.TenantID{"web"}}}},
		cluster.Event{Kind: cluster.UseReported, Use: []cluster.Use{{On: "b", Primary: cluster.Resources{CPU: 500}}, {On: "a", Primary: cluster.Resources{CPU: 1200}}}},
		cluster.Event{Kind: cluster.JobSubmitted, Job: &cluster.Job{ID: 1, Name: "sort", Stages: []cluster.Stage{{Name: "map", Tasks: 3, Request: request, Loading: []float64{1}}}}},
		cluster.Event{Kind: cluster.TaskStarted, Task: task(0), On: "b", Request: request},
		cluster.Event{Kind: cluster.TaskStarted, Task: task(1), On: "b", Request: request},
		cluster.Event{Kind: cluster.TaskStarted, Task: task(2), On: "a", Request: request})
	s := b.Status()
	if len(s.Servers) != 2 || s.Server != "" || s.Running != 3 || s.Size.CPU != 6*cluster.Core || s.Primary.CPU != 1700 || s.Counted.CPU != 3*cluster.Core || s.Reserve.CPU != 2*cluster.Core {
		t.Fatalf("all together: %+v", s)
	}
	if one := s.Servers[0]; one.Server != "a" || one.Class != nil || one.Running != 1 || one.Counted.CPU != 2*cluster.Core || one.Held != request {
		t.Errorf("%+v", one)
	}
	if two := s.Servers[1]; two.Server != "b" || two.Class == nil || two.Running != 2 || two.Counted.CPU != cluster.Core || two.Held != request.Times(2) {
		t.Errorf("%+v", two)
	}
	if j, _ := b.Job(1); !(j.Running[0].Dilation > j.Running[2].Dilation && j.Running[2].Dilation >= 1) {
		t.Errorf("a task beside another on two cores is not slowed down more than one on four: %+v", j.Running)
	}
	tell(cluster.Event{Kind: cluster.ServerLeft, On: "b"})
	if s := b.Status(); s.Server != "a" || s.Servers != nil || s.Running != 1 || s.Held != request || s.Waiting != 2 {
		t.Errorf("one has left: %+v", s)
	}
}

// What waits for room is shown until it continues; both are changes.
func TestShort(t *testing.T) {
	b := New(harvest.Reserve{})
	at := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	full := errors.New("no space left on device")
	for i, tc := range []struct {
		of   string
		err  error
		news bool
		n    int
	}{{"the store", nil, false, 0}, {"the store", full, true, 1}, {"the store", full, false, 1}, {"the socket", full, true, 2}, {"the store", nil, true, 1}, {"the store", nil, false, 1}} {
		if news, n := b.Short(at.Add(time.Duration(i)), tc.of, tc.err), len(b.Status().Short); news != tc.news || n != tc.n {
			t.Errorf("%d: news %v, %d are short", i, news, n)
		}
	}
	if left := b.Status().Short[0]; left.Of != "the socket" || left.Because != full.Error() || !left.Since.Equal(at.Add(3)) {
		t.Errorf("%+v", left)
	}
}

// A job that comes after another is blocked until that has ended.
func TestAJobAfterAnother(t *testing.T) {
	at := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	b := New(harvest.Reserve{})
	one := []cluster.Stage{{Name: "map", Tasks: 2, Request: cluster.Resources{CPU: cluster.Core}}}
	for _, job := range []*cluster.Job{{ID: 7, Name: "first", Stages: one}, {ID: 8, Name: "second", Stages: one, After: []cluster.JobID{7}}} {
		if err := b.Event(cluster.Event{At: at, Kind: cluster.JobSubmitted, Job: job}); err != nil {
			t.Fatal(err)
		}
	}
	state := func() string {
		j, _ := b.Job(8)
		s := b.Status()
		return fmt.Sprintf("%s, its stage %s; %d waiting, %d blocked", j.State, j.Stages[0].State, s.Waiting, s.Blocked)
	}
	if got, want := state(), "blocked, its stage blocked; 2 waiting, 2 blocked"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if err := b.Action(cluster.Action{Kind: cluster.FinishJob, ID: 7}); err != nil {
		t.Fatal(err)
	}
	if got, want := state(), "waiting, its stage waiting; 2 waiting, 0 blocked"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	b.Remove(7)
	if jobs := b.Jobs(); len(jobs) != 1 || jobs[0].ID != 8 {
		t.Errorf("%+v", jobs)
	}
}

// The runs of a job are bounded, and end when their server leaves.
func TestRunsAreBounded(t *testing.T) {
	at := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	b := New(harvest.Reserve{})
	job := &cluster.Job{ID: 7, Name: "sort", Stages: []cluster.Stage{{Name: "map", Tasks: 2000}}}
	events := []cluster.Event{{At: at, Kind: cluster.ServerJoined, Server: &cluster.Server{ID: "s"}}, {At: at, Kind: cluster.JobSubmitted, Job: job}}
	for i := range int32(2000) {
		events = append(events, cluster.Event{At: at, Kind: cluster.TaskStarted, On: "s", Task: cluster.TaskID{Job: 7, Stage: "map", Index: i}})
	}
	for _, ev := range append(events, cluster.Event{At: at.Add(time.Minute), Kind: cluster.ServerLeft, On: "s"}) {
		if err := b.Event(ev); err != nil {
			t.Fatal(err)
		}
	}
	runs := b.Runs(7)
	if len(runs) != keptRuns || runs[0].Task.Index != 1500 {
		t.Fatalf("%d runs, from %s", len(runs), runs[0].Task)
	}
	if last := runs[len(runs)-1]; last.End != Killed || last.Reason != "the server left" || !last.To.Equal(at.Add(time.Minute)) {
		t.Errorf("the last is %+v", last)
	}
}

// A task that was given up does not wait, also after a restart.
func TestATaskThatWasGivenUp(t *testing.T) {
	at := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	job := &cluster.Job{ID: 7, Name: "many", Stages: []cluster.Stage{{Name: "map", Tasks: 3, Failures: 1, KeepGoing: true, Request: cluster.Resources{CPU: cluster.Core}}}}
	lost := cluster.TaskID{Job: 7, Stage: "map", Index: 1}
	before, after := New(harvest.Reserve{}), New(harvest.Reserve{})
	for _, step := range []error{
		before.Event(cluster.Event{At: at, Kind: cluster.JobSubmitted, Job: job}),
		before.Event(cluster.Event{At: at, Kind: cluster.TaskStarted, Task: lost}),
		before.Event(cluster.Event{At: at, Kind: cluster.TaskFailed, Task: lost, Reason: "exit code 1"}),
		before.Action(cluster.Action{Kind: cluster.GiveUpTask, Task: lost, Reason: "exit code 1"}),
		after.Event(cluster.Event{At: at, Kind: cluster.Resumed, Past: []cluster.PastJob{{Job: job, Submitted: at, Stages: []cluster.PastStage{{Name: "map", Failures: 1}},
			Runs: []cluster.PastRun{{Task: lost, State: cluster.Stopped, Failures: 1, Reason: "exit code 1"}}}}}),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	for name, b := range map[string]*Board{"before": before, "after a restart": after} {
		j, _ := b.Job(7)
		if st := j.Stages[0]; st.Waiting != 2 || st.GaveUp != 1 || st.Failures != 1 || !b.GaveUp(lost) || b.GaveUp(cluster.TaskID{Job: 7, Stage: "map"}) {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

// A task that ends with its job made no way for the primary.
func TestACancelIsNoKill(t *testing.T) {
	at := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	b := New(harvest.Reserve{})
	task := func(i int32) cluster.TaskID { return cluster.TaskID{Job: 7, Stage: "map", Index: i} }
	job := &cluster.Job{ID: 7, Name: "sort", Stages: []cluster.Stage{{Name: "map", Tasks: 2}}}
	for _, step := range []error{
		b.Event(cluster.Event{At: at, Kind: cluster.JobSubmitted, Job: job}),
		b.Event(cluster.Event{At: at, Kind: cluster.TaskStarted, Task: task(0)}),
		b.Event(cluster.Event{At: at, Kind: cluster.TaskStarted, Task: task(1)}),
		b.Event(cluster.Event{At: at, Kind: cluster.TaskKilled, Task: task(0), Reason: "the primary needs room"}),
		b.Action(cluster.Action{Kind: cluster.FinishJob, ID: 7, Reason: "cancelled", Cancelled: true}),
		b.Event(cluster.Event{At: at, Kind: cluster.TaskKilled, Task: task(1), Reason: "its job has ended"}),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	j, _ := b.Job(7)
	if s, total := b.Status(), b.Totals(); s.Kills != 1 || len(s.Last) != 1 || j.Kills != 1 || total.TasksKilled != 1 || total.TasksDropped != 1 {
		t.Errorf("%+v, %+v, %+v", s, j, total)
	}
}

// When a job fails, its stages that have not failed are cancelled, those that never ran as well.
func TestStagesOfAFailedJob(t *testing.T) {
	at := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	b := New(harvest.Reserve{})
	task := cluster.TaskID{Job: 7, Stage: "map"}
	for _, ev := range []cluster.Event{
		{At: at, Kind: cluster.ServerJoined, Server: &cluster.Server{ID: "s"}},
		{At: at, Kind: cluster.JobSubmitted, Job: &cluster.Job{ID: 7, Name: "sort", Stages: []cluster.Stage{{Name: "map", Tasks: 1}, {Name: "merge", Tasks: 1, After: []string{"map"}}}}},
		{At: at, Kind: cluster.TaskStarted, On: "s", Task: task},
		{At: at, Kind: cluster.TaskFailed, On: "s", Task: task, Reason: "exit code 1"},
	} {
		if err := b.Event(ev); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Action(cluster.Action{Kind: cluster.FinishJob, ID: 7, Reason: "map-0 failed"}); err != nil {
		t.Fatal(err)
	}
	j, _ := b.Job(7)
	if j.State != Failed || j.Stages[0].State != Failed || j.Stages[1].State != Cancelled {
		t.Errorf("%s, its stages %s and %s", j.State, j.Stages[0].State, j.Stages[1].State)
	}
}

// Under a policy that does not heed primaries, all that tasks do not hold is free.
func TestUnaware(t *testing.T) {
	size := cluster.Resources{CPU: 4 * cluster.Core, Memory: 8 * cluster.GB}
	b := New(harvest.Reserve{Fixed: cluster.Resources{CPU: cluster.Core}})
	b.Unaware = true
	for _, ev := range []cluster.Event{
		{Kind: cluster.ServerJoined, Server: &cluster.Server{ID: "s", CPU: size.CPU, Memory: size.Memory}},
		{Kind: cluster.UseReported, Use: []cluster.Use{{On: "s", Primary: cluster.Resources{CPU: 3 * cluster.Core}}}},
	} {
		if err := b.Event(ev); err != nil {
			t.Fatal(err)
		}
	}
	if s := b.Status(); s.Free() != size || s.Primary.CPU != 3*cluster.Core {
		t.Errorf("%s are free of %s; the primary uses %s", s.Free(), size, s.Primary)
	}
}
