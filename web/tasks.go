package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"gleaner/cluster"
	"gleaner/control/board"
)

// task sends the state of a task.
func (a *API) task(w http.ResponseWriter, r *http.Request) {
	id, ok := a.taskID(w, r)
	if !ok {
		return
	}
	j, _ := a.Board.Job(id.Job)
	answer(w, http.StatusOK, a.TaskOf(&j, id))
}

// TaskOf tells how a task of j is, or how its last run ended.
func (a *API) TaskOf(j *board.Job, id cluster.TaskID) board.Task {
	last, ran := a.lastRun(id)
	for i := range j.Stages {
		if st := &j.Stages[i]; st.Name == id.Stage {
			return a.shown(j, st, nowOf(j), last, ran)
		}
	}
	return board.Task{Task: id.String(), State: board.Cancelled, Since: j.Ended} // its job was removed meanwhile
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
	if state != "" && !slices.Contains(board.States, state) {
		problem(w, http.StatusBadRequest, "state: no task is ever %q", state)
		return
	}
	j, known := a.Board.Job(id)
	if !known {
		problem(w, http.StatusNotFound, "there is no %s", id)
		return
	}
	answer(w, http.StatusOK, a.TasksOf(r.Context(), &j, board.Choice{State: state, Most: limit}))
}

// TasksOf lists the tasks of j that are asked for, stage by stage, as far as ctx allows. One list is made at a time: those who look must not
// keep the machine from what it is there for.
func (a *API) TasksOf(ctx context.Context, j *board.Job, of board.Choice) []board.Task {
	all := []board.Task{}
	if a.listing.Take(ctx) != nil {
		return all
	}
	defer a.listing.Give()
	last, now := a.Machine.LastRuns(j.ID), nowOf(j)
	for s := range j.Stages {
		st := &j.Stages[s]
		same, alike := uniform(j, st)
		if of.Stage != "" && st.Name != of.Stage || of.State != "" && alike && same != of.State {
			continue
		}
		i, runs := 0, last[st.Name]
		if of.State == "" || alike { // nobody needs to know how those are that are left out
			i = min(of.Skip, st.Tasks)
			of.Skip -= i
		}
		for ; i < st.Tasks && len(all) < of.Most && ctx.Err() == nil; i++ {
			task, ran := cluster.TaskID{Job: j.ID, Stage: st.Name, Index: int32(i)}, i < len(runs) && runs[i] > 0
			if ran {
				task.Attempt = runs[i] - 1
			}
			t := a.shown(j, st, now, task, ran)
			switch {
			case of.State != "" && t.State != of.State:
			case of.Skip > 0:
				of.Skip--
			default:
				all = append(all, t)
			}
		}
	}
	return all
}

// uniform is the state of all tasks of a stage, if it is the same.
func uniform(j *board.Job, st *board.Stage) (same board.State, ok bool) {
	return st.State, st.State == board.Finished || st.State == board.Blocked && j.Ended.IsZero()
}

// A place is a task of a job, whichever run of it.
type place struct {
	stage string
	index int32
}

// goings are the tasks of a job that run now, and those that wait to be run again.
type goings struct {
	running map[place]board.RunningTask
	delayed map[place]board.Delay
}

func nowOf(j *board.Job) goings {
	g := goings{map[place]board.RunningTask{}, map[place]board.Delay{}}
	for _, r := range j.Running {
		g.running[place{r.Task.Stage, r.Task.Index}] = r
	}
	for _, d := range j.Delayed {
		g.delayed[place{d.Task.Stage, d.Task.Index}] = d
	}
	return g
}

// shown is what is shown of a task of a stage of j, given its last run; ran is false if there
// was none.
func (a *API) shown(j *board.Job, st *board.Stage, now goings, last cluster.TaskID, ran bool) board.Task {
	t, at := board.Task{Task: cluster.TaskID{Job: last.Job, Stage: last.Stage, Index: last.Index}.String(), Since: j.Submitted}, place{last.Stage, last.Index}
	if r, runs := now.running[at]; runs {
		t.State, t.Attempt, t.Since, t.On = board.Running, r.Task.Attempt+1, r.Since, r.On
		return t
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
	t.State = stateOf(j, st, how)
	if t.State == board.Waiting && a.Board.GaveUp(last) {
		t.State = board.Failed
	}
	if d, waits := now.delayed[at]; waits {
		t.Reason = fmt.Sprintf("%s; it is run again at %s", d.Reason, d.Until.UTC().Format(time.TimeOnly+" UTC"))
	}
	switch {
	case t.State == board.Blocked:
		t.Reason = awaited(j, st)
	case t.State == board.Cancelled && !ran:
		t.Since = j.Ended // it waited until then
	}
	return t
}

// stateOf is the state of a task of a stage of j that does not run, given how its last run
// ended. When its job has ended, a task that has neither finished nor failed by
// itself counts as cancelled.
func stateOf(j *board.Job, st *board.Stage, how cluster.Outcome) board.State {
	failed := how.Reason != "" && !how.Killed
	switch {
	case how.Finished, st.State == board.Finished:
		return board.Finished
	case j.Ended.IsZero() && st.State == board.Blocked:
		return board.Blocked
	case j.Ended.IsZero():
		return board.Waiting
	case failed:
		return board.Failed
	}
	return board.Cancelled
}

// awaited names what a blocked stage comes after.
func awaited(j *board.Job, st *board.Stage) string {
	names := slices.Clone(st.After)
	if len(names) == 0 {
		for _, id := range j.After {
			names = append(names, id.String())
		}
	}
	return "comes after " + strings.Join(names, ", ")
}
