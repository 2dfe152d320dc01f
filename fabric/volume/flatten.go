package volume

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
)

// Flatten makes one extent of those that the vDisk itself has of a block: what is seen of the lower ones is written into the one on top, or into a new one if that cannot be written;
// it is synced and read back, the block map is changed, and the others are removed. Requests to the block wait meanwhile.
func (v *Volume) Flatten(ctx context.Context, number int64) error {
	err := v.rework(ctx, number, func(b *block, pile []layer) error { return v.flatten(ctx, b, pile) })
	if err != nil {
		return fmt.Errorf("fabric: make one extent of block %d: %w", number, err)
	}
	return nil
}

func (v *Volume) flatten(ctx context.Context, b *block, pile []layer) error {
	if err := v.syncPile(ctx, b.own.Pile); err != nil { // what hides the others is to do so after a power cut
		return err
	}
	own := slices.IndexFunc(pile, func(l layer) bool { return !l.own })
	if own < 0 {
		own = len(pile)
	}
	if own < 2 {
		return nil
	}
	to := pile[0].extent
	if !pile[0].writable() {
		var err error
		if to, err = v.allocate(ctx, false, v.space.o.Reserve); err != nil {
			return err
		}
	}
	if err := v.copyPile(ctx, pile[:own], to); err != nil {
		return err
	}
	return v.replacePile(ctx, b, own, to)
}

// copyPile writes what is seen of a pile to an extent, which may be the one on top.
func (v *Volume) copyPile(ctx context.Context, pile []layer, to maps.ExtentID) error {
	for within := int64(0); within < disk.BlockSize; {
		top, n, err := v.visible(ctx, pile, within, disk.BlockSize-within)
		if err != nil {
			return err
		}
		if top >= 0 && pile[top].extent != to {
			buf := make([]byte, n)
			if err := v.readLayer(ctx, pile[top], within, buf); err != nil {
				return err
			}
			if err := v.writeSurely(ctx, to, within, buf); err != nil {
				return err
			}
		}
		within += n
	}
	return v.endsWhole(ctx, to)
}

// replacePile has a block refer to one extent in the place of its first ones. The others are removed.
func (v *Volume) replacePile(ctx context.Context, b *block, own int, to maps.ExtentID) error {
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
	next := maps.Block{Pile: []maps.ExtentID{to}, Opaque: b.own.Opaque}
	version, err := v.space.maps.SetBlock(ctx, v.id, b.number, next, b.version)
	if b.changed(err) != nil {
		return err
	}
	gone := b.own.Pile
	b.own, b.version = next, version
	top := layer{extent: to, at: maps.Extent{Group: to.Group, Quarter: to.Quarter}, located: true, own: true}
	b.pile = append([]layer{top}, b.pile[own:]...)
	for _, e := range gone {
		if e == to {
			continue
		}
		if err := v.space.release(ctx, v.id, e); err != nil {
			return err
		}
	}
	return nil
}
