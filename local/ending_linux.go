package local

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/cluster"
)

// A task is told to end by SIGTERM, to all of its processes, and killed when its
// grace time is over. Its supervisor sends the signal, so that it can tell whether
// the command ended before or after: one that ends after it, also with exit code 0,
// has perhaps only written a checkpoint and has not finished.

// guardGrace is a World's grace time of a task whose room the primary needs. The last
// process must be gone half a second after a burst began, and it takes most of that
// to be sure of one.
const guardGrace = 50 * time.Millisecond

// An ending is what a supervisor knows about the end of its command.
type ending struct {
	run *runSpec
	dir string
	pid int // of the command

	mu   sync.Mutex
	told bool
	late bool // it has taken longer than it may
}

// watch tells the command to end when the supervisor gets a signal and when its time
// is over, until the run is.
func (e *ending) watch(signals <-chan os.Signal, over <-chan struct{}) {
	var late <-chan time.Time
	if e.run.Time > 0 {
		late = time.After(e.run.Time)
	}
	for {
		select {
		case <-over:
			return
		case <-signals:
			e.tell(false)
		case <-late:
			e.tell(true)
			select {
			case <-over:
				return
			case <-time.After(e.run.grace()):
				_ = e.run.killAll(os.Getpid(), e.dir)
			}
		}
	}
}

// tell sends SIGTERM to the processes of the run, unless the command has ended.
func (e *ending) tell(late bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var info unix.Siginfo
	err := retried(func() error {
		return unix.Waitid(unix.P_PID, e.pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	})
	if err != nil || info.Signo != 0 {
		return
	}
	e.told, e.late = true, e.late || late
	for _, pid := range e.run.processes(os.Getpid()) {
		_ = unix.Kill(pid, unix.SIGTERM)
	}
}

// note adds to the end of the command whether it was told to end.
func (e *ending) note(how *exit) {
	e.mu.Lock()
	defer e.mu.Unlock()
	how.Told = e.told
	if e.late {
		how.Late = e.run.Time
	}
}

// grace is how long the run may take to end.
func (r *runSpec) grace() time.Duration { return cmp.Or(r.Grace, cluster.DefaultGrace) }

// processes are those of the run.
func (r *runSpec) processes(supervisor int) []int {
	if r.Group == nil {
		return families().below(supervisor)
	}
	pids, _ := r.Group.Processes()
	return pids
}

// listens reports whether a process of the run catches SIGTERM: if none does, there
// is nothing to wait for.
func (r *runSpec) listens(supervisor int) bool {
	for _, pid := range r.processes(supervisor) {
		if catches(pid, unix.SIGTERM) {
			return true
		}
	}
	return false
}

func catches(pid int, signal unix.Signal) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := bytes.Cut(text, []byte("\nSigCgt:\t"))
	mask, _, _ := bytes.Cut(rest, []byte("\n"))
	caught, err := strconv.ParseUint(string(mask), 16, 64)
	return err == nil && caught&(1<<(signal-1)) != 0
}

// ask tells a task to end and waits until it has, or until its grace time is over.
// If the primary needs its room, the task gets the usual CPU weight meanwhile: else
// it could do nothing beside a busy primary.
func (w *World) ask(t *task) {
	supervisor := t.supervisor()
	if supervisor == 0 || !t.run.listens(supervisor) {
		return
	}
	hasten(supervisor)
	if w.groups != nil && time.Until(t.deadline()) <= w.guardGrace {
		defer w.groups.Hurry()()
	}
	_ = unix.Kill(supervisor, unix.SIGTERM)
	for left := time.Until(t.deadline()); left > 0; left = time.Until(t.deadline()) {
		select {
		case <-t.done:
			return
		case <-time.After(min(left, w.guardGrace/10)): // the primary may need its room meanwhile
		}
	}
}

// deadline is when the grace time of a task that is being killed is over.
func (t *task) deadline() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until
}
