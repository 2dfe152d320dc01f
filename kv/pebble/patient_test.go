package pebble

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"gleaner/kv"
)

// A fullDisk has no room while lack is set: neither for what is written nor for
// another open file.
type fullDisk struct {
	vfs.FS
	lack *atomic.Pointer[syscall.Errno]
}

func (d fullDisk) failed() error {
	if lack := d.lack.Load(); lack != nil {
		return &fs.PathError{Op: "write", Path: "disk", Err: *lack}
	}
	return nil
}

func (d fullDisk) wrap(f vfs.File, err error) (vfs.File, error) { return fullFile{f, d}, err }

func (d fullDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.failed(); err != nil {
		return nil, err
	}
	return d.wrap(d.FS.Create(name, c))
}

func (d fullDisk) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := d.failed(); err != nil {
		return nil, err
	}
	return d.wrap(d.FS.OpenReadWrite(name, c, opts...))
}

func (d fullDisk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := d.failed(); err != nil {
		return nil, err
	}
	return d.FS.Open(name, opts...)
}

type fullFile struct {
	vfs.File
	disk fullDisk
}

// Write finds room for half of it, as a disk that fills up does.
func (f fullFile) Write(p []byte) (int, error) {
	if err := f.disk.failed(); err != nil {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, err
	}
	return f.File.Write(p)
}

// TestFullDisk fills the disk, and takes away files and memory, while the store
// writes, flushes and begins logs. It waits, says so once, and loses nothing.
func TestFullDisk(t *testing.T) {
	for _, lack := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		t.Run(lack.Error(), func(t *testing.T) {
			dir := t.TempDir()
			full := fullDisk{vfs.Default, &atomic.Pointer[syscall.Errno]{}}
			told := make(chan error, 100)
			disk := &patientDisk{FS: full, short: func(err error) { told <- err }}
			s, err := open(dir, disk, 0)
			if err != nil {
				t.Fatal(err)
			}
			table, err := s.LooseTable(t.Context(), "samples")
			if err != nil {
				t.Fatal(err)
			}
			put := func(row string) {
				if err := table.Put(t.Context(), kv.Record{Key: kv.Key{Part: []byte("p"), Row: []byte(row)}, Value: []byte("v")}); err != nil {
					t.Error(err)
				}
			}
			put("before")
			for range 3 {
				full.lack.Store(&lack)
				done := make(chan struct{})
				go func() {
					defer close(done)
					put("meanwhile")
					if err := s.db.Flush(); err != nil {
						t.Error(err)
					}
				}()
				if err := <-told; !errors.Is(err, lack) {
					t.Errorf("it says %v", err)
				}
				time.Sleep(3 * again)
				select {
				case <-done:
					t.Fatal("it does not wait")
				default:
				}
				full.lack.Store(nil)
				<-done
				if err := <-told; err != nil {
					t.Errorf("it says %v when it goes on", err)
				}
			}
			if len(told) > 0 {
				t.Errorf("it says %v", <-told)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			holds(t, dir, 2)
		})
	}
}

// A store whose disk is full can be closed; what was acknowledged is there.
func TestCloseOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	full := fullDisk{vfs.Default, &atomic.Pointer[syscall.Errno]{}}
	told := make(chan error, 100)
	disk := &patientDisk{FS: full, short: func(err error) { told <- err }}
	s, err := open(dir, disk, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.stuck = disk.stuck
	table, err := s.LooseTable(t.Context(), "samples")
	if err != nil {
		t.Fatal(err)
	}
	one := kv.Record{Key: kv.Key{Part: []byte("p"), Row: []byte("before")}, Value: []byte("v")}
	if err := table.Put(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(t.TempDir(), "image")
	lack := syscall.ENOSPC
	full.lack.Store(&lack)
	done := make(chan error)
	go func() { done <- table.Put(t.Context(), one) }()
	<-told
	if err := s.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("closing it gives %v", err)
	}
	if err := os.CopyFS(image, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	holds(t, image, 1)
	full.lack.Store(nil)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// holds opens the store in dir and counts its samples.
func holds(t *testing.T, dir string, want int) {
	t.Helper()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	table, err := s.LooseTable(t.Context(), "samples")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range table.Scan(t.Context(), kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != want {
		t.Errorf("%d records, want %d", n, want)
	}
}

// Only the owner can read the files of a store.
func TestPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kv")
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.db.Set([]byte("k"), []byte("v"), nil), s.db.Flush(), s.Close()); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := d.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
