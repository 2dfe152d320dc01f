package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/cluster"
)

// A sample that fails for lack of files or memory is retried a little later; nothing
// ends. Any other failure is an error.
func TestSamplesWaitForRoom(t *testing.T) {
	var lack atomic.Value
	lack.Store(unix.Errno(0))
	told := make(chan error, 1000)
	w, err := Open(Options{Dir: t.TempDir(), Server: "here", Every: 5 * time.Millisecond, Plain: true,
		Sample: func() (Sample, error) {
			if err := lack.Load().(unix.Errno); err != 0 {
				return Sample{}, fmt.Errorf("local: %w", &os.PathError{Op: "open", Path: "/proc/stat", Err: err})
			}
			return Sample{}, nil
		},
		Short: func(of string, because error) {
			if of == samples {
				told <- because
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	next := func(patience time.Duration) (cluster.Event, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for {
			if ev, err := w.Next(ctx); err != nil || ev.Kind == cluster.UseReported {
				return ev, err
			}
		}
	}
	if _, err := next(time.Minute); err != nil { // the one at the start
		t.Fatal(err)
	}
	for _, errno := range []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM} {
		lack.Store(errno)
		if ev, err := next(50 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%v: %v, %v", errno, ev, err)
		}
		lack.Store(unix.Errno(0))
		if _, err := next(time.Minute); err != nil {
			t.Fatalf("after %v: %v", errno, err)
		}
		var last error = errno
		heard := false
		for len(told) > 0 {
			last = <-told
			heard = heard || errors.Is(last, errno)
		}
		if !heard || last != nil {
			t.Errorf("%v was told: %v; the last was %v", errno, heard, last)
		}
	}
	lack.Store(unix.EIO)
	if _, err := next(time.Minute); !errors.Is(err, unix.EIO) {
		t.Errorf("a broken machine gives %v", err)
	}
}

// The end of a job that finds the disk full is written when there is room.
func TestEndOfAJobWaitsForRoom(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a disk that is full")
	}
	dir := t.TempDir()
	if err := unix.Mount("gleaner-test", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("no disk can be made here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	told := make(chan error, 1000)
	w, err := Open(Options{Dir: dir, Server: "here", Every: 5 * time.Millisecond, Plain: true, Sample: func() (Sample, error) { return Sample{}, nil },
		Short: func(of string, because error) {
			if of == "the end of job-1" {
				told <- because
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Submit(&cluster.Job{Name: "j"}); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	err = os.WriteFile(ballast, slices.Repeat([]byte("x"), 1<<20), 0o600)
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	if err := w.Do(cluster.Action{Kind: cluster.FinishJob, ID: 1}); err != nil {
		t.Fatal(err)
	}
	if err := <-told; !errors.Is(err, unix.ENOSPC) {
		t.Errorf("it says %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for err := range told {
		if err == nil {
			break
		}
	}
	var how ended
	if over, err := readFile(filepath.Join(jobPath(dir, 1), endedFile), &how); !over || err != nil {
		t.Errorf("the end of the job is not there: %v", err)
	}
}

// The file with the last descriptor cannot be passed to a child. That is reported as
// a lack of files, not as a failure of the task.
func TestTheLastDescriptorIsALack(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		t.Fatal(err)
	}
	const few = 512
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: few, Max: old.Max}, nil); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Prlimit(0, unix.RLIMIT_NOFILE, &old, nil) }()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, tc := range []struct {
		fd    int
		lacks bool
	}{{few - 2, false}, {few - 1, true}} {
		if err := unix.Dup3(int(null.Fd()), tc.fd, unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(tc.fd), "file")
		cmd := exec.Command("true")
		cmd.ExtraFiles = []*os.File{f}
		if err := cmd.Run(); (err != nil) != tc.lacks {
			t.Errorf("a child that is given descriptor %d of %d: %v", tc.fd, few, err)
		}
		if err := roomAbove(null, f); Lacks(err) != tc.lacks {
			t.Errorf("descriptor %d of %d: %v", tc.fd, few, err)
		}
		f.Close()
	}
}
