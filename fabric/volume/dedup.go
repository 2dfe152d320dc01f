package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/kv"
)

// Dedup has a packed extent share the bytes of another that are equal, of any vDisk. Where those are read back they have the fingerprint of both; then the group that has them
// admits the extent as a tenant, the extent's record is changed, and the group that it was in is removed if it was the last. Where the two are not equal any more,
// or fewer disks of the other group may be lost, it does nothing and gives ErrMoot.
func (s *Space) Dedup(ctx context.Context, keep, gone maps.ExtentID) error {
	err := s.dedup(ctx, keep, gone)
	switch {
	case errors.Is(err, maps.ErrNotFound), errors.Is(err, maps.ErrChanged), errors.Is(err, group.ErrDead), errors.Is(err, group.ErrState), errors.Is(err, group.ErrFull), errors.Is(err, kv.ErrTaken):
		err = ErrMoot
	}
	if err != nil {
		return fmt.Errorf("fabric: share extent %s with %s: %w", keep, gone, err)
	}
	return nil
}

func (s *Space) dedup(ctx context.Context, keep, gone maps.ExtentID) error {
	at, _, err := s.maps.Extent(ctx, keep)
	if err != nil {
		return err
	}
	was, _, err := s.maps.Extent(ctx, gone)
	if err != nil {
		return err
	}
	if at.Group == was.Group { // Pack shares what is equal in one group
		return ErrMoot
	}
	to, from := s.pin(at.Group), s.pin(was.Group)
	defer s.unpin(to)
	defer s.unpin(from)
	defer lockAll(to, from)()
	if err := errors.Join(to.load(ctx), from.load(ctx)); err != nil {
		return err
	}
	return to.share(ctx, from, keep, gone)
}

// share has an extent that is in another group share the bytes of one that is in this. Both groups are locked: no extent leaves them meanwhile.
func (g *liveGroup) share(ctx context.Context, from *liveGroup, keep, gone maps.ExtentID) error {
	at, _, err := g.space.maps.Extent(ctx, keep)
	if err != nil {
		return err
	}
	was, version, err := g.space.maps.Extent(ctx, gone)
	switch {
	case err != nil:
		return err
	case at.Packed == nil, was.Packed == nil, at.Group != g.id, was.Group != from.id, at.Packed.Print != was.Packed.Print:
		return ErrMoot
	case g.rec.State() != group.Whole:
		return ErrMoot
	case g.rec.Wanted-g.rec.Needs() < from.rec.Wanted-from.rec.Needs():
		return ErrMoot
	}
	g.raise()                                      // who changed the list may have died before it did
	if _, err := g.contents(ctx, at); err != nil { // they are there, and as the fingerprint says
		return err
	}
	err = g.space.sharing(ctx, func(ctx context.Context) error {
		if err := g.change(ctx, func(rec group.Group) (group.Group, error) { return rec.Admit(gone) }); err != nil {
			return err
		}
		return g.space.maps.SetExtent(ctx, gone, at, version)
	})
	if err != nil {
		return err
	}
	_, err = from.removeEmpty(ctx)
	return err
}

// lockAll locks groups in the order of their numbers, so that two who do so never wait for each other.
func lockAll(groups ...*liveGroup) (unlock func()) {
	ordered := slices.SortedFunc(slices.Values(groups), func(a, b *liveGroup) int { return cmp.Compare(a.id, b.id) })
	for _, g := range ordered {
		g.mu.Lock()
	}
	return func() {
		for _, g := range ordered {
			g.mu.Unlock()
		}
	}
}
