package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/kv"
)

// A snapshot that was removed is kept while another vDisk is read through it, with all that it holds. If there is only one, the heir, it is merged into that: block by block the heir gets what the snapshot has of it under
// what it has itself, and the snapshot loses it. What cannot be seen through the heir is removed. At last the heir's parent is the one of the snapshot (NSDI'17 §3.2).
//
// No byte is copied: the extents stay where they are, in groups of the vDisk that made them, and are not written any more. Between the two
// changes of a block both have its extents. That is no harm as long as the heir has them; before it gives one up, the snapshot's block goes (settle).

// Merge merges a removed snapshot into its heir if that is a snapshot too, and then its parent if that was removed as well, for as long as Options.Piece; Adopt does so for an heir that can be
// written. It is ErrMoot if there is no such snapshot, and ErrUnfinished if there is more to do.
func (s *Space) Merge(ctx context.Context, id disk.VDiskID) error {
	return s.mergeUp(ctx, id, s.mergeSnapshot)
}

// mergeUp merges one snapshot after the other, and removes each. merge gives the parent of the one that it merged.
func (s *Space) mergeUp(ctx context.Context, id disk.VDiskID, merge func(context.Context, disk.VDiskID) (disk.VDiskID, error)) error {
	for first := true; id != 0; first = false {
		parent, err := merge(ctx, id)
		if errors.Is(err, maps.ErrNotFound) || errors.Is(err, ErrReadOnly) || errors.Is(err, kv.ErrTaken) {
			err = ErrMoot
		}
		if err == nil {
			if err = s.ReapVDisk(ctx, id); errors.Is(err, ErrMoot) { // another front does
				err = nil
			}
		}
		if errors.Is(err, ErrMoot) && !first {
			return nil
		}
		if err != nil {
			return fmt.Errorf("fabric: merge vDisk %d: %w", id, err)
		}
		id = parent
	}
	return nil
}

func (s *Space) mergeSnapshot(ctx context.Context, id disk.VDiskID) (parent disk.VDiskID, err error) {
	s.reaping.Lock()
	defer s.reaping.Unlock()
	within, token, done, err := s.seize(ctx, id)
	if err != nil {
		return 0, err
	}
	defer done()
	from, heir, err := s.heirOf(within, id, token)
	if err != nil {
		return 0, err
	}
	if !heir.Snapshot {
		return 0, ErrMoot
	}
	within, _, done, err = s.seize(within, heir.ID)
	if err != nil {
		return 0, err
	}
	defer done()
	err = s.mergeBlocks(within, from, func(b ownBlock) error {
		has := ownBlock{number: b.number}
		if _, err := s.maps.Blocks(within, heir.ID, b.number, b.number+1, func(_ int64, now maps.Block, version kv.Version) error {
			has.Block, has.version = now, version
			return nil
		}); err != nil {
			return err
		}
		_, err := s.hand(within, from, b.number, heir.ID, has, b.number < blocksOf(heir.Reach))
		return err
	})
	if err != nil {
		return 0, err
	}
	return from.Parent, s.update(within, heir.ID, func(v *maps.VDisk) { skip(v, from) })
}

// skip makes a vDisk one of its parent's parent.
func skip(v *maps.VDisk, parent maps.VDisk) {
	v.Parent, v.Reach = parent.Parent, min(v.Reach, parent.Reach)
}

// Adopt merges a removed snapshot into the volume, as Merge does.
func (v *Volume) Adopt(ctx context.Context, id disk.VDiskID) error {
	return v.space.mergeUp(ctx, id, v.adopt)
}

