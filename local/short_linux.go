package local

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Lacks reports whether err says that the machine is short of something now
// and may have it again later: files, memory, processes or room on the disk.
func Lacks(err error) bool {
	return slices.ContainsFunc([]unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN, unix.ENOSPC, unix.EDQUOT},
		func(lack unix.Errno) bool { return errors.Is(err, lack) })
}

// short tells what came of the part of this world that is named. It reports
// whether that part has to wait.
func (w *World) short(of string, err error) bool {
	if err != nil && !Lacks(err) {
		return false
	}
	w.Short(of, err)
	return err != nil
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
