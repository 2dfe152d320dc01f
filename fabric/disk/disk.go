package disk

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	OpenGroups int    // about as many groups are kept open; 256 if 0
}

// A Disk is an open disk. Its methods may be called at the same time.
type Disk struct {
	fsys   FS
	dir    string
	lock   io.Closer
	log    *ring
	fences *fences
	index  index
	limit  int // of open groups

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
		index: index{groups: map[GroupID]map[int]version{}}, wake: make(chan struct{}, 1), stop: make(chan struct{})}
	d.flushes.ended.L = &d.flushes.mu
	if d.limit <= 0 {
		d.limit = 256
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
	for _, folder := range []string{dir, filepath.Join(dir, groupsFolder)} {
		if err = fsys.SyncDir(folder); err != nil {
			return nil, err
		}
	}
	if d.id, err = readIdentity(fsys, dir); err != nil { // again: the quota may have changed before the lock
		return nil, err
	}
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
}

func (d *Disk) Usage() Usage {
	inLog, _ := d.log.used()
	d.mu.Lock()
	defer d.mu.Unlock()
	return Usage{d.id.Quota, d.used, d.groups, int64(inLog)}
}

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

// pin gives an open group that stays open until unpin.
func (d *Disk) pin(id GroupID) (*group, error) {
	d.mu.Lock()
	g, found := d.open[id]
	if !found {
		g = &group{id: id, ready: make(chan struct{})}
		d.open[id] = g
		g.place = d.order.PushFront(g)
	}
	g.pins++
	d.order.MoveToFront(g.place)
	d.mu.Unlock()

	if found {
		<-g.ready
	} else {
		g.unusable = g.load(d.fsys, d.groupFile(id))
		close(g.ready)
	}
	if err := g.unusable; err != nil {
		d.mu.Lock()
		d.evict(g)
		d.mu.Unlock()
		d.unpin(g)
		return nil, err
	}
	return g, nil
}

// unpin lets go of a group, and closes the clean ones that were not used for longest.
func (d *Disk) unpin(g *group) {
	d.mu.Lock()
	g.pins--
	var closing []*group
	if g.pins == 0 && g.place == nil {
		closing = append(closing, g)
	}
	for at := d.order.Back(); at != nil && d.order.Len() > d.limit; {
		old := at.Value.(*group)
		at = at.Prev()
		if old.pins == 0 && !old.dirty {
			d.evict(old)
			closing = append(closing, old)
		}
	}
	d.mu.Unlock()
	for _, old := range closing {
		old.close()
	}
}

// evict has a group found no more; d.mu is held.
func (d *Disk) evict(g *group) {
	if g.place == nil {
		return
	}
	delete(d.open, g.id)
	d.order.Remove(g.place)
	g.place = nil
}

// soil notes that a group is about to be written.
func (d *Disk) soil(g *group) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !g.dirty {
		g.dirty = true
		d.dirty++
	}
}

// Create makes an empty group of a vDisk. A crash leaves it to be found whole or not
// at all; a Sync makes it durable.
func (d *Disk) Create(id GroupID, vdisk VDiskID, generation uint64) error {
	if err := d.usable(); err != nil {
		return err
	}
	d.naming.Lock()
	defer d.naming.Unlock()
	g, err := d.pin(id)
	if err == nil {
		d.unpin(g)
	}
	if !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("disk: create group %s: %w", id, errors.Join(ErrExists, err))
	}
	if err := d.removeFile(id); err != nil && !errors.Is(err, fs.ErrNotExist) { // what a power cut left of an earlier one
		return err
	}
	if err := d.charge(slicesStart); err != nil {
		return err
	}
	defer d.setMaking(nil)
	born, err := d.announce(id)
	if err == nil {
		err = d.createFile(header{group: id, vdisk: vdisk, generation: generation, born: born})
	}
	if err != nil {
		d.refund(slicesStart)
		return fmt.Errorf("disk: create group %s: %w", id, err)
	}
	d.mu.Lock()
	if g := d.open[id]; g != nil {
		d.evict(g) // somebody looked for it too early
	}
	d.groups++
	d.mu.Unlock()
	return d.unsynced(id)
}

// announce tells the log that a group is being made, so that whoever opens the disk after
// a crash syncs it. It gives where the log then ends.
func (d *Disk) announce(id GroupID) (uint64, error) {
	from := d.log.end()
	d.setMaking(&from)
	for !d.log.reserve(frame, 0) {
		if err := d.drain(); err != nil {
			return 0, err
		}
	}
	defer d.log.release(frame)
	_, end, err := d.log.append(record{kind: made, group: id}, make([]byte, frame))
	if err != nil {
		return 0, d.fail(err)
	}
	return end, nil
}

func (d *Disk) setMaking(from *uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.making = from
}

// unsynced leaves the name and the header of a new group to the next Sync.
func (d *Disk) unsynced(id GroupID) error {
	g, err := d.pin(id)
	if err != nil {
		return err
	}
	defer d.unpin(g)
	d.soil(g)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made++
	return nil
}

