package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/web"
)

// TestRealBurst lets the primary of this machine burst to all cores, for real.
// The tests of local show what a burst does to tasks, in which order and why; this
// one shows that it is detected.
func TestRealBurst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	u := startUp(t, dir, "--policy", "primary", "--reserve-cpu", "0.2", "--reserve-memory", "0")
	u.gleaner("run", writeHolding(t, "exec sleep 1000"))
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
		if s := u.status(); s.Counted.Add(s.Reserve).CPU >= s.Size.CPU {
			t.Skip("somebody else keeps this machine busy now")
		}
		t.Errorf("the burst is over and tasks do not come back: %+v", u.status())
	}
}

// TestBurstToTheLastProcessGone measures how long tasks live after the primary has
// burst to all cores, and the cost of detecting that. It only reports; the tests of
// local show in virtual time how soon a burst is detected at the latest. Tasks that
// catch SIGTERM use up the guard's grace time.
func TestBurstToTheLastProcessGone(t *testing.T) {
	if os.Getenv("GLEANER_LONG") == "" {
		t.Skip("set GLEANER_LONG=1 to measure bursts; it takes half an hour")
	}
	t.Run("plain", func(t *testing.T) { measureBursts(t, "exec sleep 1000") })
	t.Run("catching", func(t *testing.T) { measureBursts(t, "trap : TERM; while :; do sleep 1 || :; done") })
}

func measureBursts(t *testing.T, script string) {
	const bursts, quiet = 100, 30 * time.Second
	u, out := startHolding(t, script)
	if u.holds() {
		t.Logf("with three tasks to watch over, gleaner up takes %.2f%% of a core", 100*cpuShare(t, u.cmd.Process.Pid, quiet))
	}
	tasks, supervisors := u.bursts(out, bursts)
	for _, measured := range []struct {
		name string
		took []time.Duration
	}{{"the last process of a task gone", tasks}, {"its end on disk and its supervisor gone", supervisors}} {
		slices.Sort(measured.took)
		at := func(share float64) time.Duration {
			return measured.took[int(math.Ceil(share*float64(len(tasks))))-1].Round(time.Millisecond)
		}
		t.Logf("from a burst to %s, %d times: p50 %v, p99 %v, at most %v", measured.name, len(tasks), at(0.5), at(0.99), at(1))
	}
}

// startHolding starts a gleaner with three tasks that run a script, and write into a folder who they are.
func startHolding(t *testing.T, script string) (u *up, out string) {
	t.Helper()
	out = t.TempDir()
	u = startUp(t, t.TempDir(), "--policy", "primary", "--reserve-cpu", "0.2", "--reserve-memory", "0")
	u.gleaner("run", writeHolding(t, "echo $$ > "+out+"/$GLEANER_TASK_INDEX.$GLEANER_ATTEMPT; echo $PPID > "+out+"/supervisor-$GLEANER_TASK_INDEX.$GLEANER_ATTEMPT; "+script))
	return u, out
}

// holds reports whether the three tasks run.
func (u *up) holds() bool {
	return u.soon(10*time.Second, func(s web.Status) bool { return s.Running == 3 })
}

// bursts lets the primary burst so many times, and gives how long the last process of a task lived each time, and its supervisor.
func (u *up) bursts(out string, n int) (tasks, supervisors []time.Duration) {
	u.t.Helper()
	for range n {
		if !u.holds() || !noted(u.t, filepath.Join(out, "supervisor-*"), 3) {
			break // somebody else keeps this machine busy
		}
		time.Sleep(rand.N(time.Second)) // anywhere between two samples
		begun := time.Now()
		end := startBurst(u.t)
		tasks = append(tasks, gone(u.t, filepath.Join(out, "[0-9]*")).Sub(begun))
		supervisors = append(supervisors, gone(u.t, filepath.Join(out, "supervisor-*")).Sub(begun))
		end()
	}
	if len(tasks) == 0 {
		u.t.Skipf("this machine is too busy to be harvested: its primary uses %s", u.status().Primary)
	}
	return tasks, supervisors
}

// gone waits until none of the processes whose numbers are in files lives, and returns
// when that was.
func gone(t *testing.T, pattern string) time.Time {
	t.Helper()
	notes, err := filepath.Glob(pattern)
	if err != nil || len(notes) == 0 {
		t.Fatalf("no notes of processes in %s: %v", pattern, err)
	}
	alive := func(note string) bool { return lives(t, note) }
	for deadline := time.Now().Add(time.Minute); slices.ContainsFunc(notes, alive); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a process lives on a minute after all cores were busy")
		}
	}
	return time.Now()
}

// lives reports whether the process whose number is in a file lives.
func lives(t *testing.T, note string) bool {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + readText(t, note) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// noted waits until so many processes live whose numbers are in files: a task counts as running
// before it has written anything.
func noted(t *testing.T, pattern string, n int) bool {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		notes, _ := filepath.Glob(pattern)
		notes = slices.DeleteFunc(notes, func(note string) bool { return !lives(t, note) })
		if len(notes) == n {
			return true
		}
	}
	return false
}

// cpuShare is the share of a core that a process takes for a while, by the
// kernel's clock of that process.
func cpuShare(t *testing.T, pid int, while time.Duration) float64 {
	t.Helper()
	const clockOfProcess = 2
	used := func() time.Duration {
		var at unix.Timespec
		if err := unix.ClockGettime(int32(^pid)<<3|clockOfProcess, &at); err != nil {
			t.Fatal(err)
		}
		return time.Duration(at.Nano())
	}
	before, begun := used(), time.Now()
	time.Sleep(while)
	return (used() - before).Seconds() / time.Since(begun).Seconds()
}

// writeHolding writes a job of three tasks that run a script.
func writeHolding(t *testing.T, script string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hold.yaml")
	command, _ := json.Marshal([]string{"sh", "-c", script})
	writeText(t, file, fmt.Sprintf("name: hold\nstages: [{name: hold, tasks: 3, cpu: 0.2, memory: 32MiB, command: %s}]\n", command))
	return file
}

// startBurst keeps all cores busy until end is called.
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

// soon reports whether the status becomes as wanted within that time.
func (u *up) soon(while time.Duration, wanted func(web.Status) bool) bool {
	u.t.Helper()
	for deadline := time.Now().Add(while); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if wanted(u.status()) {
			return true
		}
	}
	return false
}
