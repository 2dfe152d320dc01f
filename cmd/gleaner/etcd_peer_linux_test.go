package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gleaner/lab/engine"
)

const (
	clientsOfEtcd = 64
	putsOfEach    = 1000
)

// putters is a program of nodes that put one key after another, as fast as etcd answers.
const putters = `version: 1
scales: [3, 6]
types:
  - type: node
    nodes: "n"
    sender: node-{node}
    calls:
      - {call: put#1, target: etcd, method: etcdserverpb.KV/Put, args: {key: '{node:04}{i:04}', value: "01234567"}}
    steps:
      - {call: put#1, repeat: "%d"}
`

// BenchmarkBesideEtcd has players and etcd's own benchmark make as many puts with as many clients, each with its connection, on the same etcd,
// in turns.
//
//	GLEANER_LONG=1 go test -run '^$' -bench BesideEtcd -benchtime 5x ./cmd/gleaner
func BenchmarkBesideEtcd(b *testing.B) {
	if os.Getenv("GLEANER_LONG") == "" {
		b.Skip("builds etcd and its benchmark: GLEANER_LONG=1")
	}
	peer := buildEtcdBenchmark(b)
	address, descriptors, _ := startEtcd(b)
	file := filepath.Join(b.TempDir(), "program.yaml")
	writeText(b, file, fmt.Sprintf(putters, putsOfEach))
	const players, benchmark = 0, 1
	var rates, costs [2][]float64
	note := func(who int, rate float64, cmd *exec.Cmd) {
		rates[who] = append(rates[who], rate)
		costs[who] = append(costs[who], (cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()).Seconds()/(clientsOfEtcd*putsOfEach)*1e6)
	}
	for b.Loop() {
		cmd := exec.Command("gleaner", "trace", "replay", file, "--scale", strconv.Itoa(clientsOfEtcd), "--ramp", "0s", "--json", "--target", "grpc://"+address+"?descriptors="+descriptors)
		said, err := cmd.Output()
		var report struct {
			Runs []struct {
				Answered int
				Seconds  float64
			}
		}
		if err = cmp.Or(err, json.Unmarshal(said, &report)); err != nil || report.Runs[0].Answered != clientsOfEtcd*putsOfEach {
			b.Fatalf("%v: %s", err, said)
		}
		note(players, float64(report.Runs[0].Answered)/report.Runs[0].Seconds, cmd)
		cmd = exec.Command(peer, "put", "--endpoints", address, "--clients", strconv.Itoa(clientsOfEtcd), "--conns", strconv.Itoa(clientsOfEtcd),
			"--total", strconv.Itoa(clientsOfEtcd*putsOfEach), "--key-size", "8", "--val-size", "8", "--sequential-keys", "--key-space-size", "100000")
		said, err = cmd.Output()
		rate := perSecond.FindSubmatch(said)
		if err != nil || rate == nil {
			b.Fatalf("%v: %s", err, said)
		}
		number, err := strconv.ParseFloat(string(rate[1]), 64)
		if err != nil {
			b.Fatal(err)
		}
		note(benchmark, number, cmd)
	}
	b.ReportMetric(0, "ns/op") // of no meaning here
	b.ReportMetric(middle(rates[players]), "calls/s")
	b.ReportMetric(middle(rates[players])/middle(rates[benchmark]), "of-its-calls/s")
	b.ReportMetric(middle(costs[players]), "cpu-us/call")
	b.ReportMetric(middle(costs[players])/middle(costs[benchmark]), "of-its-cpu")
}

var perSecond = regexp.MustCompile(`Requests/sec:\s*([0-9.]+)`)

// buildEtcdBenchmark builds etcd's benchmark of the version that is played to. Its module replaces others, so it cannot be installed as it is.
func buildEtcdBenchmark(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	program := filepath.Join(dir, "benchmark")
	for _, args := range []string{"mod init peer", "get go.etcd.io/etcd/v3/tools/benchmark@v" + engine.EtcdVersion, "build -o " + program + " go.etcd.io/etcd/v3/tools/benchmark"} {
		cmd := exec.Command("go", strings.Fields(args)...)
		cmd.Dir = dir
		if said, err := cmd.CombinedOutput(); err != nil {
			b.Skipf("etcd's benchmark cannot be built: go %s: %v\n%s", args, err, said)
		}
	}
	return program
}
