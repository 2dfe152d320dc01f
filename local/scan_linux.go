package local

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/cluster"
)

// scan reads what became of all jobs: the past as the core wants to be told,
// the tasks that still run, and the jobs that are to be cancelled.
func (w *World) scan() (past []cluster.PastJob, adopted []*task, cancelled []cluster.JobID, err error) {
	ids, err := w.jobIDs()
	if err != nil {
		return nil, nil, nil, err
	}
	for _, id := range ids {
		w.last = id
		dir := jobPath(w.Dir, id)
		var s submitted
		if found, err := readFile(filepath.Join(dir, jobFile), &s); err != nil {
			return nil, nil, nil, fmt.Errorf("local: %w", err)
		} else if !found {
			continue // it was never acknowledged
		}
		p := cluster.PastJob{Job: s.Job, Submitted: s.At}
		var e ended
		if over, err := readFile(filepath.Join(dir, endedFile), &e); err != nil {
			return nil, nil, nil, fmt.Errorf("local: %w", err)
		} else if over {
			tasks, err := w.scanRuns(dir, &cluster.PastJob{})
			if err != nil {
				return nil, nil, nil, err
			}
			w.dropShared(id)
			p.Started, p.Ended, p.Reason, p.Work, p.Kills = e.Started, e.At, e.Reason, e.Work, e.Kills
			past, adopted = append(past, p), append(adopted, tasks...)
			continue
		}
		tasks, err := w.scanRuns(dir, &p)
		if err != nil {
			return nil, nil, nil, err
		}
		if _, err := os.Stat(filepath.Join(dir, cancelledFile)); err == nil {
			cancelled = append(cancelled, id)
		}
		w.jobs[id] = &job{spec: s.Job, started: p.Started, work: p.Work, kills: p.Kills}
		past, adopted = append(past, p), append(adopted, tasks...)
	}
	return past, adopted, cancelled, nil
}

func (w *World) jobIDs() ([]cluster.JobID, error) {
	entries, err := os.ReadDir(filepath.Join(w.Dir, jobsDir))
	if err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	var ids []cluster.JobID
	for _, e := range entries {
		if id, err := strconv.ParseInt(e.Name(), 10, 64); err == nil {
			ids = append(ids, cluster.JobID(id))
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// scanRuns reads what became of all runs of a job.
func (w *World) scanRuns(dir string, p *cluster.PastJob) ([]*task, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	var runs []run
	for _, e := range entries {
		if e.Name() == sharedDir {
			continue // what is in there is the tasks' own
		}
		var r run
		found, err := readFile(filepath.Join(dir, e.Name(), runFile), &r)
		if err != nil && !errors.Is(err, unix.ENOTDIR) {
			return nil, fmt.Errorf("local: %w", err)
		}
		if found {
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, func(a, b run) int {
		return cmp.Or(cmp.Compare(a.Task.Stage, b.Task.Stage), cmp.Compare(a.Task.Index, b.Task.Index), cmp.Compare(a.Task.Attempt, b.Task.Attempt))
	})
	var adopted []*task
	for i := range runs {
		t, err := w.scanRun(&runs[i], p)
		if err != nil {
			return nil, err
		}
		if t != nil {
			adopted = append(adopted, t)
		}
	}
	return adopted, nil
}

// scanRun adds one run to its job's past; the runs of a task come in order. It
// gives the task if it still runs.
func (w *World) scanRun(r *run, p *cluster.PastJob) (*task, error) {
	if p.Started.IsZero() || r.At.Before(p.Started) {
		p.Started = r.At
	}
	if n := len(p.Runs); n == 0 || p.Runs[n-1].Task.Stage != r.Task.Stage || p.Runs[n-1].Task.Index != r.Task.Index {
		p.Runs = append(p.Runs, cluster.Run{})
	}
	last := &p.Runs[len(p.Runs)-1]
	last.Task, last.On, last.Since = r.Task, w.Server, r.At
	dir := runPath(w.Dir, r.Task)
	alive, err := held(filepath.Join(dir, lockFile))
	if err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	if alive {
		last.State = cluster.Running
		t := newTask(dir, *r)
		w.tasks[r.Task] = t
		return t, nil
	}
	how, killed, err := settle(dir, r)
	if err != nil {
		return nil, fmt.Errorf("local: settle %s: %w", r.Task, err)
	}
	w.tidy(dir, r)
	last.State = cluster.Stopped
	switch {
	case how.ok():
		last.State = cluster.Finished
		p.Work += work(r, &how)
	case how.Lacks != "":
	case killed != nil || how.Lost:
		p.Kills++
	default:
		last.Failures++
		last.Reason = how.reason()
	}
	return nil, nil
}

// held reports whether somebody holds the lock in a file.
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

// Prune forgets the jobs that ended before a moment, and what they wrote. The
// last one stays, so that no number is given twice.
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
