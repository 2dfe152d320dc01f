package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/web"
)

// A job of a million tasks costs no more than the few that run: at once, after
// a crash, and after it was cancelled. One task more is refused.
func TestAMillionTasks(t *testing.T) {
	t.Parallel()
	const most = 32 << 20
	dir := t.TempDir()
	u := startUp(t, dir)
	u.gleaner("status")
	before := residentBytes(u.cmd.Process.Pid)
	wide := filepath.Join(t.TempDir(), "wide.yaml")
	writeText(t, wide, "name: wide\nstages:\n  - {name: wide, tasks: 1000000, cpu: 0.5, memory: 4MiB, command: [sleep, '1000']}\n")
	if at := time.Now(); u.gleaner("run", wide) != nil {
		t.Logf("submitted in %s", time.Since(at))
	}
	waits := func(s web.Status) bool { return s.Running > 0 && s.Running+s.Waiting == 1_000_000 }
	if !u.soon(time.Minute, waits) {
		t.Fatalf("%+v", u.status())
	}
	if cost := residentBytes(u.cmd.Process.Pid) - before; cost > most {
		t.Errorf("a million tasks cost %s", cluster.Bytes(cost).Text())
	}
	if answer := u.gleaner("jobs", "--json"); len(answer) > 10_000 {
		t.Errorf("the list of one job has %d bytes", len(answer))
	}
	u.kill()
	u = startUp(t, dir)
	if !u.soon(time.Minute, waits) {
		t.Fatalf("after a crash: %+v", u.status())
	}
	if cost := residentBytes(u.cmd.Process.Pid) - before; cost > most {
		t.Errorf("after a crash a million tasks cost %s", cluster.Bytes(cost).Text())
	}
	u.gleaner("cancel", "wide")
	if j := u.await("wide"); j.State != board.Cancelled {
		t.Errorf("%+v", j)
	}
	if cost := residentBytes(u.cmd.Process.Pid) - before; cost > most {
		t.Errorf("cancelled, a million tasks cost %s", cluster.Bytes(cost).Text())
	}

	var file strings.Builder
	file.WriteString("name: wider\nstages:\n")
	for i := range 1000 {
		fmt.Fprintf(&file, "  - {name: s%d, tasks: 100000, cpu: 0.5, memory: 4MiB, command: [sleep, '9']}\n", i)
	}
	wider := filepath.Join(t.TempDir(), "wider.yaml")
	writeText(t, wider, file.String())
	out, err := exec.Command("gleaner", "run", wider, "--data", dir).CombinedOutput()
	if want := "gleaner: " + wider + ":13: tasks: with these 100000 the job has 1100000, more than 1000000\n"; err == nil || string(out) != want {
		t.Errorf("100 million tasks: %v: %s", err, out)
	}
	var jobs []board.Job
	if err := json.Unmarshal(u.gleaner("jobs", "--json"), &jobs); err != nil || len(jobs) != 1 {
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
}
