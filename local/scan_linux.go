package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/cluster"
)

// scan reads the state of all jobs: the past for the core, the tasks that still
// run, and the jobs that must be cancelled.
func (w *World) scan() (past []cluster.PastJob, adopted []*task, toCancel []cluster.JobID, err error) {
	ids, err := w.jobIDs()
	if err != nil {
		return nil, nil, nil, err
	}
	for _, id := range ids {
		w.last = id
		dir := jobPath(w.Dir, id)
		var s submitted
		found, err := readFile(filepath.Join(dir, jobFile), &s)
		if err == nil && found && (s.Job == nil || s.Job.ID != id) {
			err = errForeign
		}
		if spoilt(err) {
			w.Log.Warn("a job is left out: its file was changed", "job", id.String(), "because", err)
			continue
		} else if err != nil {
			return nil, nil, nil, fmt.Errorf("local: %w", err)
		} else if !found {
			continue // it was never acknowledged
		}
		p := cluster.PastJob{Job: s.Job, Submitted: s.At}
		var e ended
		over, err := readFile(filepath.Join(dir, endedFile), &e)
		if spoilt(err) {
			w.Log.Warn("a job that had ended goes on: the file of its end was changed", "job", id.String(), "because", err)
			over, err = false, removeTree(filepath.Join(dir, endedFile))
		}
		if err != nil {
			return nil, nil, nil, fmt.Errorf("local: %w", err)
		}
		if over {
			tasks, err := w.scanEnded(dir, &e)
			if err != nil {
				return nil, nil, nil, err
			}
			w.dropShared(id)
			p.Account, p.Ended, p.Reason, p.Stages = e.Account, e.At, e.Reason, e.Stages
			p.Cancelled = e.Cancelled || e.Reason == "cancelled" // files of an earlier version have only the reason
			past, adopted = append(past, p), append(adopted, tasks...)
			continue
		}
		tasks, err := w.scanRuns(dir, &p)
		if err != nil {
			return nil, nil, nil, err
		}
		if _, err := os.Stat(filepath.Join(dir, cancelledFile)); err == nil {
			toCancel = append(toCancel, id)
		}
		_, err = os.Stat(filepath.Join(dir, pausedFile))
		p.Paused = err == nil
		w.jobs[id] = s.Job
		past, adopted = append(past, p), append(adopted, tasks...)
	}
	return past, adopted, toCancel, nil
}

// scanEnded looks for tasks that may still run of a job that has ended. Once there
// are none, it stores that with what the stages had finished, so that the runs, of
// which there may be a million, are not read again.
func (w *World) scanEnded(dir string, e *ended) ([]*task, error) {
	if e.Settled {
		return nil, nil
	}
	var p cluster.PastJob
	tasks, err := w.scanRuns(dir, &p)
	if err != nil {
		return nil, err
	}
	e.Stages = p.Stages
	if e.Settled = len(tasks) == 0; e.Settled {
		_ = writeFile(filepath.Join(dir, endedFile), e) // if it fails, they are read again
	}
	return tasks, nil
}

