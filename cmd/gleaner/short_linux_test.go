package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestFullDiskEndsNothing fills the disk of a gleaner again and again while tasks come
// and go, so that every write fails sooner or later. Gleaner reports it and does not
// end; when there is room it continues.
func TestFullDiskEndsNothing(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a disk that is full")
	}
	dir := t.TempDir()
	if err := unix.Mount("gleaner-test", dir, "tmpfs", 0, "size=2m,mode=700"); err != nil {
		t.Skipf("no disk can be made here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	logFile := filepath.Join(t.TempDir(), "log") // on another disk
	link(t, os.Symlink, logFile, filepath.Join(dir, "log"))
	u := startUp(t, dir)
	u.gleaner("status")
	file := filepath.Join(t.TempDir(), "job.yaml")
	writeText(t, file, "name: busy\nstages: [{name: s, tasks: 4, cpu: 0.3, memory: 32MiB, command: [sleep, '0.05']}]\n")

	ballast := filepath.Join(dir, "ballast")
	page := bytes.Repeat([]byte("x"), 4096)
	said := func() int { return strings.Count(readText(t, logFile), "no room") }
	full := 0
	for begin := time.Now(); time.Since(begin) < 5*time.Second || said() == 0 && time.Since(begin) < time.Minute; full++ {
		_ = os.Truncate(ballast, 0)
		_ = exec.Command("gleaner", "run", file, "--data", dir).Run() // it may find no room either
		time.Sleep(time.Duration(full%10) * 20 * time.Millisecond)
		if f, err := os.OpenFile(ballast, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
			for err == nil {
				_, err = f.Write(page)
			}
			f.Close()
		}
		time.Sleep(time.Duration(1+full%10) * 200 * time.Millisecond) // a task may take a second to start, and only then writes
	}
	if u.gone() {
		t.Fatal("gleaner has ended")
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	u.gleaner("run", file)
	u.await("busy")
	for deadline := time.Now().Add(time.Minute); strings.Contains(string(u.gleaner("status")), "no space left on device"); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it still waits for room")
		}
	}
	u.stop()
	if n := said(); n == 0 || n > 100 {
		t.Errorf("it says %d times that it waits", n)
	}
	t.Logf("the disk was full %d times; the log says so %d times", full, said())
}

// TestNoProcessesEndNothing keeps a gleaner from starting processes and threads,
// submits tasks meanwhile, and lifts the limit again.
func TestNoProcessesEndNothing(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can run as another user, and is not limited itself")
	}
	if _, err := exec.LookPath("prlimit"); err != nil {
		t.Skip("there is no prlimit here")
	}
	home, err := os.MkdirTemp("", "gleaner-short-") // where nobody can go
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	chmod(t, home, 0o755)
	program, data := copyProgram(t, home), filepath.Join(home, "data")
	mkdir(t, data)
	give(t, data)
	as := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	var log bytes.Buffer
	theirs := exec.Command(program, "up", "--data", data, "--listen", "none", "--policy", "stock", "--no-cgroups")
	theirs.SysProcAttr, theirs.Stderr = as, &log
	if err := theirs.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- theirs.Wait() }()
	defer func() {
		_ = theirs.Process.Signal(os.Interrupt)
		<-ended
		if t.Failed() {
			t.Logf("log:\n%s", log.String())
		}
	}()
	ask := func(args ...string) (string, error) {
		cmd := exec.Command(program, append(args, "--data", data)...)
		cmd.SysProcAttr = as
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err := ask("status"); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it is not up within a minute")
		}
	}
	file := filepath.Join(home, "job.yaml")
	writeText(t, file, "name: wide\nstages: [{name: s, tasks: 40, cpu: 0.01, memory: 4MiB, command: ['true']}]\n")
	chmod(t, file, 0o644)
	limit := func(n string) { // by the user itself: root may not everywhere
		cmd := exec.Command("prlimit", "--pid", strconv.Itoa(theirs.Process.Pid), "--nproc="+n+":")
		cmd.SysProcAttr = as
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	var old unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NPROC, nil, &old); err != nil {
		t.Fatal(err)
	}
	limit("1")
	for range 5 {
		if out, err := ask("run", file); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	select {
	case err := <-ended:
		ended <- err
		t.Fatalf("gleaner has ended: %v", err)
	case <-time.After(3 * time.Second):
	}
	limit(strconv.FormatUint(old.Cur, 10))
	writeText(t, file, "name: after\nstages: [{name: s, cpu: 0.01, memory: 16MiB, command: ['true']}]\n")
	if out, err := ask("run", "--wait", file); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// A command that finds the disk full reports it in one line; it does not wait.
func TestCommandOnFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a disk that is full")
	}
	dir := t.TempDir()
	if err := unix.Mount("gleaner-test", dir, "tmpfs", 0, "size=64k,mode=700"); err != nil {
		t.Skipf("no disk can be made here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	var csv strings.Builder
	csv.WriteString("time,server,cpu\n")
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 100_000 {
		fmt.Fprintf(&csv, "%d,server-%d,%.3f\n", 1704067200+120*(i/100), i%100, 100*rng.Float64())
	}
	file := filepath.Join(t.TempDir(), "cpu.csv")
	writeText(t, file, csv.String())
	cmd := exec.Command("gleaner", "history", "import", file, "--data", dir)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(stderr)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitFailure || strings.Count(string(text), "\n") != 1 || !strings.HasPrefix(string(text), "gleaner: the store in "+dir+" has no room: ") {
		t.Errorf("%d: %s", code, text)
	}
}

// A job that has filled the disk can be cancelled, which frees the room; and a
// gleaner that waits for room to start can be stopped.
func TestAFullDiskAllowsCancelAndStop(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a disk that is full")
	}
	dir := t.TempDir()
	if err := unix.Mount("gleaner-test", dir, "tmpfs", 0, "size=8m,mode=700"); err != nil {
		t.Skipf("no disk can be made here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	link(t, os.Symlink, filepath.Join(t.TempDir(), "log"), filepath.Join(dir, "log"))
	u := startUp(t, dir)
	file := filepath.Join(t.TempDir(), "job.yaml")
	writeText(t, file, "name: fills\nstages: [{name: s, cpu: 0.1, memory: 32MiB, command: [sh, -c, 'cat /dev/zero > $GLEANER_SCRATCH/x; sleep 600']}]\n")
	u.gleaner("run", file)
	free := func() uint64 {
		var s unix.Statfs_t
		if err := unix.Statfs(dir, &s); err != nil {
			t.Fatal(err)
		}
		return s.Bavail
	}
	await := func(what string, done func() bool) {
		for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	await("the disk is not full", func() bool { return free() == 0 })
	u.gleaner("cancel", "job-1")
	await("there is no room again", func() bool { return free() > 100 })
	u.stop()

	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	for page := make([]byte, 4096); err == nil; {
		_, err = ballast.Write(page)
	}
	ballast.Close()
	waits := startUp(t, dir)
	await("it does not say that it waits", func() bool { return strings.Contains(readText(t, filepath.Join(dir, "log")), "no room") })
	ended := make(chan struct{})
	go func() { waits.stop(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("it cannot be stopped")
	}
}
