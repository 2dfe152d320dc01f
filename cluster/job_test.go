package cluster_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gleaner/cluster"
)

var core = cluster.Resources{CPU: cluster.Core, Memory: 2 * cluster.GB}

// query19 has the shape of the paper's Figure 7: tables of very different
// sizes scanned at once, then joined one by one.
func query19() *cluster.Job {
	stage := func(name string, tasks int, after ...string) cluster.Stage {
		return cluster.Stage{Name: name, Tasks: tasks, Request: core, After: after}
	}
	return &cluster.Job{ID: 19, Name: "query19", Stages: []cluster.Stage{
		stage("dates", 1), stage("items", 3), stage("customers", 15), stage("addresses", 8), stage("stores", 1), stage("sales", 441),
		stage("join-dates", 120, "dates", "sales"),
		stage("join-items", 60, "join-dates", "items"),
		stage("join-customers", 40, "join-items", "customers", "addresses", "stores"),
		stage("top", 1, "join-customers"),
	}}
}

func TestQuery19NeedsAtMost469ContainersAtOnce(t *testing.T) {
	job := query19()
	if err := job.Validate(cluster.Resources{CPU: 12 * cluster.Core, Memory: 32 * cluster.GB}); err != nil {
		t.Fatal(err)
	}
	if got, want := job.Width(), core.Times(469); got != want {
		t.Errorf("width %v, want %v", got, want)
	}
	if got, want := job.Waves(), []int{0, 0, 0, 0, 0, 0, 1, 2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("waves %v, want %v", got, want)
	}
}

func TestWhatIsWrongWithAJob(t *testing.T) {
	small := cluster.Resources{CPU: 4 * cluster.Core, Memory: 8 * cluster.GB}
	wide := cluster.Resources{CPU: 2 * cluster.Core, Memory: 64 * cluster.GB}
	for _, tc := range []struct {
		spoil func(*cluster.Job)
		want  error
		says  string
	}{
		{func(j *cluster.Job) { j.Stages = nil }, cluster.ErrNoStages, `job "query19" has no stages`},
		{func(j *cluster.Job) { j.After = []cluster.JobID{18, 19} }, cluster.ErrLater, `job "query19" comes after itself, or after a later job`},
		{func(j *cluster.Job) { j.Stages[1].Name = "dates" }, cluster.ErrSameName, `job "query19": stage "dates" has the same name as another stage`},
		{func(j *cluster.Job) { j.Stages[2].Tasks = 0 }, cluster.ErrNoTasks, `job "query19": stage "customers" has no tasks`},
		{func(j *cluster.Job) { j.Stages[2].Tasks = 1_000_001 }, cluster.ErrTooManyTasks, `job "query19": stage "customers" makes the job larger than a million tasks`},
		{func(j *cluster.Job) { j.Stages[2].Tasks, j.Stages[7].Tasks = 600_000, 400_000 }, cluster.ErrTooManyTasks, `job "query19": stage "join-items" makes the job larger than a million tasks`},
		{func(j *cluster.Job) { j.Stages[2].Request.CPU = 0 }, cluster.ErrNoRequest, `job "query19": stage "customers" asks for no CPU, or for a negative amount`},
		{func(j *cluster.Job) { j.Stages[6].After[0] = "dats" }, cluster.ErrUnknownStage, `job "query19": stage "join-dates" comes after a stage that does not exist: dats`},
		{func(j *cluster.Job) { j.Stages[6].After[0] = "top" }, cluster.ErrCycle, `job "query19": stage "join-dates" comes after itself`},
		{func(j *cluster.Job) { j.Stages[0].After = []string{"dates"} }, cluster.ErrCycle, `job "query19": stage "dates" comes after itself`},
		// More cores than one has, more memory than the other: neither will do.
		{func(j *cluster.Job) {
			j.Stages[3].Request = cluster.Resources{CPU: 3 * cluster.Core, Memory: 9 * cluster.GB}
		}, cluster.ErrTooLarge,
			`job "query19": stage "addresses" asks for more than any server has: 3 cores and 9 GiB a task`},
	} {
		job := query19()
		tc.spoil(job)
		err := job.Validate(small, wide)
		if !errors.Is(err, tc.want) || err.Error() != tc.says {
			t.Errorf("got %v, want %s", err, tc.says)
		}
	}
}

