package web_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/harvest"
	"gleaner/web"
)

// A machine keeps outputs in files named by their runs.
type machine struct {
	dir       string
	submitted *cluster.Job
}

func (m *machine) Submit(job *cluster.Job) (cluster.JobID, error) { m.submitted = job; return 1, nil }
func (m *machine) Cancel(cluster.JobID) error                     { return nil }
func (m *machine) Pause(cluster.JobID) error                      { return nil }
func (m *machine) Continue(cluster.JobID) error                   { return nil }
func (m *machine) Drain() error                                   { return nil }
func (m *machine) Refill() error                                  { return nil }

func (m *machine) Output(id cluster.TaskID, stderr bool) (*os.File, error) {
	if stderr {
		return nil, fs.ErrNotExist
	}
	return os.Open(m.name(id))
}

func (m *machine) LastRun(id cluster.TaskID) (cluster.TaskID, bool) {
	_, err := os.Stat(m.name(id))
	for err == nil {
		id.Attempt++
		_, err = os.Stat(m.name(id))
	}
	if id.Attempt == 0 {
		return id, false
	}
	id.Attempt--
	return id, true
}

func (m *machine) LastRuns(id cluster.JobID) map[string][]int32 {
	runs := make([]int32, 2)
	for index := range runs {
		if run, ran := m.LastRun(cluster.TaskID{Job: id, Stage: "map", Index: int32(index)}); ran {
			runs[index] = run.Attempt + 1
		}
	}
	return map[string][]int32{"map": runs}
}

var (
	noon          = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	success, fail = 0, 3
)

func (m *machine) Outcome(id cluster.TaskID) (cluster.Outcome, bool) {
	if id.Index == 0 && id.Attempt == 1 {
		return cluster.Outcome{Started: noon, Ended: noon.Add(time.Minute), Finished: true, Exit: &success}, true
	}
	return cluster.Outcome{Started: noon, Ended: noon.Add(time.Second), Exit: &fail, Reason: "exit code 3"}, id.Stage == "map" && id.Index < 2
}

func (m *machine) Remove(id cluster.JobID) error {
	if id == 1 {
		return cluster.ErrGoesOn
	}
	return cluster.ErrNoJob
}

func (m *machine) name(id cluster.TaskID) string {
	return filepath.Join(m.dir, strings.ReplaceAll(id.String(), "/", "."))
}

// newAPI has a job whose map-0 has finished in its second run, map-1 runs and
// map-2 has not run.
func newAPI(t *testing.T) (*machine, http.Handler) {
	t.Helper()
	m := &machine{dir: t.TempDir()}
	_, h := m.api(t)
	return m, h
}

func newBoard(t *testing.T) (*board.Board, http.Handler) {
	t.Helper()
	return (&machine{dir: t.TempDir()}).api(t)
}

