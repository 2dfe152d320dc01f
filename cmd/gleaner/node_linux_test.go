package main

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"gleaner/fabric/dataserver"
	"gleaner/fabric/disk"
	"gleaner/fabric/registry"
)

// startNode starts a data server with one disk, and gives how to kill it.
func startNode(t *testing.T, data, name, listen string) (kill func()) {
	t.Helper()
	cmd := exec.Command("gleaner", "node", "--data", data, "--server", name, "--disk", "ssd:"+filepath.Join(data, name)+":64MiB", "--listen", listen)
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
