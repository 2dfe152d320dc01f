package prometheus

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/history"
	"gleaner/input"
)

// The recording: two days of two servers every 15 s, more points than
// Prometheus gives in one answer. b has no samples for six hours.
const (
	start  = 1_375_315_200 // 2013-08-01T00:00:00Z
	every  = 15
	rounds = 2 * 24 * 3600 / every
	gone   = rounds / 2
	back   = gone + 6*3600/every
)

func percentOf(server string, round int) float64 {
	return float64((round*7+len(server)*13+int(server[0]))%1000) / 10
}

func silent(server string, round int) bool { return server == "b" && round >= gone && round < back }

func record() []byte {
	var out bytes.Buffer
	for _, metric := range []string{"cpu_percent", "mem_ratio"} {
		fmt.Fprintf(&out, "# TYPE %s gauge\n", metric)
		for _, server := range []string{"a", "b"} {
			for round := range rounds {
				value := percentOf(server, round)
				if metric == "mem_ratio" {
					value = 0.25
				}
				if silent(server, round) {
					continue
				}
				fmt.Fprintf(&out, "%s{host=%q,core=\"0\"} %v %d\n", metric, server, value, start+every*round)
			}
		}
	}
	fmt.Fprintf(&out, "# TYPE twin gauge\ntwin{host=\"a\",core=\"0\"} 1 %d\ntwin{host=\"a\",core=\"1\"} 1 %d\n# EOF\n", start, start)
	return out.Bytes()
}

// serve starts a real Prometheus on the recording.
func serve(t *testing.T) string {
	for _, name := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed (Debian: apt-get install prometheus)", name)
		}
	}
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	data := filepath.Join(dir, "data")
	load := exec.Command("promtool", "tsdb", "create-blocks-from", "openmetrics", write("recording", record()), data)
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("promtool: %v\n%s", err, out)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	var log bytes.Buffer
	server := exec.Command("prometheus", "--config.file="+write("config.yml", nil), "--storage.tsdb.path="+data,
		"--web.listen-address="+address, "--storage.tsdb.retention.time=100y")
	server.Stderr = &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
		if t.Failed() {
			t.Logf("prometheus said:\n%s", log.String())
		}
	})
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if answer, err := http.Get("http://" + address + "/-/ready"); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return "http://" + address
			}
		}
	}
	t.Fatal("prometheus did not get ready in a minute")
	return ""
}

func TestRead(t *testing.T) {
	url := serve(t)
	ask := Query{URL: url, CPU: "cpu_percent", Label: "host", Percent: true, From: time.Unix(start, 0),
		To: time.Unix(start+every*(rounds-1), 0), Step: every * time.Second}
	t.Run("all of it", func(t *testing.T) { readAll(t, ask) })
	t.Run("memory", func(t *testing.T) { readMemory(t, ask) })
	t.Run("mistakes", func(t *testing.T) { readMistakes(t, ask) })
}

func read(q Query) ([]history.Sample, history.ReadStats, error) {
	var all []history.Sample
	stats, err := Read(context.Background(), q, func(time.Duration) {}, func(s history.Sample) error {
		all = append(all, s)
		return nil
	})
	return all, stats, err
}

// readAll expects every recorded sample once. Prometheus repeats the last value
// before a gap for five minutes.
func readAll(t *testing.T, q Query) {
	all, stats, err := read(q)
	if err != nil {
		t.Fatal(err)
	}
	got := map[cluster.ServerID]map[int]bool{"a": {}, "b": {}}
	for _, s := range all {
		round := int(s.Milli/1000-start) / every
		if got[s.Server][round] {
			t.Fatalf("%s twice at round %d", s.Server, round)
		}
		got[s.Server][round] = true
		if silent(string(s.Server), round) {
			if round > gone+300/every {
				t.Fatalf("%s has a value at round %d, long after it fell silent", s.Server, round)
			}
			continue
		}
		if want := percentOf(string(s.Server), round) / 100; math.Abs(float64(s.CPU)-want) > 1e-7 || s.Mem == s.Mem {
			t.Fatalf("%s at round %d: cpu %v mem %v, want %v and none", s.Server, round, s.CPU, s.Mem, want)
		}
	}
	if len(got["a"]) != rounds || len(got["b"]) < rounds-(back-gone) || stats.Rows != int64(len(all)) {
		t.Errorf("%d and %d samples, %d counted", len(got["a"]), len(got["b"]), stats.Rows)
	}
}

func readMemory(t *testing.T, q Query) {
	q.CPU, q.Percent, q.Mem, q.To = "cpu_percent / 100", false, "mem_ratio", q.From.Add(time.Hour)
	all, _, err := read(q)
	if err != nil || len(all) != 2*(3600/every+1) {
		t.Fatalf("%d samples, %v", len(all), err)
	}
	for _, s := range all {
		if s.Mem != 0.25 {
			t.Fatalf("memory %v", s.Mem)
		}
	}
}

func readMistakes(t *testing.T, q Query) {
	for _, tc := range []struct {
		name, want string
		edit       func(*Query)
	}{
		{"percent taken for shares", "is not a share from 0 to 1", func(q *Query) { q.Percent = false }},
		{"no such label", `no label "server"`, func(q *Query) { q.Label = "server" }},
		{"not PromQL", "is refused", func(q *Query) { q.CPU = "cpu_percent{" }},
		{"two series a server", "aggregate it by (host)", func(q *Query) { q.CPU = "twin" }},
		{"no series", "gave no samples", func(q *Query) { q.CPU = "nothing" }},
		{"NaN", "cpu NaN of server", func(q *Query) { q.CPU = "cpu_percent * NaN" }},
		{"backwards", "is empty", func(q *Query) { q.To = q.From.Add(-1) }},
		{"not a URL", "not the address", func(q *Query) { q.URL = "http://[::1" }},
	} {
		one := q
		one.To = one.From.Add(time.Minute)
		tc.edit(&one)
		_, _, err := read(one)
		if err == nil || !input.Is(err) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}

	q.To = q.From.Add(time.Minute)
	q.CPU = `(cpu_percent < 12) + 0 or cpu_percent * NaN`
	q.SkipBad = true
	if _, stats, err := read(q); err != nil || stats.Skipped == 0 || stats.Rows == 0 || stats.FirstBad == nil {
		t.Errorf("with SkipBad: %+v, %v", stats, err)
	}

	q.URL = "http://127.0.0.1:1"
	if _, _, err := read(q); err == nil || input.Is(err) {
		t.Errorf("a server that does not answer is no mistake of the input: %v", err)
	}
}
