package local

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/cluster"
	"gleaner/local/cgroup"
)

// A runSpec is the content of runFile: all that a supervisor needs.
type runSpec struct {
	Task      cluster.TaskID    `json:"task"`
	Job       string            `json:"job"` // its name
	At        time.Time         `json:"at"`
	Request   cluster.Resources `json:"request"`
	Command   []string          `json:"command"`
	Env       []string          `json:"env,omitempty"`
	Dir       string            `json:"dir,omitempty"`
	Tasks     int               `json:"tasks"`               // of its stage
	Processes int               `json:"processes,omitempty"` // and threads, at most; 0: mostProcesses
	Output    cluster.Bytes     `json:"output,omitempty"`    // kept of each stream; 0: keptOutput
	Time      time.Duration     `json:"time,omitempty"`      // that it may take; 0: any
	Grace     time.Duration     `json:"grace,omitempty"`     // to end in; 0: cluster.DefaultGrace
	Equal     bool              `json:"equal,omitempty"`     // not at the lowest priority
	User      cluster.User      `json:"user,omitzero"`       // it runs as; none: as gleaner does
	Users     string            `json:"users,omitempty"`     // see Options
	Group     *cgroup.Group     `json:"group,omitempty"`     // nil if there are no control groups
}

// lowest is the nice value of the lowest priority.
const lowest = 19

// onlyIdleDisk is the priority that gets the disk only while it is otherwise
// idle (IOPRIO_CLASS_IDLE), if the disk's scheduler has priorities.

const (
	onlyIdleDisk     = 3 << 13
	ioprioWhoProcess = 1
)

// runsFile is the number of the file from which a supervisor gets its runs.
const runsFile = 3

// Supervise runs the commands of the runs that it is given, one after the other, and
// writes how each ended. It is the main function of a supervisor process.
func Supervise() error {
	if err := KeepFiles(); err != nil {
		return fmt.Errorf("local: keep files from the task: %w", err)
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, unix.SIGTERM)
	runtime.LockOSThread() // the command dies with the thread that started it
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("local: adopt orphans: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil { // of this thread, and so of the command
		return fmt.Errorf("local: give up new rights: %w", err)
	}
	if err := refuseCalls(); err != nil { // likewise
		return err
	}
	for {
		dir, lock, err := receive(runsFile)
		if err != nil {
			return fmt.Errorf("local: wait for a run: %w", err)
		}
		if dir == "" {
			return nil
		}
		how, err := superviseRun(dir, told)
		_ = lock.Close()
		if err != nil || how.Told || how.Failed != "" || len(told) > 0 { // no signal may reach another run than the one it is for, and no process of this one live beside it
			return err
		}
		if _, err := unix.Write(runsFile, []byte{1}); err != nil { // nobody is there any more
			return nil
		}
	}
}

// superviseRun runs the command of the run in dir and writes how it ended.
func superviseRun(dir string, told <-chan os.Signal) (how exit, err error) {
	var r runSpec
	if found, err := readFile(filepath.Join(dir, runFile), &r); err != nil || !found {
		return how, fmt.Errorf("local: no run in %s: %w", dir, err)
	}
	self, _ := processOf(os.Getpid())
	if err := noteFile(filepath.Join(dir, startedFile), started{os.Getpid(), self.ticks}); err != nil {
		return how, fmt.Errorf("local: supervise: %w", err)
	}
	how = r.supervise(dir, told)
	how.At = time.Now()
	for {
		err := writeFile(filepath.Join(dir, exitFile), how)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return how, err
		}
		if spoilt(err) { // the task has put something in its place
			_ = removeTree(filepath.Join(dir, exitFile))
		}
		time.Sleep(time.Second) // a full disk: what has finished must not be run again
	}
}

// supervise starts the command, waits for it, and kills what it has left behind. A
// signal from told tells it to end.
func (r *runSpec) supervise(dir string, told <-chan os.Signal) exit {
	if !r.Equal {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, lowest)
		_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ioprioWhoProcess, 0, onlyIdleDisk)
		_ = os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(lowest)), 0) // else niceness only counts within the session
		_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)           // the first to be killed when the machine has no memory left
	}
	out, err := openOutput(dir, r.Output)
	if err != nil {
		return r.unstarted(dir, err)
	}
	pid, err := r.start(dir, out)
	if err != nil {
		out.close()
		return r.unstarted(dir, err)
	}
	out.follow()
	if _, err := os.Stat(filepath.Join(dir, killFile)); err == nil {
		_ = r.killAll(os.Getpid(), dir) // it was killed before it was started
	}
	end := ending{run: r, dir: dir, pid: pid}
	over := make(chan struct{})
	var watched sync.WaitGroup
	watched.Go(func() { end.watch(told, over) })
	defer watched.Wait() // whatever it does is for this run, and not for the next one in this process
	defer close(over)
	how := waitFor(pid)
	end.note(&how)
	if r.Group != nil {
		how.Waited, how.Stalled = r.Group.Pressure("cpu"), r.Group.Pressure("io")
	}
	note := ""
	if r.Group != nil && r.Group.OutOfMemory() {
		how.Memory = !how.ok() // also if a child was killed and the command failed for it
		if how.ok() {
			note = "[gleaner: a process of this task was killed, because the task used more memory than it requested; the task went on without it]\n"
		}
	}
	if err := cmp.Or(r.killAll(os.Getpid(), dir), killOrphans(patience)); err != nil {
		how.Failed = err.Error()
	}
	how.Cut = out.finish(note)
	r.tidy(dir)
	return how
}

