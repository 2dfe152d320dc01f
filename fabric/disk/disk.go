package disk

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Options say which disk Open is to find, and how much memory it may take.
type Options struct {
	Cluster    string // must be the disk's
	Disk       string // must be the disk's, if not empty
	OpenGroups int    // about as many groups are kept open; 1024 if 0
}

// A Disk is an open disk. Its methods may be called at the same time.
type Disk struct {
	fsys    FS
	dir     string
	lock    io.Closer
	log     *ring
	fences  *fences
	index   index
	intents intents
	limit   int // of open groups

	mu     sync.Mutex
	id     Identity
	used   int64 // bytes of the quota
	groups int   // on the disk
	open   map[GroupID]*group
	order  list.List // of open groups, the last used in front
	dirty  int       // open groups with writes that no Sync covered
	made   int64     // groups, since Open
	making *uint64   // where the log stood when a Create began; it is not drained beyond

	naming   sync.Mutex   // held by Create and Remove
	named    atomic.Int64 // of the groups made, those whose names and headers are durable
	draining sync.Mutex
	flushes  flight
	failure  atomic.Pointer[error]
	rotten   atomic.Int64  // slices read so
	wake     chan struct{} // the drainer has work
	stop     chan struct{}
	drainer  sync.WaitGroup
}

// Open opens a disk and brings what a crash left in the log to its groups.
func Open(fsys FS, dir string, o Options) (*Disk, error) {
	d, err := openDisk(fsys, dir, o)
	if err != nil {
		return nil, fmt.Errorf("disk: open %s: %w", dir, err)
	}
	d.drainer.Go(d.drainInBackground)
	return d, nil
}

// openDisk is Open without a drainer.
func openDisk(fsys FS, dir string, o Options) (_ *Disk, err error) {
	id, err := readIdentity(fsys, dir) // before anything is written there
	if err != nil {
		return nil, err
	}
	if id.Cluster != o.Cluster || (o.Disk != "" && id.Disk != o.Disk) {
		return nil, fmt.Errorf("%w: %s of cluster %s", ErrOtherDisk, id.Disk, id.Cluster)
	}
	d := &Disk{fsys: fsys, dir: dir, limit: o.OpenGroups, open: map[GroupID]*group{},
		index: index{groups: map[GroupID]*versions{}}, intents: intents{at: map[GroupID]uint64{}}, wake: make(chan struct{}, 1), stop: make(chan struct{})}
	d.flushes.ended.L = &d.flushes.mu
	if d.limit <= 0 {
		d.limit = 1024
	}
	if d.lock, err = fsys.Lock(filepath.Join(dir, lockFile)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			d.release()
		}
	}()
	// What is read from here on is told to others: it may not be gone after a power cut.
	if err = fsys.SyncDir(dir); err != nil {
		return nil, err
	}
	err = fsys.SyncDir(filepath.Join(dir, groupsFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: its groups are gone", ErrWiped)
	}
	if err != nil {
		return nil, err
	}
	if d.id, err = readIdentity(fsys, dir); err != nil { // again: the quota may have changed before the lock
		return nil, err
	}
	d.id.Opened = rand.Uint64()
	if d.fences, err = readFences(fsys, dir); err != nil {
		return nil, err
	}
	if err = d.count(); err != nil {
		return nil, err
	}
	if d.log, err = openRing(fsys, filepath.Join(dir, logFile), d.id); err != nil {
		return nil, err
	}
	return d, d.recover()
}

// count adds up what the groups take, and clears away those whose Create a crash interrupted.
func (d *Disk) count() error {
	d.used = logStart + d.id.Log
	folder := filepath.Join(d.dir, groupsFolder)
	return d.fsys.List(folder, func(name string) error {
		if strings.HasSuffix(name, unfinished) {
			return d.fsys.Remove(filepath.Join(folder, name))
		}
		if _, ok := parseGroup(name); !ok {
			return nil
		}
		f, err := d.fsys.Open(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		size, err := f.Size()
		d.used += size
		d.groups++
		return errors.Join(err, f.Close())
	})
}

func parseGroup(name string) (GroupID, bool) {
	n, err := strconv.ParseUint(name, 16, 64)
	return GroupID(n), err == nil && GroupID(n).String() == name
}

func (d *Disk) groupFile(id GroupID) string {
	return filepath.Join(d.dir, groupsFolder, id.String())
}

// release closes all files.
func (d *Disk) release() error {
	var errs []error
	for _, g := range d.open {
		errs = append(errs, g.close())
	}
	if d.log != nil {
		errs = append(errs, d.log.file.Close())
	}
	return errors.Join(append(errs, d.lock.Close())...)
}

// Close drains the log and closes the disk. No other method may be under way, and none may follow.
func (d *Disk) Close() error {
	close(d.stop)
	d.drainer.Wait()
	err := d.usable()
	if err == nil {
		err = d.drain()
	}
	d.failure.Store(&errClosed)
	return errors.Join(err, d.release())
}

var errClosed = fmt.Errorf("disk: %w", ErrClosed)

// usable says whether the disk takes writes.
func (d *Disk) usable() error {
	if err := d.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// fail keeps the first failure, after which the disk takes no more writes.
func (d *Disk) fail(err error) error {
	if !errors.Is(err, ErrFailed) {
		err = fmt.Errorf("%w: %w", ErrFailed, err)
	}
	d.failure.CompareAndSwap(nil, &err)
	return err
}

// Identity is what Format wrote, with the quota as it is now.
func (d *Disk) Identity() Identity {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.id
}

// SetQuota changes the quota, for good. Below what is in use it refuses further
// growth; above what the file system has, it is refused itself.
func (d *Disk) SetQuota(quota int64) error {
	if err := d.usable(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	id := d.id
	id.Quota = quota
	if err := id.Check(); err != nil {
		return err
	}
	if err := enough(d.fsys, d.dir, quota-d.used); err != nil {
		return fmt.Errorf("disk: set quota: %w", err)
	}
	if err := replace(d.fsys, filepath.Join(d.dir, identityFile), id.encode()); err != nil {
		return fmt.Errorf("disk: set quota: %w", err)
	}
	d.id = id
	return nil
}

// Usage is how much of a disk is taken.
type Usage struct {
	Quota, Used int64 // bytes; the log and what groups have allocated count as used
	Groups      int
	InLog       int64 // bytes of the log that are not drained
	Rotten      int64 // how often a rotten slice was read since Open
}

func (d *Disk) Usage() Usage {
	inLog, _ := d.log.used()
	d.mu.Lock()
	defer d.mu.Unlock()
	return Usage{d.id.Quota, d.used, d.groups, int64(inLog), d.rotten.Load()}
}

// Free is the space that the file system has left, in bytes.
func (d *Disk) Free() (int64, error) { return d.fsys.Free(d.dir) }

// Failure says why the disk takes no writes; nil if it does.
func (d *Disk) Failure() error { return d.usable() }

// charge takes bytes of the quota.
func (d *Disk) charge(n int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n > 0 && d.used+n > d.id.Quota {
		return &QuotaError{d.id.Quota, d.used, n}
	}
	d.used += n
	return nil
}

func (d *Disk) refund(n int64) {
	d.mu.Lock()
	d.used -= n
	d.mu.Unlock()
}
