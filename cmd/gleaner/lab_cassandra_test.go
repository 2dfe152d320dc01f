package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gleaner/kv"
	"gleaner/kv/pebble"
)

// TestLabCassandra moves a store of GLEANER_RECORDS records (200,000) to a real Cassandra and back. Each copy is killed with SIGKILL
// again and again, and resumed; the cluster is stopped and started again between.
//
//	GLEANER_LONG=1 GLEANER_RECORDS=10000000 go test -v -timeout 3h -run LabCassandra ./cmd/gleaner
func TestLabCassandra(t *testing.T) {
	if os.Getenv("GLEANER_LONG") == "" {
		t.Skip("set GLEANER_LONG=1 to fetch Cassandra's jars and start it; it takes minutes")
	}
	if _, err := exec.LookPath("java"); err != nil {
		t.Skip(err)
	}
	t.Parallel()
	records := 200_000
	if text := os.Getenv("GLEANER_RECORDS"); text != "" {
		var err error
		if records, err = strconv.Atoi(text); err != nil || records < 1 {
			t.Fatalf("GLEANER_RECORDS=%s is not a number of records", text)
		}
	}
	dir := t.TempDir()
	here, back := filepath.Join(dir, "here"), filepath.Join(dir, "back")
	fillStore(t, here, records)
	want := gleanerSays(t, "store", "stat", here)

	address, stop := startCassandra(t, filepath.Join(dir, "cassandra"))
	mistyped := strings.Replace(address, "/gleaner?", "/typo?", 1)
	if _, err := exec.Command("gleaner", "disk", "ls", "--store", mistyped, "--data", filepath.Join(dir, "none")).Output(); err == nil {
		t.Errorf("disks were listed in a keyspace that is not there")
	} else if said := string(err.(*exec.ExitError).Stderr); !strings.Contains(said, "there is no store in keyspace typo") {
		t.Errorf("a keyspace that is not there: %s", said)
	}
	copyKilled(t, here, address)
	if got := gleanerSays(t, "store", "stat", address); got != want {
		t.Errorf("Cassandra has\n%s, not\n%s", got, want)
	}
	stop()
	address, stop = startCassandra(t, filepath.Join(dir, "cassandra"))
	defer stop()
	copyKilled(t, address, back)
	if got := gleanerSays(t, "store", "stat", back); got != want {
		t.Errorf("back came\n%s, not\n%s", got, want)
	}
	t.Logf("\n%s", want)
}

// copyKilled copies a store. The copy is killed after a second and begun again, each time with twice as long to live; after a minute it is let run.
func copyKilled(t *testing.T, from, to string) {
	t.Helper()
	began, kills := time.Now(), 0
	for limit := time.Second; ; limit *= 2 {
		if limit > time.Minute {
			limit = time.Hour
		}
		last := time.Now()
		out, err := killedAfter(limit, "store", "copy", from, to, "--json")
		var exit *exec.ExitError
		switch {
		case err == nil:
			var result struct {
				Copied  int
				Resumed bool
			}
			if err := json.Unmarshal(out, &result); err != nil || result.Resumed != (kills > 0) {
				t.Errorf("killed %d times, then: %s", kills, out)
			}
			t.Logf("copied in %.0f s, killed %d times; the last copied %d records and compared all in %.0f s",
				time.Since(began).Seconds(), kills, result.Copied, time.Since(last).Seconds())
			return
		case errors.As(err, &exit) && exit.ExitCode() == exitBadInput && kills > 0: // it was complete when it was killed: the target is not empty
			return
		case !errors.As(err, &exit) || exit.ExitCode() != -1:
			t.Fatalf("killed %d times, then: %v", kills, err)
		}
		kills++
	}
}

// fillStore makes a data directory whose store has that many records in three tables: parts of fifty rows, of two kinds, and parts of one.
func fillStore(t *testing.T, dir string, records int) {
	s, err := pebble.Open(kvDir(dir), pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	blocks, err := s.Table(t.Context(), "blocks")
	if err != nil {
		t.Fatal(err)
	}
	samples, err := s.LooseTable(t.Context(), "samples")
	if err != nil {
		t.Fatal(err)
	}
	extents, err := s.Table(t.Context(), "extents")
	if err != nil {
		t.Fatal(err)
	}
	const rows, share = 50, 10_000 // a tenth of each share is extents
	for first := 0; first < records; first += share {
		some := make([]kv.Record, min(share, records-first))
		for i := range some {
			n := first + i
			some[i] = kv.Record{Key: kv.Key{Part: fmt.Append(nil, "part", n/rows), Row: fmt.Appendf(nil, "%08d", n)},
				Version: kv.Version{Writer: 1 << 63, Seq: uint64(n + 1)}, Value: fmt.Appendf(nil, "%0100d", n)}
		}
		alone := some[:len(some)/10]
		for i := range alone {
			alone[i].Key.Part = fmt.Append(nil, "extent", first+i)
		}
		half := len(alone) + (len(some)-len(alone))/2
		err := errors.Join(extents.Load(t.Context(), alone...), blocks.Load(t.Context(), some[len(alone):half]...), samples.Put(t.Context(), some[half:]...))
		if err != nil {
			t.Fatal(err)
		}
	}
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
