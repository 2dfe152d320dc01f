package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gleaner/fabric/nbd/nbdtest"
	"gleaner/fabric/registry"
)

// TestOneOfThree: fio loads a vDisk on three data servers, all of them processes. One of them is denied to it by its primary, is given back, is
// stopped and is continued, each in the midst of a job. No request may fail. How much longer than before the slowest hundredth of the requests took, and
// the longest of all, is printed: a test cannot know how fast a machine is.
//
//	GLEANER_LONG=1 go test -v -run OneOfThree ./cmd/gleaner
func TestOneOfThree(t *testing.T) {
	if os.Getenv("GLEANER_LONG") == "" {
		t.Skip("takes three minutes: GLEANER_LONG=1")
	}
	nbdtest.Need(t, "fio", "nbdcopy")
	group := primaryGroup(t)
	data := startServers(t, 3, "--busy-above", "0.5", "--primary", group)
	uri, _ := exportDisk(t, data, "v", 1<<30)
	image := filepath.Join(t.TempDir(), "image")
	nbdtest.Fill(t, image, 1<<30, false)
	nbdtest.RunTool(t, "nbdcopy", "--flush", image, uri)
	one := serverProcesses(t, data)["s1"]
	calm := func() {}
	phases := []struct {
		name  string
		event func()
	}{
		{"undisturbed", func() {}},
		{"busy", func() { calm = needALittle(t, group) }},
		{"calm again", func() { calm() }},
		{"stopped", func() { _ = one.Signal(syscall.SIGSTOP) }},
		{"continued", func() { _ = one.Signal(syscall.SIGCONT) }},
	}
	t.Cleanup(func() { _ = one.Signal(syscall.SIGCONT) })
	for _, load := range []string{"--rw=randread", "--rw=randwrite", "--rw=randrw"} {
		for _, depth := range []int{1, 16} {
			awaitTrue(t, "all replicas are there", func() bool { return wholeDisk(t, data, "v") })
			var usual delays
			for i, p := range phases {
				event := time.AfterFunc(time.Second, p.event)
				d := fioDelays(t, uri, load, fmt.Sprintf("--iodepth=%d", depth))
				event.Stop()
				if i == 0 {
					usual = d
				}
				t.Logf("%-14s q%-2d %-12s p99 %8v (%5.2fx)  longest %8v  %6.0f a second (%.2fx)", load, depth, p.name, d.p99.Round(time.Microsecond), float64(d.p99)/float64(usual.p99),
					d.longest.Round(time.Microsecond), d.rate, d.rate/usual.rate)
			}
		}
	}
}

// delays is how long requests took.
type delays struct {
	p99, longest time.Duration
	rate         float64 // requests a second
}

// fioDelays runs a job of five seconds.
func fioDelays(t *testing.T, uri string, args ...string) delays {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	nbdtest.RunTool(t, "fio", append([]string{"--name=load", "--ioengine=nbd", "--uri=" + uri, "--thread", "--bs=4k", "--size=1g", "--time_based", "--runtime=5",
		"--unified_rw_reporting=1", "--output-format=json", "--output=" + out}, args...)...)
	var report struct {
		Jobs []struct {
			Error int
			Mixed struct {
				IOPS float64
				Clat struct {
					Max        float64
					Percentile map[string]float64
				} `json:"clat_ns"`
			}
		}
	}
	text := readText(t, out)
	if err := json.Unmarshal([]byte(text[max(0, strings.IndexByte(text, '{')):]), &report); err != nil {
		t.Fatal(err)
	}
	job := report.Jobs[0]
	if job.Error != 0 || job.Mixed.IOPS == 0 {
		t.Fatalf("fio %v: %s", args, text)
	}
	return delays{time.Duration(job.Mixed.Clat.Percentile["99.000000"]), time.Duration(job.Mixed.Clat.Max), job.Mixed.IOPS}
}

// startServers starts data servers s1, s2 and so on, with flags for the first, and gives their data directory.
func startServers(t testing.TB, n int, first ...string) string {
	t.Helper()
	data, err := os.MkdirTemp("", "servers") // short, for the sockets in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(data) })
	for i := range n {
		name := fmt.Sprint("s", i+1)
		startNodeOf(t, data, name, filepath.Join(data, name+".sock"), "4GiB", first...)
		first = nil
	}
	awaitTrue(t, "the data servers are up", func() bool { return len(serverProcesses(t, data)) == n })
	return data
}

// exportDisk makes a vDisk and serves it, by a process of its own.
func exportDisk(t testing.TB, data, name string, size int64) (uri string, front *os.Process) {
	t.Helper()
	nbdtest.RunTool(t, "gleaner", "disk", "create", name, fmt.Sprintf("%dMiB", size>>20), "--data", data)
	cmd := exec.Command("gleaner", "disk", "export", name, "--data", data)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := fmt.Fscanln(out, &uri); err != nil {
		t.Fatal(err)
	}
	return uri, cmd.Process
}

// serverProcesses are the data servers of a data directory, by name.
func serverProcesses(t testing.TB, data string) map[string]*os.Process {
	t.Helper()
	where, err := registry.Open(data)
	if err != nil {
		t.Fatal(err)
	}
	servers, err := where.Servers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*os.Process{}
	for _, s := range servers {
		all[s.Name], _ = os.FindProcess(s.PID) // never fails on Unix
	}
	return all
}

// wholeDisk reports whether no group of a vDisk lacks a replica.
func wholeDisk(t testing.TB, data, name string) bool {
	t.Helper()
	var stat struct {
		States map[string]int
	}
	if err := json.Unmarshal([]byte(nbdtest.RunTool(t, "gleaner", "disk", "stat", name, "--json", "--data", data)), &stat); err != nil {
		t.Fatal(err)
	}
	return len(stat.States) == 1 && stat.States["whole"] > 0
}

// needALittle runs a primary that uses a few percent of one core: the rest is for what is measured.
func needALittle(t testing.TB, group string) (end func()) {
	return runIn(t, group, `while :; do i=0; while [ $i -lt 4000 ]; do i=$((i+1)); done; sleep 0.05; done`, 1)
}
