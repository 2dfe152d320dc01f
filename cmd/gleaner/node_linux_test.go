package main

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
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
	path := filepath.Join(data, name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("gleaner", append([]string{"node", "--data", data, "--server", name, "--disk", "ssd:" + path + ":64MiB", "--listen", listen}, flags...)...)
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
	servers, err := where.Servers()
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

// TestNodeDenies: while others use the machine, a data server denies reads and goes on with the rest.
func TestNodeDenies(t *testing.T) {
	data := t.TempDir()
	startNode(t, data, "s1", "127.0.0.1:0", "--busy-above", "1")
	startNode(t, data, "s2", "127.0.0.1:0")
	disks := reachNodes(t, data)
	var ended atomic.Bool
	defer ended.Store(true)
	go func() { // somebody who uses the machine
		for !ended.Load() {
		}
	}()
	var denied error
	for begun := time.Now(); denied == nil && time.Since(begun) < time.Minute; time.Sleep(50 * time.Millisecond) {
		if err := disks[0].Read(t.Context(), 1, 1, 0, make([]byte, 1)); errors.Is(err, dataserver.ErrBusy) {
			denied = err
		}
	}
	if denied == nil {
		t.Fatal("nothing is denied")
	}
	for i, d := range disks {
		if err := d.Create(t.Context(), 1, 1, 1); err != nil {
			t.Errorf("disk %d: %v", i, err)
		}
	}
	if err := disks[1].Read(t.Context(), 1, 1, 0, make([]byte, 1)); err != nil {
		t.Errorf("without --busy-above: %v", err)
	}
}

// TestOthersUse: what this process uses itself is not the primary's.
func TestOthersUse(t *testing.T) {
	before := use{proc.CPU{Used: 1000, Stolen: 50, Idle: 5000}, time.Second}
	now := use{proc.CPU{Used: 1100, Stolen: 50, Idle: 5100}, time.Second + 50*proc.Tick}
	if got := now.others(before); got != 0.25 {
		t.Errorf("others use %v", got)
	}
	now.own = time.Hour // clocks differ a little
	if got := now.others(before); got != 0 {
		t.Errorf("others use %v", got)
	}
}
