package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/control/jobfile"
	"gleaner/input"
)

// A Machine takes jobs in and keeps what their tasks write.
type Machine interface {
	Submit(*cluster.Job) (cluster.JobID, error)
	Cancel(cluster.JobID) error
	// Output opens what a run of a task has written, to stdout or stderr; an
	// error that is fs.ErrNotExist says that there is no such run.
	Output(id cluster.TaskID, stderr bool) (*os.File, error)
	// LastRun is the last run of a task that was begun.
	LastRun(cluster.TaskID) cluster.TaskID
}

// An API answers the requests under /api/v1/.
type API struct {
	Board   *board.Board
	Machine Machine
	// Most is what one task may ask for.
	Most cluster.Resources
	// Harvested tells what harvested tasks use now.
	Harvested func() cluster.Resources
	// Gone and Ended say which errors of Machine mean that there is no such
	// job, and that it has ended.
	Gone, Ended error
}

// Status is the answer to GET /api/v1/status.
type Status struct {
	board.Status
	Harvested cluster.Resources `json:"harvested"` // used by harvested tasks
}

// Accepted is the answer to POST /api/v1/jobs and /api/v1/jobs/{id}/cancel.
type Accepted struct {
	ID   cluster.JobID `json:"id"`
	Name string        `json:"name"`
}

// A Problem is the answer to a request that failed. Line is that of the job
// file that is wrong, or 0.
type Problem struct {
	Error string `json:"error"`
	Line  int    `json:"line,omitempty"`
}

// Handler serves the API, unguarded.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/status", a.status)
	mux.HandleFunc("GET /api/v1/jobs", a.jobs)
	mux.HandleFunc("POST /api/v1/jobs", a.submit)
	mux.HandleFunc("GET /api/v1/jobs/{id}", a.job)
	mux.HandleFunc("POST /api/v1/jobs/{id}/cancel", a.cancel)
	mux.HandleFunc("GET /api/v1/jobs/{id}/tasks/{task}/output", a.output)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", a.ready)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		problem(w, http.StatusNotFound, "there is no %s %s here", r.Method, r.URL.Path)
	})
	return mux
}

func (a *API) ready(w http.ResponseWriter, _ *http.Request) {
	if at := a.Board.Status().At; time.Since(at) > 10*time.Second {
		http.Error(w, "no sample of late", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (a *API) status(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, Status{a.Board.Status(), a.Harvested()})
}

func (a *API) jobs(w http.ResponseWriter, r *http.Request) {
	all := a.Board.Jobs()
	if name := r.URL.Query().Get("name"); name != "" {
		some := []board.Job{}
		for _, j := range all {
			if j.Name == name {
				some = append(some, j)
			}
		}
		all = some
	}
	answer(w, http.StatusOK, all)
}

func (a *API) job(w http.ResponseWriter, r *http.Request) {
	id, ok := jobID(w, r)
	if !ok {
		return
	}
	j, known := a.Board.Job(id)
	if !known {
		problem(w, http.StatusNotFound, "there is no %s", id)
		return
	}
	answer(w, http.StatusOK, j)
}

// submit takes a job file. The two content types are ones that a page of
// another site cannot send without asking first.
func (a *API) submit(w http.ResponseWriter, r *http.Request) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/yaml" && kind != "application/json" {
		problem(w, http.StatusUnsupportedMediaType, "a job must be sent as application/yaml or application/json")
		return
	}
	name := r.URL.Query().Get("file")
	if name == "" {
		name = "job"
	}
	job, err := jobfile.Read(name, r.Body)
	if err == nil {
		err = errors.Join(a.fits(name, job), settleIn(r.URL.Query().Get("dir"), job))
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		problem(w, http.StatusRequestEntityTooLarge, "larger than a job file may be: %d bytes", large.Limit)
		return
	case input.Is(err):
		wrong := Problem{Error: err.Error()}
		var at *input.Error
		if errors.As(err, &at) {
			wrong.Line = at.Line
		}
		answer(w, http.StatusUnprocessableEntity, wrong)
		return
	case err != nil:
		problem(w, http.StatusBadRequest, "%v", err)
		return
	}
	id, err := a.Machine.Submit(job)
	if err != nil {
		problem(w, http.StatusInternalServerError, "%v", err)
		return
	}
	answer(w, http.StatusCreated, Accepted{id, job.Name})
}

// fits refuses a job with a task that would wait forever.
func (a *API) fits(name string, job *cluster.Job) error {
	var wrong *cluster.JobError
	if err := job.Validate(a.Most); errors.As(err, &wrong) {
		return input.Errorf(name, "%v; at most %s can be harvested here", wrong, a.Most)
	} else if err != nil {
		return err
	}
	return nil
}

