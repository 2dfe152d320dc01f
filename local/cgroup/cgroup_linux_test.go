package cgroup

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/cgroups/v3/cgroup1"

	"gleaner/cluster"
)

func parent(t *testing.T) *Parent {
	t.Helper()
	p, err := Open(fmt.Sprintf("gleaner-test-%d", os.Getpid()))
	if err != nil {
		t.Skipf("no control groups here: %v", err)
	}
	t.Logf("control groups %s", p.Kind())
	relax := p.Hurry() // on a busy machine, processes of the lowest weight wait for minutes
	t.Cleanup(func() {
		relax()
		if err := p.Remove(); err != nil {
			t.Errorf("something is left: %v", err)
		}
	})
	return p
}

// begin runs a shell script in a group and waits for its first line.
func begin(t *testing.T, g Group, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = g.Enter(func(fd int) error {
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: fd >= 0, CgroupFD: fd}
		return cmd.Start()
	})
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd
}

// group makes a group for the test.
func group(t *testing.T, p *Parent, memory cluster.Bytes) Group {
	t.Helper()
	g, err := p.New(t.Name(), Limits{Request: cluster.Resources{CPU: cluster.Core, Memory: memory}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// With the versions that the kernel has, and with each alone.
func TestKillMissesNoProcess(t *testing.T) {
	p := parent(t)
	for name, only := range map[string]func(Group) Group{
		"as it is": func(g Group) Group { return g },
		"v1":       func(g Group) Group { return Group{V1: g.V1} },
		"v2":       func(g Group) Group { return Group{V2: g.V2} },
	} {
		t.Run(name, func(t *testing.T) {
			all, err := p.New(strings.ReplaceAll(name, " ", "-"), Limits{Request: cluster.Resources{CPU: cluster.Core, Memory: cluster.GB}})
			if err != nil {
				t.Fatal(err)
			}
			defer all.Remove()
			g := only(all)
			if len(g.dirs()) == 0 {
				t.Skip("the kernel does not have it")
			}
			// Children of all sorts, one of them in a session of its own.
			cmd := begin(t, g, `sleep 1000 & (setsid sleep 1000 &) ; (sh -c 'sleep 1000 & sleep 1000' &) ; sleep 0.1; echo up; wait`)
			killGroup(t, g, cmd)
		})
	}
}

func killGroup(t *testing.T, g Group, cmd *exec.Cmd) {
	t.Helper()
	pids, err := g.Processes()
	if err != nil || len(pids) < 4 {
		t.Fatalf("in the group: %v, %v", pids, err)
	}
	if slices.Contains(pids, os.Getpid()) {
		t.Fatal("the test itself is in the group")
	}
	if err := g.Kill(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for _, pid := range pids {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(stat), ") Z ") {
			t.Errorf("%d lives on: %s", pid, stat)
		}
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	if err := g.Kill(time.Second); err != nil {
		t.Errorf("killing nobody: %v", err)
	}
}

// Processes may make groups below their own, as container runtimes do for containers of a
// pod: the group above counts, limits and kills what is in them.
func TestGroupsBelowBelong(t *testing.T) {
	p := parent(t)
	g := group(t, p, cluster.GB)
	inner := Group{V1: map[cgroup1.Name]string{}}
	for name, dir := range g.V1 {
		inner.V1[name] = dir + "/inner"
	}
	if g.V2 != "" {
		inner.V2 = g.V2 + "/inner"
	}
	for _, dir := range inner.dirs() {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := begin(t, inner, `n=0; while [ $n -lt 20000 ]; do n=$((n+1)); done; sleep 1000 & echo up; wait`)
	if cpu, memory, err := g.Used(); err != nil || cpu <= 0 || memory <= 0 {
		t.Errorf("used: %v and %d bytes, %v", cpu, memory, err)
	}
	if err := g.LimitMemory(64 * cluster.MB); err != nil {
		t.Error(err)
	}
	if pids, err := g.Processes(); err != nil || len(pids) < 2 {
		t.Errorf("in the group and below: %v, %v", pids, err)
	}
	if err := g.Kill(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if pids, err := inner.Processes(); err != nil || len(pids) > 0 {
		t.Errorf("below the group live on: %v, %v", pids, err)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}

// At finds the groups that others made, by version, and says if there is none.
func TestAt(t *testing.T) {
	const path = "kubepods/besteffort/pod1"
	one, two := t.TempDir(), t.TempDir()
	for _, dir := range []string{one + "/cpu/" + path, one + "/memory/" + path, one + "/unified/" + path, two + "/" + path} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(two+"/cgroup.controllers", []byte("cpu memory\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if g, ok := At(one, path); !ok || len(g.V1) != 2 || g.V1[cgroup1.Cpu] != one+"/cpu/"+path || g.V2 != "" {
		t.Errorf("version 1: %+v, %v", g, ok)
	}
	if g, ok := At(two, path); !ok || g.V2 != two+"/"+path || len(g.V1) != 0 {
		t.Errorf("version 2: %+v, %v", g, ok)
	}
	for _, root := range []string{one, two, t.TempDir()} {
		if g, ok := At(root, path+"0"); ok {
			t.Errorf("found %+v", g)
		}
	}
}

func TestMemoryEndsAtTheRequest(t *testing.T) {
	p := parent(t)
	g := group(t, p, 32*cluster.MB)
	cmd := begin(t, g, `echo up; tail /dev/zero`)
	if err := cmd.Wait(); err == nil {
		t.Error("all of /dev/zero fits in 32 MB")
	}
	if err := g.Kill(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	if !g.OutOfMemory() {
		t.Error("OutOfMemory is false")
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}

func TestPageCacheIsNotUse(t *testing.T) {
	p := parent(t)
	file := t.TempDir() + "/file"
	g := group(t, p, 512*cluster.MB)
	cmd := begin(t, g, `head -c 67108864 /dev/zero > `+file+`; cat `+file+` > /dev/null; echo up; sleep 1000`)
	cpu, memory, err := p.Used()
	if err != nil {
		t.Fatal(err)
	}
	if cpu <= 0 || memory > 32<<20 {
		t.Errorf("used %v and %d bytes after reading a file of 64 MiB", cpu, memory)
	}
	if err := g.Kill(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	after, _, err := p.Used()
	if err != nil || after < cpu {
		t.Errorf("the CPU time of those who are gone is gone too: %v, before %v, %v", after, cpu, err)
	}
}

// A task cannot have more processes than its limit, if the kernel counts them.
func TestProcessesEndAtTheLimit(t *testing.T) {
	p := parent(t)
	g, err := p.New(t.Name(), Limits{Request: cluster.Resources{CPU: cluster.Core, Memory: cluster.GB}, Processes: 20})
	if err != nil {
		t.Fatal(err)
	}
	if g.V1[cgroup1.Pids] == "" && !p.v2 {
		t.Skip("the kernel does not count processes")
	}
	cmd := begin(t, g, `sh -c 'for i in $(seq 200); do sleep 1000 & done' > /dev/null 2>&1; echo up; sleep 1000`)
	pids, err := g.Processes()
	if err != nil || len(pids) < 10 || len(pids) > 20 {
		t.Errorf("%d processes of 200 live, want at most 20: %v", len(pids), err)
	}
	if err := g.Kill(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}

// Groups that an earlier process left are removed, also those that a task made below
// its own; groups with processes stay, and so do those to keep.
func TestSweep(t *testing.T) {
	p := parent(t)
	for _, name := range []string{"old", "busy", "kept"} {
		if _, err := p.New(name, Limits{Request: cluster.Resources{CPU: cluster.Core, Memory: cluster.GB}}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.child(name).Remove() })
	}
	for _, dir := range p.child("old").dirs() {
		if err := os.Mkdir(dir+"/own", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := begin(t, p.child("busy"), `echo up; sleep 1000`)
	if n := p.Sweep(func(name string) bool { return name == "kept" }); n != 1 {
		t.Errorf("%d groups removed, want one", n)
	}
	for name, stays := range map[string]bool{"old": false, "busy": true, "kept": true} {
		for _, dir := range p.child(name).dirs() {
			if _, err := os.Stat(dir); (err == nil) != stays {
				t.Errorf("%s: %v", dir, err)
			}
		}
	}
	if pids, _ := p.child("busy").Processes(); len(pids) == 0 {
		t.Error("the group of a living process is gone")
	}
	if err := p.child("busy").Kill(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
}

// Beside a primary that keeps all cores busy, three busy tasks get hardly any CPU, if
// the kernel isolates them.
func TestTheIdleClassIsolates(t *testing.T) {
	p, err := Open(fmt.Sprintf("gleaner-isolates-%d", os.Getpid()))
	if err != nil {
		t.Skipf("no control groups here: %v", err)
	}
	defer p.Remove()
	if !p.Isolates() {
		t.Skip("the kernel has no cpu.idle")
	}
	relax := p.Hurry()
	if p.Isolates() {
		t.Error("isolated after Hurry")
	}
	g := group(t, p, 64*cluster.MB)
	var tasks []*exec.Cmd
	defer func() {
		p.Hurry()
		if err := g.Kill(30 * time.Second); err != nil {
			t.Error(err)
		}
		for _, task := range tasks {
			_ = task.Wait()
		}
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	}()
	for range 3 {
		tasks = append(tasks, begin(t, g, `echo up; while :; do :; done`))
	}
	for range runtime.NumCPU() {
		burner := exec.Command("sh", "-c", "while :; do :; done")
		if err := burner.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = burner.Process.Kill()
			_ = burner.Wait()
		}()
	}
	relax()
	took := 1.0
	for try := 0; took > 0.05 && try < 5; try++ { // the primary itself may have to wait for others' machines
		before, err := p.CPU()
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		time.Sleep(time.Second)
		after, err := p.CPU()
		if err != nil {
			t.Fatal(err)
		}
		took = min(took, float64(after-before)/float64(time.Since(begun))/float64(runtime.NumCPU()))
	}
	t.Logf("three burners take %.2f%% of the machine", 100*took)
	if took > 0.05 {
		t.Errorf("three burners take %.2f%% of a machine whose primary is busy", 100*took)
	}
}
