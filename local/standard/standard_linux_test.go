package standard

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// onDisk returns a directory whose files can be read past the page cache.
func onDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	f, err := os.OpenFile(filepath.Join(dir, "probe"), os.O_CREATE|os.O_RDWR|unix.O_DIRECT, 0o600)
	if err != nil {
		t.Skipf("no O_DIRECT in %s: %v", dir, err)
	}
	f.Close()
	return dir
}

func TestEveryKindDoesItsWork(t *testing.T) {
	dir := onDisk(t)
	for _, k := range Kinds() {
		if err := (Job{Kind: k, Size: 2, Dir: dir}).Run(t.Context()); err != nil {
			t.Errorf("%s: %v", k.Name, err)
		}
	}
}

func TestAJobWithoutASizeGoesOnUntilItIsStopped(t *testing.T) {
	k, _ := Find("cpu")
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if err := (Job{Kind: k}).Run(ctx); err != nil || ctx.Err() == nil {
		t.Errorf("ended with %v, %v", err, ctx.Err())
	}
	if err := (Job{Kind: k, Size: 1 << 40}).Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one that was cut off says %v", err)
	}
}

// The same file serves every job, and is not made again.
func TestTheFileIsMadeOnce(t *testing.T) {
	dir := onDisk(t)
	if err := Prepare(dir); err != nil {
		t.Fatal(err)
	}
	before, _ := os.Stat(filepath.Join(dir, dataFile))
	if err := Prepare(dir); err != nil {
		t.Fatal(err)
	}
	after, _ := os.Stat(filepath.Join(dir, dataFile))
	if !os.SameFile(before, after) || after.Size() != dataSize {
		t.Errorf("was %v, is %v", before, after)
	}
	if err := Prepare(filepath.Join(dir, "not", "there")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// A file system in memory cannot bypass the page cache, and the error says so.
func TestARefusalIsSaid(t *testing.T) {
	var fs unix.Statfs_t
	if err := unix.Statfs("/proc", &fs); err != nil {
		t.Skip("no /proc")
	}
	if _, err := openDirect("/proc/self/comm"); err == nil {
		t.Skip("this kernel reads /proc past the page cache")
	} else if !errors.Is(err, unix.EINVAL) {
		t.Errorf("got %v", err)
	}
}