func TestEventsAndActionsSurviveJSON(t *testing.T) {
	at := time.Date(2026, 6, 1, 12, 0, 0, 5000, time.UTC)
	task := cluster.TaskID{Job: 7, Stage: "map", Index: 3, Attempt: 1}
	for _, ev := range []cluster.Event{
		{At: at, Kind: cluster.ServerJoined, Server: &cluster.Server{ID: "s1", Environment: "search", CPU: 12000, Memory: 32 * cluster.GB}},
		{At: at, Kind: cluster.ServerLeft, On: "s1"},
		{At: at, Kind: cluster.UseReported, Use: []cluster.Use{{On: "s1", Primary: core}, {On: "s2"}}},
		{At: at, Kind: cluster.ClassesPublished, Classes: []cluster.Class{{ID: "periodic-0", Pattern: cluster.Periodic, Tenants: []cluster.TenantID{"a/b"}, Mean: 0.3, Peak: 0.5}}},
		{At: at, Kind: cluster.JobSubmitted, Job: query19()},
		{At: at, Kind: cluster.JobCancelled, ID: 7},
		{At: at, Kind: cluster.TaskStarted, Task: task, On: "s1", Request: core},
		{At: at, Kind: cluster.TaskKilled, Task: task, On: "s1", Reason: "reserve short by 1 core"},
		{At: at, Kind: cluster.DataServerJoined, On: "s1", DataServer: &cluster.DataServer{Address: "s1:9000"}},
		{At: at, Kind: cluster.DiskJoined, On: "s1", Disk: &cluster.Disk{ID: "d1", Tier: "ssd", Quota: 10 << 30, Free: 4 << 30}},
		{At: at, Kind: cluster.DataReported, Data: []cluster.DataUse{{On: "s1", Busy: true, Disks: []cluster.DiskUse{{ID: "d1", Free: 3 << 30, Errors: 1}}}}},
		{At: at, Kind: cluster.DiskLeft, On: "s1", Disk: &cluster.Disk{ID: "d1"}, Reason: "wiped"},
		{At: at, Kind: cluster.ServerReimaged, On: "s1", Reason: "upgrade"},
		{At: at, Kind: cluster.DataServerLeft, On: "s1", Reason: "silent for 10m30s"},
	} {
		if err := ev.Check(); err != nil {
			t.Errorf("%+v: %v", ev, err)
		}
		var back cluster.Event
		roundTrip(t, ev, &back)
		if !reflect.DeepEqual(ev, back) {
			t.Errorf("wrote %+v, read %+v", ev, back)
		}
	}
	for _, a := range []cluster.Action{
		{Kind: cluster.StartTask, Task: task, On: "s1", Request: core},
		{Kind: cluster.KillTask, Task: task, On: "s1", Reason: "its job has ended"},
		{Kind: cluster.FinishJob, ID: 7},
		{Kind: cluster.GiveUpTask, Task: task, Reason: "exit code 1"},
	} {
		var back cluster.Action
		roundTrip(t, a, &back)
		if a != back {
			t.Errorf("wrote %+v, read %+v", a, back)
		}
	}
}