func (m *machine) api(t *testing.T) (*board.Board, http.Handler) {
	t.Helper()
	task := func(index, attempt int32) cluster.TaskID {
		return cluster.TaskID{Job: 1, Stage: "map", Index: index, Attempt: attempt}
	}
	for id, text := range map[cluster.TaskID]string{task(0, 0): "first", task(0, 1): "second", task(1, 0): "so far"} {
		if err := os.WriteFile(m.name(id), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := board.New(harvest.Reserve{Fixed: cluster.Resources{CPU: 500, Memory: cluster.GB}})
	size := cluster.Server{ID: "s", CPU: 4 * cluster.Core, Memory: 8*cluster.GB + 99*cluster.MB}
	request := cluster.Resources{CPU: cluster.Core, Memory: cluster.MB}
	job := &cluster.Job{ID: 1, Name: "j", Stages: []cluster.Stage{{Name: "map", Tasks: 3, Request: request}, {Name: "merge", Tasks: 1, Request: request, After: []string{"map"}}}}
	for _, ev := range []cluster.Event{
		{Kind: cluster.ServerJoined, Server: &size},
		{Kind: cluster.JobSubmitted, Job: job},
		{Kind: cluster.TaskStarted, Task: task(0, 1), Request: request},
		{Kind: cluster.TaskFinished, Task: task(0, 1)},
		{Kind: cluster.TaskStarted, Task: task(1, 0), On: "s", Request: request},
	} {
		ev.At = noon
		if err := b.Event(ev); err != nil {
			t.Fatal(err)
		}
	}
	api := &web.API{Board: b, Machine: m, Most: size.Size().Sub(cluster.Resources{CPU: 1500, Memory: cluster.GB})}
	return b, api.Handler()
}

func ask(h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/yaml")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestOutput(t *testing.T) {
	_, h := newAPI(t)
	for _, tc := range []struct {
		query   string
		code    int
		attempt string
		want    string
	}{
		{"map-0/output", 200, "2", "second"},
		{"map-0/output?attempt=1&stream=stdout", 200, "1", "first"},
		{"map-0/output?offset=3&follow=true", 200, "2", "ond"},
		{"map-0/output?tail=2", 200, "2", "nd"},
		{"map-0/output?tail=100", 200, "2", "second"},
		{"map-0/output?tail=0", 400, "", `{"error":"tail: \"0\" is not a number of bytes"}`},
		{"map-0/output?offset=100", 200, "2", ""},
		{"map-2/output", 404, "", `{"error":"job-1/map-2 has not run"}`},
		{"map-0/output?stream=stdin", 400, "", `{"error":"stream: \"stdin\" is neither stdout nor stderr"}`},
		{"map-0/output?stream=stderr%00", 400, "", `{"error":"stream: \"stderr\\x00\" is neither stdout nor stderr"}`},
		{"map-0/output?attempt=0", 400, "", `{"error":"attempt: \"0\" is not a positive number"}`},
		{"map-0/output?follow=maybe", 400, "", `{"error":"follow: \"maybe\" is neither true nor false"}`},
		{"map-0/output?offset=-1", 400, "", `{"error":"offset: \"-1\" is not a number of bytes"}`},
	} {
		w := ask(h, "GET", "/api/v1/jobs/1/tasks/"+tc.query, "")
		if got := strings.TrimSpace(w.Body.String()); w.Code != tc.code || got != tc.want || w.Header().Get(web.AttemptHeader) != tc.attempt {
			t.Errorf("%s: %d %s of run %q, want %d %s of %q", tc.query, w.Code, got, w.Header().Get(web.AttemptHeader), tc.code, tc.want, tc.attempt)
		}
	}
}

func TestTasksAreToldApart(t *testing.T) {
	_, h := newAPI(t)
	all := []board.Task{
		{Task: "job-1/map-0", State: board.Finished, Attempt: 2, Since: noon.Add(time.Minute), Took: time.Minute, Exit: &success},
		{Task: "job-1/map-1", State: board.Running, Attempt: 1, Since: noon, On: "s"},
		{Task: "job-1/map-2", State: board.Waiting, Since: noon},
		{Task: "job-1/merge-0", State: board.Blocked, Since: noon, Reason: "comes after map"},
	}
	for _, want := range all {
		var got board.Task
		w := ask(h, "GET", "/api/v1/jobs/1/tasks/"+strings.TrimPrefix(want.Task, "job-1/"), "")
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", want.Task, got, err, want)
		}
	}
	for query, want := range map[string][]board.Task{"": all, "?limit=2": all[:2], "?state=running": all[1:2], "?state=failed": {}} {
		var got []board.Task
		w := ask(h, "GET", "/api/v1/jobs/1/tasks"+query, "")
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", query, got, err, want)
		}
	}
}

