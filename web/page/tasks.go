package page

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"gleaner/cluster"
	"gleaner/control/board"
)

// tasksData is what the view of a job's tasks shows.
type tasksData struct {
	Job        board.Job
	Tasks      []taskRow
	Now        time.Time
	Stage      string // the only one that is shown; "" for all
	State      board.State
	States     []board.State
	First      int    // the number of the first that is shown, from 1
	Back, More string // addresses; "" if there are none
}

// A taskRow is a task, and when its last run began.
type taskRow struct {
	board.Task
	Name string // within its job
}

// From is when its last run began; zero if that is not known.
func (t taskRow) From() time.Time {
	switch {
	case t.State == board.Running:
		return t.Since
	case t.Took > 0:
		return t.Since.Add(-t.Took)
	}
	return time.Time{}
}

// To is when its last run ended; zero if it goes on.
func (t taskRow) To() time.Time {
	if t.State == board.Running {
		return time.Time{}
	}
	return t.Since
}

// listedTasks is how many tasks are listed at once.
const listedTasks = 100

// tasks lists the tasks of a job: ?stage= of one stage, ?state= in one state, ?from= further down.
func (s *Site) tasks(w http.ResponseWriter, r *http.Request) {
	j, ok := s.asked(w, r)
	if !ok {
		return
	}
	query := r.URL.Query()
	d := tasksData{Job: j, Now: time.Now(), Stage: query.Get("stage"), State: board.State(query.Get("state")), States: board.States, First: 1}
	from, err := strconv.Atoi(cmp.Or(query.Get("from"), "0"))
	switch {
	case d.Stage != "" && !slices.ContainsFunc(j.Stages, func(st board.Stage) bool { return st.Name == d.Stage }):
		missing(w, fmt.Sprintf("%s has no stage %s.", j.ID, d.Stage))
		return
	case d.State != "" && !slices.Contains(board.States, d.State):
		missing(w, fmt.Sprintf("No task is ever %s.", d.State))
		return
	case err != nil || from < 0:
		missing(w, fmt.Sprintf("%q is not the number of a task to begin with.", query.Get("from")))
		return
	}
	d.First = from + 1
	found := s.Jobs.TasksOf(r.Context(), &j, board.Choice{Stage: d.Stage, State: d.State, Skip: from, Most: listedTasks + 1})
	if len(found) > listedTasks {
		found, d.More = found[:listedTasks], d.at(from+listedTasks)
	}
	if from > 0 {
		d.Back = d.at(max(from-listedTasks, 0))
	}
	status := s.Board.Status()
	waits := status.WaitsFor(&j, time.UTC)
	for _, t := range found {
		if t.State == board.Waiting {
			t.Reason = cmp.Or(t.Reason, waits)
		}
		d.Tasks = append(d.Tasks, taskRow{t, strings.TrimPrefix(t.Task, j.ID.String()+"/")})
	}
	show(w, http.StatusOK, "tasks", view{Title: fmt.Sprintf("Tasks of %s (%s)", j.Name, j.ID), At: "/jobs", Data: d})
}

// at is the address of the same tasks from another one on.
func (d tasksData) at(from int) string {
	return d.In(d.State) + "&from=" + strconv.Itoa(from)
}

// In is the address of the same tasks in another state.
func (d tasksData) In(state board.State) string {
	return fmt.Sprintf("/jobs/%d/tasks?%s", d.Job.ID, url.Values{"stage": {d.Stage}, "state": {string(state)}}.Encode())
}

// taskData is what the view of a task shows.
type taskData struct {
	Job      board.Job
	Task     string
	Is       taskRow // how it is; of an earlier run, how that ended
	Now      time.Time
	Attempt  int32  // from 1; 0 if it has not run
	Why      string // it has not run
	Attempts []int32
	Stderr   bool
	Text     string // the end of what it wrote
	Cut      int64  // bytes before it
	Offset   int64  // where its output goes on
	Running  bool
}

// tail is how much of an output is shown at once.
const tail = 64 << 10

