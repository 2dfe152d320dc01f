package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/control/board"
	"gleaner/web"
)

// Two runs of each example at once are both right.
func TestExamplesTwiceAtOnce(t *testing.T) {
	t.Parallel()
	u := startUp(t, t.TempDir())
	examples := []struct{ name, result string }{{"primes", "sum"}, {"wordcount", "merge"}, {"checksums", "list"}}
	for range 2 {
		for _, e := range examples {
			u.gleaner("run", "../../examples/"+e.name+".yaml")
		}
	}
	results := map[string][]string{}
	for id := 1; id <= 2*len(examples); id++ {
		j := u.await(fmt.Sprint(id))
		if j.State != board.Finished {
			t.Errorf("%s %s: %s", j.Name, j.State, j.Reason)
		}
		for _, e := range examples {
			if e.name == j.Name {
				results[j.Name] = append(results[j.Name], string(u.gleaner("logs", fmt.Sprintf("%d/%s-0", id, e.result))))
			}
		}
	}
	for name, got := range results {
		if got[0] != got[1] || got[0] == "" {
			t.Errorf("%s: %.200q and %.200q", name, got[0], got[1])
		}
	}
	if got := results["primes"][0]; got != "33860\n" {
		t.Errorf("there are 33860 primes below 400,000, not %s", got)
	}
	words := 0
	for line := range strings.Lines(results["wordcount"][0]) {
		var n int
		_, _ = fmt.Sscan(line, &n)
		words += n
	}
	if words != 200_000 {
		t.Errorf("%d words of 200,000", words)
	}
	if !strings.Contains(results["checksums"][0], "  ./exec_linux_test.go\n") {
		t.Errorf("checksums: %.200q", results["checksums"][0])
	}
	if left, _ := filepath.Glob(filepath.Join(u.dir, "local", "jobs", "*", "shared")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// A gleaner that has too few files for all tasks at once runs them one after the
// other: none of their retries is used up, and it reports what they wait for.
func TestTooFewFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	u := startUpIn(t, dir, "ulimit -n 64")
	file := filepath.Join(t.TempDir(), "many.yaml")
	writeText(t, file, "name: many\nstages: [{name: s, tasks: 120, cpu: 0.01, memory: 32MiB, retries: 0, command: [sleep, '1']}]\n")
	u.gleaner("run", file)
	if j := u.await("many"); j.State != board.Finished || j.Stages[0].Failures != 0 {
		t.Errorf("%s: %s", j.State, j.Reason)
	}
	if u.gone() {
		t.Fatal("gleaner has ended")
	}
	log := readText(t, filepath.Join(dir, "log"))
	if n := strings.Count(log, `waits="the start of tasks"`); n == 0 || n > 3 {
		t.Errorf("it was said %d times that tasks cannot be started", n)
	}
	if n := len(u.status().Short); n > 0 {
		t.Errorf("all has ended and %d parts wait: %+v", n, u.status().Short)
	}
}

// A nearly full disk is reported, with what is free, before anything fails.
func TestNearlyFullDiskIsReported(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a disk that is full")
	}
	dir := t.TempDir()
	if err := unix.Mount("gleaner-test", dir, "tmpfs", 0, "size=64m,mode=700"); err != nil {
		t.Skipf("no disk can be made here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	u := startUp(t, dir)
	if text := string(u.gleaner("status")); strings.Contains(text, "nearly full") {
		t.Fatal(text)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	writeText(t, ballast, strings.Repeat("x", int(disk.Bavail)*int(disk.Bsize)-2<<20))
	if !u.soon(time.Minute, func(s web.Status) bool { return len(s.Short) > 0 }) {
		t.Fatalf("%+v", u.status())
	}
	told := regexp.MustCompile(`the output of tasks in \S+ waits: the disk is nearly full: of 64 MiB [12](\.\d)? MiB are free, less than the 3\.2 MiB to be left`)
	if text := string(u.gleaner("status")); !told.MatchString(text) {
		t.Error(text)
	}
	if log := readText(t, filepath.Join(dir, "log")); !strings.Contains(log, "the disk is nearly full: of 64 MiB ") {
		t.Error(log)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if !u.soon(time.Minute, func(s web.Status) bool { return len(s.Short) == 0 }) {
		t.Errorf("%+v", u.status())
	}
}

// On a full disk tasks wait, and go on when there is room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a disk that is full")
	}
	dir := t.TempDir()
	if err := unix.Mount("gleaner-test", dir, "tmpfs", 0, "size=64m,mode=700"); err != nil {
		t.Skipf("no disk can be made here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	u := startUp(t, dir)
	file := filepath.Join(t.TempDir(), "two.yaml")
	writeText(t, file, `name: two
stages:
  - {name: first, tasks: 3, cpu: 0.1, memory: 32MiB, retries: 0, command: [sh, -c, 'while test ! -e $GLEANER_RUN_DIR/../../../../go; do sleep 0.1; done; echo done']}
  - {name: then, after: [first], tasks: 3, cpu: 0.1, memory: 32MiB, retries: 0, command: [sh, -c, 'echo done']}
`)
	u.gleaner("run", file)
	if !u.soon(time.Minute, func(s web.Status) bool { return s.Running == 3 }) {
		t.Fatalf("%+v", u.status())
	}
	writeText(t, filepath.Join(dir, "go"), "")
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer ballast.Close()
	for zeros := bytes.Repeat([]byte{0}, 1<<12); err == nil; {
		_, err = ballast.Write(zeros)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	if !u.soon(time.Minute, func(s web.Status) bool { return len(s.Short) > 0 }) {
		t.Errorf("nobody says that the disk is full: %+v", u.status())
	}
	time.Sleep(3 * time.Second)
	if u.gone() {
		t.Fatal("gleaner has ended")
	}
	if err := ballast.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if j := u.await("two"); j.State != board.Finished || j.Stages[0].Failures+j.Stages[1].Failures != 0 {
		t.Errorf("%s: %s", j.State, j.Reason)
	}
	for _, task := range []string{"first-2", "then-2"} {
		if out := string(u.gleaner("logs", "two/"+task)); out != "done\n" {
			t.Errorf("%s wrote %q", task, out)
		}
	}
}

// Retries are delayed, and what a task waits for is shown.
func TestTriesAreApart(t *testing.T) {
	t.Parallel()
	u := startUp(t, t.TempDir())
	file := filepath.Join(t.TempDir(), "bad.yaml")
	writeText(t, file, "name: bad\nstages: [{name: s, cpu: 0.1, memory: 32MiB, retries: 3, command: [sh, -c, 'exit 3']}]\n")
	u.gleaner("run", file)
	told, listed := false, false // in the text and in JSON; on a busy machine, either command takes as long as the first delay
	for deadline := time.Now().Add(time.Minute); !(told && listed) && time.Now().Before(deadline); {
		text := string(u.gleaner("jobs", "bad"))
		told = told || strings.Contains(text, "run again") && strings.Contains(text, "exit code 3")
		listed = listed || strings.Contains(string(u.gleaner("jobs", "bad", "--json")), `"delayed"`)
	}
	j := u.await("bad")
	if !told || !listed || j.State != board.Failed || j.Stages[0].Failures != 4 || len(j.Delayed) > 0 {
		t.Errorf("the delay was told: %v, listed: %v; %+v", told, listed, j)
	}
	if took := j.Ended.Sub(j.Started); took < 7*time.Second {
		t.Errorf("four tries in %v", took)
	}
}
