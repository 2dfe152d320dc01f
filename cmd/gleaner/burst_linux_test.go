package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"gleaner/web"
)

// TestRealBurst lets the primary of this machine burst to all cores, for real.
// What a burst does to tasks, in which order and why, is shown by the tests of
// local; this one shows that it is seen.
func TestRealBurst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	u := startUp(t, dir, "--policy", "primary", "--reserve-cpu", "0.2", "--reserve-memory", "0")
	u.gleaner("run", writeHolder(t))
	if !u.soon(10*time.Second, func(s web.Status) bool { return s.Running == 3 }) {
		t.Skipf("this machine is too busy to be harvested: its primary uses %s", u.status().Primary)
	}
	burst := startBurst(t)
	if !u.soon(time.Minute, func(s web.Status) bool { return s.Running == 0 && s.Kills >= 3 }) {
		t.Fatalf("all cores are busy and tasks live on: %+v", u.status())
	}
	last := u.status().Last
	if !strings.HasPrefix(last[len(last)-1].Reason, "reserve short by ") {
		t.Errorf("%+v", last)
	}
	burst()
	if !u.soon(10*time.Second, func(s web.Status) bool { return s.Running == 3 }) {
		if s := u.status(); s.Primary.RoundUp().CPU >= s.Size.CPU {
			t.Skip("somebody else keeps this machine busy now")
		}
		t.Errorf("the burst is over and tasks do not come back: %+v", u.status())
	}
}

func writeHolder(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hold.yaml")
	writeText(t, file, "name: hold\nstages: [{name: hold, tasks: 3, cpu: 0.2, memory: 32MiB, command: [sleep, '1000']}]\n")
	return file
}

// startBurst keeps all cores busy until the function it gives is called.
func startBurst(t *testing.T) (end func()) {
	t.Helper()
	var all []*exec.Cmd
	for range runtime.NumCPU() {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	end = func() {
		for _, cmd := range all {
			if cmd.ProcessState == nil {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
		}
	}
	t.Cleanup(end)
	return end
}

func (u *up) status() web.Status {
	u.t.Helper()
	var s web.Status
	if err := json.Unmarshal(u.gleaner("status", "--json"), &s); err != nil {
		u.t.Fatal(err)
	}
	return s
}

// soon reports whether the status becomes as wanted within a while.
func (u *up) soon(while time.Duration, wanted func(web.Status) bool) bool {
	u.t.Helper()
	for deadline := time.Now().Add(while); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if wanted(u.status()) {
			return true
		}
	}
	return false
}
