package local

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/cluster"
)

// supervisorOf is the process that supervised a run.
func (s *stage) supervisorOf(id cluster.TaskID) started {
	s.Helper()
	var by started
	if found, err := readFile(filepath.Join(runPath(s.world.Dir, id), startedFile), &by); err != nil || !found {
		s.Fatalf("%s was not started: %v", id, err)
	}
	return by
}

// gone waits until a process has ended.
func gone(t *testing.T, p started) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); p.alive(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d has not ended", p.Pid)
		}
	}
}

// One supervisor runs many tasks, and ends when there are none. One that is killed while
// it has nothing to do costs no task a try.
func TestSupervisorsAreUsedAgain(t *testing.T) {
	bothWays(t, func(t *testing.T, plain bool) {
		s := act(t, t.TempDir(), plain)
		s.submit(shell("many", 40, "true"))
		s.until(1, "finish job-1")
		by := map[started]bool{}
		for i := range 40 {
			by[s.supervisorOf(cluster.TaskID{Job: 1, Stage: "many", Index: int32(i)})] = true
		}
		if len(by) > 20 {
			t.Errorf("%d supervisors for 40 tasks", len(by))
		}
		for p := range by {
			_ = unix.Kill(p.Pid, unix.SIGKILL)
		}
		s.submit(shell("more", 10, "true"))
		s.until(1, "finish job-2")
		if lost := s.found("task killed"); len(lost) > 0 {
			t.Errorf("%q", lost)
		}
		last := s.supervisorOf(cluster.TaskID{Job: 2, Stage: "more", Index: 9})
		gone(t, last)
		s.submit(shell("last", 1, "true"))
		s.until(1, "finish job-3")
		last = s.supervisorOf(cluster.TaskID{Job: 3, Stage: "last"})
		s.close()
		gone(t, last)
	})
}

// A kill that comes as its task ends does not reach the next task of the supervisor.
func TestALateKillReachesNoOtherTask(t *testing.T) {
	bothWays(t, func(t *testing.T, plain bool) {
		s := act(t, t.TempDir(), plain)
		rng := rand.New(rand.NewPCG(3, 1))
		const rounds = 40
		for round := range rounds {
			job := s.submit(shell("victim", 1, `trap "exit 0" TERM; true`))
			s.until(1, fmt.Sprintf("start %s/victim-0", job))
			time.Sleep(time.Duration(rng.Int64N(int64(20 * time.Millisecond))))
			_ = s.world.Do(cluster.Action{Kind: cluster.KillTask, Task: cluster.TaskID{Job: job, Stage: "victim"}, On: "here", Reason: "the test", Gently: round%2 == 0})
			s.submit(shell("next", 1, "sleep 0.05"))
			s.until(2*(round+1), "finish job-")
		}
		for _, line := range s.found("task killed") {
			if strings.Contains(line, "/next-") {
				t.Error(line)
			}
		}
		t.Logf("%d of %d were killed in time", len(s.found("task killed")), rounds)
	})
}

// Without control groups, the CPU time of a supervisor's earlier tasks counts once.
func TestEarlierTasksCountOnce(t *testing.T) {
	s := act(t, t.TempDir(), true)
	burn := `i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done`
	s.submit(shell("a", 1, burn), shell("b", 1, burn, "a"), shell("hold", 1, "echo up; sleep 1000", "b"))
	s.until(1, "start job-1/hold-0")
	s.written(cluster.TaskID{Job: 1, Stage: "hold"}, "up\n")
	a, b := s.supervisorOf(cluster.TaskID{Job: 1, Stage: "a"}), s.supervisorOf(cluster.TaskID{Job: 1, Stage: "hold"})
	if a != b {
		t.Errorf("another supervisor: the test says nothing")
	}
	var really time.Duration
	for _, stage := range []string{"a", "b"} {
		spent, _ := s.world.Spent(cluster.TaskID{Job: 1, Stage: stage})
		really += spent.CPU
	}
	counted, _, err := s.world.harvest()
	if err != nil || counted > really+really/2 || counted < really/2 {
		t.Errorf("%v counted, %v used: %v", counted, really, err)
	}
}
