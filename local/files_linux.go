package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gleaner/cluster"

	"golang.org/x/sys/unix"
)

// The files of a data directory. Those of a job are in jobs/N, those of a run in
// jobs/N/STAGE-INDEX.RUN.
const (
	jobsDir       = "jobs"
	jobFile       = "job.json"       // submitted
	cancelledFile = "cancelled.json" // the user has cancelled it
	pausedFile    = "paused.json"    // the user has paused it
	endedFile     = "ended.json"     // when and how it ended
	drainedFile   = "drained.json"   // of the data directory: no tasks are started

	runFile     = "run.json"     // written before anything is started
	lockFile    = "lock"         // held while there is a supervisor
	startedFile = "started.json" // the supervisor's process
	killFile    = "kill.json"    // it must be killed, and why
	exitFile    = "exit.json"    // how it ended
	stdoutFile  = "stdout"
	stderrFile  = "stderr"
)

// A submitted is what jobFile holds.
type submitted struct {
	At  time.Time    `json:"at"`
	Job *cluster.Job `json:"job"`
}

// An ended is what endedFile holds.
type ended struct {
	At        time.Time `json:"at"`
	Reason    string    `json:"reason,omitempty"`
	Cancelled bool      `json:"cancelled,omitempty"`
	cluster.Account
	// Settled says that no task of the job runs any more; Stages has what they
	// had finished then.
	Settled bool                `json:"settled,omitempty"`
	Stages  []cluster.PastStage `json:"stages,omitempty"`
}

// A started is what startedFile holds. A process is identified by its number and
// by when it started, in ticks since the machine did.
type started struct {
	Pid   int    `json:"pid"`
	Ticks uint64 `json:"ticks"`
}

// A kill is what killFile holds.
type kill struct {
	Reason string `json:"reason"`
}

// An exit is what exitFile holds.
type exit struct {
	At     time.Time     `json:"at"`
	Code   int           `json:"code"`
	Signal string        `json:"signal,omitempty"` // that ended it
	Failed string        `json:"failed,omitempty"` // why it could not be run at all
	Memory bool          `json:"memory,omitempty"` // the task used more memory than it requested
	Lost   bool          `json:"lost,omitempty"`   // it is not known how it ended
	Lacks  string        `json:"lacks,omitempty"`  // what the machine lacked, so that it never started
	Told   bool          `json:"told,omitempty"`   // it was told to end before it did
	Late   time.Duration `json:"late,omitempty"`   // the time that it might take, and took longer
	Cut    int64         `json:"cut,omitempty"`    // bytes of output that were not kept
	CPU    float64       `json:"cpu,omitempty"`    // seconds used
	// Seconds in which some of it waited for a core and for the disk. Nil if the
	// kernel does not report it.
	Waited  *float64 `json:"waited,omitempty"`
	Stalled *float64 `json:"stalled,omitempty"`
}

// ok reports whether the command has succeeded.
func (e *exit) ok() bool {
	return e.Code == 0 && e.Signal == "" && e.Failed == "" && e.Lacks == "" && !e.Lost && !e.Told
}

// cutShort reports whether the run was ended from outside, and so has not failed by
// itself, even if no order to kill it is known.
func (e *exit) cutShort() bool { return e.Lost || e.Told && e.Late == 0 }

func (e *exit) reason() string {
	switch {
	case e.Lost:
		return "its supervisor is gone"
	case e.Late > 0:
		return fmt.Sprintf("took longer than its time limit of %s", e.Late)
	case e.Told:
		return "was told to end"
	case e.Failed != "":
		return e.Failed
	case e.Memory && e.Signal == "":
		return fmt.Sprintf("out of memory: a process of the task was killed because the task used more than it requested; exit code %d", e.Code)
	case e.Memory:
		return "out of memory: the task used more than it requested"
	case e.Signal != "":
		return "ended by " + e.Signal
	}
	return "exit code " + strconv.Itoa(e.Code)
}

func jobPath(dir string, id cluster.JobID) string {
	return filepath.Join(dir, jobsDir, strconv.FormatInt(int64(id), 10))
}

func runPath(dir string, id cluster.TaskID) string {
	return filepath.Join(jobPath(dir, id.Job), fmt.Sprintf("%s-%d.%d", id.Stage, id.Index, id.Attempt+1))
}

// parseRun reads the name of a run's directory.
func parseRun(job cluster.JobID, name string) (id cluster.TaskID, ok bool) {
	dot := strings.LastIndexByte(name, '.')
	dash := strings.LastIndexByte(name[:max(dot, 0)], '-')
	if dash < 0 {
		return id, false
	}
	index, err := strconv.ParseInt(name[dash+1:dot], 10, 32)
	run, err2 := strconv.ParseInt(name[dot+1:], 10, 32)
	id = cluster.TaskID{Job: job, Stage: name[:dash], Index: int32(index), Attempt: int32(run) - 1}
	return id, err == nil && err2 == nil && filepath.Base(runPath("", id)) == name
}

// spoilt reports whether a file cannot be read or written because a task has
// changed the directories of its job, which its user may write to.
func spoilt(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &kind) || errors.Is(err, errForeign) {
		return true
	}
	for _, cause := range []error{unix.ENOENT, unix.EISDIR, unix.ENOTDIR, unix.EEXIST, unix.ENOTEMPTY, unix.ELOOP, unix.ENXIO, unix.EACCES, unix.EPERM} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// writeFile writes v to a file so that after a crash it has either all of v or its
// old content.
func writeFile(name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-")
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(name))
}

// makeDir makes a directory that survives a crash.
func makeDir(name string) error {
	err := os.Mkdir(name, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeDir(filepath.Dir(name)); err != nil {
			return err
		}
		err = os.Mkdir(name, 0o700)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(filepath.Dir(name))
}

func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// mostText is how large a file of ours can be: job files have a megabyte.
const mostText = 64 << 20

// errForeign is the error for what is not a file of ours.
var errForeign = errors.New("not a file that gleaner wrote")

// readFile reads what writeFile wrote. It reports false if there is no file. A task
// may have put something in its place: a pipe is not waited for, a link not followed.
func readFile(name string, v any) (bool, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() || info.Size() > mostText {
		return false, fmt.Errorf("%s: %w", name, errForeign)
	}
	text, err := io.ReadAll(io.LimitReader(f, mostText))
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	return true, nil
}

// noteFile is writeFile without waiting for the disk: only another process must
// see the file.
func noteFile(name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	temp := filepath.Join(filepath.Dir(name), "."+filepath.Base(name))
	if err := os.WriteFile(temp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, name)
}
