package local

import (
	"path/filepath"
	"time"

	"gleaner/cluster"
)

// A Spent tells what a run of a task that has ended did with its time.
type Spent struct {
	Start time.Time
	Took  time.Duration
	CPU   time.Duration // on cores
	// Waited and Stalled are how long it was held up for a core and for the
	// disk; negative where the kernel does not tell.
	Waited, Stalled time.Duration
}

// Spent looks up a run; false when it is not known how it ended.
func (w *World) Spent(id cluster.TaskID) (Spent, bool) {
	dir := runPath(w.Dir, id)
	var r run
	var how exit
	if found, err := readFile(filepath.Join(dir, runFile), &r); err != nil || !found {
		return Spent{}, false
	}
	if found, err := readFile(filepath.Join(dir, exitFile), &how); err != nil || !found {
		return Spent{}, false
	}
	length := func(seconds *float64) time.Duration {
		if seconds == nil {
			return -1
		}
		return time.Duration(*seconds * float64(time.Second))
	}
	return Spent{Start: r.At, Took: how.At.Sub(r.At), CPU: length(&how.CPU), Waited: length(how.Waited), Stalled: length(how.Stalled)}, true
}
