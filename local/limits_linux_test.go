package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gleaner/cluster"
	"gleaner/control/jobfile"
)

// The least memory that a job file may ask for is enough for a shell with a pipeline.
func TestTheLeastMemoryIsEnough(t *testing.T) {
	s := act(t, t.TempDir(), false)
	st := shell("small", 1, `echo "b a" | tr ' ' '\n' | sort`)
	st.Failures, st.Request.Memory = 1, jobfile.MinMemory
	s.submit(st)
	if got := s.until(1, "finish job-1"); got[0] != "finish job-1" {
		t.Errorf("%q", got[0])
	}
}

// innerDir names the directory of the test below, in its process of another user.
const innerDir = "GLEANER_TEST_INNER_DIR"

// Without control groups a task that forks without end leaves enough processes
// of its user for gleaner to go on.
func TestTasksLeaveProcesses(t *testing.T) {
	if dir := os.Getenv(innerDir); dir != "" {
		forkWithoutEnd(t, dir)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user, and root has as many processes as it likes")
	}
	dir, err := os.MkdirTemp("", "gleaner-test-") // that of the test is in one that others may not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	uid := 1_000_000 + os.Getpid() // has no other process
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.v", "-test.run", "^TestTasksLeaveProcesses$")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), innerDir+"="+filepath.Join(dir, "world"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func forkWithoutEnd(t *testing.T, dir string) {
	t.Helper()
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 400, Max: 400}); err != nil {
		t.Fatal(err)
	}
	s := act(t, dir, true)
	s.submit(shell("forks", 1, `sh -c 'for i in $(seq 500); do sleep 1000 & done; echo all' > /dev/null 2>&1 || echo no more; exec tail -f /dev/null`))
	s.written(cluster.TaskID{Job: 1, Stage: "forks"}, "no more\n")
	for i := range 50 {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatalf("only %d processes are left for others: %v", i, err)
		}
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}()
	}
	if err := s.world.Cancel(1); err != nil {
		t.Fatal(err)
	}
	s.until(1, "task killed")
}

// A task, and what it starts, can get no rights that its user does not have.
func TestTasksGetNoNewRights(t *testing.T) {
	bothWays(t, func(t *testing.T, plain bool) {
		s := act(t, t.TempDir(), plain)
		s.submit(shell("asks", 1, `sh -c 'grep NoNewPrivs: /proc/self/status'`))
		s.written(cluster.TaskID{Job: 1, Stage: "asks"}, "NoNewPrivs:\t1\n")
	})
}
