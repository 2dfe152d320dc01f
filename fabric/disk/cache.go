package disk

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