// unstarted is the end of a run that could not start, or not in its group.
func (r *runSpec) unstarted(dir string, err error) exit {
	_ = r.killAll(os.Getpid(), dir)
	r.tidy(dir)
	return exit{Failed: err.Error(), Lacks: lack(err)}
}

// tidy removes what the run leaves behind. What cannot be removed is left to
// gleaner, which logs it.
func (r *runSpec) tidy(dir string) {
	scratch, _ := r.private(dir)
	_ = removeTree(scratch)
	if r.Group == nil {
		return
	}
	for range 100 { // zombies keep a group busy until they are reaped
		reap()
		if r.Group.Remove() == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (r *runSpec) start(dir string, out *output) (pid int, err error) {
	as, err := r.become()
	if err != nil {
		return 0, err
	}
	scratch, shared := r.private(dir)
	if err := r.makePrivate(scratch, shared); err != nil {
		return 0, err
	}
	cmd := exec.Command(r.Command[0], r.Command[1:]...)
	if other(r.User) {
		cmd.Path, cmd.Err = r.found()
		for _, s := range out.streams { // else it cannot open /dev/stdout
			if err := s.write.Chown(int(r.User.UID), int(r.User.GID)); err != nil {
				return 0, err
			}
		}
	}
	env, home := r.environment()
	cmd.Dir = cmp.Or(r.Dir, home)
	cmd.Env = append(env, "TMPDIR="+scratch)
	cmd.Env = append(cmd.Env, r.Env...)
	cmd.Env = append(cmd.Env, "GLEANER_JOB="+r.Job, "GLEANER_JOB_ID="+strconv.FormatInt(int64(r.Task.Job), 10),
		"GLEANER_STAGE="+r.Task.Stage, "GLEANER_TASK_INDEX="+strconv.Itoa(int(r.Task.Index)), "GLEANER_TASKS="+strconv.Itoa(r.Tasks),
		"GLEANER_ATTEMPT="+strconv.Itoa(int(r.Task.Attempt)+1), "GLEANER_SCRATCH="+scratch, "GLEANER_SHARED="+shared, markVariable+"="+dir)
	cmd.Stdout, cmd.Stderr = out.streams[0].write, out.streams[1].write
	start := func(fd int) error {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL, Credential: as, UseCgroupFD: fd >= 0, CgroupFD: fd}
		return sparingProcesses(cmd)
	}
	if r.Group != nil {
		err = r.Group.Enter(start)
	} else {
		err = start(-1)
	}
	switch {
	case cmd.Process != nil:
		return cmd.Process.Pid, err
	case cmd.Err == nil && errors.Is(err, fs.ErrNotExist) && !strings.Contains(r.Command[0], "/"): // the command itself was found
		return 0, fmt.Errorf("%s cannot be started in %s: that directory, or the interpreter of the command, is not there", cmd.Path, cmd.Dir)
	}
	return 0, err
}

// sparingProcesses starts a command that, with all its descendants, cannot use up
// the process limit of its user, or the numbers that the machine has for processes: a quarter is left
// to gleaner and everyone else. Control groups count the processes of each task; this limit counts all of a
// user's, and does not apply to root.
func sparingProcesses(cmd *exec.Cmd) error {
	var granted unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &granted); err != nil {
		return cmd.Start()
	}
	most := min(granted.Cur, processNumbers())
	most -= most / 4
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: most, Max: granted.Max}); err != nil {
		return cmd.Start()
	}
	err := cmd.Start()
	_ = unix.Setrlimit(unix.RLIMIT_NPROC, &granted)
	if err == nil {
		_ = unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: most, Max: most}, nil) // it cannot be raised again
	}
	return err
}

// processNumbers is how many processes and threads the machine has numbers for.
func processNumbers() uint64 {
	text, _ := os.ReadFile("/proc/sys/kernel/pid_max")
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 1 << 15 // what Linux has at least
	}
	return n
}

// waitFor reaps children until pid is among them.
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

// reap reaps the children that are dead by now.
func reap() {
	for {
		if dead, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); dead <= 0 && err != unix.EINTR {
			return
		}
	}
}

// patience is how long to wait for killed processes: only one that waits for a
// broken disk takes long to die.
const patience = 30 * time.Second

// killAll kills all processes of the run except its supervisor, given by its
// number, or 0 if it is gone.
func (r *runSpec) killAll(supervisor int, dir string) error {
	switch {
	case r.Group != nil:
		return r.Group.Kill(patience)
	case supervisor != 0:
		return killBelow(supervisor, patience)
	}
	return killMarked(dir, patience)
}
