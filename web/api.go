package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"mime"
	"net/http"
	"net/http/pprof"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/control/jobfile"
	"gleaner/fabric"
	"gleaner/input"
	"gleaner/web/page"
)

// A Machine accepts jobs and keeps the output of their tasks.
type Machine interface {
	Submit(*cluster.Job) (cluster.JobID, error)
	Cancel(cluster.JobID) error
	// Pause makes a job start no more tasks, and Continue ends that.
	Pause(cluster.JobID) error
	Continue(cluster.JobID) error
	// Drain makes the machine start no more tasks, and Refill ends that.
	Drain() error
	Refill() error
	// Output opens what a run of a task has written, to stdout or stderr; the
	// error is fs.ErrNotExist if there is no such run.
	Output(id cluster.TaskID, stderr bool) (*os.File, error)
	// LastRun is the last run of a task that was started; false if none was.
	LastRun(cluster.TaskID) (cluster.TaskID, bool)
	// LastRuns has the number of the last run of every task of a job, from 1, by stage
	// and index; 0, or nothing, if none was started.
	LastRuns(cluster.JobID) map[string][]int32
	// Outcome is how a run has ended; false if it has not, or it is not known.
	Outcome(cluster.TaskID) (cluster.Outcome, bool)
	// Remove forgets a job that has ended; the error is cluster.ErrGoesOn if it has
	// not.
	Remove(cluster.JobID) error
}

// An API answers the requests under /api/v1/.
type API struct {
	Board   *board.Board
	Machine Machine
	// Most is the most that one task may request.
	Most cluster.Resources
	// Harvested is what harvested tasks use now.
	Harvested func() cluster.Resources
	// Version is that of this program.
	Version string
	// Storage gives the disks while they are open, and nil while they are not. It may be nil itself.
	Storage func() Storage

	listing page.Turn // to list tasks
}

// Storage is what metrics tell of the disks and their upkeep.
type Storage interface {
	Lent(context.Context) ([]fabric.Lent, error)
	Curation(context.Context) (fabric.Curation, error)
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
// file that is wrong, or 0; Field is what is wrong of a request for a vDisk, or empty.
type Problem struct {
	Error string `json:"error"`
	Line  int    `json:"line,omitempty"`
	Field string `json:"field,omitempty"`
}

// profilePath is where profiles of this process are.
const profilePath = "/debug/pprof/"

// Handler serves the API, unguarded.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/status", a.status)
	mux.HandleFunc("GET /api/v1/jobs", a.jobs)
	mux.HandleFunc("POST /api/v1/jobs", a.submit)
	mux.HandleFunc("GET /api/v1/jobs/{id}", a.job)
	mux.HandleFunc("POST /api/v1/jobs/{id}/cancel", a.change(a.Machine.Cancel))
	mux.HandleFunc("POST /api/v1/jobs/{id}/pause", a.change(a.Machine.Pause))
	mux.HandleFunc("POST /api/v1/jobs/{id}/resume", a.change(a.Machine.Continue))
	mux.HandleFunc("POST /api/v1/drain", a.drain(a.Machine.Drain, true))
	mux.HandleFunc("POST /api/v1/resume", a.drain(a.Machine.Refill, false))
	mux.HandleFunc("DELETE /api/v1/jobs/{id}", a.remove)
	mux.HandleFunc("GET /api/v1/jobs/{id}/tasks", a.tasks)
	mux.HandleFunc("GET /api/v1/jobs/{id}/tasks/{task}", a.task)
	mux.HandleFunc("GET /api/v1/jobs/{id}/tasks/{task}/output", a.Output)
	mux.Handle("GET "+metricsPath, a.metrics())
	mux.HandleFunc("GET "+profilePath, pprof.Index)
	mux.HandleFunc("GET "+profilePath+"profile", pprof.Profile)
	mux.HandleFunc("GET "+profilePath+"trace", pprof.Trace)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", a.ready)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		problem(w, http.StatusNotFound, "there is no %s %s here", r.Method, r.URL.Path)
	})
	return mux
}