// Once a job has failed, the task that did is told apart from those that were not
// needed any more.
func TestTheTaskThatFailed(t *testing.T) {
	b, h := newBoard(t)
	end := noon.Add(time.Hour)
	if err := b.Event(cluster.Event{At: end, Kind: cluster.TaskFailed, Task: cluster.TaskID{Job: 1, Stage: "map", Index: 1}, Reason: "exit code 3"}); err != nil {
		t.Fatal(err)
	}
	if err := b.Action(cluster.Action{Kind: cluster.FinishJob, ID: 1, Reason: "job-1/map-1 failed 1 time: exit code 3"}); err != nil {
		t.Fatal(err)
	}
	states := map[string]board.State{}
	var all []board.Task
	if err := json.Unmarshal(ask(h, "GET", "/api/v1/jobs/1/tasks", "").Body.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	for _, task := range all {
		states[task.Task] = task.State
		if task.State == board.Cancelled && !task.Since.Equal(end) {
			t.Errorf("%s was cancelled at %v, before its job ended", task.Task, task.Since)
		}
	}
	want := map[string]board.State{"job-1/map-0": board.Finished, "job-1/map-1": board.Failed, "job-1/map-2": board.Cancelled, "job-1/merge-0": board.Cancelled}
	if !maps.Equal(states, want) {
		t.Errorf("%v, want %v", states, want)
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	_, h := newAPI(t)
	for _, tc := range []struct {
		method, path string
		code         int
		want         string
	}{
		{"GET", "jobs/1/tasks?limit=0", 400, `limit: \"0\" is not a positive number`},
		{"GET", "jobs/1/tasks?state=bogus", 400, `state: no task is ever \"bogus\"`},
		{"GET", "jobs/7/tasks", 404, "there is no job-7"},
		{"DELETE", "jobs/1", 409, "job-1, or one of its tasks, has not ended; see 'gleaner cancel'"},
		{"DELETE", "jobs/7", 404, "there is no job-7"},
		{"POST", "jobs?after=7", 400, "after: there is no job-7"},
		{"POST", "jobs?after=job-7", 400, `after: \"job-7\" is not the number of a job`},
	} {
		w := ask(h, tc.method, "/api/v1/"+tc.path, "")
		if got := strings.TrimSpace(w.Body.String()); w.Code != tc.code || got != `{"error":"`+tc.want+`"}` {
			t.Errorf("%s %s: %d %s, want %d %s", tc.method, tc.path, w.Code, got, tc.code, tc.want)
		}
	}
}

// A late machine reports a job to the board a while after it has accepted it.
type late struct {
	machine
	board *board.Board
}

func (m *late) Submit(job *cluster.Job) (cluster.JobID, error) {
	numbered := *job
	numbered.ID = 7
	time.AfterFunc(time.Second, func() { _ = m.board.Event(cluster.Event{Kind: cluster.JobSubmitted, Job: &numbered}) })
	return numbered.ID, nil
}

// A client that gets the number of a job finds the job at once.
func TestSubmittedIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := board.New(harvest.Reserve{})
		h := (&web.API{Board: b, Machine: &late{board: b}, Most: cluster.Resources{CPU: 4 * cluster.Core, Memory: cluster.GB}}).Handler()
		r := httptest.NewRequest(http.MethodPost, "/api/v1/jobs", strings.NewReader("name: j\nstages: [{name: s, cpu: 1, memory: 32MiB, command: [x]}]\n"))
		r.Header.Set("Content-Type", "application/yaml")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusCreated {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
		w = httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/jobs/7", nil)); w.Code != http.StatusOK {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	})
}

func TestSubmitRefuses(t *testing.T) {
	m, h := newAPI(t)
	job := func(cpu, memory string) string {
		return fmt.Sprintf("name: j\nstages:\n  - {name: s, cpu: %s, memory: %s, command: [x]}\n", cpu, memory)
	}
	for _, tc := range []struct {
		dir, body string
		code      int
		want      string
	}{
		{"/srv/\x00", job("1", "1GiB"), 400, `{"error":"dir: it holds a zero byte"}`},
		{"srv", job("1", "1GiB"), 400, `{"error":"dir: \"srv\" is not an absolute path"}`},
		{"/srv", job("3", "1GiB"), 422, `{"error":"job.yaml:3: job \"j\": stage \"s\" asks for 3 cores and 1 GiB a task; at most 2.5 cores and 7 GiB can be harvested here: the machine has 4 cores and 8.1 GiB, 0.5 cores and 1 GiB is kept free for its primary, and the primary counts as 1 core at least","line":3}`},
		{"/srv", job("2", "7.1GiB"), 422, `{"error":"job.yaml:3: job \"j\": stage \"s\" asks for 2 cores and 7.1 GiB a task; at most 2.5 cores and 7 GiB can be harvested here: the machine has 4 cores and 8.1 GiB, 0.5 cores and 1 GiB is kept free for its primary, and the primary counts as 1 core at least","line":3}`},
	} {
		w := ask(h, "POST", "/api/v1/jobs?file=job.yaml&dir="+url.QueryEscape(tc.dir), tc.body)
		if got := strings.TrimSpace(w.Body.String()); w.Code != tc.code || got != tc.want || m.submitted != nil {
			t.Errorf("%q: %d %s\nwant %d %s", tc.dir, w.Code, got, tc.code, tc.want)
		}
	}
	// A request for exactly the limit is accepted.
	if w := ask(h, "POST", "/api/v1/jobs?dir=/srv", job("2.5", "7GiB")); w.Code != 201 || m.submitted.Stages[0].Dir != "/srv" {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}
