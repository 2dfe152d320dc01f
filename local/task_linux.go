package local

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/cluster"
	"gleaner/local/cgroup"
)

// mostProcesses is how many processes and threads a task may have at once, unless
// its stage sets another limit: more than a correct program needs, and few enough
// that a thousand tasks do not fill the kernel's process table.
const mostProcesses = 1024

// A task is one run that has not ended.
type task struct {
	dir  string
	run  runSpec
	done chan struct{} // closed when it has ended
	how  exit          // valid then

	mu     sync.Mutex
	pid    int           // of its supervisor, our child; 0 before it is started, and if it was adopted
	before time.Duration // CPU time that the supervisor and earlier tasks had used, if there are no groups
	left   bool          // by its supervisor, which may have another task now
	reason string        // why it must be killed; empty if not
	until  time.Time     // when its grace time is over, if so
}

func newTask(dir string, r runSpec) *task { return &task{dir: dir, run: r, done: make(chan struct{})} }

// supervisor is the number of the task's supervisor, 0 if there is none.
func (t *task) supervisor() int {
	t.mu.Lock()
	pid, left := t.pid, t.left
	t.mu.Unlock()
	if pid != 0 || left {
		return pid
	}
	var s started
	if found, err := readFile(filepath.Join(t.dir, startedFile), &s); err != nil || !found || !s.alive() {
		return 0
	}
	return s.Pid
}

// live runs a task from its start to its end.
func (w *World) live(t *task) {
	err := w.attend(t)
	if err != nil {
		err = fmt.Errorf("could not be started: %w", err)
	}
	w.over(t, err)
}

// adopt waits for the end of a task that an earlier process started.
func (w *World) adopt(t *task) {
	var f *os.File
	err := patiently(func() (err error) {
		f, err = os.OpenFile(filepath.Join(t.dir, lockFile), os.O_RDWR, 0)
		return err
	})
	if err == nil {
		err = awaitLock(f)
		err = errors.Join(err, f.Close())
	}
	w.over(t, err)
}

// attend stores a run, finds a supervisor for it and waits for its end.
func (w *World) attend(t *task) error {
	started := w.takeTurn()
	defer started()
	if w.crowded() {
		return fmt.Errorf("no files are left for another task: %w", unix.EMFILE)
	}
	if err := makeDir(t.dir); err != nil {
		return err
	}
	if w.groups != nil {
		g, err := w.groups.New(groupName(t.dir), cgroup.Limits{Request: t.run.Request, Processes: cmp.Or(t.run.Processes, mostProcesses)})
		if err != nil {
			return err
		}
		t.run.Group = &g
	}
	if err := writeFile(filepath.Join(t.dir, runFile), t.run); err != nil {
		return err
	}
	s, err := w.supervise(t)
	if s == nil {
		return err
	}
	started()
	alive := s.wait() // the end of the command is written
	t.mu.Lock()
	t.pid, t.left = 0, true
	killed := t.reason != ""
	t.mu.Unlock()
	if !alive || killed { // signals for this task may still be on their way
		s.end()
		return nil
	}
	w.rest(s)
	return nil
}

// groupName is the name of the control group of the run in dir.
func groupName(dir string) string { return filepath.Base(filepath.Dir(dir)) + "-" + filepath.Base(dir) }