func (a *API) ready(w http.ResponseWriter, _ *http.Request) {
	if at := a.Board.Status().At; time.Since(at) > 10*time.Second {
		http.Error(w, "no recent sample", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (a *API) status(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, Status{a.Board.Status(), a.Harvested()})
}

func (a *API) jobs(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	all := slices.DeleteFunc(a.Board.Jobs(), func(j board.Job) bool { return name != "" && j.Name != name || !mayUse(r, &j) })
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

// submit accepts a job file. A page of another site cannot send these two content
// types without a preflight request.
func (a *API) submit(w http.ResponseWriter, r *http.Request) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/yaml" && kind != "application/json" {
		problem(w, http.StatusUnsupportedMediaType, "a job must be sent as application/yaml or application/json")
		return
	}
	name := r.URL.Query().Get("file")
	if name == "" {
		name = "job"
	}
	dir := r.URL.Query().Get("dir")
	if why := badDir(dir); why != "" {
		problem(w, http.StatusBadRequest, "dir: %s", why)
		return
	}
	after, why := a.after(r, r.URL.Query()["after"])
	if why != "" {
		problem(w, http.StatusBadRequest, "after: %s", why)
		return
	}
	priority, why := priority(r.URL.Query().Get("priority"))
	if why != "" {
		problem(w, http.StatusBadRequest, "priority: %s", why)
		return
	}
	user, _ := userOf(r)
	accepted, err := a.Submit(r.Context(), Submission{File: name, Dir: dir, After: after, Priority: priority, User: user}, r.Body)
	var large *http.MaxBytesError
	var at *input.Error
	switch {
	case err == nil:
		answer(w, http.StatusCreated, accepted)
	case errors.As(err, &large):
		problem(w, http.StatusRequestEntityTooLarge, "larger than a job file may be: %d bytes", large.Limit)
	case errors.As(err, &at):
		answer(w, http.StatusUnprocessableEntity, Problem{Error: err.Error(), Line: at.Line})
	case input.Is(err):
		answer(w, http.StatusUnprocessableEntity, Problem{Error: err.Error()})
	case errors.Is(err, cluster.ErrOtherUser):
		problem(w, http.StatusForbidden, "%v", err)
	case errors.Is(err, errUnread):
		problem(w, http.StatusBadRequest, "%v", err)
	default:
		problem(w, http.StatusInternalServerError, "%v", err)
	}
}

// errUnread is in the error of a job file that could not be read to its end.
var errUnread = errors.New("the job could not be read")

// A Submission is what is asked for beside a job file.
type Submission struct {
	File  string          // its name in errors
	Dir   string          // of stages that name none
	After []cluster.JobID // that must have finished before
	// Priority is that of the job; nil: as the file says.
	Priority *int
	User     cluster.User
}

// Submit accepts a job file.
func (a *API) Submit(ctx context.Context, s Submission, body io.Reader) (Accepted, error) {
	job, err := jobfile.Read(s.File, body, a.Most)
	if err != nil {
		var at *input.Error
		if errors.As(err, &at) {
			return Accepted{}, a.explained(*at)
		}
		if input.Is(err) {
			return Accepted{}, err
		}
		return Accepted{}, fmt.Errorf("%w: %w", errUnread, err)
	}
	if err := resolveDirs(s, job); err != nil {
		return Accepted{}, err
	}
	job.After, job.User = s.After, s.User
	if s.Priority != nil {
		job.Priority = *s.Priority
	}
	if err := a.allows(job); err != nil {
		return Accepted{}, err
	}
	id, err := a.Machine.Submit(job)
	if err != nil {
		return Accepted{}, err
	}
	a.awaitShown(ctx, id)
	return Accepted{id, job.Name}, nil
}

// priority reads the priority that a request asks for, nil if none, or says what is
// wrong with it.
func priority(text string) (*int, string) {
	if text == "" {
		return nil, ""
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < -cluster.MaxPriority || n > cluster.MaxPriority {
		return nil, fmt.Sprintf("%q is not a whole number between %d and %d", text, -cluster.MaxPriority, cluster.MaxPriority)
	}
	return &n, ""
}

// toAppear is how long the board may take to show a job. The loop updates it,
// and is late on a busy machine.
const toAppear = 10 * time.Second

// awaitShown waits until the board shows a job that was accepted, because the
// client may ask for it at once. After toAppear it gives up; the job is accepted
// all the same.
func (a *API) awaitShown(ctx context.Context, id cluster.JobID) {
	ctx, cancel := context.WithTimeout(ctx, toAppear)
	defer cancel()
	for ctx.Err() == nil {
		if _, shown := a.Board.Job(id); shown {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// explained is a mistake in a job file. If a task asks for too much, it says how
// much is available, and why not more.
func (a *API) explained(mistake input.Error) *input.Error {
	var wrong *cluster.JobError
	if errors.As(mistake.Err, &wrong) && errors.Is(wrong, cluster.ErrTooLarge) {
		mistake.Msg = fmt.Sprintf("job %q: stage %q asks for %s; %s", wrong.Job, wrong.Stage, wrong.More, a.limit())
	}
	return &mistake
}

// limit says what one task may ask for here. It is rounded down, so that a request
// for it succeeds.
func (a *API) limit() string {
	most := a.Most.Max(cluster.Resources{})
	step := float64(cluster.MB)
	if most.Memory >= cluster.GB {
		step = float64(cluster.GB) / 10
	}
	most.Memory = cluster.Bytes(math.Floor(float64(most.Memory)/step) * step)
	s := a.Board.Status()
	text := fmt.Sprintf("at most %s can be harvested here: the machine has %s", most, s.Size)
	if s.Reserve != (cluster.Resources{}) && a.Most != s.Size {
		text += fmt.Sprintf(", %s is kept free for its primary", s.Reserve)
	}
	if rest := s.Size.Sub(s.Reserve).Sub(a.Most); rest.CPU > 0 {
		text += fmt.Sprintf(", and the primary counts as %s at least", cluster.Resources{CPU: rest.CPU})
	}
	return text
}

// badDir says why stages cannot run in dir; "" if they may.
func badDir(dir string) string {
	switch {
	case strings.ContainsRune(dir, 0):
		return "it holds a zero byte"
	case dir != "" && !filepath.IsAbs(dir):
		return fmt.Sprintf("%q is not an absolute path", dir)
	}
	return ""
}

// resolveDirs makes the directory of every stage absolute: relative ones, and
// the empty one, start at that of the submission. Where that has none, a relative one
// would start wherever this process does.
func resolveDirs(s Submission, job *cluster.Job) error {
	for i := range job.Stages {
		st := &job.Stages[i]
		switch {
		case filepath.IsAbs(st.Dir):
		case s.Dir != "":
			st.Dir = filepath.Join(s.Dir, st.Dir)
		case st.Dir != "":
			return input.Errorf(s.File, "stage %q: dir: %q is relative, and the request does not say to what (?dir=)", st.Name, st.Dir)
		}
	}
	return nil
}

// after are the jobs that one comes after, or why it cannot.
func (a *API) after(r *http.Request, numbers []string) (jobs []cluster.JobID, why string) {
	for _, text := range numbers {
		id, err := strconv.ParseInt(text, 10, 64)
		j, known := a.Board.Job(cluster.JobID(id))
		switch {
		case err != nil:
			return nil, fmt.Sprintf("%q is not the number of a job", text)
		case !known || !mayUse(r, &j):
			return nil, fmt.Sprintf("there is no %s", cluster.JobID(id))
		case j.State == board.Failed, j.State == board.Cancelled:
			return nil, fmt.Sprintf("%s did not finish: it has %s", j.ID, map[board.State]string{board.Failed: "failed", board.Cancelled: "been cancelled"}[j.State])
		}
		jobs = append(jobs, j.ID)
	}
	return jobs, ""
}

func (a *API) remove(w http.ResponseWriter, r *http.Request) {
	id, ok := jobID(w, r)
	if !ok {
		return
	}
	j, _ := a.Board.Job(id)
	switch err := a.Machine.Remove(id); {
	case err == nil:
		a.Board.Remove(id)
		answer(w, http.StatusOK, Accepted{id, j.Name})
	case errors.Is(err, cluster.ErrNoJob):
		problem(w, http.StatusNotFound, "there is no %s", id)
	case errors.Is(err, cluster.ErrGoesOn):
		problem(w, http.StatusConflict, "%s, or one of its tasks, has not ended; see 'gleaner cancel'", id)
	default:
		problem(w, http.StatusInternalServerError, "%v", err)
	}
}

// change cancels, pauses or continues the job that a request names.
func (a *API) change(do func(cluster.JobID) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, ok := jobID(w, r)
		if !ok {
			return
		}
		switch err := do(id); {
		case err == nil:
			j, _ := a.Board.Job(id)
			answer(w, http.StatusAccepted, Accepted{id, j.Name})
		case errors.Is(err, cluster.ErrNoJob):
			problem(w, http.StatusNotFound, "there is no %s", id)
		case errors.Is(err, cluster.ErrEnded):
			problem(w, http.StatusConflict, "%s has ended", id)
		default:
			problem(w, http.StatusInternalServerError, "%v", err)
		}
	}
}

// drain drains the machine, or ends that; drained is what it is then, which the board has yet to hear.
func (a *API) drain(do func() error, drained bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := do(); err != nil {
			problem(w, http.StatusInternalServerError, "%v", err)
			return
		}
		s := Status{a.Board.Status(), a.Harvested()}
		s.Drained = drained
		answer(w, http.StatusAccepted, s)
	}
}

// wanted is which output a request asks for.
type wanted struct {
	attempt int32 // from 1; 0 for the last run
	stderr  bool
	follow  bool
	offset  int64 // bytes that are not sent again
	tail    int64 // bytes at the end to send; 0 for all
}

func wantedOutput(query url.Values) (out wanted, err error) {
	if text := query.Get("attempt"); text != "" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 1 {
			return out, fmt.Errorf("attempt: %q is not a positive number", text)
		}
		out.attempt = int32(n)
	}
	switch text := query.Get("stream"); text {
	case "", "stdout":
	case "stderr":
		out.stderr = true
	default:
		return out, fmt.Errorf("stream: %q is neither stdout nor stderr", text)
	}
	if text := query.Get("follow"); text != "" {
		if out.follow, err = strconv.ParseBool(text); err != nil {
			return out, fmt.Errorf("follow: %q is neither true nor false", text)
		}
	}
	if text := query.Get("offset"); text != "" {
		if out.offset, err = strconv.ParseInt(text, 10, 64); err != nil || out.offset < 0 {
			return out, fmt.Errorf("offset: %q is not a number of bytes", text)
		}
	}
	if text := query.Get("tail"); text != "" {
		if out.tail, err = strconv.ParseInt(text, 10, 64); err != nil || out.tail < 1 {
			return out, fmt.Errorf("tail: %q is not a number of bytes", text)
		}
	}
	return out, nil
}

// AttemptHeader has the number of the run whose output is sent, from 1.
const AttemptHeader = "Gleaner-Attempt"

// Output sends the output of a task's last run, or of the one that ?attempt= names,
// from ?offset= on, or its last ?tail= bytes. With ?follow=true it goes on until the run has ended.
func (a *API) Output(w http.ResponseWriter, r *http.Request) {
	task, ok := a.taskID(w, r)
	if !ok {
		return
	}
	want, err := wantedOutput(r.URL.Query())
	if err != nil {
		problem(w, http.StatusBadRequest, "%v", err)
		return
	}
	f, err := a.open(r.Context(), &task, want)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		problem(w, http.StatusNotFound, "%s has not run", task)
		return
	case err != nil:
		problem(w, http.StatusInternalServerError, "%v", err)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set(AttemptHeader, strconv.Itoa(int(task.Attempt)+1))
	a.send(w, r, f, task, want.follow)
}

// taskID is the task that a request names, if it exists.
func (a *API) taskID(w http.ResponseWriter, r *http.Request) (task cluster.TaskID, ok bool) {
	id, ok := jobID(w, r)
	if !ok {
		return task, false
	}
	if task, ok = ParseTask(id, r.PathValue("task")); !ok {
		problem(w, http.StatusNotFound, "%q is not a task: its name is stage and number, as map-3", r.PathValue("task"))
		return task, false
	}
	if why := a.unknown(task); why != "" {
		problem(w, http.StatusNotFound, "%s", why)
		return task, false
	}
	return task, true
}

// unknown says why there is no such task; "" if there is.
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

// open finds the requested run and opens its output.
func (a *API) open(ctx context.Context, task *cluster.TaskID, want wanted) (*os.File, error) {
	if want.attempt > 0 {
		task.Attempt = want.attempt - 1
	} else {
		*task, _ = a.lastRun(*task)
	}
	f, err := a.Machine.Output(*task, want.stderr)
	for errors.Is(err, fs.ErrNotExist) && a.runs(*task) && ctx.Err() == nil { // it has only just been started
		time.Sleep(followEvery / 10)
		f, err = a.Machine.Output(*task, want.stderr)
	}
	for errors.Is(err, fs.ErrNotExist) && task.Attempt > 0 && want.attempt == 0 { // it was killed before it could write
		task.Attempt--
		f, err = a.Machine.Output(*task, want.stderr)
	}
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil {
		if want.offset = min(want.offset, info.Size()); want.tail > 0 {
			want.offset = max(want.offset, info.Size()-want.tail)
		}
	}
	if _, err := f.Seek(want.offset, io.SeekStart); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
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
	now, runs := a.Board.Run(task)
	return runs && now == task
}

// lastRun is the run of a task that runs now, or the last that did.
func (a *API) lastRun(task cluster.TaskID) (cluster.TaskID, bool) {
	if now, runs := a.Board.Run(task); runs {
		return now, true
	}
	return a.Machine.LastRun(task)
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

// toTake is how long who asks may take to read the answer.
const toTake = 30 * time.Second

func answer(w http.ResponseWriter, code int, v any) {
	c := http.NewResponseController(w)
	_ = c.SetWriteDeadline(time.Now().Add(toTake)) // not every connection has one
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
	_ = c.SetWriteDeadline(time.Time{}) // the next answer may be one that is followed
}
