package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/cluster"
	"gleaner/local/cgroup"
)

// A run is what runFile holds: all that a supervisor needs to know.
type run struct {
	Task    cluster.TaskID    `json:"task"`
	Job     string            `json:"job"` // its name
	At      time.Time         `json:"at"`
	Request cluster.Resources `json:"request"`
	Command []string          `json:"command"`
	Env     []string          `json:"env,omitempty"`
	Dir     string            `json:"dir,omitempty"`
	Equal   bool              `json:"equal,omitempty"` // not at the lowest priority
	Group   *cgroup.Group     `json:"group,omitempty"` // nil where there are no control groups
}

// lockFD is the descriptor at which a supervisor finds the lock of its run.
const lockFD = 3

// lowest is the least pressing that a process can be.
const lowest = 19

// onlyIdleDisk is the priority of one that gets the disk when nobody else wants
// it (IOPRIO_CLASS_IDLE), where the disk's scheduler knows priorities.
const (
	onlyIdleDisk     = 3 << 13
	ioprioWhoProcess = 1
)

// Supervise runs the command of the run in dir and writes down how it ended.
// It is the life of a supervisor process.
func Supervise(dir string) error {
	unix.CloseOnExec(lockFD) // the lock is the supervisor's, not the command's
	runtime.LockOSThread()   // the command dies with the thread that bore it
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("local: adopt orphans: %w", err)
	}
	var r run
	if found, err := readFile(filepath.Join(dir, runFile), &r); err != nil || !found {
		return fmt.Errorf("local: no run in %s: %w", dir, err)
	}
	self, _ := processOf(os.Getpid())
	if err := noteFile(filepath.Join(dir, startedFile), started{os.Getpid(), self.ticks}); err != nil {
		return fmt.Errorf("local: supervise: %w", err)
	}
	how := r.supervise(dir)
	how.At = time.Now()
	for {
		err := writeFile(filepath.Join(dir, exitFile), how)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return err
		}
		time.Sleep(time.Second) // a full disk: what has finished must not be run again
	}
}

// supervise starts the command, waits for it, and ends what it has left behind.
func (r *run) supervise(dir string) exit {
	if !r.Equal {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, lowest)
		_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ioprioWhoProcess, 0, onlyIdleDisk)
		_ = os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(lowest)), 0) // else niceness ends at the session
	}
	pid, err := r.start(dir)
	if err != nil {
		return exit{Failed: err.Error()}
	}
	if _, err := os.Stat(filepath.Join(dir, killFile)); err == nil {
		_ = r.killAll(os.Getpid(), dir) // it was told to die before it was born
	}
	how := waitFor(pid)
	if r.Group != nil {
		how.Waited, how.Stalled = r.Group.Pressure("cpu"), r.Group.Pressure("io")
	}
	how.Memory = !how.ok() && r.Group != nil && r.Group.OutOfMemory() // also when a child was killed, and the command noticed
	if err := r.killAll(os.Getpid(), dir); err != nil {
		how.Failed = err.Error()
	}
	if r.Group != nil {
		for range 100 { // corpses keep a group busy until they are taken in
			reap()
			if r.Group.Remove() == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	return how
}

func (r *run) start(dir string) (pid int, err error) {
	cmd := exec.Command(r.Command[0], r.Command[1:]...)
	cmd.Dir = r.Dir
	cmd.Env = append(os.Environ(), r.Env...)
	cmd.Env = append(cmd.Env, "GLEANER_JOB="+r.Job, "GLEANER_STAGE="+r.Task.Stage, "GLEANER_TASK_INDEX="+strconv.Itoa(int(r.Task.Index)),
		"GLEANER_ATTEMPT="+strconv.Itoa(int(r.Task.Attempt)+1), markVariable+"="+dir)
	stdout, err := output(dir, stdoutFile)
	if err != nil {
		return 0, err
	}
	defer stdout.Close()
	stderr, err := output(dir, stderrFile)
	if err != nil {
		return 0, err
	}
	defer stderr.Close()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	start := func(fd int) error {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL, UseCgroupFD: fd >= 0, CgroupFD: fd}
		return cmd.Start()
	}
	if r.Group != nil {
		err = r.Group.Enter(start)
	} else {
		err = start(-1)
	}
	if cmd.Process == nil {
		return 0, err
	}
	return cmd.Process.Pid, err
}

func output(dir, name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// waitFor takes in the dead until pid is among them.
func waitFor(pid int) exit {
	for {
		var status unix.WaitStatus
		var used unix.Rusage
		dead, err := unix.Wait4(-1, &status, 0, &used)
		switch {
		case err == unix.EINTR || err == nil && dead != pid:
			continue
		case err != nil:
			return exit{Failed: fmt.Sprintf("wait for it: %v", err)}
		}
		how := exit{Code: status.ExitStatus(), CPU: time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()}
		if status.Signaled() {
			how.Code, how.Signal = 128+int(status.Signal()), unix.SignalName(status.Signal())
		}
		return how
	}
}

// reap takes in those who are dead by now.
func reap() {
	for {
		if dead, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); dead <= 0 && err != unix.EINTR {
			return
		}
	}
}

// patience is how long the dying are waited for: only a process that waits for
// a broken disk takes long to die.
const patience = 30 * time.Second

// killAll ends all processes of the run but its supervisor, which is known by
// its number, or 0 when it is gone.
func (r *run) killAll(supervisor int, dir string) error {
	switch {
	case r.Group != nil:
		return r.Group.Kill(patience)
	case supervisor != 0:
		return killBelow(supervisor, patience)
	}
	return killMarked(dir, patience)
}
