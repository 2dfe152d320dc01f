package local

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// atOnce is how many tasks are started at the same time: during its start, each
// needs a thread and a handful of files.
const atOnce = 16

// takeTurn waits until a task may be started; done ends the turn.
func (w *World) takeTurn() (done func()) {
	w.turns <- struct{}{}
	return sync.OnceFunc(func() { <-w.turns })
}

// crowded reports whether more tasks run than may run.
func (w *World) crowded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Most > 0 && len(w.tasks) > w.Most
}

// await waits for a child to end. It holds a descriptor but no thread, as a wait in
// the kernel would: if the runtime needs a thread and the machine has none, it
// aborts the process.
func await(child *os.Process) error {
	fd, err := unix.PidfdOpen(child.Pid, unix.PIDFD_NONBLOCK)
	if err != nil { // before Linux 5.10
		_, err = child.Wait()
		return err
	}
	_ = child.Release()
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var waited error
	err = raw.Read(func(fd uintptr) bool {
		waited = retried(func() error { return unix.Waitid(unix.P_PIDFD, int(fd), nil, unix.WEXITED, nil) })
		return !errors.Is(waited, unix.EAGAIN)
	})
	return errors.Join(err, waited)
}

// awaitLock waits until it has the lock on a file, and holds no thread either.
func awaitLock(f *os.File) error {
	for {
		err := retried(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		time.Sleep(lockAgain)
	}
}

const lockAgain = 20 * time.Millisecond
