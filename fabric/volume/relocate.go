package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
)

// Relocate copies an extent of a block to another group and puts the copy in its place: it is written, synced and read back, the block map is
// changed, and the old extent is removed, with its group if that was the last. Requests to the block wait meanwhile. It is ErrMoot if the
// block does not refer to the extent, or cannot be changed. What a failure leaves of the copy is an extent that no block refers to.
func (v *Volume) Relocate(ctx context.Context, number int64, e maps.ExtentID) error {
	err := v.rework(ctx, number, func(b *block, pile []layer) error {
		at := slices.IndexFunc(pile, func(l layer) bool { return l.extent == e && l.own })
		if at < 0 || pile[at].at.Packed != nil { // packed groups are packed again
			return ErrMoot
		}
		to, err := v.allocate(ctx, false, v.space.o.Reserve)
		if err != nil {
			return err
		}
		if err := v.copyLayer(ctx, pile[at], to); err != nil {
			return err
		}
		return v.putInPlace(ctx, b, at, to)
	})
	if err != nil {
		return fmt.Errorf("fabric: copy extent %s of block %d elsewhere: %w", e, number, err)
	}
	return nil
}

// rework has do change what a block is made of; requests to the block wait meanwhile. It is ErrMoot if the vDisk cannot be changed any more, or
// a group is gone: it was packed.
func (v *Volume) rework(ctx context.Context, number int64, do func(*block, []layer) error) error {
	err := v.enter(0, 0, true)
	if err == nil {
		defer v.gate.RUnlock()
		err = v.lost(v.onPile(ctx, number, do))
	}
	if errors.Is(err, ErrReadOnly) || errors.Is(err, maps.ErrNotFound) {
		return ErrMoot
	}
	return err
}

func (v *Volume) onPile(ctx context.Context, number int64, do func(*block, []layer) error) error {
	b, err := v.pin(ctx, number)
	if err != nil {
		return err
	}
	defer v.unpin(b)
	b.spans.take(wholeBlock)
	defer b.spans.give(wholeBlock)
	pile, err := v.layers(ctx, b)
	if err != nil {
		return err
	}
	return do(b, pile)
}

// copyLayer writes what an extent holds to a new one, and reads it back.
func (v *Volume) copyLayer(ctx context.Context, from layer, to maps.ExtentID) error {
	source := v.space.pin(from.at.Group)
	defer v.space.unpin(source)
	mask, err := source.has(ctx)
	if err != nil {
		return err
	}
	first := int(from.offset(0) / disk.SliceSize)
	for slice, end := first, first+disk.BlockSize/disk.SliceSize; slice < end; {
		n := run(&mask, slice, end)
		if n == 0 {
			slice++
			continue
		}
		v.space.giveWay(ctx, n*disk.SliceSize)
		buf := make([]byte, n*disk.SliceSize)
		if err := source.read(ctx, int64(slice)*disk.SliceSize, buf); err != nil {
			return err
		}
		if err := v.writeSurely(ctx, to, int64(slice-first)*disk.SliceSize, buf); err != nil {
			return err
		}
		slice += n
	}
	return v.endsWhole(ctx, to)
}

// giveWay lets clients go first where upkeep is about to copy so much that they would notice. What was written here and there is copied in many small
// steps, and clients of the block wait for all of them.
func (s *Space) giveWay(ctx context.Context, bytes int) {
	if bytes >= noticed {
		s.o.GiveWay(ctx)
	}
}

const noticed = disk.BlockSize / 4

// writeSurely writes to an extent, syncs and reads back.
func (v *Volume) writeSurely(ctx context.Context, to maps.ExtentID, within int64, data []byte) error {
	g := v.space.pin(to.Group)
	defer v.space.unpin(g)
	offset := int64(to.Quarter)*disk.BlockSize + within
	v.space.giveWay(ctx, len(data))
	if err := g.write(ctx, v, offset, data, true); err != nil {
		return err
	}
	v.space.giveWay(ctx, len(data))
	return g.holds(ctx, offset, data)
}

// endsWhole says in the mark of an extent's group that it was synced. A group that lacks a replica is no place to move to.
func (v *Volume) endsWhole(ctx context.Context, to maps.ExtentID) error {
	g := v.space.pin(to.Group)
	defer v.space.unpin(g)
	if err := v.ripen(ctx, g); err != nil {
		return err
	}
	if rec, _, err := v.space.maps.Group(ctx, to.Group); err != nil || rec.State() != group.Whole {
		return errors.Join(err, ErrNoTarget)
	}
	return nil
}

// holds reads from every replica that it has some bytes: from one after the other, so that clients have a processor meanwhile.
func (g *liveGroup) holds(ctx context.Context, offset int64, want []byte) error {
	if err := g.lockReady(ctx, nil); err != nil {
		return err
	}
	defer g.mu.RUnlock()
	got := make([]byte, len(want))
	for _, id := range g.rec.Good {
		err := g.each([]cluster.DiskID{id}, func(ctx context.Context, d Disk) error { return d.Read(ctx, g.id, g.rec.Generation, offset, got) })[0]
		if err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("group %s has other bytes at %d on disk %s than were written", g.id, offset, id)
		}
	}
	return nil
}

// putInPlace has a block refer to another extent in the place of one of its own, which is removed.
func (v *Volume) putInPlace(ctx context.Context, b *block, at int, to maps.ExtentID) error {
	ctx, done, err := v.space.tenure(ctx, v.id, time.Now())
	if err != nil {
		return err
	}
	defer done()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := v.settle(ctx, b); err != nil {
		return err
	}
	old := b.pile[at]
	own := maps.Block{Pile: slices.Clone(b.own.Pile), Opaque: b.own.Opaque, Inherited: b.own.Inherited}
	i := slices.Index(own.Pile, old.extent)
	own.Pile[i] = to
	if i == len(own.Pile)-own.Inherited { // the first of them
		own.Inherited, old.inherited = own.Inherited-1, false
	}
	version, err := v.space.maps.SetBlock(ctx, v.id, b.number, own, b.version)
	if b.changed(err) != nil {
		return err
	}
	b.own, b.version = own, version
	b.pile = slices.Clone(b.pile)
	b.pile[at] = layer{extent: to, at: maps.Extent{Group: to.Group, Quarter: to.Quarter}, located: true, own: true, inherited: old.inherited}
	return v.space.release(ctx, v.id, old.extent)
}