func (v *Volume) adopt(ctx context.Context, id disk.VDiskID) (parent disk.VDiskID, err error) {
	s := v.space
	s.reaping.Lock()
	defer s.reaping.Unlock()
	ctx, token, done, err := s.seize(ctx, id)
	if err != nil {
		return 0, err
	}
	defer done()
	from, heir, err := s.heirOf(ctx, id, token)
	if err == nil {
		err = v.relink(ctx, heir.ID)
	}
	if err == nil {
		err = s.mergeBlocks(ctx, from, func(b ownBlock) error { return v.adoptBlock(ctx, from, b) })
	}
	if err != nil {
		return 0, err
	}
	v.gate.Lock()
	defer v.gate.Unlock()
	if broken := v.broken.Load(); broken != nil {
		return 0, *broken
	}
	if !v.childOf(from.ID) {
		return 0, ErrMoot
	}
	within, done, err := s.tenure(ctx, v.id, time.Now())
	if err != nil {
		return 0, v.lost(err)
	}
	defer done()
	if err := s.update(within, v.id, func(r *maps.VDisk) { skip(r, from) }); err != nil {
		return 0, err
	}
	v.chain = slices.Delete(v.chain, 1, 2)
	return from.Parent, nil
}

// relink finds the parents of the volume, which is that vDisk, again: some may have been merged since it was opened. Those have no blocks any more.
func (v *Volume) relink(ctx context.Context, id disk.VDiskID) error {
	v.gate.Lock()
	defer v.gate.Unlock()
	if v.id != id {
		return ErrMoot
	}
	vdisks, err := v.space.vdisks(ctx)
	if err != nil {
		return err
	}
	chain, reach := []member{v.chain[0]}, v.chain[0].reach
	for at := vdisks[id]; at.Parent != 0; at = vdisks[at.Parent] {
		reach = min(reach, at.Reach)
		chain = append(chain, member{at.Parent, reach})
	}
	v.chain = chain
	return nil
}

// childOf says whether a vDisk is the parent of the volume, which may be another vDisk since it was last asked. Its gate is held.
func (v *Volume) childOf(id disk.VDiskID) bool { return len(v.chain) > 1 && v.chain[1].id == id }

// adoptBlock gives the volume a block of its parent.
func (v *Volume) adoptBlock(ctx context.Context, from maps.VDisk, inherited ownBlock) error {
	if err := v.enter(0, 0, true); err != nil {
		return err
	}
	defer v.gate.RUnlock()
	if !v.childOf(from.ID) {
		return ErrMoot
	}
	b, err := v.pin(ctx, inherited.number)
	if err != nil {
		return err
	}
	defer v.unpin(b)
	b.spans.take(wholeBlock)
	defer b.spans.give(wholeBlock)
	within, done, err := v.space.tenure(ctx, v.id, time.Now())
	if err != nil {
		return v.lost(err)
	}
	defer done()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := v.ascertain(within, b); err != nil {
		return v.lost(err)
	}
	if err := v.syncPile(ctx, b.own.Pile); err != nil { // what it hides is to be hidden after a power cut as well
		return v.lost(err)
	}
	has, err := v.space.hand(within, from, inherited.number, v.id, ownBlock{b.number, b.own, b.version}, b.number < blocksOf(v.chain[1].reach))
	if err != nil && has.version == b.version {
		return v.lost(b.changed(err))
	}
	b.own, b.version = has.Block, has.version // also if it was not finished
	var below []layer                         // of the parents
	for _, l := range b.pile {
		if !l.own && !slices.Contains(inherited.Pile, l.extent) {
			below = append(below, l)
		}
	}
	b.pile = piled(b.own, true, below)
	return v.lost(err)
}

// syncPile makes what was written to extents of a block durable. The block is not written meanwhile.
func (v *Volume) syncPile(ctx context.Context, pile []maps.ExtentID) error {
	v.mu.Lock()
	dirty := slices.ContainsFunc(pile, func(e maps.ExtentID) bool { return v.dirty[e.Group] != nil })
	v.mu.Unlock()
	if !dirty {
		return nil
	}
	return v.flush(ctx)
}

// wholeBlock is all slices of a block, for one who puts what they hold elsewhere.
var wholeBlock = span{0, slicesPerBlock - 1, true, true}

