package local

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"gleaner/cluster"
)

// A running task holds no thread of this process, because threads may be scarce.
func TestTasksKeepNoThreads(t *testing.T) {
	const tasks = 40
	before := threads(t)
	s := act(t, t.TempDir(), true)
	hold := shell("hold", tasks, "echo up; sleep 1000")
	hold.Request = cluster.Resources{CPU: 10, Memory: cluster.MB}
	id := s.submit(hold)
	for i := range int32(tasks) {
		s.written(cluster.TaskID{Job: id, Stage: "hold", Index: i}, "up\n")
	}
	if more := threads(t) - before; more > 3*tasks/4 { // few are started at once
		t.Errorf("%d tasks run and there are %d more threads", tasks, more)
	}
}

func threads(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// Tasks leave files for everything else: one more than may run is not started, for lack of files.
func TestMostTasks(t *testing.T) {
	s := act(t, t.TempDir(), true)
	s.world.mu.Lock()
	s.world.Most = 2
	s.world.mu.Unlock()
	s.submit(shell("hold", 2, "echo up; sleep 1000"))
	for i := range int32(2) {
		s.written(cluster.TaskID{Job: 1, Stage: "hold", Index: i}, "up\n")
	}
	s.submit(shell("late", 1, "true"))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if slices.ContainsFunc(s.found("task"), func(line string) bool {
			return strings.Contains(line, "job-2/late-0: ") && strings.Contains(line, "too many open files")
		}) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it was started")
		}
	}
	if got := s.found("task"); slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, "task finished") }) {
		t.Errorf("%q", got)
	}
}

func TestAwait(t *testing.T) {
	for _, code := range []int{0, 3} {
		cmd := exec.Command("sh", "-c", fmt.Sprintf("sleep 0.1; exit %d", code))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pid := cmd.Process.Pid
		if err := await(cmd.Process); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
			t.Error("it is not reaped")
		}
	}
}
