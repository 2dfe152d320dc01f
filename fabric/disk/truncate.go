package disk

import "fmt"

// Truncate gives back the space of a group's blocks from the nth on, which nobody needs or writes any more. Their slices are as if they had never been written, for
// good once it returned. It is ErrInUse if one was written since the log was last drained.
func (d *Disk) Truncate(id GroupID, generation uint64, blocks int) error {
	if blocks < 0 || blocks > GroupSize/BlockSize {
		return fmt.Errorf("disk: truncate group %s to %d blocks: %w", id, blocks, ErrRange)
	}
	if err := d.usable(); err != nil {
		return err
	}
	g, err := d.pin(id)
	if err != nil {
		return err
	}
	defer d.unpin(g)
	first, size := blocks*BlockSize/SliceSize, slicesStart+int64(blocks)*BlockSize
	if short, err := g.isShort(generation, size); err != nil || short {
		return err
	}
	if d.tells(g, first) {
		if err := d.drain(); err != nil {
			return err
		}
	}
	d.draining.Lock() // what a drain has dropped from the index is in the log until it ends
	defer d.draining.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.allows(generation); err != nil {
		return err
	}
	if d.index.has(id, first) { // the log would tell of slices that are gone
		return fmt.Errorf("disk: truncate group %s to %d blocks: %w", id, blocks, ErrInUse)
	}
	if err := g.truncate(first, size); err != nil {
		return d.fail(fmt.Errorf("truncate group %s: %w", id, err))
	}
	d.refund(g.size - size)
	g.size = size
	return nil
}

// tells says whether the log tells of slices of a group from one on.
func (d *Disk) tells(g *group, first int) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return d.index.has(g.id, first)
}

// isShort says whether a group has no more bytes than that.
func (g *group) isShort(generation uint64, size int64) (bool, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.size <= size, g.allows(generation)
}

// truncate says in the table that slices were never written before it takes their space. The group is locked.
func (g *group) truncate(first int, size int64) error {
	clear(g.table[first:])
	if _, err := g.file.WriteAt(encodeTable(g.id, g.table), tableStart); err != nil {
		return err
	}
	if err := g.file.Sync(); err != nil {
		return err
	}
	if err := g.file.Truncate(size); err != nil {
		return err
	}
	return g.file.Sync()
}