func roundTrip(t *testing.T, from, to any) {
	t.Helper()
	text, err := json.Marshal(from)
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		err = dec.Decode(to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAmountsAreWrittenForPeople(t *testing.T) {
	for want, r := range map[string]cluster.Resources{
		"nothing":            {},
		"1 core":             {CPU: cluster.Core},
		"2.5 cores":          {CPU: 2500},
		"2 cores and 10 GiB": {CPU: 2 * cluster.Core, Memory: 10 * cluster.GB},
		"1.5 GiB":            {Memory: 1536 * cluster.MB},
		"16.2 GiB":           {Memory: 16572*cluster.MB + 244<<10},
		"1 GiB":              {Memory: cluster.GB - 1},
		"1023.9 MiB":         {Memory: 1023*cluster.MB + 922<<10},
		"-512 KiB":           {Memory: -512 << 10},
	} {
		if got := r.String(); got != want {
			t.Errorf("%+v is written %q, want %q", r, got, want)
		}
	}
	if got := (cluster.Resources{CPU: 2001, Memory: cluster.MB + 1}).RoundUp(); got != (cluster.Resources{CPU: 3000, Memory: 2 * cluster.MB}) {
		t.Errorf("rounded up to %v", got)
	}
}

// The item of a task stands wherever its command has {}, and nothing else changes.
func TestTheCommandOfATask(t *testing.T) {
	each := cluster.Stage{Command: []string{"cp", "{}", "to/{}.{}", "$x '\" {", ""}, Each: []string{"a b", "", "{}"}}
	tens := cluster.Stage{Command: []string{"draw", "{}"}, Array: cluster.Array{First: 5, Step: 10}}
	plain := cluster.Stage{Command: []string{"find", "-exec", "{}"}}
	for _, tc := range []struct {
		of    cluster.Stage
		index int32
		want  []string
	}{
		{each, 0, []string{"cp", "a b", "to/a b.a b", "$x '\" {", ""}},
		{each, 1, []string{"cp", "", "to/.", "$x '\" {", ""}},
		{each, 2, []string{"cp", "{}", "to/{}.{}", "$x '\" {", ""}},
		{tens, 2, []string{"draw", "25"}},
		{plain, 7, plain.Command},
	} {
		if got, err := tc.of.CommandOf(tc.index); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("task %d: %q, %v, want %q", tc.index, got, err, tc.want)
		}
	}
	if each.Command[1] != "{}" {
		t.Errorf("the command of the stage has become %q", each.Command)
	}
}

// A command that Linux would refuse is refused before it is expanded: the largest here
// would take 16 GiB.
func TestALongCommandIsNotExpanded(t *testing.T) {
	item := func(n int) []string { return []string{"short", strings.Repeat("x", n)} }
	braces := func(n int) []string { return []string{"echo", strings.Repeat("{}", n)} }
	const most = 128<<10 - 1
	for name, tc := range map[string]struct {
		of      cluster.Stage
		refused bool
	}{
		"plain, as long as may be":   {cluster.Stage{Tasks: 2, Command: []string{"echo", strings.Repeat("x", most)}}, false},
		"plain, longer":              {cluster.Stage{Tasks: 2, Command: []string{"echo", strings.Repeat("x", most+1)}}, true},
		"plain braces":               {cluster.Stage{Tasks: 2, Command: braces(40_000)}, false},
		"an item, as long as may be": {cluster.Stage{Tasks: 2, Command: braces(1), Each: item(most)}, false},
		"an item, longer":            {cluster.Stage{Tasks: 2, Command: braces(1), Each: item(most + 1)}, true},
		"an item that often":         {cluster.Stage{Tasks: 2, Command: braces(160_000), Each: item(100_000)}, true},
		"all arguments together":     {cluster.Stage{Tasks: 2, Command: slices.Repeat([]string{"{}"}, 21), Each: item(100_000)}, true},
		"fewer arguments":            {cluster.Stage{Tasks: 2, Command: slices.Repeat([]string{"{}"}, 20), Each: item(100_000)}, false},
		"the last number":            {cluster.Stage{Tasks: 2, Command: braces(30_000), Array: cluster.Array{First: 9999, Step: 1}}, true},
		"the first number":           {cluster.Stage{Tasks: 1, Command: braces(30_000), Array: cluster.Array{First: 9999, Step: 1}}, false},
	} {
		last := int32(tc.of.Tasks - 1)
		if _, err := tc.of.CommandOf(last); errors.Is(err, cluster.ErrLongCommand) != tc.refused {
			t.Errorf("%s: task %d: %v", name, last, err)
		}
		slices.Reverse(tc.of.Each) // wherever the longest item is
		if err := tc.of.CheckCommand(); errors.Is(err, cluster.ErrLongCommand) != tc.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
