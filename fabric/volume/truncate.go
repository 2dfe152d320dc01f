package volume

import (
	"context"
	"errors"
	"fmt"

	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
)

// Truncate has the disks of a group give back the blocks behind the last extent that is in it (NSDI'17 §3.2.3), and says so in its record. It is ErrMoot if there is none to give back.
// Extents that were removed are never made again, so nobody needs what is behind.
func (s *Space) Truncate(ctx context.Context, id disk.GroupID) error {
	err := s.truncate(ctx, id)
	if errors.Is(err, maps.ErrNotFound) || errors.Is(err, disk.ErrInUse) || errors.Is(err, group.ErrState) {
		err = ErrMoot
	}
	if err != nil {
		return fmt.Errorf("fabric: truncate group %s: %w", id, err)
	}
	return nil
}

func (s *Space) truncate(ctx context.Context, id disk.GroupID) error {
	g := s.pin(id)
	defer s.unpin(g)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.load(ctx); err != nil {
		return err
	}
	if g.rec.Packed() || g.unsure || g.rec.State() != group.Whole {
		return ErrMoot
	}
	_, marked, err := s.maps.Marked(ctx, g.rec.VDisk, id)
	if err != nil {
		return err
	}
	if marked && !g.marked { // by a writer that is gone, or at another front: the replicas may differ
		return ErrMoot
	}
	left, err := g.residents(ctx)
	if err != nil {
		return err
	}
	blocks := 0
	for _, e := range left {
		blocks = max(blocks, int(e.At.Quarter)+1)
	}
	cut := maps.ExtentsPerGroup - blocks
	if blocks == 0 || cut <= g.rec.Cut { // a group without extents is removed
		return ErrMoot
	}
	g.raise() // who changed the list may have died before it did
	if err := errors.Join(g.each(g.rec.Good, func(ctx context.Context, d Disk) error { return d.Truncate(ctx, id, g.rec.Generation, blocks) })...); err != nil {
		return err
	}
	g.forgetMask()
	truncated := g.rec.Generation
	return g.change(ctx, func(rec group.Group) (group.Group, error) {
		if rec.Generation != truncated || rec.State() != group.Whole { // another replica was being made
			return rec, group.ErrState
		}
		return rec.Shorten(cut)
	})
}
