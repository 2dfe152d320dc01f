package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gleaner/control/board"
	"gleaner/web"
)

// TestLoadsAreLearnedAndKept runs a stage that computes and one that sleeps, for
// real. What was learned survives a crash, comes with the next job of that name, and
// predicts how much its tasks slow each other down.
func TestLoadsAreLearnedAndKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	u := startUp(t, dir)
	file := func(spin, rest string) string {
		name := filepath.Join(t.TempDir(), "work.yaml")
		stage := "  - {name: %s, tasks: 3, cpu: 0.2, memory: 32MiB, command: [sh, -c, '%s']}\n"
		writeText(t, name, "name: work\nstages:\n"+fmt.Sprintf(stage, "spin", spin)+fmt.Sprintf(stage, "rest", rest))
		return name
	}
	work := file("i=0; while [ $i -lt 900000 ]; do i=$((i+1)); done", "sleep 3") // on a busy machine, starting takes a while of either
	if j := u.await(u.submit(work)); j.Stages[0].Loading != nil {
		t.Errorf("loadings %v were known before anything ran", j.Stages[0].Loading)
	}
	u.learned(work)
	u.kill()

	u = startUp(t, dir)
	var j board.Job
	if err := json.Unmarshal(u.gleaner("jobs", u.submit(file("sleep 600", "sleep 600")), "--json"), &j); err != nil {
		t.Fatal(err)
	}
	spin, rest := j.Stages[0].Loading, j.Stages[1].Loading
	if len(spin) != 2 || len(rest) != 2 || spin[0] <= rest[0] {
		t.Fatalf("after a restart: one that computes loads %v, one that sleeps %v", spin, rest)
	}
	if !u.soon(time.Minute, func(s web.Status) bool { return s.Running == 6 && s.Dilation > 1 }) {
		t.Errorf("no slow-down is predicted: %+v", u.status())
	}
	if text := string(u.gleaner("jobs", j.ID.String())); !strings.Contains(text, "slowed down") || !strings.Contains(text, "x\n") {
		t.Errorf("the slow-down is not told:\n%s", text)
	}
}

// submit submits a job and returns its number.
func (u *up) submit(file string) string {
	u.t.Helper()
	var taken web.Accepted
	if err := json.Unmarshal(u.gleaner("run", file, "--json"), &taken); err != nil {
		u.t.Fatal(err)
	}
	return taken.ID.String()
}

// learned waits until a new job of that name comes with loadings.
func (u *up) learned(file string) {
	u.t.Helper()
	for range 100 {
		if j := u.await(u.submit(file)); j.Stages[0].Loading != nil && j.Stages[1].Loading != nil {
			return
		}
	}
	u.t.Fatal("nothing is learned")
}
