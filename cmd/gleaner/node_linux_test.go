package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"gleaner/fabric/dataserver"
	"gleaner/fabric/disk"
	"gleaner/fabric/registry"
	"gleaner/local/proc"
)

// startNode starts a data server with one disk, and gives how to kill it.
func startNode(t *testing.T, data, name, listen string, flags ...string) (kill func()) {
	t.Helper()
	return startNodeOf(t, data, name, listen, "64MiB", flags...)
}

func startNodeOf(t testing.TB, data, name, listen, quota string, flags ...string) (kill func()) {
	t.Helper()
	path := filepath.Join(data, name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("gleaner", append([]string{"node", "--data", data, "--server", name, "--disk", "ssd:" + path + ":" + quota, "--listen", listen}, flags...)...)
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill() // it may be dead
		_ = cmd.Wait()
	}
	t.Cleanup(func() {
		kill()
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, &log)
		}
	})
	return kill
}

// TestNodesKilled: what a front has an answer to is there after kill -9 of the data servers, over
// whatever they listen on, and a copy goes from one to the other.
func TestNodesKilled(t *testing.T) {
	data, err := os.MkdirTemp("", "node") // short, for the sockets in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(data) })
	listen := map[string]string{"s1": filepath.Join(data, "s1.sock"), "s2": "tls:127.0.0.1:0"}
	var kills []func()
	start := func() {
		for name, at := range listen {
			kills = append(kills, startNode(t, data, name, at))
		}
	}
	start()
	disks := reachNodes(t, data)
	ctx, rng, want := t.Context(), rand.New(rand.NewPCG(1, 1)), make([]byte, disk.GroupSize)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(disks[0].Create(ctx, 1, 1, 1))
	for range 4 {
		for range 50 {
			part := want[rng.IntN(disk.GroupSize-disk.SliceSize):][:1+rng.IntN(disk.SliceSize)]
			for i := range part {
				part[i] = byte(rng.Uint32())
			}
			must(disks[0].Write(ctx, 1, 1, 1, int64(disk.GroupSize-cap(part)), part, false))
		}
		for _, kill := range kills {
			kill()
		}
		start()
		disks = reachNodes(t, data)
		got := make([]byte, disk.GroupSize)
		must(disks[0].Read(ctx, 1, 1, 0, got))
		if !bytes.Equal(got, want) {
			t.Fatal("what was answered is gone")
		}
	}
	must(disks[1].Copy(ctx, 1, 1, 1, disks[0]))
	got := make([]byte, disk.GroupSize)
	must(disks[1].Read(ctx, 1, 1, 0, got))
	if !bytes.Equal(got, want) {
		t.Error("the copy is another")
	}
}

// reachNodes waits until both data servers of the registry are up, and gives the disk of each.
func reachNodes(t *testing.T, data string) []dataserver.Disk {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(20 * time.Millisecond) {
		if disks, err := tryNodes(t, data); err == nil {
			return disks
		}
	}
	t.Fatal("the data servers do not come up")
	return nil
}

