package local

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// shortOf are the errors for a shortage of the machine, in words. They are
// temporary, and no failure of a task.
var shortOf = []struct {
	errno unix.Errno
	words string
}{
	{unix.EMFILE, "too many open files"},
	{unix.ENFILE, "too many open files on this machine"},
	{unix.ENOMEM, "not enough memory"},
	{unix.EAGAIN, "too many processes"},
	{unix.ENOSPC, "no space left on the disk"},
	{unix.EDQUOT, "the disk quota is used up"},
}

// lack says in words what the machine is short of for the moment; "" if err has
// another cause.
func lack(err error) string {
	for _, s := range shortOf {
		if errors.Is(err, s.errno) {
			return s.words
		}
	}
	return ""
}

// Lacks reports whether err is a temporary shortage of the machine: of files,
// memory, processes or room on the disk.
func Lacks(err error) bool { return lack(err) != "" }

// roomAbove checks that files can be passed to a child. Before the child executes,
// it needs a descriptor above all of theirs; if that is beyond the limit, the
// kernel reports a bad descriptor and not that there are too many.
func roomAbove(files ...*os.File) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	for _, f := range files {
		if uint64(f.Fd())+1 >= limit.Cur {
			return fmt.Errorf("%s has the last descriptor: %w", f.Name(), unix.EMFILE)
		}
	}
	return nil
}

// patiently calls f until it does not fail for a shortage.
func patiently(f func() error) error {
	for {
		if err := f(); !Lacks(err) {
			return err
		}
		time.Sleep(time.Second / 4)
	}
}

// short reports the outcome err of a part of this world, and returns whether that
// part has to wait.
func (w *World) short(of string, err error) bool {
	if err != nil && !Lacks(err) {
		return false
	}
	w.waits(of, err)
	return err != nil
}

// waits reports that a part of this world has to wait, and why, or with nil that
// it continues.
func (w *World) waits(of string, because error) {
	if w.Short != nil {
		w.Short(of, because)
	}
}

// insist retries do until it no longer fails for a shortage, or the world is closed.
func (w *World) insist(of string, do func() error) {
	again := time.NewTicker(w.Every)
	defer again.Stop()
	for {
		select {
		case <-w.closed:
			return
		case <-again.C:
		}
		err := do()
		if w.short(of, err) {
			continue
		}
		if err != nil {
			w.Log.Error("given up", "what", of, "error", err)
		}
		return
	}
}
