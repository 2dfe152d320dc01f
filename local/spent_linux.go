package local

import (
	"path/filepath"
	"time"

	"gleaner/cluster"
)

// Spent looks up a run; false if it is not known how it ended.
func (w *World) Spent(id cluster.TaskID) (cluster.Spent, bool) {
	dir := runPath(w.Dir, id)
	var r runSpec
	var how exit
	if found, err := readFile(filepath.Join(dir, runFile), &r); err != nil || !found {
		return cluster.Spent{}, false
	}
	if found, err := readFile(filepath.Join(dir, exitFile), &how); err != nil || !found {
		return cluster.Spent{}, false
	}
	length := func(seconds *float64) time.Duration {
		if seconds == nil {
			return -1
		}
		return time.Duration(*seconds * float64(time.Second))
	}
	return cluster.Spent{Start: r.At, Took: how.At.Sub(r.At), CPU: length(&how.CPU), Waited: length(how.Waited), Stalled: length(how.Stalled)}, true
}
