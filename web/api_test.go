package web_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
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

func (m *machine) Finished(id cluster.TaskID) bool { return id.Index == 0 && id.Attempt == 1 }

func (m *machine) name(id cluster.TaskID) string {
	return filepath.Join(m.dir, strings.ReplaceAll(id.String(), "/", "."))
}

// newAPI has a job whose map-0 has finished in its second run, map-1 runs and
// map-2 has not run.
func newAPI(t *testing.T) (*machine, http.Handler) {
	t.Helper()
	m := &machine{dir: t.TempDir()}
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
		{Kind: cluster.TaskStarted, Task: task(1, 0), Request: request},
	} {
		if err := b.Event(ev); err != nil {
			t.Fatal(err)
		}
	}
	api := &web.API{Board: b, Machine: m, Most: size.Size().Sub(cluster.Resources{CPU: 1500, Memory: cluster.GB})}
	return m, api.Handler()
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
	for task, want := range map[string]web.Task{
		"map-0":   {Task: "job-1/map-0", State: board.Finished, Attempt: 2},
		"map-1":   {Task: "job-1/map-1", State: board.Running, Attempt: 1},
		"map-2":   {Task: "job-1/map-2", State: board.Waiting},
		"merge-0": {Task: "job-1/merge-0", State: board.Blocked},
	} {
		var got web.Task
		w := ask(h, "GET", "/api/v1/jobs/1/tasks/"+task, "")
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", task, got, err, want)
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