// supervise finds a supervisor for a run and passes it the lock. It returns none if the
// task was already killed.
func (w *World) supervise(t *task) (*supervisor, error) {
	lock, err := os.OpenFile(filepath.Join(t.dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("another process holds its lock: %v", err)
	}
	for {
		s, err := w.rested()
		if err != nil {
			return nil, err
		}
		given, err := t.begin(s, lock)
		switch {
		case given:
			return s, nil
		case err == nil:
			w.rest(s)
			return nil, nil
		}
		s.end()
		if s.idle.IsZero() { // else it was killed while it had nothing to do
			return nil, err
		}
	}
}

// begin gives the run to a supervisor, unless the task was already killed.
func (t *task) begin(s *supervisor, lock *os.File) (given bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reason != "" {
		return false, nil
	}
	if t.run.Group == nil {
		p, _ := processOf(s.process.Pid)
		t.before = p.cpu
	}
	if err := s.give(t.dir, lock); err != nil {
		return false, err
	}
	t.pid = s.process.Pid
	return true, nil
}

// kill kills a task, gently if it may have its own grace time. It writes killFile
// first: a supervisor that has not started the command yet reads it.
func (w *World) kill(t *task, reason string, gently bool) {
	grace := w.guardGrace
	if gently {
		grace = t.run.grace()
	}
	until := time.Now().Add(grace)
	t.mu.Lock()
	first := t.reason == ""
	if first {
		t.reason = reason
	}
	if first || until.Before(t.until) {
		t.until = until
	}
	t.mu.Unlock()
	if !first {
		return
	}
	if err := noteFile(filepath.Join(t.dir, killFile), kill{reason}); err != nil && !errors.Is(err, os.ErrNotExist) {
		w.Log.Error("cannot write that a task must be killed", "task", t.run.Task.String(), "error", err)
	}
	go w.terminate(t)
}

const (
	persist  = 100 * time.Millisecond // between tries to kill
	stubborn = 10 * time.Second       // after which the supervisor is killed as well
)

// terminate tells a task to end and then kills its processes until its supervisor
// has ended too.
func (w *World) terminate(t *task) {
	w.ask(t)
	for since := time.Now(); ; {
		supervisor := t.supervisor()
		if supervisor != 0 {
			hasten(supervisor)
			if err := w.killHurried(t, supervisor); err != nil {
				w.Log.Error("a task does not die", "task", t.run.Task.String(), "error", err)
			}
			if time.Since(since) > stubborn {
				_ = unix.Kill(supervisor, unix.SIGKILL)
			}
		}
		select {
		case <-t.done:
			return
		case <-time.After(persist):
		}
	}
}

// killHurried kills a task's processes at the usual CPU weight. Other tasks get
// that weight too, so it lasts no longer than the killing.
func (w *World) killHurried(t *task, supervisor int) error {
	if w.groups != nil {
		defer w.groups.Hurry()()
	}
	return t.run.killAll(supervisor, t.dir)
}

// starts names a part of this world that may have to wait.
const starts = "the start of tasks"

// over handles the end of a task's supervisor.
func (w *World) over(t *task, failed error) {
	var how exit
	var killed *kill
	if !Lacks(failed) { // else nothing was started and nothing is written
		failed = errors.Join(failed, patiently(func() (err error) {
			how, killed, err = findOutcome(t.dir, &t.run)
			return err
		}))
	}
	if failed != nil {
		how = exit{At: time.Now(), Failed: failed.Error(), Lacks: lack(failed)}
	}
	w.tidy(t.dir, &t.run)
	if how.Cut > 0 {
		w.Log.Warn("a task has written more than is kept of its output", "task", t.run.Task.String(), "dropped bytes", how.Cut)
	}
	t.mu.Lock()
	if t.reason != "" {
		killed = &kill{t.reason}
	}
	t.mu.Unlock()
	ev := cluster.Event{At: time.Now(), Task: t.run.Task, On: w.Server}
	w.mu.Lock()
	delete(w.tasks, t.run.Task)
	if w.groups == nil {
		w.spent += time.Duration(how.CPU * float64(time.Second))
	}
	switch {
	case how.ok():
		ev.Kind = cluster.TaskFinished
	case killed != nil:
		ev.Kind, ev.Reason = cluster.TaskKilled, killed.Reason
	case how.Lacks != "":
		ev.Kind, ev.Reason = cluster.TaskNotStarted, how.Lacks
	case how.cutShort() && w.forgives(t.run.Task):
		ev.Kind, ev.Reason = cluster.TaskKilled, how.reason()
	default:
		ev.Kind, ev.Reason = cluster.TaskFailed, how.reason()
	}
	w.mu.Unlock()
	var notStarted error
	if ev.Kind == cluster.TaskNotStarted {
		notStarted = errors.New(how.Lacks)
		_ = removeTree(t.dir) // it has no outcome to keep
	}
	w.dropShared(t.run.Task.Job)
	w.waits(starts, notStarted)
	t.how = how
	close(t.done)
	w.tell(ev)
}

// mostLost is how many runs of a task may be lost with their supervisors, as on a
// machine without memory, before that counts as the task's failure: otherwise a
// task that kills its supervisor would be run again forever.
const mostLost = 3

// forgives counts a lost run. The world is locked.
func (w *World) forgives(id cluster.TaskID) bool {
	id.Attempt = 0
	w.lost[id]++
	return w.lost[id] <= mostLost
}

// work is the CPU that a finished run was given, in core-seconds.
func work(r *runSpec, how *exit) float64 {
	return how.At.Sub(r.At).Seconds() * float64(r.Request.CPU) / float64(cluster.Core)
}

// findOutcome finds out how a run ended whose supervisor is gone. If there is
// no record, it kills what is left of the run and calls it lost.
func findOutcome(dir string, r *runSpec) (how exit, killed *kill, err error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return exit{At: time.Now(), Failed: "the directory of its run is gone"}, nil, r.killAll(0, dir)
	}
	known, err := readFile(filepath.Join(dir, exitFile), &how)
	if spoilt(err) {
		err = removeTree(filepath.Join(dir, exitFile))
	}
	if err != nil {
		return how, nil, err
	}
	if !known {
		if err := r.killAll(0, dir); err != nil {
			return how, nil, err
		}
		how = exit{At: time.Now(), Lost: true}
		if _, err := os.Stat(filepath.Join(dir, startedFile)); errors.Is(err, fs.ErrNotExist) {
			how.Lacks = "its supervisor could not begin"
		}
		if err := writeFile(filepath.Join(dir, exitFile), how); err != nil && !Lacks(err) && !spoilt(err) { // else the next scan calls it lost too
			return how, nil, err
		}
	}
	var k kill
	if found, err := readFile(filepath.Join(dir, killFile), &k); found || err != nil {
		killed = &k
	}
	return how, killed, nil
}

// retried calls f until it is not interrupted.
func retried(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
