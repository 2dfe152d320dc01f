package mix

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func sh(script string) Command { return Command{Args: []string{"sh", "-c", script}} }

func TestCommandsRunSideBySide(t *testing.T) {
	late := sh("sleep 0.1")
	late.Start = 300 * time.Millisecond
	r, err := Run(t.Context(), 0, []Command{sh("sleep 0.2"), late})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := r.Took[0], r.Took[1]; a.Wall() < 200*time.Millisecond || b.Start < 300*time.Millisecond || b.Wall() < 100*time.Millisecond {
		t.Errorf("took %+v", r.Took)
	}
	if r.Others < 0 {
		t.Errorf("others used %v cores", r.Others)
	}
}

func TestCommandsStayOnTheirCores(t *testing.T) {
	before := allowed()
	out := filepath.Join(t.TempDir(), "cores")
	if _, err := Run(t.Context(), 1, []Command{sh("grep Cpus_allowed_list /proc/self/status > " + out)}); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(out)
	if fields := strings.Fields(string(text)); len(fields) != 2 || strings.ContainsAny(fields[1], ",-") {
		t.Errorf("allowed on %q, want one core", text)
	}
	for range 20 {
		if got := allowed(); got != before {
			t.Fatalf("a thread of this process was left on %d cores of %d", got, before)
		}
	}
}

// allowed counts the cores that a thread of this process may use.
func allowed() int {
	count := make(chan int)
	go func() {
		runtime.LockOSThread()
		var set unix.CPUSet
		_ = unix.SchedGetaffinity(0, &set)
		count <- set.Count()
	}()
	return <-count
}

func TestABackgroundCommandEndsWithTheOthers(t *testing.T) {
	endless := sh("while :; do sleep 0.01; done")
	endless.Background = true
	r, err := Run(t.Context(), 0, []Command{sh("sleep 0.2"), endless})
	if err != nil || r.Took[1].Wall() < 200*time.Millisecond {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestAFailureEndsAllAndSaysWhy(t *testing.T) {
	_, err := Run(t.Context(), 0, []Command{sh("sleep 600"), sh("echo what was wrong >&2; exit 3")})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "what was wrong") {
		t.Errorf("got %v", err)
	}
	if _, err := Run(t.Context(), 0, []Command{{Args: []string{"/not/there"}}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// A stopped command leaves no process behind, grandchildren included.
func TestNobodySurvives(t *testing.T) {
	out := filepath.Join(t.TempDir(), "pid")
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if text, _ := os.ReadFile(out); strings.HasSuffix(string(text), "\n") {
				stop()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	_, err := Run(ctx, 0, []Command{sh("sleep 600 & echo $! > " + out + "; wait")})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	text, _ := os.ReadFile(out)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	for range 500 {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %d lives on", pid)
}