// heirOf finds a removed snapshot, and the only vDisk that is read through it. The snapshot is seized.
func (s *Space) heirOf(ctx context.Context, id disk.VDiskID, token uint64) (from, heir maps.VDisk, err error) {
	if from, _, err = s.maps.VDisk(ctx, id); err != nil {
		return from, heir, err
	}
	vdisks, err := s.vdisks(ctx) // read afterwards: who makes a child now sees that the parent is removed
	if err != nil {
		return from, heir, err
	}
	children := 0
	for _, v := range vdisks {
		if v.Parent == id {
			heir, children = v, children+1
		}
	}
	if !from.Removed || children != 1 || heir.Removed {
		return from, heir, ErrMoot
	}
	return from, heir, s.seal(ctx, from, token)
}

// seal makes a vDisk a snapshot for good that a crash has left in the midst of becoming one. It is seized.
func (s *Space) seal(ctx context.Context, v maps.VDisk, token uint64) error {
	if v.Sealed {
		return nil
	}
	if err := s.finishAll(ctx, v.ID, token); err != nil {
		return err
	}
	still := false
	err := s.update(ctx, v.ID, func(now *maps.VDisk) {
		if still = now.Removed; still { // else its name was found after all
			now.Snapshot, now.Sealed = true, true
		}
	})
	if err == nil && !still {
		err = ErrMoot
	}
	return err
}

// seize gives a context for as long as the lease of a snapshot is surely ours: nobody else merges it, or another into it.
func (s *Space) seize(ctx context.Context, id disk.VDiskID) (_ context.Context, token uint64, done func(), err error) {
	unlock, begun := s.leasing.lock(id), time.Now()
	if s.opened(id) != nil { // it is no snapshot
		unlock()
		return nil, 0, nil, ErrMoot
	}
	lease, err := s.lease(ctx, id)
	if err != nil {
		unlock()
		return nil, 0, nil, err
	}
	within, cancel := context.WithDeadline(ctx, begun.Add(s.o.Lease/2))
	return within, lease.Token, func() {
		cancel()
		s.yield(ctx, id, lease)
		unlock()
	}, nil
}

// An ownBlock is what a vDisk itself has of a block.
type ownBlock struct {
	number int64
	maps.Block
	version kv.Version
}

// ownBlocks lists what a vDisk itself has from first on, up to the end of that part of the map or to end. It gives where the next list begins.
func (s *Space) ownBlocks(ctx context.Context, id disk.VDiskID, first, end int64) (all []ownBlock, next int64, err error) {
	next, err = s.maps.Blocks(ctx, id, first, end, func(number int64, b maps.Block, version kv.Version) error {
		all = append(all, ownBlock{number, b, version})
		return nil
	})
	return all, next, err
}

// mergeBlocks hands over all blocks of a snapshot, or as many as it can in a while. Those before emptied are gone.
func (s *Space) mergeBlocks(ctx context.Context, from maps.VDisk, hand func(ownBlock) error) error {
	begun := time.Now()
	for end := blocksOf(max(from.Size, from.Most)); s.emptied[from.ID] < end; {
		all, next, err := s.ownBlocks(ctx, from.ID, s.emptied[from.ID], end)
		if err != nil {
			return err
		}
		for _, b := range all {
			if err := hand(b); err != nil {
				return err
			}
			if time.Since(begun) > s.o.Piece {
				return ErrUnfinished
			}
		}
		s.emptied[from.ID] = next
	}
	return nil
}

