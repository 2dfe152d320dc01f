package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gleaner/web"
)

// A client that follows a task's output gets each line once, however gleaner is
// restarted meanwhile.
func TestFollowSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	u := startUp(t, dir)
	file, end := filepath.Join(t.TempDir(), "count.yaml"), filepath.Join(t.TempDir(), "end")
	writeText(t, file, `name: count
stages:
  - name: count
    cpu: 0.1
    memory: 32MiB
    command: [sh, -c, 'i=0; until [ -e "`+end+`" ]; do i=$((i+1)); echo "run $GLEANER_ATTEMPT line $i"; sleep 0.05; done; echo over']
`)
	u.gleaner("run", file)
	if !u.soon(time.Minute, func(s web.Status) bool { return s.Running == 1 }) {
		t.Fatal("it does not run")
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	var log bytes.Buffer
	follow := exec.Command("gleaner", "logs", "count/count-0", "--follow", "--data", dir)
	follow.Stdout, follow.Stderr = out, &log
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	awaitTrue(t, "the task is followed", func() bool { return readText(t, out.Name()) != "" })
	for range 2 { // the task lives on
		time.Sleep(500 * time.Millisecond)
		u.kill()
		time.Sleep(500 * time.Millisecond)
		u = startUp(t, dir)
		u.gleaner("status")
	}
	time.Sleep(500 * time.Millisecond)
	u.stop() // the task is ended, and run again by the next gleaner
	u = startUp(t, dir)
	if !u.soon(time.Minute, func(s web.Status) bool { return s.Running == 1 }) {
		t.Fatal("it does not run again")
	}
	time.Sleep(500 * time.Millisecond)
	writeText(t, end, "")
	if err := follow.Wait(); err != nil {
		t.Fatalf("%v: %s", err, log.String())
	}
	want := string(u.gleaner("logs", "count/count-0#1")) + string(u.gleaner("logs", "count/count-0#2"))
	followed, err := os.ReadFile(out.Name())
	if err != nil || string(followed) != want || !strings.HasSuffix(want, "\nover\n") || strings.Count(want, "run 1 ") < 20 {
		t.Errorf("followed\n%s\nwritten\n%s", followed, want)
	}
	if log.String() != "job-1/count-0 is run again; this is run 2\n" {
		t.Errorf("%q", log.String())
	}
}
