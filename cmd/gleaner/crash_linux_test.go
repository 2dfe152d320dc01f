package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gleaner/control/board"
)

// TestKilledAtRandom kills gleaner with signal 9 at random moments while it
// runs a graph of tasks, and starts it again. Tasks outlive it, so each has its
// effect exactly once, and none ever runs twice at the same time.
func TestKilledAtRandom(t *testing.T) {
	kills, width := 4, 10
	if os.Getenv("GLEANER_LONG") != "" {
		kills, width = 20, 50
	}
	for _, kind := range []string{"--no-cgroups=false", "--no-cgroups"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir, out := t.TempDir(), t.TempDir()
			u := startUp(t, dir, kind)
			u.gleaner("run", writeDiamond(t, out, width))
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			var killed []time.Time
			for range kills {
				time.Sleep(time.Duration(rng.Int64N(int64(1500 * time.Millisecond))))
				u.kill()
				killed = append(killed, time.Now())
				u = startUp(t, dir, kind)
			}
			j := u.await("diamond")
			if j.State != board.Finished {
				t.Errorf("%s: %s", j.State, j.Reason)
			}
			u.stop()
			checkEffects(t, out, 4*width)
			during := 0
			for _, at := range killed {
				if at.Before(j.Ended) {
					during++
				}
			}
			t.Logf("%d tasks, gleaner killed %d times while they ran: the job took %s", 4*width, during, j.Ended.Sub(j.Submitted).Round(time.Millisecond))
		})
	}
}

// writeDiamond writes a job of four stages. Each task marks that it runs, works a
// little, and writes one line to a file of its own.
func writeDiamond(t *testing.T, out string, width int) string {
	t.Helper()
	const task = `me="$GLEANER_STAGE-$GLEANER_TASK_INDEX"; mkdir "$OUT/runs-$me" || echo "$me" >> "$OUT/twice"; ` +
		`sleep $((GLEANER_TASK_INDEX % 3)).$((GLEANER_TASK_INDEX % 10)); rmdir "$OUT/runs-$me"; echo "$GLEANER_ATTEMPT" >> "$OUT/$me"`
	var yaml strings.Builder
	yaml.WriteString("name: diamond\nstages:\n")
	for _, s := range []struct{ name, after string }{{"top", ""}, {"left", "top"}, {"right", "top"}, {"bottom", "left, right"}} {
		command, _ := json.Marshal([]string{"sh", "-ceu", task})
		fmt.Fprintf(&yaml, "  - {name: %s, after: [%s], tasks: %d, cpu: 0.2, memory: 32MiB, env: {OUT: %q}, command: %s}\n", s.name, s.after, width, out, command)
	}
	file := filepath.Join(t.TempDir(), "diamond.yaml")
	writeText(t, file, yaml.String())
	return file
}

func writeText(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func checkEffects(t *testing.T, out string, tasks int) {
	t.Helper()
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, e := range entries {
		text, _ := os.ReadFile(filepath.Join(out, e.Name()))
		if e.Name() == "twice" {
			t.Errorf("ran twice at once: %s", text)
			continue
		}
		seen++
		if strings.Count(string(text), "\n") != 1 {
			t.Errorf("%s: effects of runs %q, want one", e.Name(), text)
		}
	}
	if seen != tasks {
		t.Errorf("%d tasks have had an effect, want %d", seen, tasks)
	}
}

// An up is a gleaner that is up, as a process of its own.
type up struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
}

// startUp starts a gleaner. Its policy is stock, so that tasks run however
// busy this machine is.
func startUp(t *testing.T, dir string, flags ...string) *up {
	t.Helper()
	return startUpIn(t, dir, "true", flags...)
}

// startUpIn starts a gleaner after a command of the shell has set its limits.
func startUpIn(t *testing.T, dir, limits string, flags ...string) *up {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	args := append([]string{"-c", limits + ` && exec gleaner "$@"`, "sh", "up", "--data", dir, "--listen", "none", "--policy", "stock"}, flags...)
	u := &up{t: t, dir: dir, cmd: exec.Command("sh", args...)}
	u.cmd.Stderr = log
	out, err := os.OpenFile(filepath.Join(dir, "out"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	u.cmd.Stdout = out
	if err := u.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		u.stop()
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("log:\n%s", text)
			_ = os.Remove(log.Name())
		}
	})
	return u
}

func (u *up) kill() {
	_ = u.cmd.Process.Kill()
	_ = u.cmd.Wait()
}

func (u *up) stop() {
	if u.cmd.ProcessState == nil {
		_ = u.cmd.Process.Signal(os.Interrupt)
		_ = u.cmd.Wait()
	}
}

// gleaner calls a command until it succeeds: gleaner may still be starting.
func (u *up) gleaner(args ...string) []byte {
	u.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		out, err := exec.Command("gleaner", append(args, "--data", u.dir)...).CombinedOutput()
		if err == nil {
			return out
		}
		if time.Now().After(deadline) {
			u.t.Fatalf("gleaner %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
}

// await waits until a job has ended.
func (u *up) await(name string) board.Job {
	u.t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var j board.Job
		if err := json.Unmarshal(u.gleaner("jobs", name, "--json"), &j); err != nil {
			u.t.Fatal(err)
		}
		if !j.Ended.IsZero() {
			return j
		}
		if time.Now().After(deadline) {
			u.t.Fatalf("%s has not ended: %+v", name, j)
		}
	}
}