// hand gives a block of a snapshot to its heir, who has the block for itself and what it has of it synced. Extents of which nothing is seen there are removed. It gives what the heir has
// then, also if it fails.
func (s *Space) hand(ctx context.Context, from maps.VDisk, number int64, to disk.VDiskID, has ownBlock, reached bool) (ownBlock, error) {
	all, _, err := s.ownBlocks(ctx, from.ID, number, number+1) // it may be settled by now
	if err != nil || len(all) == 0 {
		return has, err
	}
	b := all[0]
	if err := s.settle(ctx, from.Parent, number, b.Block); err != nil { // so never more than two have the same extents
		return has, err
	}
	if shares(b.Pile, has.Pile) { // it was handed over before a crash
		return has, s.maps.DeleteBlock(ctx, from.ID, number, b.version)
	}
	var seen []maps.ExtentID
	if reached && !has.Opaque {
		if seen, err = s.seenUnder(ctx, has.Pile, b.Pile); err != nil {
			return has, err
		}
		if len(has.Pile)+len(seen) >= maps.MaxPile {
			return has, ErrMoot // unless it is flattened first; the next write adds one
		}
		next := maps.Block{Pile: slices.Concat(has.Pile, seen), Opaque: b.Opaque, Inherited: has.Inherited + len(seen)}
		version, err := s.maps.SetBlock(ctx, to, number, next, has.version)
		if err != nil {
			return has, err
		}
		has.Block, has.version = next, version
	}
	if err := s.maps.DeleteBlock(ctx, from.ID, number, b.version); err != nil {
		return has, err
	}
	for _, e := range b.Pile {
		if slices.Contains(seen, e) {
			continue
		}
		if err := s.release(ctx, from.ID, e); err != nil {
			return has, err
		}
	}
	return has, nil
}

// shares says whether two piles have an extent in common.
func shares(a, b []maps.ExtentID) bool {
	return slices.ContainsFunc(a, func(e maps.ExtentID) bool { return slices.Contains(b, e) })
}

// slicesPerBlock is how many slices an extent has.
const slicesPerBlock = disk.BlockSize / disk.SliceSize

// seenUnder gives those extents of a pile of which a slice is seen under another pile and those before them.
func (s *Space) seenUnder(ctx context.Context, over, pile []maps.ExtentID) (seen []maps.ExtentID, err error) {
	var written [slicesPerBlock]bool
	for i, e := range slices.Concat(over, pile) {
		at, _, err := s.maps.Extent(ctx, e)
		if err != nil {
			return nil, err
		}
		has, err := s.writtenIn(ctx, at)
		if err != nil {
			return nil, err
		}
		more := false
		for slice := range written {
			if !written[slice] && has(slice) {
				written[slice], more = true, true
			}
		}
		if more && i >= len(over) {
			seen = append(seen, e)
		}
	}
	return seen, nil
}

// writtenIn says which slices of an extent were ever written. The disks are asked: another front may have written more than is known here.
func (s *Space) writtenIn(ctx context.Context, at maps.Extent) (has func(slice int) bool, err error) {
	if at.Packed != nil {
		return at.Packed.Index.Written.Has, nil
	}
	g := s.pin(at.Group)
	defer s.unpin(g)
	s.doubtGroup(at.Group)
	mask, err := g.has(ctx)
	first := int(at.Quarter) * disk.BlockSize / disk.SliceSize
	return func(slice int) bool { return mask.Has(first + slice) }, err
}

// settle finishes what a merge began with a block, before an extent leaves it. The block is locked.
func (v *Volume) settle(ctx context.Context, b *block) error {
	if len(v.chain) == 1 {
		return nil
	}
	return v.space.settle(ctx, v.chain[1].id, b.number, b.own)
}

// settle takes a block away from a parent that is being merged, if its child has the block's extents already.
func (s *Space) settle(ctx context.Context, parent disk.VDiskID, number int64, has maps.Block) error {
	if has.Inherited == 0 || parent == 0 {
		return nil
	}
	for {
		both, _, err := s.ownBlocks(ctx, parent, number, number+1)
		if err != nil || len(both) == 0 || !shares(both[0].Pile, has.Pile) {
			return err
		}
		if err := s.maps.DeleteBlock(ctx, parent, number, both[0].version); !errors.Is(err, maps.ErrChanged) {
			return err
		}
	}
}
