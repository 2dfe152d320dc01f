package pebble

import (
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// again is how long a patient disk waits before it tries again.
const again = 100 * time.Millisecond

// lacks reports whether err says that there is no room now: on the disk, or for
// another open file, or in memory.
func lacks(err error) bool {
	return slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM},
		func(lack error) bool { return errors.Is(err, lack) })
}

// A patientDisk waits when there is no room, and tries again, where Pebble would
// end the process: it cannot work without its log. A failed sync is not tried
// again, since the second may succeed without what the first has lost; but a
// full disk fails the write, not the sync.
type patientDisk struct {
	vfs.FS
	short func(error)

	mu      sync.Mutex
	waiting int
	lack    error // the last
}

// until calls do until it does not fail for lack of room.
func (d *patientDisk) until(do func() error) error {
	err := do()
	if !lacks(err) {
		return err
	}
	d.wait(1, err)
	defer d.wait(-1, nil)
	for lacks(err) {
		time.Sleep(again)
		err = do()
	}
	return err
}

// wait counts the waiting calls; short is called when the first begins to wait and when the last goes on.
func (d *patientDisk) wait(more int, lack error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting += more
	if lack != nil {
		d.lack = lack
	}
	if d.waiting == 0 || d.waiting == 1 && more == 1 {
		d.short(lack)
	}
}

// stuck gives the error that calls wait for; nil if none waits.
func (d *patientDisk) stuck() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting == 0 {
		return nil
	}
	return d.lack
}

// open opens a file by do. Only the owner may read what Pebble makes.
func (d *patientDisk) open(name string, private bool, do func() (vfs.File, error)) (vfs.File, error) {
	var f vfs.File
	err := d.until(func() (err error) { f, err = do(); return err })
	if err != nil {
		return nil, err
	}
	if private {
		if err := os.Chmod(name, 0o600); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return patientFile{f, d}, nil
}

func (d *patientDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return d.open(name, true, func() (vfs.File, error) { return d.FS.Create(name, c) })
}

func (d *patientDisk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return d.open(name, false, func() (vfs.File, error) { return d.FS.Open(name, opts...) })
}

func (d *patientDisk) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return d.open(name, true, func() (vfs.File, error) { return d.FS.OpenReadWrite(name, c, opts...) })
}

func (d *patientDisk) OpenDir(name string) (vfs.File, error) {
	return d.open(name, false, func() (vfs.File, error) { return d.FS.OpenDir(name) })
}

// ReuseForWrite takes two steps, each of which can be done again.
func (d *patientDisk) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.Rename(old, name); err != nil {
		return nil, err
	}
	return d.OpenReadWrite(name, c)
}

func (d *patientDisk) Rename(old, name string) error {
	return d.until(func() error { return d.FS.Rename(old, name) })
}

func (d *patientDisk) Link(old, name string) error {
	return d.until(func() error { return d.FS.Link(old, name) })
}

func (d *patientDisk) Remove(name string) error {
	return d.until(func() error { return d.FS.Remove(name) })
}

func (d *patientDisk) MkdirAll(name string, mode os.FileMode) error {
	return d.until(func() error { return d.FS.MkdirAll(name, mode) })
}

func (d *patientDisk) Lock(name string) (lock io.Closer, err error) {
	err = d.until(func() error { lock, err = d.FS.Lock(name); return err })
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(name, 0o600); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

func (d *patientDisk) List(name string) (names []string, err error) {
	err = d.until(func() error { names, err = d.FS.List(name); return err })
	return names, err
}

func (d *patientDisk) Unwrap() vfs.FS { return d.FS }

type patientFile struct {
	vfs.File
	disk *patientDisk
}

func (f patientFile) Write(p []byte) (n int, err error) {
	err = f.disk.until(func() error {
		m, err := f.File.Write(p[n:])
		n += m
		return err
	})
	return n, err
}

func (f patientFile) WriteAt(p []byte, at int64) (n int, err error) {
	err = f.disk.until(func() error {
		m, err := f.File.WriteAt(p[n:], at+int64(n))
		n += m
		return err
	})
	return n, err
}
