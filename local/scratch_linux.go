package local

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gleaner/cluster"
)

// The directories that tasks may fill: one for each run, removed when it has ended,
// and one for each job, removed when the job has.
const (
	scratchDir = "scratch"
	sharedDir  = "shared"
)

// tidy removes what a run whose processes are gone has left behind.
func (w *World) tidy(dir string, r *runSpec) {
	scratch, _ := r.private(dir)
	err := removeTree(scratch)
	if r.Group != nil {
		err = errors.Join(err, r.Group.Remove())
	}
	if err != nil {
		w.Log.Warn("what a task left cannot be removed", "task", r.Task.String(), "error", err)
	}
}

// dropShared removes the directory shared by the tasks of a job, once the job has
// ended and none of them is alive. The loop does not wait for it.
func (w *World) dropShared(id cluster.JobID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs[id] != nil {
		return
	}
	for task := range w.tasks {
		if task.Job == id {
			return
		}
	}
	w.removing.Go(func() {
		err := removeTree(filepath.Join(jobPath(w.Dir, id), sharedDir))
		if w.Users != "" {
			err = errors.Join(err, removeTree(usersJob(w.Users, id)))
		}
		if err != nil {
			w.Log.Warn("what a job left cannot be removed", "job", id.String(), "error", err)
		}
	})
}

// removeTree removes a directory that tasks have filled, if it exists. What they
// mounted below is unmounted first, because it is not part of the directory.
func removeTree(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.IsDir() {
		return os.Remove(dir) // a task put a link there: its target is not ours
	}
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		err = unmountBelow(real)
	}
	if err != nil {
		return err
	}
	return removeDeep(dir)
}

func unmountBelow(dir string) error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	points := mountPoints(text)
	for _, point := range slices.Backward(points) { // the last one is on top
		if point != dir && !strings.HasPrefix(point, dir+"/") {
			continue
		}
		if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	return nil
}

// mountPoints reads where file systems are mounted from mountinfo.
func mountPoints(mountinfo []byte) []string {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var points []string
	for line := range bytes.Lines(mountinfo) {
		if fields := bytes.Fields(line); len(fields) > 4 {
			points = append(points, unescape.Replace(string(fields[4])))
		}
	}
	return points
}