func (s *Site) task(w http.ResponseWriter, r *http.Request) {
	j, ok := s.asked(w, r)
	if !ok {
		return
	}
	id, ok := taskOf(j, r.PathValue("task"))
	if !ok {
		missing(w, fmt.Sprintf("%s has no task %s.", j.ID, r.PathValue("task")))
		return
	}
	d := taskData{Job: j, Task: r.PathValue("task"), Is: taskRow{Task: s.Jobs.TaskOf(&j, id)}, Now: time.Now(), Stderr: r.URL.Query().Get("stream") == "stderr"}
	last, ran := s.Board.Run(id)
	d.Running = ran
	if !ran {
		last, ran = s.Jobs.LastRun(id)
	}
	if ran {
		d.Attempt = last.Attempt + 1
		for n := range d.Attempt {
			d.Attempts = append(d.Attempts, n+1)
		}
		n, err := strconv.ParseInt(cmp.Or(r.URL.Query().Get("attempt"), strconv.Itoa(int(d.Attempt))), 10, 32)
		if err != nil || n < 1 || int32(n) > d.Attempt {
			missing(w, fmt.Sprintf("%s has no run %s.", d.Task, r.URL.Query().Get("attempt")))
			return
		}
		if int32(n) < d.Attempt {
			d.Attempt, d.Running = int32(n), false
			d.Is.Task = s.earlier(cluster.TaskID{Job: j.ID, Stage: id.Stage, Index: id.Index, Attempt: d.Attempt - 1})
		}
		id.Attempt = d.Attempt - 1
	}
	if !ran {
		d.Why = s.notRun(&j, id.Stage)
	}
	if err := d.read(s.Jobs, id); err != nil {
		failed(w, err)
		return
	}
	show(w, http.StatusOK, "task", view{Title: fmt.Sprintf("%s/%s", j.Name, d.Task), At: "/jobs", Data: d})
}

// earlier is how a run of a task ended that was not the last.
func (s *Site) earlier(run cluster.TaskID) board.Task {
	how, known := s.Jobs.Outcome(run)
	t := board.Task{State: board.Failed, Attempt: run.Attempt + 1, Exit: how.Exit, Late: how.Late, Reason: how.Reason}
	switch {
	case !known:
		t.Reason = "not known any more"
	case how.Killed:
		t.State = board.Killed
	}
	if known {
		t.Since, t.Took = how.Ended, how.Ended.Sub(how.Started)
	}
	return t
}

// notRun says why a task of a stage has not run.
func (s *Site) notRun(j *board.Job, stage string) string {
	if !j.Ended.IsZero() {
		return "its job has ended"
	}
	for _, st := range j.Stages {
		if st.Name == stage && st.State == board.Blocked && len(st.After) > 0 {
			return "it comes after " + strings.Join(st.After, ", ")
		}
	}
	status := s.Board.Status()
	return status.WaitsFor(j, time.UTC)
}

// taskOf is the task of a job by its name, as map-3.
func taskOf(j board.Job, name string) (cluster.TaskID, bool) {
	dash := strings.LastIndexByte(name, '-')
	if dash < 0 {
		return cluster.TaskID{}, false
	}
	n, err := strconv.ParseInt(name[dash+1:], 10, 32)
	stage := slices.IndexFunc(j.Stages, func(st board.Stage) bool { return st.Name == name[:dash] })
	if err != nil || n < 0 || stage < 0 || int(n) >= j.Stages[stage].Tasks {
		return cluster.TaskID{}, false
	}
	return cluster.TaskID{Job: j.ID, Stage: name[:dash], Index: int32(n)}, true
}

// read reads the end of the output of a run. A run that has written nothing has none.
func (d *taskData) read(jobs Jobs, id cluster.TaskID) error {
	f, err := jobs.Output(id, d.Stderr)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	d.Cut = max(size-tail, 0)
	text := make([]byte, size-d.Cut)
	n, err := f.ReadAt(text, d.Cut)
	if err != nil && err != io.EOF {
		return err
	}
	d.Text, d.Offset = strings.ToValidUTF8(string(text[:n]), "\uFFFD"), d.Cut+int64(n)
	return nil
}
