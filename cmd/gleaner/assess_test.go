package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"gleaner/cluster"
)

// same runs the commands that an assessment names, and compares what they print with
// its figures.
func same(ts *testscript.TestScript, _ bool, args []string) {
	var a struct {
		Predictable assessed
		Harvest     []assessed
		Storage     []assessed
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &a))
	if len(a.Harvest) < 10 {
		ts.Fatalf("only %d simulations", len(a.Harvest))
	}
	// One run of a policy and one of a load stand for the others, which are as long.
	for _, one := range append(append([]assessed{a.Predictable}, a.Harvest[0], a.Harvest[3], a.Harvest[len(a.Harvest)-1]), a.Storage...) {
		words := strings.Fields(one.Command)
		ts.Check(ts.Exec(words[0], append(words[1:], "--json")...))
		var printed map[string]any
		ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &printed))
		delete(printed, "wall_seconds")
		delete(one.Result, "wall_seconds")
		if !reflect.DeepEqual(printed, one.Result) {
			ts.Fatalf("%s\nprints %v\nand the assessment has %v", one.Command, printed, one.Result)
		}
	}
}

type assessed struct {
	Command string
	Result  map[string]any
}

// Two made-up servers in a real Prometheus, as node_exporter tells it: seconds of each
// of their one or two cores that were idle, and their memory. It is a month of them with
// GLEANER_LONG=1, and else eight days: to fill Prometheus takes longest.
func TestAssessPrometheus(t *testing.T) {
	address, until := monthInPrometheus(t)
	out := filepath.Join(t.TempDir(), "out")
	var printed, said bytes.Buffer
	code := run(t.Context(), []string{"assess", "--prometheus", address, "--to", fmt.Sprint(until), "--step", "30m", "--days", "2", "--out", out, "--json"}, nil, &printed, &said)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, said.String())
	}
	var a assessment
	if err := json.Unmarshal(printed.Bytes(), &a); err != nil {
		t.Fatal(err)
	}
	if a.Source.Servers != 2 || a.Source.Cores != 3 || a.Source.Assumed != 0 || a.Source.Prometheus != address {
		t.Errorf("%+v", a.Source)
	}
	for _, tenant := range a.Classes.Result.Tenants {
		want := map[cluster.TenantID]float64{"steady:9100": 0.25, "daily:9100": 0.40}[tenant.Tenant]
		if math.Abs(tenant.Mean-want) > 0.03 {
			t.Errorf("%s: mean %v, want %v", tenant.Tenant, tenant.Mean, want)
		}
		if tenant.Tenant == "daily:9100" && tenant.PeriodHours != 24 {
			t.Errorf("%s: a period of %v hours", tenant.Tenant, tenant.PeriodHours)
		}
	}
	for _, file := range []string{"history.csv.gz", "servers.csv", "assess.html", "assess.json"} {
		if _, err := os.Stat(filepath.Join(out, file)); err != nil {
			t.Error(err)
		}
	}
	// What was fetched is enough to print the same again.
	var again bytes.Buffer
	words := append(strings.Fields(a.Runs[0].Command)[1:], "--json")
	if code := run(t.Context(), words, nil, &again, &said); code != 0 {
		t.Fatalf("%v: exit code %d: %s", words, code, said.String())
	}
	var result computeOut
	if err := json.Unmarshal(again.Bytes(), &result); err != nil {
		t.Fatal(err)
	}
	if result.WallSeconds = a.Runs[0].Result.WallSeconds; result != a.Runs[0].Result {
		t.Errorf("%v\nprints %+v\nand not %+v", words, result, a.Runs[0].Result)
	}
}

func monthInPrometheus(t *testing.T) (address string, until int64) {
	for _, name := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed (Debian: apt-get install prometheus)", name)
		}
	}
	const start, every = 1_375_315_200, 120
	rounds := 8 * 24 * 30
	if os.Getenv("GLEANER_LONG") != "" {
		rounds = 30 * 24 * 30
	}
	until = start + every*int64(rounds-1)
	var text bytes.Buffer
	text.WriteString("# TYPE node_cpu_seconds counter\n")
	servers := []string{"steady:9100", "daily:9100"}
	for i, server := range servers {
		for core := range 1 + i {
			idle := 0.0
			for round := range rounds {
				fmt.Fprintf(&text, "node_cpu_seconds_total{instance=%q,cpu=\"%d\",mode=\"idle\"} %.1f %d\n", server, core, idle, start+every*round)
				use := 0.25
				if server == "daily:9100" {
					use = 0.40 + 0.2*math.Sin(2*math.Pi*float64(every*round)/86400)
				}
				idle += every * (1 - use)
			}
		}
	}
	text.WriteString("# TYPE node_memory_MemTotal_bytes gauge\n")
	for _, server := range servers {
		for round := rounds - 3; round < rounds; round++ {
			fmt.Fprintf(&text, "node_memory_MemTotal_bytes{instance=%q} 17179869184 %d\n", server, start+every*round)
		}
	}
	text.WriteString("# EOF\n")
	return servePrometheus(t, text.Bytes()), until
}

// servePrometheus starts a real Prometheus on a recording.
func servePrometheus(t *testing.T, recording []byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string][]byte{"recording": recording, "config.yml": nil} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "data")
	if out, err := exec.Command("promtool", "tsdb", "create-blocks-from", "openmetrics", filepath.Join(dir, "recording"), data).CombinedOutput(); err != nil {
		t.Fatalf("promtool: %v\n%s", err, out)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	server := exec.Command("prometheus", "--config.file="+filepath.Join(dir, "config.yml"), "--storage.tsdb.path="+data,
		"--web.listen-address="+address, "--storage.tsdb.retention.time=100y")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
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
