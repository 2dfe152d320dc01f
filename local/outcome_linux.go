package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gleaner/cluster"
)

// LastRun is the last run of a task that was started; false if none was.
func (w *World) LastRun(id cluster.TaskID) (cluster.TaskID, bool) {
	id.Attempt = -1
	w.eachRun(id.Job, func(run cluster.TaskID) {
		if run.Stage == id.Stage && run.Index == id.Index {
			id.Attempt = max(id.Attempt, run.Attempt)
		}
	})
	return cluster.TaskID{Job: id.Job, Stage: id.Stage, Index: id.Index, Attempt: max(id.Attempt, 0)}, id.Attempt >= 0
}

// LastRuns has the number of the last run of every task of a job, from 1, by stage and
// index; 0, or nothing, if none was started.
func (w *World) LastRuns(id cluster.JobID) map[string][]int32 {
	last := map[string][]int32{}
	w.eachRun(id, func(run cluster.TaskID) {
		if run.Index >= cluster.MaxTasks {
			return // a task has made this directory
		}
		runs := last[run.Stage]
		if more := int(run.Index) + 1 - len(runs); more > 0 {
			runs = append(runs, make([]int32, more)...)
		}
		runs[run.Index] = max(runs[run.Index], run.Attempt+1)
		last[run.Stage] = runs
	})
	return last
}

// eachRun visits the runs of a job, in no order.
func (w *World) eachRun(id cluster.JobID, visit func(cluster.TaskID)) {
	_ = eachName(jobPath(w.Dir, id), func(name string) error { // a missing directory: nothing has run
		if run, ok := parseRun(id, name); ok {
			visit(run)
		}
		return nil
	})
}

// Outcome looks up how a run has ended; false if it has not, or it is not known.
func (w *World) Outcome(id cluster.TaskID) (cluster.Outcome, bool) {
	dir := runPath(w.Dir, id)
	var r runSpec
	var how exit
	if found, err := readFile(filepath.Join(dir, exitFile), &how); err != nil || !found {
		return cluster.Outcome{}, false
	}
	if found, err := readFile(filepath.Join(dir, runFile), &r); err != nil || !found {
		return cluster.Outcome{}, false
	}
	o := cluster.Outcome{Started: r.At, Ended: how.At, Finished: how.ok(), Late: how.Late > 0}
	if how.Failed == "" && how.Lacks == "" && !how.Lost {
		o.Exit = &how.Code
	}
	if o.Finished {
		return o, true
	}
	o.Reason = how.reason()
	var k kill
	if found, err := readFile(filepath.Join(dir, killFile), &k); found && err == nil {
		o.Reason = k.Reason
		o.Killed = true
	}
	o.Killed = o.Killed || how.cutShort()
	return o, true
}

// Remove forgets a job that has ended, with its output. Its number is not used again.
func (w *World) Remove(id cluster.JobID) error {
	w.mu.Lock()
	goesOn, last := w.jobs[id] != nil, w.last
	for task := range w.tasks {
		goesOn = goesOn || task.Job == id
	}
	w.mu.Unlock()
	dir := jobPath(w.Dir, id)
	if goesOn {
		return cluster.ErrGoesOn
	}
	// Without this file it is no job any more, for this gleaner and for later ones.
	err := os.Remove(filepath.Join(dir, jobFile))
	if errors.Is(err, fs.ErrNotExist) {
		return cluster.ErrNoJob
	}
	if err == nil {
		err = syncDir(dir)
	}
	w.removing.Wait() // its shared directory, if it is being removed
	if err == nil {
		err = empty(dir)
	}
	if err == nil && id < last {
		err = os.Remove(dir)
	}
	if err != nil {
		return fmt.Errorf("local: remove %s: %w", id, err)
	}
	return nil
}

// empty removes all that is in the directory of a job. The file of its end goes
// last: if this process is killed meanwhile, Prune finds what is left by it.
func empty(dir string) error {
	for left := true; left; {
		left = false // names may be missed while others are removed
		err := eachName(dir, func(name string) error {
			if name == endedFile {
				return nil
			}
			left = true
			return removeTree(filepath.Join(dir, name))
		})
		if err != nil {
			return err
		}
	}
	return removeTree(filepath.Join(dir, endedFile))
}