func tryNodes(t *testing.T, data string) ([]dataserver.Disk, error) {
	where, err := registry.Open(data)
	if err != nil {
		return nil, err
	}
	servers, err := where.Servers(t.Context())
	if err != nil || len(servers) != 2 {
		return nil, errors.Join(err, errors.New("some are missing"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var disks []dataserver.Disk
	for _, s := range servers {
		c, err := dataserver.Dial(ctx, s.Address, dataserver.Cluster{ID: where.ID, Key: where.Key})
		if err != nil {
			return nil, err
		}
		t.Cleanup(c.Close)
		disks = append(disks, c.Disk(s.Disks[0].ID))
	}
	return disks, nil
}

// TestNodeDenies: a data server denies reads soon after its primary begins to use the machine, and goes on with the rest; it answers again
// when the primary is calm. For one server the primary is a control group, for the other all but itself.
func TestNodeDenies(t *testing.T) {
	group := primaryGroup(t)
	data := t.TempDir()
	startNode(t, data, "s1", "127.0.0.1:0", "--busy-above", "20", "--primary", group)
	startNode(t, data, "s2", "127.0.0.1:0", "--busy-above", "1")
	disks := reachNodes(t, data)
	denies := func(d dataserver.Disk) bool {
		return errors.Is(d.Read(t.Context(), 1, 1, 0, make([]byte, 1)), dataserver.ErrBusy)
	}
	var took []time.Duration
	for range 5 {
		if denies(disks[0]) {
			t.Fatal("it denies though the primary does nothing")
		}
		end := eatCPU(t, group, runtime.NumCPU())
		begun := time.Now()
		awaitTrue(t, "it denies", func() bool { return denies(disks[0]) })
		took = append(took, time.Since(begun).Round(time.Millisecond))
		awaitTrue(t, "the other denies", func() bool { return denies(disks[1]) })
		for i, d := range disks {
			if err := d.Create(t.Context(), 1, 1, 1); err != nil && !errors.Is(err, disk.ErrExists) {
				t.Errorf("disk %d: %v", i, err)
			}
		}
		end()
		awaitTrue(t, "it answers again", func() bool { return !denies(disks[0]) })
	}
	t.Logf("denied after %v", took)
}

// primaryGroup makes a control group for a primary.
func primaryGroup(t testing.TB) string {
	t.Helper()
	dir := ""
	for _, parent := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(parent, "cgroup.procs")); err == nil {
			dir = filepath.Join(parent, fmt.Sprintf("gleaner-test-primary-%d", os.Getpid()))
			break
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no control groups here: %v", err)
	}
	t.Cleanup(func() {
		awaitTrue(t, "the primary's control group is removed", func() bool { return os.Remove(dir) == nil })
	})
	return dir
}

// eatCPU runs so many processes in a control group that do nothing but use a core each, until they are ended.
func eatCPU(t testing.TB, group string, processes int) (end func()) {
	t.Helper()
	return runIn(t, group, "while :; do :; done", processes)
}

// runIn runs a shell script in a control group, so many times at once, until it is ended.
func runIn(t testing.TB, group, script string, times int) (end func()) {
	t.Helper()
	var all []*exec.Cmd
	for range times {
		cmd := exec.Command("sh", "-c", `echo $$ >"$0" && `+script, filepath.Join(group, "cgroup.procs"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	end = sync.OnceFunc(func() {
		for _, cmd := range all {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	t.Cleanup(end)
	return end
}

func awaitTrue(t testing.TB, what string, done func() bool) {
	t.Helper()
	for begun := time.Now(); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// awaitSocket waits until somebody listens on a Unix socket.
func awaitSocket(t testing.TB, path string) {
	t.Helper()
	awaitTrue(t, path, func() bool {
		c, err := net.Dial("unix", path)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// TestPrimaryUse: what this process uses itself is not the primary's, and one look below the limit is not yet calm.
func TestPrimaryUse(t *testing.T) {
	before := use{proc.CPU{Used: 1000, Stolen: 50, Idle: 5000}, 100 * proc.Tick}
	now := use{proc.CPU{Used: 1100, Stolen: 50, Idle: 5100}, 150 * proc.Tick}
	if got := now.share(before); got != 0.25 {
		t.Errorf("the primary uses %v", got)
	}
	now.primary = 0 // it was started again
	if got := now.share(before); got != 0 {
		t.Errorf("the primary uses %v", got)
	}
	w, log := primaryWatch{limit: 0.5}, slog.New(slog.DiscardHandler)
	for i, tc := range []struct {
		share float64
		busy  bool
	}{{0.5, false}, {0.6, true}, {0.1, true}, {0.1, true}, {0.6, true}, {0.1, true}, {0.1, true}, {0.1, true}, {0.1, true}, {0.1, false}, {0.1, false}, {0.6, true}} {
		if w.tell(tc.share, log); w.busy.Load() != tc.busy {
			t.Errorf("look %d: busy %t", i, w.busy.Load())
		}
	}
}
