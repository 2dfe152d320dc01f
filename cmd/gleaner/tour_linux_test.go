package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gleaner/web"
)

// TestPageTour takes the pictures of docs/tour.md: of real jobs, a vDisk that fio writes to, a generated history of 500 servers, a plan, a
// replay to a real target and a result of the lab.
//
//	GLEANER_TOUR=docs/pictures go test -v -timeout 30m -run PageTour ./cmd/gleaner
func TestPageTour(t *testing.T) {
	pictures := os.Getenv("GLEANER_TOUR")
	if pictures == "" {
		t.Skip("set GLEANER_TOUR to the directory for the pictures of docs/tour.md; it takes minutes")
	}
	if !filepath.IsAbs(pictures) {
		pictures = filepath.Join("../..", pictures)
	}
	w := newWalker(t)
	if _, err := exec.LookPath("fio"); err != nil {
		t.Skip("fio is not installed")
	}
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // results of others are not shown
	w.history(dir, "500")
	mustRun(t, "gleaner", "reproduce", "scc", "fig15", "--quick", "--out", filepath.Join(dir, "lab"))
	u := startUp(t, dir, "--listen", "127.0.0.1:0", "--server", "web-01")
	u.gleaner("status") // it is up
	for _, args := range [][]string{{"create", "first", "1GiB"}, {"create", "scratch", "4GiB"}} {
		u.gleaner(append([]string{"disk"}, args...)...)
	}
	w.load(u, "256m")
	w.replay(dir)
	u.gleaner("run", "testdata/tour.yaml", "--wait")
	u.gleaner("disk", "snapshot", "first", "monday") // after some of it was written
	u.gleaner("disk", "clone", "monday", "copy")
	u.gleaner("run", "../../examples/wordcount.yaml", "--wait")
	u.gleaner("run", "../../examples/primes.yaml", "--wait")
	u.gleaner("run", "../../examples/primes.yaml") // runs while pictures are taken
	w.node("tour.mjs", u, pictures)
	w.node("tour.mjs", w.killed(), pictures, "killed")
}

// killed is a gleaner that ran a job whose tasks its guard killed: its primary burst to all cores meanwhile. It needs a machine that others
// leave some of.
func (w *walker) killed() *up {
	w.t.Helper()
	u := startUp(w.t, w.t.TempDir(), "--listen", "127.0.0.1:0", "--server", "web-02", "--policy", "primary", "--reserve-cpu", "0.2", "--reserve-memory", "0")
	u.gleaner("run", "testdata/tour-killed.yaml")
	if !u.soon(5*time.Minute, func(s web.Status) bool { return s.Running >= 4 }) {
		w.t.Fatalf("this machine is too busy to be harvested: its primary uses %s", u.status().Primary)
	}
	time.Sleep(7 * time.Second) // the short tasks have finished, the long ones have not
	burst := startBurst(w.t)
	if !u.soon(time.Minute, func(s web.Status) bool { return s.Running == 0 && s.Kills > 0 }) {
		w.t.Fatalf("all cores are busy and no task was killed: %+v", u.status())
	}
	time.Sleep(4 * time.Second) // so that the gap is seen
	burst()
	if j := u.await("thumbnails"); j.State != "finished" || j.Kills == 0 {
		w.t.Fatalf("the job is %s after %d kills", j.State, j.Kills)
	}
	return u
}

// replay plays an example to a real target, and keeps program and report where the page looks for them.
func (w *walker) replay(dir string) {
	w.t.Helper()
	at := freeAddress(w.t)
	target := exec.Command("gleaner", "lab", "echo", "--listen", at)
	if err := target.Start(); err != nil {
		w.t.Fatal(err)
	}
	defer target.Wait()
	defer target.Process.Signal(os.Interrupt)
	for range 600 {
		if c, err := net.Dial("tcp", at); err == nil {
			c.Close()
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	const program = "../../examples/replay/heartbeat.yaml"
	report := filepath.Join(w.modules, "report")
	mustRun(w.t, "gleaner", "trace", "replay", program, "--target", "lean://"+at, "--sweep", "50,200,800", "--for", "6s", "--out", report)
	traces := tracesBehind{filepath.Join(dir, "traces")}
	for _, file := range []string{program, filepath.Join(report, "report.json")} {
		if err := traces.Save("heartbeat", readText(w.t, file)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// The modules that the walk needs.
var walkModules = []string{"playwright-core@1.65.0", "axe-core@4.14.0"}

// A walker has what a real browser needs to look at a gleaner.
type walker struct {
	t        *testing.T
	chromium string
	modules  string // the directory with its modules, and for what is not kept
	wrong    []byte // what the browser said of a walk that failed
}

// newWalker installs the modules; without a browser the test is skipped.
func newWalker(t *testing.T) *walker {
	t.Helper()
	for _, tool := range []string{"node", "npm", "chromium"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	w := &walker{t: t, modules: t.TempDir()}
	t.Cleanup(func() { // last, below gleaner's log
		if t.Failed() {
			t.Logf("%s", w.wrong)
		}
	})
	w.chromium, _ = exec.LookPath("chromium")
	mustRun(t, "npm", append([]string{"install", "--no-audit", "--no-fund", "--prefix", w.modules}, walkModules...)...)
	return w
}

// history imports a month of a generated datacenter, with its reimages.
func (w *walker) history(dir, servers string) {
	w.t.Helper()
	made := filepath.Join(w.modules, "dc9")
	mustRun(w.t, "gleaner", "generate", "--datacenter", "DC-9", "--servers", servers, "--days", "28", "--out", made)
	mustRun(w.t, "gleaner", "history", "import", filepath.Join(made, "history.csv.gz"), "--servers", filepath.Join(made, "servers.csv"), "--data", dir)
	mustRun(w.t, "gleaner", "history", "import", "--reimages", filepath.Join(made, "reimages.csv"), "--servers", filepath.Join(made, "servers.csv"), "--data", dir)
}

// load reads and writes the vDisk "first" until the test ends.
func (w *walker) load(u *up, size string) {
	w.t.Helper()
	uri := strings.TrimSpace(string(u.gleaner("disk", "export", "first")))
	load := exec.Command("fio", "--name=load", "--ioengine=nbd", "--uri="+uri, "--thread", "--bs=4k", "--size="+size, "--rw=randrw", "--rate_iops=50", "--time_based", "--runtime=1h", "--output="+filepath.Join(w.modules, "fio"))
	if err := load.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = load.Process.Signal(os.Interrupt)
		_ = load.Wait()
	})
}

// node runs a script of web/walk on a gleaner that is up.
func (w *walker) node(script string, u *up, pictures string, args ...string) {
	w.t.Helper()
	walk := exec.Command("node", append([]string{"../../web/walk/" + script, w.modules, strings.TrimSpace(string(u.gleaner("status", "--link"))), pictures}, args...)...)
	walk.Env = append(os.Environ(), "CHROMIUM="+w.chromium)
	out, err := walk.CombinedOutput()
	if err != nil {
		w.wrong = out
		w.t.Error(err)
		return
	}
	w.t.Logf("%s", out)
}