func (w *World) jobIDs() ([]cluster.JobID, error) {
	entries, err := os.ReadDir(filepath.Join(w.Dir, jobsDir))
	if err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	var ids []cluster.JobID
	for _, e := range entries {
		if id, err := strconv.ParseInt(e.Name(), 10, 64); err == nil && id > 0 && id < math.MaxInt64/2 { // others are not ours, and must not use up the numbers
			ids = append(ids, cluster.JobID(id))
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// scanRuns reads all runs of a job into p, and returns the tasks that still run.
func (w *World) scanRuns(dir string, p *cluster.PastJob) ([]*task, error) {
	var adopted []*task
	seen := runsSeen{past: p, stages: map[string]*stageSeen{}}
	err := eachName(dir, func(name string) error {
		if name == sharedDir {
			return nil // its content belongs to the tasks
		}
		var r runSpec
		found, err := readFile(filepath.Join(dir, name, runFile), &r)
		if spoilt(err) || found && filepath.Base(runPath("", r.Task)) != name {
			if !errors.Is(err, unix.ENOTDIR) {
				w.Log.Warn("a directory among the runs of a job is not a run of a task", "directory", filepath.Join(dir, name), "because", err)
			}
			return nil
		}
		if !found {
			return err
		}
		t, err := w.scanRun(&r, &seen)
		if t != nil {
			adopted = append(adopted, t)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	seen.tell()
	return adopted, nil
}

// eachName visits the names in a directory, in no order. There may be a million, so
// they are not all held in memory.
func eachName(dir string, visit func(name string) error) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(1000)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := visit(name); err != nil {
				return err
			}
		}
	}
}

// runsSeen collects a job's runs, which come in no order, into its past.
type runsSeen struct {
	past   *cluster.PastJob
	stages map[string]*stageSeen
}

type stageSeen struct {
	finished []int32
	failures int
	last     map[int32]*lastSeen // of tasks that run or stopped
}

// lastSeen is the last run of a task among those seen.
type lastSeen struct {
	cluster.PastRun
	failed int32 // the attempt that Reason is of
}

func (s *runsSeen) stage(name string) *stageSeen {
	st := s.stages[name]
	if st == nil {
		st = &stageSeen{last: map[int32]*lastSeen{}}
		s.stages[name] = st
	}
	return st
}

// unfinished notes a run that has not finished, or not yet.
func (s *stageSeen) unfinished(id cluster.TaskID, on cluster.ServerID, since time.Time, state cluster.RunState) *lastSeen {
	last := s.last[id.Index]
	if last == nil {
		last = &lastSeen{}
		s.last[id.Index] = last
	}
	if id.Attempt >= last.Task.Attempt {
		last.Task, last.On, last.Since, last.State = id, on, since, state
	}
	return last
}

// tell adds what was seen to the past, in order. Earlier runs of a finished task
// do not matter.
func (s *runsSeen) tell() {
	for _, name := range slices.Sorted(maps.Keys(s.stages)) {
		st := s.stages[name]
		for _, index := range st.finished {
			delete(st.last, index)
		}
		s.past.Stages = append(s.past.Stages, cluster.PastStage{Name: name, Finished: cluster.IndicesOf(st.finished), Failures: st.failures})
		for _, index := range slices.Sorted(maps.Keys(st.last)) {
			s.past.Runs = append(s.past.Runs, st.last[index].PastRun)
		}
	}
}

// scanRun reads one run. It returns the task if it still runs.
func (w *World) scanRun(r *runSpec, seen *runsSeen) (*task, error) {
	p, st := seen.past, seen.stage(r.Task.Stage)
	if p.Started.IsZero() || r.At.Before(p.Started) {
		p.Started = r.At
	}
	dir := runPath(w.Dir, r.Task)
	var how exit
	var killed *kill
	over, err := readFile(filepath.Join(dir, exitFile), &how)
	if spoilt(err) {
		over, err = false, nil
	}
	alive := false
	if err == nil && !over {
		alive, err = held(filepath.Join(dir, lockFile))
	}
	if alive {
		st.unfinished(r.Task, w.Server, r.At, cluster.Running)
		t := newTask(dir, *r)
		w.tasks[r.Task] = t
		return t, nil
	}
	if err == nil && (!over || !how.ok()) {
		how, killed, err = findOutcome(dir, r)
	}
	if err != nil {
		return nil, fmt.Errorf("find out how %s ended: %w", r.Task, err)
	}
	if !over {
		w.tidy(dir, r)
	}
	if how.ok() {
		st.finished = append(st.finished, r.Task.Index)
		p.Work += work(r, &how)
		return nil, nil
	}
	last := st.unfinished(r.Task, w.Server, r.At, cluster.Stopped)
	switch {
	case how.Lacks != "":
		return nil, nil
	case killed != nil || how.cutShort():
		p.Kills++
		return nil, nil
	}
	st.failures++
	last.Failures++
	if r.Task.Attempt >= last.failed {
		last.failed, last.Reason = r.Task.Attempt, how.reason()
	}
	return nil, nil
}

// held reports whether a process holds the lock on a file.
func held(name string) (bool, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // it was never taken
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	return retried(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }) != nil, nil
}

// Prune removes the jobs that ended before a time, and their output. The last job
// stays, so that no number is given twice.
func (w *World) Prune(before time.Time) error {
	ids, err := w.jobIDs()
	if err != nil {
		return err
	}
	for _, id := range ids[:max(len(ids)-1, 0)] {
		var e ended
		dir := jobPath(w.Dir, id)
		over, err := readFile(filepath.Join(dir, endedFile), &e)
		if err == nil && over && e.At.Before(before) {
			gone := filepath.Join(w.Dir, "forgotten-"+filepath.Base(dir))
			if err = os.Rename(dir, gone); err == nil { // a job without its end would be run again
				err = removeTree(gone)
			}
		}
		if err != nil {
			return fmt.Errorf("local: forget %s: %w", id, err)
		}
	}
	return nil
}
