package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gleaner/lab/engine"
	"gleaner/trace/replay/judge"
)

// leaseholders is a program of nodes that live by a lease of two seconds.
const leaseholders = `version: 1
scales: [3, 6]
types:
  - type: node
    nodes: "n"
    sender: node-{node}
    calls:
      - {call: grant#1, target: etcd, method: etcdserverpb.Lease/LeaseGrant, args: {TTL: '=2'}}
      - {call: keep#1, target: etcd, method: etcdserverpb.Lease/LeaseKeepAlive, args: {ID: '={reply "grant#1" "ID"}'}}
      - {call: put#1, target: etcd, method: etcdserverpb.KV/Put, wait: 100, args: {key: '/nodes/{node}', value: up, lease: LEASE}}
    steps:
      - call: grant#1
      - {call: put#1, repeat: "60"}
    beats:
      - {call: keep#1, every: 500}
`

// TestVerdictsOnEtcd provokes each verdict on purpose, with real processes. Players that
// are stopped and an etcd that is slowed down lose their leases, so that puts are refused:
// that is not the program's fault.
func TestVerdictsOnEtcd(t *testing.T) {
	if os.Getenv("GLEANER_LONG") == "" {
		t.Skip("set GLEANER_LONG=1 to play to a real etcd; it takes a minute, and wants an idle machine")
	}
	const granted = `'={reply "grant#1" "ID"}'`
	for _, tc := range []struct {
		name, lease string
		disturb     func(t *testing.T, players, etcd *os.Process)
		want        judge.Verdict
		evidence    string // in the report
	}{
		{"healthy", granted, nil, judge.Held, ""},
		{"a word for a number", "'={\"never\"}'", nil, judge.Broken, "could not be sent"},
		{"a lease that nobody granted", "'=12345'", nil, judge.Broken, "requested lease not found"},
		{"players stopped", granted, func(t *testing.T, players, _ *os.Process) { pulse(t, players, 4*time.Second, time.Minute) }, judge.Late, "ms late"},
		{"etcd slowed down", granted, func(t *testing.T, _, etcd *os.Process) { pulse(t, etcd, 1500*time.Millisecond, 500*time.Millisecond) }, judge.GaveIn, ""},
		{"a busy machine", granted, func(t *testing.T, _, _ *os.Process) { crowdCPU(t) }, judge.Full, "and others"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for try := 1; ; try++ {
				run, said, code := playTo(t, strings.Replace(leaseholders, "LEASE", tc.lease, 1), tc.want, tc.disturb)
				t.Logf("%s: %s (%s)", run.Verdict, run.Why, run.CPU)
				if run.Verdict == tc.want && strings.Contains(said, tc.evidence) && (code == 1) == (tc.want == judge.Broken) {
					return
				}
				// Players that others keep from a core are late, whatever the target does: that says nothing here.
				if noisy := tc.want != judge.Full && run.CPU.Others > run.CPU.Cores/4; !noisy {
					t.Fatalf("exit code %d; want %s, with %q in\n%s", code, tc.want, tc.evidence, said)
				}
				if try == 3 {
					t.Skip("others use this machine")
				}
			}
		})
	}
}

// A verdictOf is what the report of a replay says of one run.
type verdictOf struct {
	Verdict judge.Verdict
	Why     string `json:"verdict_why"`
	CPU     judge.CPU
}

// playTo plays a program to an etcd of its own while something disturbs them, and returns the report.
func playTo(t *testing.T, program string, want judge.Verdict, disturb func(t *testing.T, players, etcd *os.Process)) (verdictOf, string, int) {
	t.Helper()
	address, descriptors, etcd := startEtcd(t)
	file := filepath.Join(t.TempDir(), "program.yaml")
	writeText(t, file, program)
	players := exec.Command("gleaner", "trace", "replay", file, "--scale", "40", "--json", "--target", "grpc://"+address+"?descriptors="+descriptors+"&sender=node-name")
	var said, complaint strings.Builder
	players.Stdout, players.Stderr = &said, &complaint
	if err := players.Start(); err != nil {
		t.Fatal(err)
	}
	priority := -19 // what else runs here is not part of the test
	if want == judge.Full {
		priority = 10 // else so few calls would be made in time, whoever else computes
	}
	prioritise(etcd.Pid, priority)
	prioritise(players.Process.Pid, priority)
	if disturb != nil {
		time.Sleep(time.Second) // all have their leases
		disturb(t, players.Process, etcd)
	}
	_ = players.Wait() // the report says more
	var report struct{ Runs []verdictOf }
	if err := json.Unmarshal([]byte(said.String()), &report); err != nil {
		t.Fatal(err, complaint.String())
	}
	return report.Runs[0], said.String(), players.ProcessState.ExitCode()
}

func startEtcd(t testing.TB) (address, descriptors string, process *os.Process) {
	t.Helper()
	etcd, err := engine.BuildEtcd(t.Context(), func() {})
	if err != nil {
		t.Fatal(err)
	}
	set, err := etcd.Descriptors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	descriptors = filepath.Join(dir, "etcd.protoset")
	writeText(t, descriptors, string(set))
	if address, err = engine.FreeAddress(); err != nil {
		t.Fatal(err)
	}
	p, err := etcd.Start(t.Context(), address, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	if process, err = os.FindProcess(p.PID()); err != nil {
		t.Fatal(err)
	}
	return address, descriptors, process
}

// prioritise gives all threads of a process a priority; only root may give them one over what else runs here. Threads that they start inherit it.
func prioritise(pid, priority int) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid)) // the pattern is good
	for _, file := range threads {
		if id, err := strconv.Atoi(filepath.Base(file)); err == nil {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, priority)
		}
	}
}

// pulse stops a process and lets it go on, again and again until the test ends.
func pulse(t *testing.T, p *os.Process, stopped, runs time.Duration) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = p.Signal(syscall.SIGSTOP) // it may have ended
			waitOr(ctx, stopped)
			_ = p.Signal(syscall.SIGCONT)
			waitOr(ctx, runs)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func waitOr(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// crowdCPU starts far more processes that count than there are cores.
func crowdCPU(t *testing.T) {
	for range 12 * runtime.NumCPU() {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
		})
	}
}
