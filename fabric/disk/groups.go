package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// Create makes an empty group of a vDisk. A crash leaves it to be found whole or not
// at all; a Sync makes it durable.
func (d *Disk) Create(id GroupID, vdisk VDiskID, generation uint64) error {
	if err := d.usable(); err != nil {
		return err
	}
	d.naming.Lock()
	defer d.naming.Unlock()
	if err := d.vacate(id); err != nil {
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

// vacate says whether a group can be made, and clears away what a power cut left of
// an earlier one.
func (d *Disk) vacate(id GroupID) error {
	g, err := d.pin(id)
	var bad *SliceError
	if err == nil || errors.As(err, &bad) {
		if err == nil {
			d.unpin(g)
		}
		return fmt.Errorf("disk: create group %s: %w", id, ErrExists)
	}
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	if err := d.removeFile(id); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
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

// unsynced leaves the name and the header of a new group to the next Sync. Where that
// cannot be, only who opens the disk again knows from the log that it is needed.
func (d *Disk) unsynced(id GroupID) error {
	g, err := d.pin(id)
	if err != nil {
		return d.fail(err)
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
	err = d.removeFile(id)
	if errors.Is(err, fs.ErrNotExist) { // a stranger was first
		err = d.forgetFile(id, g.size)
	}
	if err != nil {
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
	return d.forgetFile(id, size)
}

// forgetFile has a name that was removed stay so before the log forgets the group's slices:
// if the file came back, it would be without them.
func (d *Disk) forgetFile(id GroupID, size int64) error {
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

// Unfinished is the generation of a group that is being copied here. It can be written and
// sealed, but not read: nobody can take it for a replica until Finish.
const Unfinished = 0

// Finish gives an Unfinished group, which was synced before, its generation, for good.
func (d *Disk) Finish(id GroupID, generation uint64) error {
	return d.change(id, func(g *group) (header, error) {
		if g.header.generation != Unfinished || generation == Unfinished {
			return header{}, &GenerationError{id, g.header.generation, generation}
		}
		h := g.header
		h.generation = generation
		return h, nil
	})
}

// Raise gives a group a higher generation, for good: whoever knows only a lower
// one is stale.
func (d *Disk) Raise(id GroupID, generation uint64) error {
	return d.change(id, func(g *group) (header, error) {
		if g.header.generation == Unfinished {
			return header{}, fmt.Errorf("disk: raise group %s: %w", id, ErrUnfinished)
		}
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
