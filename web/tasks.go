package web

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"gleaner/cluster"
	"gleaner/control/board"
)

// A Task is the answer to GET /api/v1/jobs/{id}/tasks/{task}.
type Task struct {
	Task    string      `json:"task"`
	State   board.State `json:"state"`
	Attempt int32       `json:"attempt,omitempty"` // its last run, from 1; 0 before the first
	// Since is when it began to run or to wait, or when it ended.
	Since time.Time `json:"since"`
	// Took is how long its last run took; 0 if it runs or has not run.
	Took   time.Duration    `json:"took,omitempty"`
	On     cluster.ServerID `json:"on,omitempty"`     // where it runs
	Exit   *int             `json:"exit,omitempty"`   // exit code of its last run, if that has ended and had one
	Late   bool             `json:"late,omitempty"`   // its last run took longer than its time limit
	Reason string           `json:"reason,omitempty"` // why its last run has not finished, or why it waits
}

// task sends the state of a task.
func (a *API) task(w http.ResponseWriter, r *http.Request) {
	id, ok := a.taskID(w, r)
	if !ok {
		return
	}
	last, ran := a.lastRun(id)
	j, _ := a.Board.Job(id.Job)
	answer(w, http.StatusOK, a.shown(&j, last, ran))
}

// mostTasks is how many tasks are sent at once, unless ?limit= says otherwise.
const mostTasks = 1000

// mostForUsers is how many tasks other users may ask for at once.
const mostForUsers = 20_001 // one more than they ask for shows that there are more

// tasks sends the tasks of a job, stage by stage; with ?state= only those in that
// state, and no more than ?limit=.
func (a *API) tasks(w http.ResponseWriter, r *http.Request) {
	id, ok := jobID(w, r)
	if !ok {
		return
	}
	state, limit := board.State(r.URL.Query().Get("state")), mostTasks
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			problem(w, http.StatusBadRequest, "limit: %q is not a positive number", text)
			return
		}
		if _, user := userOf(r); user && n > mostForUsers {
			problem(w, http.StatusBadRequest, "limit: %d tasks are more than the %d that are sent at once", n, mostForUsers)
			return
		}
		limit = n
	}
	j, known := a.Board.Job(id)
	if !known {
		problem(w, http.StatusNotFound, "there is no %s", id)
		return
	}
	last := a.Machine.LastRuns(id)
	all := []Task{}
	for _, st := range j.Stages {
		runs := last[st.Name]
		for i := 0; i < st.Tasks && len(all) < limit && r.Context().Err() == nil; i++ {
			task, ran := cluster.TaskID{Job: id, Stage: st.Name, Index: int32(i)}, i < len(runs) && runs[i] > 0
			if ran {
				task.Attempt = runs[i] - 1
			}
			if t := a.shown(&j, task, ran); state == "" || t.State == state {
				all = append(all, t)
			}
		}
	}
	answer(w, http.StatusOK, all)
}

// shown is what is shown of a task of j, given its last run; ran is false if there
// was none.
func (a *API) shown(j *board.Job, last cluster.TaskID, ran bool) Task {
	t := Task{Task: cluster.TaskID{Job: last.Job, Stage: last.Stage, Index: last.Index}.String(), Since: j.Submitted}
	for _, r := range j.Running {
		if r.Task.Stage == last.Stage && r.Task.Index == last.Index {
			t.State, t.Attempt, t.Since, t.On = board.Running, r.Task.Attempt+1, r.Since, r.On
			return t
		}
	}
	var how cluster.Outcome
	if ran {
		t.Attempt = last.Attempt + 1
		how, _ = a.Machine.Outcome(last)
		t.Exit, t.Late, t.Reason = how.Exit, how.Late, how.Reason
	}
	if !how.Ended.IsZero() {
		t.Since, t.Took = how.Ended, how.Ended.Sub(how.Started)
	}
	t.State = stateOf(j, last, how)
	if t.State == board.Waiting && a.Board.GaveUp(last) {
		t.State = board.Failed
	}
	for _, d := range j.Delayed {
		if d.Task.Stage == last.Stage && d.Task.Index == last.Index {
			t.Reason = fmt.Sprintf("%s; it is run again at %s", d.Reason, d.Until.UTC().Format(time.TimeOnly+" UTC"))
		}
	}
	if t.State == board.Blocked {
		t.Reason = awaited(j, last.Stage)
	}
	return t
}

// stateOf is the state of a task of j that does not run, given how its last run
// ended. When its job has ended, a task that has neither finished nor failed by
// itself counts as cancelled.
func stateOf(j *board.Job, task cluster.TaskID, how cluster.Outcome) board.State {
	failed := how.Reason != "" && !how.Killed
	for _, st := range j.Stages {
		switch {
		case st.Name != task.Stage:
		case how.Finished, st.State == board.Finished:
			return board.Finished
		case j.Ended.IsZero() && st.State == board.Blocked:
			return board.Blocked
		case j.Ended.IsZero():
			return board.Waiting
		case failed:
			return board.Failed
		}
	}
	return board.Cancelled
}

// awaited names what a blocked stage comes after.
func awaited(j *board.Job, stage string) string {
	var names []string
	for _, st := range j.Stages {
		if st.Name == stage {
			names = append(names, st.After...)
		}
	}
	if len(names) == 0 {
		for _, id := range j.After {
			names = append(names, id.String())
		}
	}
	return "comes after " + strings.Join(names, ", ")
}
