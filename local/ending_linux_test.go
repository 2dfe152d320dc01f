package local

import (
	"os"
	"os/exec"
	"os/signal"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/cluster"
)

// saves writes a checkpoint when it is told to end, and then ends with exit code 0.
const saves = `trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.01; done`

// deaf takes no notice of SIGTERM, but catches it.
const deaf = `trap : TERM; echo up; while :; do sleep 0.01 || :; done`

// A task of a cancelled job may write a checkpoint. One that does not end is killed
// when its grace time is over, and not before.
func TestACancelledTaskHasItsGraceTime(t *testing.T) {
	bothWays(t, func(t *testing.T, plain bool) {
		s := act(t, t.TempDir(), plain)
		stays := shell("deaf", 1, deaf)
		stays.Grace = 700 * time.Millisecond
		s.submit(shell("saves", 1, saves), stays)
		save, stay := cluster.TaskID{Job: 1, Stage: "saves"}, cluster.TaskID{Job: 1, Stage: "deaf"}
		s.written(save, "up\n")
		s.written(stay, "up\n")
		if err := s.world.Cancel(1); err != nil {
			t.Fatal(err)
		}
		s.until(2, "task killed")
		s.written(save, "up\nsaved\n")
		for _, id := range []cluster.TaskID{save, stay} {
			if o, known := s.world.Outcome(id); !known || o.Finished || !o.Killed || o.Reason != "its job has ended" {
				t.Errorf("%s: %+v", id, o)
			}
		}
		if took := s.between("kill job-1/deaf-0", "task killed job-1/deaf-0"); took < stays.Grace || took > 10*stays.Grace {
			t.Errorf("it was killed after %v, its grace time is %v", took, stays.Grace)
		}
	})
}

// A task that is ended for the primary may save what it can in a moment. It has not
// finished, whatever its exit code is, and is run again; so it is after a stop.
func TestWhoIsToldToEndHasNotFinished(t *testing.T) {
	bothWays(t, func(t *testing.T, plain bool) {
		dir := t.TempDir()
		s := act(t, dir, plain)
		s.world.guardGrace = 2 * time.Second // a machine that others use gives a task no turn for longer than the usual moment
		stays := shell("deaf", 1, deaf)
		stays.Grace = 200 * time.Millisecond
		s.submit(shell("saves", 1, saves), stays)
		save := cluster.TaskID{Job: 1, Stage: "saves"}
		s.written(save, "up\n")
		s.written(cluster.TaskID{Job: 1, Stage: "deaf"}, "up\n")
		s.uses(2 * cluster.Core)
		s.until(2, "task killed")
		s.written(save, "up\nsaved\n")
		t.Logf("from the guard's decision to the end of the one that stays: %v", s.between("kill job-1/deaf-0", "task killed job-1/deaf-0").Round(time.Millisecond))
		s.uses(0)
		s.until(1, "task started job-1/saves-0#2")
		save.Attempt = 1
		s.written(save, "up\n")
		s.close() // a stop
		s.written(save, "up\nsaved\n")

		next := act(t, dir, plain)
		next.until(1, "task started job-1/saves-0#3")
	})
}

// A run that takes longer than it may fails: it is told to end, and killed when that
// does not help.
func TestARunThatTakesTooLong(t *testing.T) {
	bothWays(t, func(t *testing.T, plain bool) {
		s := act(t, t.TempDir(), plain)
		saved, stays, brief := shell("saves", 1, saves), shell("deaf", 1, deaf), shell("brief", 1, "true")
		for _, st := range []*cluster.Stage{&saved, &stays, &brief} {
			st.Time, st.Grace, st.Failures = 500*time.Millisecond, time.Second, 2
		}
		s.submit(brief, saved)
		s.until(2, "task failed job-1/saves-0")
		s.until(1, "finish job-1: job-1/saves-0 failed 2 times: took longer than its time limit of 500ms")
		s.until(1, "task finished job-1/brief-0")
		s.written(cluster.TaskID{Job: 1, Stage: "saves"}, "up\nsaved\n")
		s.submit(stays)
		s.until(1, "finish job-2: job-2/deaf-0 failed 2 times: took longer than its time limit of 500ms")
		o, known := s.world.Outcome(cluster.TaskID{Job: 2, Stage: "deaf"})
		if took := o.Ended.Sub(o.Started); !known || o.Killed || o.Exit == nil || *o.Exit != 137 || took < 1500*time.Millisecond {
			t.Errorf("after %v: %+v", took, o)
		}
	})
}

// Somebody else's SIGTERM to a supervisor, as at the end of a system, is not the
// task's failure.
func TestAForeignSignalIsNotAFailure(t *testing.T) {
	s := act(t, t.TempDir(), true)
	st := shell("saves", 1, saves)
	st.Failures = 1
	s.submit(st)
	id := cluster.TaskID{Job: 1, Stage: "saves"}
	s.written(id, "up\n")
	s.world.mu.Lock()
	task := s.world.tasks[id]
	s.world.mu.Unlock()
	if err := unix.Kill(task.supervisor(), unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.until(1, "task killed job-1/saves-0: was told to end")
	s.until(1, "task started job-1/saves-0#2")
}

func TestWhoCatchesASignal(t *testing.T) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, unix.SIGUSR2)
	defer signal.Stop(caught)
	if !catches(os.Getpid(), unix.SIGUSR2) {
		t.Error("this process catches SIGUSR2")
	}
	sleep := exec.Command("sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	if catches(sleep.Process.Pid, unix.SIGTERM) {
		t.Error("sleep does not catch SIGTERM")
	}
	_ = sleep.Process.Kill()
	_ = sleep.Wait()
	if catches(sleep.Process.Pid, unix.SIGTERM) {
		t.Error("it is gone")
	}
}

// The watcher of a run that is over ends nothing any more: its process has another run by then.
func TestWatcherEndsWithItsRun(t *testing.T) {
	ended := exec.Command("true")
	must(t, ended.Start())
	defer func() { _ = ended.Wait() }()
	e := ending{run: &runSpec{Time: time.Millisecond, Grace: 100 * time.Millisecond}, pid: ended.Process.Pid}
	over, done := make(chan struct{}), make(chan struct{})
	go func() { e.watch(nil, over); close(done) }()
	time.Sleep(50 * time.Millisecond)
	next := exec.Command("sleep", "1000")
	must(t, next.Start())
	close(over)
	<-done
	time.Sleep(200 * time.Millisecond)
	if p, alive := processOf(next.Process.Pid); !alive {
		t.Errorf("the next run was killed: %+v", p)
	}
	must(t, next.Process.Kill())
	_ = next.Wait()
}
