package disk

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// FS is what a disk asks of a file system: that of the machine (OS), or one of
// disktest that loses power. Names are paths; errors wrap those of io/fs.
type FS interface {
	// Create makes a file that may not exist yet.
	Create(name string) (File, error)
	Open(name string) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	Mkdir(name string) error
	// List calls visit for each entry, in no order, and ends with its error.
	List(dir string, visit func(name string) error) error
	// SyncDir makes the entries of a directory durable, as they are.
	SyncDir(dir string) error
	// Lock is held until it is closed or the process ends, and fails with
	// ErrInUse while it is held by another.
	Lock(name string) (io.Closer, error)
	// Free is the space left for files, in bytes.
	Free(dir string) (int64, error)
}

// A File is read and written in parts, also at the same time.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync makes what was written before durable, and the size with it.
	Sync() error
	Size() (int64, error)
	// Allocate makes the file at least as long as size, with zeros, and takes the
	// space for them. ErrSpace says that there is not enough; the file is then as it was.
	Allocate(size int64) error
	// Truncate makes the file shorter and gives the space back; for good once it was synced.
	Truncate(size int64) error
}

// OS is the machine's file system.
type OS struct{}

func (OS) Create(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return osFile{f}, err
}

func (OS) Open(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	return osFile{f}, err
}

func (OS) Rename(from, to string) error { return os.Rename(from, to) }
func (OS) Remove(name string) error     { return os.Remove(name) }
func (OS) Mkdir(name string) error      { return os.Mkdir(name, 0o700) }

// List reads a directory in parts: one of a large disk has millions of entries.
func (OS) List(dir string, visit func(name string) error) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(1024)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := visit(e.Name()); err != nil {
				return err
			}
		}
	}
}

func (OS) SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// readWhole reads a small file.
func readWhole(fs FS, name string) ([]byte, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	data := make([]byte, min(size, 64<<20))
	_, err = f.ReadAt(data, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data, err
}

// replace writes a small file so that its name has all of the old bytes or all
// of the new ones, and the new ones for good once it returned.
func replace(fs FS, name string, data []byte) error {
	fresh := name + unfinished
	if err := fs.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := fs.Create(fresh)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(fresh, name); err != nil {
		return err
	}
	return fs.SyncDir(filepath.Dir(name))
}

// unfinished ends the name of a file that has not got its own yet.
const unfinished = ".new"
