package local

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// shortOf are the errors that say that the machine has run out of something,
// in words. They pass, and are nobody's failure.
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

// lack says in words what the machine is short of now and may have again
// later; "" when err has another cause.
func lack(err error) string {
	for _, s := range shortOf {
		if errors.Is(err, s.errno) {
			return s.words
		}
	}
	return ""
}

// Lacks reports whether err says that the machine is short of something now
// and may have it again later: files, memory, processes or room on the disk.
func Lacks(err error) bool { return lack(err) != "" }

// roomAbove makes sure that a child can be given some files. Before it executes
// it needs a descriptor above all of theirs, and the kernel calls one beyond the
// limit a bad one, which does not say that there are too many.
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

// patiently calls f until it lacks nothing.
func patiently(f func() error) error {
	for {
		if err := f(); !Lacks(err) {
			return err
		}
		time.Sleep(time.Second / 4)
	}
}

// short tells what came of the part of this world that is named. It reports
// whether that part has to wait.
func (w *World) short(of string, err error) bool {
	if err != nil && !Lacks(err) {
		return false
	}
	w.waits(of, err)
	return err != nil
}

// waits tells that a part of this world has to wait, and why, or with nil that
// it goes on.
func (w *World) waits(of string, because error) {
	if w.Short != nil {
		w.Short(of, because)
	}
}

// insist does it again and again until it no longer fails for want of room, or
// the world is closed.
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
