package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Many short tasks beside what xargs and GNU parallel need for as many commands, in one
// run: it prints the rates. While they run, gleaner is killed three times; no task that
// has finished runs again.
func TestTenThousandShortTasks(t *testing.T) {
	tasks := 50
	if os.Getenv("GLEANER_LONG") != "" {
		tasks = 10_000
	}
	dir, work := t.TempDir(), t.TempDir()
	var list bytes.Buffer
	for i := range tasks {
		fmt.Fprintln(&list, i)
	}
	lines := filepath.Join(work, "lines")
	writeText(t, lines, list.String())
	rate := func(name string, args ...string) float64 {
		cmd := exec.Command(name, args...)
		cmd.Stdin = bytes.NewReader(list.Bytes())
		begun := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		took := float64(tasks) / time.Since(begun).Seconds()
		t.Logf("%s: %.0f tasks/s", name, took)
		return took
	}
	t.Logf("a sync: %v; a task needs five", syncTime(t, dir))
	small := []string{"--each", lines, "--cpu", "0.1", "--memory", "4MiB"}
	u := startUp(t, dir)
	u.gleaner("status")
	ours := rate("gleaner", append(append([]string{"run", "--data", dir, "--wait"}, small...), "--", "true")...)
	rate("xargs", "-P", "4", "-n", "1", "true")
	if _, err := exec.LookPath("parallel"); err == nil {
		t.Logf("of GNU parallel's rate: %.2f", ours/rate("parallel", "-j", "16", "true"))
	}

	marks := filepath.Join(work, "marks")
	if err := os.Mkdir(marks, 0o700); err != nil {
		t.Fatal(err)
	}
	submit := append(append([]string{"run", "--data", dir, "--name", "once"}, small...), "--", "sh", "-c", `echo >> "`+marks+`/$GLEANER_ITEM.$GLEANER_ATTEMPT"`)
	if out, err := exec.Command("gleaner", submit...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for range 3 {
		time.Sleep(300 * time.Millisecond)
		u.kill()
		u = startUp(t, dir)
		u.gleaner("status")
	}
	if j := u.await("once"); j.Stages[0].Finished != tasks {
		t.Fatalf("%s: %+v", j.State, j.Stages)
	}
	found, err := os.ReadDir(marks)
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]int{}
	for _, f := range found {
		item, _, _ := strings.Cut(f.Name(), ".")
		ran[item]++
		if info, err := f.Info(); err != nil || info.Size() != 1 {
			t.Errorf("%s ran more than once", f.Name())
		}
	}
	if len(ran) != tasks || len(found) != tasks {
		t.Errorf("%d runs of %d tasks, not of %d", len(found), len(ran), tasks)
	}
}

// syncTime is how long a small file takes to reach the disk.
func syncTime(t *testing.T, dir string) time.Duration {
	t.Helper()
	f, err := os.CreateTemp(dir, "sync-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	const times = 50
	begun := time.Now()
	for range times {
		if _, err := f.WriteString("a line\n"); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(begun) / times
}
