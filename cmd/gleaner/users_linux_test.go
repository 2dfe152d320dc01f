package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Users of one machine submit jobs to root's gleaner through its socket for them. Each
// task runs as its user, and nobody sees the jobs of others.
func TestUsersShareAGleaner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run tasks as others")
	}
	top, err := os.MkdirTemp("", "gleaner-test-") // that of the test is in one that others may not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	if err := os.Chmod(top, 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(top, "gleaner")
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(program, self, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(top, "users")
	u := startUp(t, t.TempDir(), "--listen", "none", "--users="+users)
	u.gleaner("status")
	as := func(uid uint32, args ...string) (string, int) {
		cmd := exec.Command(program, args...)
		cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GLEANER_USERS=" + users}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	const ann, bob = 3_000_001, 3_000_002
	small := []string{"--cpu", "0.1", "--memory", "16MiB"}
	out, code := as(ann, append(append([]string{"run", "--name", "secret"}, small...), "--", "id", "-u")...)
	if code != 0 || !strings.Contains(out, fmt.Sprint(ann)) {
		t.Fatalf("%d: %s", code, out)
	}
	if out, _ := as(ann, "jobs"); !strings.Contains(out, "secret") {
		t.Errorf("its own job is not listed: %s", out)
	}
	for _, attack := range [][]string{{"jobs"}, {"jobs", "1"}, {"tasks", "1"}, {"logs", "1"}, {"cancel", "1"}, {"rm", "1"}, {"pause", "1"}, {"drain"}, {"resume"}, {"status"},
		{"run", "--after", "1", "--", "true"}, {"status", "--link"}} {
		out, code := as(bob, attack...)
		if strings.Contains(out, "secret") || strings.Contains(out, fmt.Sprint(ann)) {
			t.Errorf("%q shows another user's job: %s", attack, out)
		}
		if attack[0] != "jobs" && attack[0] != "status" && code != exitBadInput {
			t.Errorf("%q: exit code %d: %s", attack, code, out)
		}
	}
	if out, code := as(bob, append(append([]string{"run", "--priority", "5"}, small...), "--", "true")...); code != exitBadInput || !strings.Contains(out, "only root") {
		t.Errorf("a user goes before others: %d: %s", code, out)
	}
	second := exec.Command(program, "up", "--data", filepath.Join(t.TempDir(), "other"), "--listen", "none", "--users="+users)
	if out, err := second.CombinedOutput(); err == nil || second.ProcessState.ExitCode() != exitBadInput || !strings.Contains(string(out), "another gleaner") {
		t.Errorf("a second one takes the socket: %v: %s", err, out)
	}
	if out := string(u.gleaner("jobs", "1")); !strings.Contains(out, "secret") {
		t.Errorf("root does not see it: %s", out)
	}
	if out := string(u.gleaner("jobs", "1", "--json")); !strings.Contains(out, fmt.Sprintf(`"user": "#%d"`, ann)) {
		t.Errorf("%s", out)
	}
}
