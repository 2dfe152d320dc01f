package pebble

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"gleaner/input"
	"gleaner/kv"
)

// blockSize is four times Pebble's default: it makes a scan a third faster, and
// tables are scanned far more often than read by key.
const blockSize = 16 << 10

// The marker says that a directory is a store of ours, and in which format.
const (
	marker     = "GLEANER"
	markerText = "gleaner kv format %d\n"
)

// Options say how a store deals with a machine that lacks files or disk space.
type Options struct {
	// Files is how many files may be kept open at once; 0: a thousand.
	Files int
	// Short is called when the store has to wait: the disk is full, or no more
	// files or memory are available. It is called with nil when the store goes on. It
	// may be nil.
	Short func(error)
}

// Open opens the store in dir, or makes one if dir is empty or does not exist. A
// directory that cannot be a store of ours is an input.Error and is not changed;
// one that is open already, in any process, is also kv.ErrHeld.
func Open(dir string, o Options) (*Store, error) {
	dir, err := filepath.Abs(dir) // the lock is by name
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if o.Short == nil {
		o.Short = func(error) {}
	}
	patient := &patientDisk{FS: vfs.Default, short: o.Short}
	s, err := open(dir, patient, o.Files)
	if err != nil {
		return nil, err
	}
	s.stuck = patient.stuck
	return s, nil
}

func open(dir string, disk vfs.FS, files int) (*Store, error) {
	entries, err := inspect(dir, disk)
	if err != nil {
		return nil, err
	}
	lock, err := pebble.LockDirectory(dir, disk)
	if err != nil {
		return nil, lockError(dir, err)
	}
	db, err := start(dir, disk, lock, files, holdsData(entries))
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &Store{dir: dir, db: db, lock: lock, flights: newFlights(), stuck: func() error { return nil }}, nil
}

// inspect makes sure that dir is a store of ours, or free to become one, and
// gives the names in it. It only changes something if dir does not exist: it makes it.
func inspect(dir string, disk vfs.FS) ([]string, error) {
	if info, err := disk.Stat(dir); err == nil && !info.IsDir() {
		return nil, input.Errorf(dir, "is a file; the store needs a directory")
	}
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return nil, unwritable(dir, err)
	}
	entries, err := disk.List(dir)
	if err != nil {
		return nil, input.Errorf(dir, "cannot be read: %v", plain(err))
	}
	for _, name := range entries {
		if name == marker {
			_, err := readMarker(dir, disk)
			return entries, err
		}
	}
	for _, name := range entries {
		if name != "LOCK" && name != marker+".new" { // left by a start that was interrupted
			return nil, input.Errorf(dir, "is not a gleaner store (it holds %s, and no file %s); choose an empty directory", name, marker)
		}
	}
	return entries, nil
}

// readMarker gives the format of the store in dir.
func readMarker(dir string, disk vfs.FS) (int, error) {
	f, err := disk.Open(disk.PathJoin(dir, marker))
	if err != nil {
		return 0, input.Errorf(dir, "cannot be read: %v", plain(err))
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 100))
	if err != nil {
		return 0, fmt.Errorf("kv: read %s of %s: %w", marker, dir, err)
	}
	var found int
	if _, err := fmt.Sscanf(string(text), markerText, &found); err != nil || found < 1 {
		return 0, input.Errorf(dir, "is not a gleaner store: its file %s is not one of ours", marker)
	}
	if found > kv.Format {
		return 0, input.Errorf(dir, "was written by a newer gleaner (format %d; this one reads up to %d)", found, kv.Format)
	}
	return found, nil
}

// holdsData tells a store that was written to from one that was never finished:
// Pebble makes its first log after its manifest.
func holdsData(entries []string) bool {
	for _, name := range entries {
		if strings.HasSuffix(name, ".log") || strings.HasSuffix(name, ".sst") {
			return true
		}
	}
	return false
}

func start(dir string, disk vfs.FS, lock *pebble.Lock, files int, mustExist bool) (*pebble.DB, error) {
	if found, err := readMarker(dir, disk); err != nil || found < kv.Format { // none yet, or an older one: what is written from now on is ours
		if err := writeMarker(dir, disk); err != nil {
			return nil, unwritable(dir, err)
		}
	}
	db, err := pebble.Open(dir, &pebble.Options{
		FS:                 disk,
		Lock:               lock,
		ErrorIfNotExists:   mustExist,
		FormatMajorVersion: pebble.FormatTableFormatV6,
		MaxOpenFiles:       files,
		MemTableSize:       16 << 20,
		CacheSize:          64 << 20,
		Levels:             [7]pebble.LevelOptions{{BlockSize: blockSize}}, // the others follow
		Logger:             quiet{},
		EventListener: &pebble.EventListener{
			// A reader of the damaged block gets the error; the default is to exit.
			DataCorruption: func(pebble.DataCorruptionInfo) {},
		},
	})
	switch {
	case errors.Is(err, pebble.ErrDBDoesNotExist):
		return nil, fmt.Errorf("kv: the store in %s is damaged: it holds data but its manifest is gone", dir)
	case err != nil:
		return nil, fmt.Errorf("kv: open the store in %s: %w", dir, explained(err))
	}
	return db, nil
}

// writeMarker writes the marker atomically.
func writeMarker(dir string, disk vfs.FS) error {
	path := disk.PathJoin(dir, marker)
	f, err := disk.Create(path+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, markerText, kv.Format)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := disk.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(dir, disk)
}

// syncDir makes the names in dir durable, and dir's own.
func syncDir(dir string, disk vfs.FS) error {
	for _, d := range []string{dir, disk.PathDir(dir)} {
		f, err := disk.OpenDir(d)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func lockError(dir string, err error) error {
	if errors.Is(err, syscall.EAGAIN) || strings.Contains(err.Error(), "held by current process") {
		return heldError{&input.Error{Where: dir, Msg: "another process holds the data; stop it first, or choose another directory"}}
	}
	return unwritable(dir, err)
}

// A heldError is an input.Error and kv.ErrHeld at once, in one line.
type heldError struct{ mistake *input.Error }

func (e heldError) Error() string   { return e.mistake.Error() }
func (e heldError) Unwrap() []error { return []error{e.mistake, kv.ErrHeld} }

func unwritable(dir string, err error) error {
	return input.Errorf(dir, "cannot be written: %v", plain(err))
}

// explained gives Pebble's errors about bad data one plain line.
func explained(err error) error {
	if pebble.IsCorruptionError(err) {
		return damaged{err}
	}
	return err
}

type damaged struct{ cause error }

func (d damaged) Unwrap() error { return d.cause }
func (d damaged) Error() string {
	line, _, _ := strings.Cut(d.cause.Error(), "\n")
	return "it is damaged: " + line
}

// plain drops the path from an error that is reported with it already.
func plain(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// quiet drops Pebble's log messages. Pebble calls it fatal if a write of its log
// fails for another reason than lack of space: what is durable is then unknown,
// so the process ends.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic("kv: the disk failed: " + fmt.Sprintf(format, args...))
}
