package local

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A supervisor is a process that runs one task after the other. Its start takes far
// longer than that of most commands, so one that has nothing to do is kept for a while.
// It gets a directory and its lock through a socket, and answers when the run is over. If
// the socket is closed, it ends after its run: it never needs the process that started it.
type supervisor struct {
	process *os.Process
	runs    *net.UnixConn
	idle    time.Time // since when it has had nothing to do
}

// A supervisor that has nothing to do ends after idleTime, and at once if there are
// mostIdle others.
const (
	mostIdle = 8
	idleTime = 2 * time.Second
)

// startSupervisor starts a supervisor.
func startSupervisor() (*supervisor, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(ends[0]), "runs"), os.NewFile(uintptr(ends[1]), "runs")
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err = errors.Join(err, ours.Close()); err != nil {
		return nil, err
	}
	s := &supervisor{runs: conn.(*net.UnixConn)}
	if s.process, err = startSelf(theirs); err != nil {
		_ = s.runs.Close()
		return nil, err
	}
	return s, nil
}

// startSelf starts this program as a supervisor, with a file of runs.
func startSelf(runs *os.File) (*os.Process, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	if err := roomAbove(runs, null); err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path:        "/proc/self/exe", // works even if the file was replaced meanwhile
		Args:        []string{"gleaner", "task"},
		Stdin:       null,
		Stdout:      null,
		Stderr:      null,
		ExtraFiles:  []*os.File{runs},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	err = cmd.Start()
	return cmd.Process, err
}

// give hands over a run with its lock.
func (s *supervisor) give(dir string, lock *os.File) error {
	_, _, err := s.runs.WriteMsgUnix([]byte(dir), unix.UnixRights(int(lock.Fd())), nil)
	return err
}

// wait waits until the run is over; false if the supervisor has ended too.
func (s *supervisor) wait() bool {
	n, err := s.runs.Read(make([]byte, 1))
	return n == 1 && err == nil
}

// end lets the supervisor end when it has nothing to do, and waits for that.
func (s *supervisor) end() {
	_ = s.runs.Close()
	_ = await(s.process)
}

// rested takes the supervisor that was the last to have nothing to do, or starts one.
func (w *World) rested() (*supervisor, error) {
	w.mu.Lock()
	n := len(w.idle)
	if n == 0 {
		w.mu.Unlock()
		return startSupervisor()
	}
	defer w.mu.Unlock()
	s := w.idle[n-1]
	w.idle = w.idle[:n-1]
	return s, nil
}

// rest keeps a supervisor for the next run, for a while.
func (w *World) rest(s *supervisor) {
	s.idle = time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.closed:
		go s.end()
		return
	default:
	}
	w.idle = append(w.idle, s)
	if len(w.idle) > mostIdle {
		go w.idle[0].end()
		w.idle = slices.Delete(w.idle, 0, 1)
	}
}

// dismiss ends the supervisors that have had nothing to do for a time.
func (w *World) dismiss(after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = slices.DeleteFunc(w.idle, func(s *supervisor) bool {
		long := time.Since(s.idle) >= after
		if long {
			go s.end()
		}
		return long
	})
}

// longestPath is the length of the longest path (PATH_MAX of Linux).
const longestPath = 4096

// receive waits for the next run on a socket. It returns no directory when there will be none.
func receive(runs int) (dir string, lock *os.File, err error) {
	text, rights := make([]byte, longestPath), make([]byte, unix.CmsgSpace(4))
	var n, with int
	err = retried(func() (err error) {
		n, with, _, _, err = unix.Recvmsg(runs, text, rights, unix.MSG_CMSG_CLOEXEC)
		return err
	})
	if err != nil || n == 0 {
		return "", nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:with])
	if err != nil || len(messages) != 1 {
		return "", nil, errors.Join(errors.New("a run without its lock"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return "", nil, errors.Join(errors.New("a run without its lock"), err)
	}
	return string(text[:n]), os.NewFile(uintptr(fds[0]), lockFile), nil
}
