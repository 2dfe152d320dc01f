package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestNoRoomForDisks has a data directory with too little space for a disk: a command
// says so, and a gleaner that is up harvests without.
func TestNoRoomForDisks(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a disk that is small")
	}
	dir := t.TempDir()
	if err := unix.Mount("gleaner-test", dir, "tmpfs", 0, "size=32m,mode=700"); err != nil {
		t.Skipf("no disk can be made here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	refused := exec.Command("gleaner", "disk", "create", "db", "1GiB", "--data", dir)
	text, err := refused.CombinedOutput()
	if code := refused.ProcessState.ExitCode(); code != exitBadInput || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), "too little for a disk") {
		t.Errorf("exit code %d (%v): %s", code, err, text)
	}
	u := startUp(t, dir)
	u.gleaner("status")
	log := filepath.Join(dir, "log")
	for deadline := time.Now().Add(time.Minute); !strings.Contains(readText(t, log), "no disks are served; all else goes on"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not say why there are no disks: %s", readText(t, log))
		}
	}
	file := filepath.Join(dir, "job.yaml")
	writeText(t, file, "name: greet\nstages: [{name: s, cpu: 0.1, memory: 32MiB, command: [echo, hello]}]\n")
	u.gleaner("run", file)
	u.await("greet")
	u.stop()
}