func (d *Disk) createFile(h header) error {
	name := d.groupFile(h.group)
	f, err := d.fsys.Create(name + unfinished)
	if err != nil {
		return err
	}
	err = f.Allocate(slicesStart)
	if err == nil {
		front := make([]byte, tableStart)
		copy(front, h.encode())
		copy(front[secondHeader:], h.encode())
		_, err = f.WriteAt(front, 0)
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = d.fsys.Rename(name+unfinished, name)
	}
	if err != nil {
		return errors.Join(err, d.fsys.Remove(name+unfinished))
	}
	return nil
}

// Remove deletes a group, for good. A caller of an older generation is refused. A
// group whose header is rotten can be removed by anyone, and so can what a power
// cut left of one that was never synced.
func (d *Disk) Remove(id GroupID, generation uint64) error {
	if err := d.usable(); err != nil {
		return err
	}
	d.naming.Lock()
	defer d.naming.Unlock()
	g, err := d.pin(id)
	var bad *SliceError
	if errors.As(err, &bad) || errors.Is(err, ErrNotFound) {
		if failed := d.removeFile(id); !errors.Is(failed, fs.ErrNotExist) {
			return failed
		}
	}
	if err != nil {
		return err
	}
	defer d.unpin(g)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.there(); err != nil {
		return err
	}
	if generation < g.header.generation {
		return &GenerationError{id, g.header.generation, generation}
	}
	if err := d.removeFile(id); err != nil {
		return err
	}
	g.gone = true
	d.mu.Lock()
	defer d.mu.Unlock()
	if g.dirty {
		g.dirty = false
		d.dirty--
	}
	d.evict(g)
	return nil
}

// removeFile removes the name for good before the log forgets the group's slices:
// if the file came back, it would be without them.
func (d *Disk) removeFile(id GroupID) error {
	name := d.groupFile(id)
	f, err := d.fsys.Open(name)
	if err != nil {
		return fmt.Errorf("disk: remove group %s: %w", id, err)
	}
	size, err := f.Size()
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("disk: remove group %s: %w", id, err)
	}
	if err := d.fsys.Remove(name); err != nil {
		return fmt.Errorf("disk: remove group %s: %w", id, err)
	}
	if err := d.fsys.SyncDir(filepath.Join(d.dir, groupsFolder)); err != nil {
		return d.fail(fmt.Errorf("remove group %s: %w", id, err))
	}
	d.index.forget(id)
	d.refund(size)
	d.mu.Lock()
	d.groups--
	d.mu.Unlock()
	return nil
}

// Fence refuses, from now on and for good, writers of a vDisk with a lower token.
func (d *Disk) Fence(vdisk VDiskID, token uint64) error {
	if err := d.usable(); err != nil {
		return err
	}
	return d.fences.raise(vdisk, token)
}

// Seal ends writing to a group, for good. What was written is synced first.
func (d *Disk) Seal(id GroupID, generation, token uint64) error {
	if err := d.Sync(); err != nil {
		return err
	}
	return d.change(id, func(g *group) (header, error) {
		if err := g.allows(generation); err != nil {
			return header{}, err
		}
		if err := d.fences.enter(g.header.vdisk, token); err != nil {
			return header{}, err
		}
		d.fences.leave()
		h := g.header
		h.sealed = true
		return h, nil
	})
}

// Raise gives a group a higher generation, for good: whoever knows only a lower
// one is stale.
func (d *Disk) Raise(id GroupID, generation uint64) error {
	return d.change(id, func(g *group) (header, error) {
		if generation < g.header.generation {
			return header{}, &GenerationError{id, g.header.generation, generation}
		}
		h := g.header
		h.generation = generation
		return h, nil
	})
}

// change replaces a group's header by what decide makes of it.
func (d *Disk) change(id GroupID, decide func(*group) (header, error)) error {
	if err := d.usable(); err != nil {
		return err
	}
	g, err := d.pin(id)
	if err != nil {
		return err
	}
	defer d.unpin(g)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.there(); err != nil {
		return err
	}
	h, err := decide(g)
	if err != nil || h == g.header {
		return err
	}
	if err := g.setHeader(h); err != nil {
		return d.fail(err)
	}
	return nil
}

// Info is what a disk knows of a group.
type Info struct {
	VDisk      VDiskID
	Generation uint64
	Sealed     bool
	Allocated  int64 // bytes of the quota
	Written    int   // slices
}

func (d *Disk) Stat(id GroupID) (Info, error) {
	g, err := d.pin(id)
	if err != nil {
		return Info{}, err
	}
	defer d.unpin(g)
	g.mu.RLock()
	defer g.mu.RUnlock()
	if err := g.there(); err != nil {
		return Info{}, err
	}
	info := Info{VDisk: g.header.vdisk, Generation: g.header.generation, Sealed: g.header.sealed, Allocated: g.size}
	versions := d.index.of(id)
	for slice := range SlicesPerGroup {
		if current(g, versions, slice).state != never {
			info.Written++
		}
	}
	return info, nil
}

// List calls visit for each group, in no order, and ends with its error. A group
// made or removed meanwhile may come or not. One that was never synced before a power
// cut may come and not be found.
func (d *Disk) List(visit func(GroupID) error) error {
	return d.fsys.List(filepath.Join(d.dir, groupsFolder), func(name string) error {
		id, ok := parseGroup(name)
		if !ok {
			return nil
		}
		return visit(id)
	})
}
