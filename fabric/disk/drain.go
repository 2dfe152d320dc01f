package disk

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Sync makes all durable that was answered before it was called. Those who come
// while one is under way share the next.
func (d *Disk) Sync() error {
	if err := d.usable(); err != nil {
		return err
	}
	if err := d.flushes.join(d.flush); err != nil {
		return d.fail(err)
	}
	return nil
}

// flush syncs the group files, the names of new ones, and the log.
func (d *Disk) flush() error {
	upto := d.log.beginFlush()
	dirty, made := d.takeDirty()
	errs := []error{d.syncAll(dirty)}
	if made > d.named.Load() {
		errs = append(errs, d.fsys.SyncDir(filepath.Join(d.dir, groupsFolder)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	d.named.Store(made)
	if err := d.log.sync(upto); err != nil {
		return err
	}
	d.log.notePlaced(upto)
	return nil
}

// syncsAtOnce is how many group files are synced side by side: a disk is quickest with a queue to choose from.
const syncsAtOnce = 8

// syncAll syncs groups and unpins them.
func (d *Disk) syncAll(groups []*group) error {
	var all errgroup.Group
	all.SetLimit(syncsAtOnce)
	for _, g := range groups {
		all.Go(func() error {
			defer d.unpin(g)
			return g.sync()
		})
	}
	return all.Wait()
}

// sync first waits for a write that is under way: its record may be before where
// flush syncs to.
func (g *group) sync() error {
	g.mu.RLock()
	file := g.file
	g.mu.RUnlock()
	if err := file.Sync(); err != nil {
		return fmt.Errorf("sync group %s: %w", g.id, err)
	}
	return nil
}

// takeDirty gives the groups that have to be synced, pinned, and how many were made so far.
func (d *Disk) takeDirty() (dirty []*group, made int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at := d.order.Front(); at != nil && len(dirty) < d.dirty; at = at.Next() {
		if g := at.Value.(*group); g.dirty {
			g.dirty = false
			g.pins++
			dirty = append(dirty, g)
		}
	}
	d.dirty = 0
	return dirty, d.made
}

// drain brings all that the log holds to the groups and frees it. See the package comment for the order.
func (d *Disk) drain() error {
	d.draining.Lock()
	defer d.draining.Unlock()
	if err := d.usable(); err != nil {
		return err
	}
	if err := d.drainTo(d.drainable()); err != nil {
		return d.fail(err)
	}
	return nil
}

// drainable is how far the log may be drained: a group that is being made is not among
// those that a flush syncs yet, so the log goes on to tell of it.
func (d *Disk) drainable() uint64 {
	end := d.log.end()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.making != nil {
		return min(end, *d.making)
	}
	return end
}

func (d *Disk) drainTo(upto uint64) error {
	_, versions := d.log.used()
	if err := d.log.sync(upto); err != nil {
		return err
	}
	for _, id := range d.index.all() {
		if err := d.drainGroup(id, upto); err != nil {
			return err
		}
		if err := d.relieve(); err != nil {
			return err
		}
	}
	if err := d.flushes.join(d.flush); err != nil {
		return err
	}
	return d.log.moveTail(upto, versions)
}

// relieve syncs the groups that wait for it, once they are so many that no others can be kept open.
func (d *Disk) relieve() error {
	if d.dirtyGroups() < d.limit {
		return nil
	}
	return d.flushes.join(d.flush)
}

// dirtyGroups is how many groups are kept open because they wait for a sync.
func (d *Disk) dirtyGroups() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dirty
}

// drainGroup brings the slices of one group from the log to its file, and then its table.
// A group that was removed meanwhile, or whose header is rotten, has no use for them.
func (d *Disk) drainGroup(id GroupID, upto uint64) error {
	g, err := d.pin(id)
	var bad *SliceError
	if errors.Is(err, ErrNotFound) || errors.As(err, &bad) {
		d.index.forget(id)
		return nil
	}
	if err != nil {
		return err
	}
	defer d.unpin(g)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone {
		return nil
	}
	versions := d.index.of(id)
	due := versions.before(upto)
	if len(due) == 0 {
		return nil
	}
	d.soil(g)
	if err := d.moveSlices(g, versions, due); err != nil {
		return fmt.Errorf("drain group %s: %w", id, err)
	}
	if _, err := g.file.WriteAt(encodeTable(id, g.table), tableStart); err != nil {
		return fmt.Errorf("drain group %s: %w", id, err)
	}
	d.index.drop(id, due)
	return nil
}

// moveSlices writes the slices that are in the log to the file, and notes in
// the table what each is. One that rotted in the log is noted as such.
func (d *Disk) moveSlices(g *group, versions *versions, due []int) error {
	buf := takeBuffer(mostSlices * SliceSize)
	defer giveBuffer(buf)
	for len(due) > 0 {
		first := due[0]
		run := 1
		from, _ := versions.get(first)
		for run < min(len(due), mostSlices) && due[run] == first+run && from.joins(current(g, versions, first+run), run) {
			run++
		}
		if from.logged {
			if err := d.moveRun(g, from.at, first, (*buf)[:run*SliceSize]); err != nil {
				return err
			}
		}
		for i, slice := range due[:run] {
			v, _ := versions.get(slice)
			if v.logged && checksum((*buf)[i*SliceSize:][:SliceSize]) != v.sum {
				v.entry = entry{state: rotten}
			}
			g.table[slice] = v.entry
		}
		due = due[run:]
	}
	return nil
}

func (d *Disk) moveRun(g *group, at uint64, first int, buf []byte) error {
	if err := readFull(d.log.file, buf, d.log.offset(at)); err != nil {
		return err
	}
	_, err := g.file.WriteAt(buf, sliceOffset(first))
	return err
}

// wakeDrainer has the log drained once it is half full.
func (d *Disk) wakeDrainer() {
	bytes, versions := d.log.used()
	if bytes < d.log.size/2 && versions < mostVersions/2 && d.dirtyGroups() < d.limit/2 {
		return
	}
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *Disk) drainInBackground() {
	for {
		select {
		case <-d.stop:
			return
		case <-d.wake:
			_ = d.drain() // a failure is kept, and told to the next writer
		}
	}
}

// flight lets callers share a run: each waits for one that began after it came.
type flight struct {
	mu      sync.Mutex
	ended   sync.Cond
	running bool
	begun   uint64
	done    uint64
	err     error // of the run that ended last
}

func (f *flight) join(run func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for want := f.begun + 1; f.done < want; {
		if f.running {
			f.ended.Wait()
			continue
		}
		f.running = true
		f.begun++
		f.mu.Unlock()
		err := run()
		f.mu.Lock()
		f.running, f.done, f.err = false, f.begun, err
		f.ended.Broadcast()
	}
	return f.err
}
