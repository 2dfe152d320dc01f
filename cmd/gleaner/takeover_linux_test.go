package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gleaner/fabric/nbd/nbdtest"
)

// aStore gives the address of a store on a real Cassandra: the one that GLEANER_CASSANDRA names, in a keyspace of its own, or
// one that is started for the test.
func aStore(t *testing.T) string {
	t.Helper()
	if os.Getenv("GLEANER_LONG") == "" {
		t.Skip("set GLEANER_LONG=1 to fetch Cassandra's jars and start it; it takes minutes")
	}
	if running := os.Getenv("GLEANER_CASSANDRA"); running != "" {
		before, after, _ := strings.Cut(strings.TrimPrefix(running, "cassandra://"), "/")
		_, settings, _ := strings.Cut(after, "?")
		return fmt.Sprintf("cassandra://%s/test%d?%s", before, time.Now().UnixNano(), settings)
	}
	if _, err := exec.LookPath("java"); err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("", "cassandra")
	if err != nil {
		t.Fatal(err)
	}
	address, stop := startCassandra(t, dir)
	t.Cleanup(func() {
		stop()
		os.RemoveAll(dir)
	})
	return address
}

// TestFrontKilled: three nodes with data directories of their own and one Cassandra are one fabric. fio writes to a vDisk through one of them, which is
// killed with SIGKILL, its disk with it; the client comes back to the next, and to the third when that is killed as well. fio sees no error, and reads
// back all it wrote. How long a write took at most is printed: that is how long the takeover takes. Then the third is killed while it scans for upkeep, and
// another scans in its place.
//
//	GLEANER_LONG=1 go test -v -run FrontKilled ./cmd/gleaner
func TestFrontKilled(t *testing.T) {
	t.Parallel() // it waits for leases
	store := aStore(t)
	nbdtest.Need(t, "fio", "nbdkit")
	dir, err := os.MkdirTemp("", "fronts") // short, for the sockets in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	const nodes = 3
	data, kill := make([]string, nodes), make([]func(), nodes)
	start := func(i int) {
		kill[i] = startNodeOf(t, data[i], "s"+fmt.Sprint(i+1), filepath.Join(data[i], "s.sock"), "1GiB", "--store", store)
	}
	for i := range nodes {
		data[i] = filepath.Join(dir, fmt.Sprint("n", i+1))
		start(i)
	}
	for i := range nodes {
		awaitSocket(t, nbdSocket(data[i]))
	}
	awaitTrue(t, "all data servers are heard", func() bool {
		return strings.Count(nbdtest.RunTool(t, "gleaner", "disk", "df", "--data", data[0]), " up ") == nodes
	})
	nbdtest.RunTool(t, "gleaner", "disk", "create", "db", "256MiB", "--data", data[0])

	// The client connects to whoever this leads to, again and again until one lets it.
	current := filepath.Join(dir, "current")
	turnTo := func(i int) {
		fresh := current + ".new"
		if err := os.Symlink(nbdSocket(data[i]), fresh); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(fresh, current); err != nil {
			t.Fatal(err)
		}
	}
	turnTo(0)
	client := filepath.Join(dir, "client")
	kit := exec.Command("nbdkit", "-f", "-U", client, "--filter=retry", "nbd", "uri=nbd+unix:///db?socket="+current, "retries=300", "retry-delay=1", "retry-exponential=no")
	kit.Stderr = os.Stderr
	if err := kit.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = kit.Process.Kill()
		_ = kit.Wait()
	})
	awaitSocket(t, client)
	time.AfterFunc(3*time.Second, func() { kill[0](); turnTo(1) })
	back := time.AfterFunc(14*time.Second, func() { start(0) })
	time.AfterFunc(24*time.Second, func() { kill[1](); turnTo(2) })
	longest, written := fioVerified(t, "nbd+unix:///?socket="+client, 38*time.Second)
	back.Stop()
	t.Logf("fio wrote %d blocks of 4 KiB and read them back; the front was killed twice; a write took %.1f s at most", written, longest.Seconds())
	if longest < time.Second {
		t.Error("no write had to wait: the front was not killed")
	}
	start(1)
	awaitTrue(t, "all replicas are made anew, and all are good", func() bool {
		return exec.Command("gleaner", "disk", "check", "--data", data[2]).Run() == nil
	})
	scan := exec.Command("gleaner", "curate", "scan", "--data", data[2])
	if err := scan.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	kill[2]() // while it scans, and is the curator's master
	_ = scan.Wait()
	if listed := nbdtest.RunTool(t, "gleaner", "disk", "ls", "--data", data[2]); !strings.Contains(listed, "db") {
		t.Errorf("beside a node that was killed, its directory's disks are\n%s", listed)
	}
	nbdtest.RunTool(t, "gleaner", "curate", "scan", "--data", data[0])
	nbdtest.RunTool(t, "gleaner", "curate", "pause", "a test", "--data", data[0])
	if status := nbdtest.RunTool(t, "gleaner", "curate", "status", "--data", data[1]); !strings.Contains(status, "a test") {
		t.Errorf("a pause at one front is not known at another: %s", status)
	}
}

// fioVerified writes at random for a time and reads back what it wrote. It gives how long a write took at most, and how many there were.
func fioVerified(t *testing.T, uri string, d time.Duration) (longest time.Duration, written int) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	nbdtest.RunTool(t, "fio", "--name=load", "--ioengine=nbd", "--uri="+uri, "--thread", "--bs=4k", "--size=256m", "--rw=randwrite", "--iodepth=4", "--time_based",
		fmt.Sprintf("--runtime=%d", int(d.Seconds())), "--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", "--output-format=json", "--output="+out)
	var report struct {
		Jobs []struct {
			Error int
			Write struct {
				Total int                   `json:"total_ios"`
				Clat  struct{ Max float64 } `json:"clat_ns"`
			}
		}
	}
	text := readText(t, out)
	if err := json.Unmarshal([]byte(text[max(0, strings.IndexByte(text, '{')):]), &report); err != nil || len(report.Jobs) != 1 || report.Jobs[0].Error != 0 {
		t.Fatalf("fio: %v: %s", err, text)
	}
	return time.Duration(report.Jobs[0].Write.Clat.Max), report.Jobs[0].Write.Total
}