// settleIn makes dir the one that stages run in that name none, or a relative one.
func settleIn(dir string, job *cluster.Job) error {
	if dir == "" {
		return nil
	}
	if !filepath.IsAbs(dir) {
		return input.Errorf("dir", "%q does not begin at the root", dir)
	}
	for i := range job.Stages {
		if st := &job.Stages[i]; !filepath.IsAbs(st.Dir) {
			st.Dir = filepath.Join(dir, st.Dir)
		}
	}
	return nil
}

func (a *API) cancel(w http.ResponseWriter, r *http.Request) {
	id, ok := jobID(w, r)
	if !ok {
		return
	}
	switch err := a.Machine.Cancel(id); {
	case err == nil:
		j, _ := a.Board.Job(id)
		answer(w, http.StatusAccepted, Accepted{id, j.Name})
	case errors.Is(err, a.Gone):
		problem(w, http.StatusNotFound, "there is no %s", id)
	case errors.Is(err, a.Ended):
		problem(w, http.StatusConflict, "%s has ended", id)
	default:
		problem(w, http.StatusInternalServerError, "%v", err)
	}
}

// output sends what a task has written: its last run's, or the one that
// ?attempt= names. With ?follow=true it goes on until the task has ended.
func (a *API) output(w http.ResponseWriter, r *http.Request) {
	id, ok := jobID(w, r)
	if !ok {
		return
	}
	task, ok := ParseTask(id, r.PathValue("task"))
	if !ok {
		problem(w, http.StatusNotFound, "%q is not a task: it is called by its stage and number, as map-3", r.PathValue("task"))
		return
	}
	if why := a.unknown(task); why != "" {
		problem(w, http.StatusNotFound, "%s", why)
		return
	}
	stderr := r.URL.Query().Get("stream") == "stderr"
	f, err := a.open(&task, r.URL.Query().Get("attempt"), stderr)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		problem(w, http.StatusNotFound, "%s has not run", task)
		return
	case err != nil:
		problem(w, http.StatusBadRequest, "%v", err)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	follow, _ := strconv.ParseBool(r.URL.Query().Get("follow"))
	a.send(w, r, f, task, follow)
}

// unknown says why there is no such task; "" when there is.
func (a *API) unknown(task cluster.TaskID) string {
	j, known := a.Board.Job(task.Job)
	if !known {
		return fmt.Sprintf("there is no %s", task.Job)
	}
	var names []string
	for _, st := range j.Stages {
		switch {
		case st.Name != task.Stage:
			names = append(names, st.Name)
		case int(task.Index) < st.Tasks:
			return ""
		default:
			return fmt.Sprintf("there is no %s-%d in %s: the last task of that stage is %s-%d", st.Name, task.Index, task.Job, st.Name, st.Tasks-1)
		}
	}
	return fmt.Sprintf("%s has no stage %q; it has %s", task.Job, task.Stage, strings.Join(names, ", "))
}

// open finds the run that is meant and opens what it wrote.
func (a *API) open(task *cluster.TaskID, attempt string, stderr bool) (*os.File, error) {
	if attempt != "" {
		n, err := strconv.ParseInt(attempt, 10, 32)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("attempt %q is not a number from 1 on", attempt)
		}
		task.Attempt = int32(n) - 1
		return a.Machine.Output(*task, stderr)
	}
	*task = a.Machine.LastRun(*task)
	f, err := a.Machine.Output(*task, stderr)
	for errors.Is(err, fs.ErrNotExist) && task.Attempt > 0 { // it was killed before it could write
		task.Attempt--
		f, err = a.Machine.Output(*task, stderr)
	}
	return f, err
}

const followEvery = 200 * time.Millisecond

func (a *API) send(w http.ResponseWriter, r *http.Request, f *os.File, task cluster.TaskID, follow bool) {
	for {
		runs := follow && a.runs(task) // before the last look, so that nothing is missed
		if _, err := io.Copy(w, f); err != nil || !runs {
			return
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(followEvery):
		}
	}
}

func (a *API) runs(task cluster.TaskID) bool {
	j, _ := a.Board.Job(task.Job)
	for _, r := range j.Running {
		if r.Task == task {
			return true
		}
	}
	return false
}

// ParseTask reads a task's name within its job, as "map-3".
func ParseTask(job cluster.JobID, text string) (cluster.TaskID, bool) {
	dash := strings.LastIndexByte(text, '-')
	if dash < 1 {
		return cluster.TaskID{}, false
	}
	n, err := strconv.ParseInt(text[dash+1:], 10, 32)
	return cluster.TaskID{Job: job, Stage: text[:dash], Index: int32(n)}, err == nil && n >= 0
}

func jobID(w http.ResponseWriter, r *http.Request) (cluster.JobID, bool) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		problem(w, http.StatusNotFound, "%q is not the number of a job", r.PathValue("id"))
	}
	return cluster.JobID(id), err == nil
}

func problem(w http.ResponseWriter, code int, format string, args ...any) {
	answer(w, code, Problem{Error: fmt.Sprintf(format, args...)})
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}
