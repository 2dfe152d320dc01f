package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gleaner/kv"
	"gleaner/kv/pebble"
)

// TestLabCassandra moves a store to a real Cassandra and back: the copy there is
// killed with SIGKILL and resumed, and the cluster is stopped and started again between.
func TestLabCassandra(t *testing.T) {
	if os.Getenv("GLEANER_LONG") == "" {
		t.Skip("set GLEANER_LONG=1 to fetch Cassandra's jars and start it; it takes minutes")
	}
	if _, err := exec.LookPath("java"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	here, back := filepath.Join(dir, "here"), filepath.Join(dir, "back")
	records := fillStore(t, here)

	address, stop := startCassandra(t, filepath.Join(dir, "cassandra"))
	began := time.Now()
	const kills = 2
	for range kills {
		if _, err := killedAfter(1500*time.Millisecond, "store", "copy", here, address, "--json"); err == nil {
			break
		}
	}
	// One that was complete when it was killed is refused now. What is there decides.
	if out, err := killedAfter(5*time.Minute, "store", "copy", here, address, "--json"); err == nil {
		var result struct {
			Copied  int
			Resumed bool
		}
		if err := json.Unmarshal(out, &result); err != nil || !result.Resumed && result.Copied < records || result.Copied > records {
			t.Errorf("after %d kills: %s", kills, out)
		}
		t.Logf("%d records copied to Cassandra in %.1fs, killed %d times", records, time.Since(began).Seconds(), kills)
	}
	want := gleanerSays(t, "store", "stat", here)
	if got := gleanerSays(t, "store", "stat", address); got != want {
		t.Errorf("Cassandra has\n%s, not\n%s", got, want)
	}
	stop()
	address, stop = startCassandra(t, filepath.Join(dir, "cassandra"))
	defer stop()
	began = time.Now()
	gleanerSays(t, "store", "copy", address, back)
	t.Logf("copied back in %.1fs", time.Since(began).Seconds())
	if got := gleanerSays(t, "store", "stat", back); got != want {
		t.Errorf("back came\n%s, not\n%s", got, want)
	}
	gleanerSays(t, "store", "check", address)
}

// fillStore makes a data directory whose store has two tables, and tells how many records.
func fillStore(t *testing.T, dir string) int {
	const n = 200_000
	s, err := pebble.Open(kvDir(dir), pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	strict, err := s.Table(t.Context(), "blocks")
	if err != nil {
		t.Fatal(err)
	}
	loose, err := s.LooseTable(t.Context(), "samples")
	if err != nil {
		t.Fatal(err)
	}
	var some []kv.Record
	for i := range n {
		some = append(some, kv.Record{Key: kv.Key{Part: fmt.Append(nil, "part", i/50), Row: fmt.Appendf(nil, "%07d", i)},
			Version: kv.Version{Writer: 1 << 63, Seq: uint64(i + 1)}, Value: fmt.Appendf(nil, "%0100d", i)})
	}
	if err := strict.Load(t.Context(), some[:n/2]...); err != nil {
		t.Fatal(err)
	}
	if err := loose.Put(t.Context(), some[n/2:]...); err != nil {
		t.Fatal(err)
	}
	return n
}

// startCassandra starts one node, and gives the address of a store on it.
func startCassandra(t *testing.T, data string) (address string, stop func()) {
	t.Helper()
	listen := fmt.Sprintf("127.%d.%d.1:9042", 1+rand.IntN(250), rand.IntN(250))
	cmd := exec.Command("gleaner", "lab", "cassandra", "--data", data, "--nodes", "1", "--listen", listen)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() {
		cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("lab cassandra: %v", err)
		}
	}
	address, err = bufio.NewReader(out).ReadString('\n')
	if address = strings.TrimSpace(address); err != nil || !strings.HasPrefix(address, "cassandra://"+listen) {
		stop()
		t.Fatalf("lab cassandra printed %q, %v", address, err)
	}
	return address, stop
}

// killedAfter runs a command that is killed with SIGKILL if it takes longer.
func killedAfter(limit time.Duration, args ...string) ([]byte, error) {
	cmd := exec.Command("gleaner", args...)
	cmd.Stderr = os.Stderr
	timer := time.AfterFunc(limit, func() { cmd.Process.Signal(syscall.SIGKILL) })
	defer timer.Stop()
	return cmd.Output()
}

func gleanerSays(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("gleaner", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("gleaner %v: %v", args, err)
	}
	return string(out)
}
