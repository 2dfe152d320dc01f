package pebble

import (
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A watchedDisk calls onSync before each sync of a file.
type watchedDisk struct {
	vfs.FS
	onSync func()
}

func (d watchedDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return d.watch(d.FS.Create(name, c))
}

func (d watchedDisk) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return d.watch(d.FS.OpenReadWrite(name, c, opts...))
}

func (d watchedDisk) OpenDir(name string) (vfs.File, error) { return d.watch(d.FS.OpenDir(name)) }

// ReuseForWrite does in two steps what MemFS does in one: there it takes a lock for reading twice, and waits for ever if a
// CrashClone comes between.
func (d watchedDisk) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.FS.Rename(old, name); err != nil {
		return nil, err
	}
	return d.watch(d.FS.OpenReadWrite(name, c))
}

func (d watchedDisk) watch(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return watchedFile{f, d.onSync}, nil
}

type watchedFile struct {
	vfs.File
	onSync func()
}

func (f watchedFile) Sync() error {
	f.onSync()
	return f.File.Sync()
}

func (f watchedFile) SyncData() error {
	f.onSync()
	return f.File.SyncData()
}

func (f watchedFile) SyncTo(length int64) (bool, error) {
	f.onSync()
	return f.File.SyncTo(length)
}
