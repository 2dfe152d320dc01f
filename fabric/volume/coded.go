package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/fabric/pack"
	"gleaner/fabric/tiering"
)

// shards are a coded group as its record was when they were asked for.
type shards struct {
	space *Space
	id    disk.GroupID
	rec   group.Group
}

func (g *liveGroup) shards() shards { return shards{g.space, g.id, g.rec} }

// readCoded fills buf with bytes of a coded group.
func (g *liveGroup) readCoded(ctx context.Context, offset int64, buf []byte) error {
	for pause, aligned := newBackoff(g.space.o.Patience), false; ; {
		if err := g.lockReady(ctx, nil); err != nil {
			return err
		}
		g.used(&g.readIn[offset/disk.BlockSize%maps.ExtentsPerGroup], tiering.ReadOnce, tiering.ReadIn)
		damaged, err := g.shards().read(ctx, offset, buf)
		g.mu.RUnlock()
		if err == nil {
			for _, id := range damaged {
				g.space.o.Damaged(g.id, id)
			}
			return nil
		}
		var generation *disk.GenerationError
		if errors.As(err, &generation) || errors.Is(err, disk.ErrNotFound) {
			if err := g.align(ctx); err != nil {
				return err
			}
			if !aligned { // on a busy machine patience may be over by now
				aligned = true
				continue
			}
		}
		if !pause.wait(ctx) {
			return fmt.Errorf("fabric: read group %s: %w", g.id, err)
		}
	}
}

// readLocked fills buf with bytes of a group, coded or not. The group is locked.
func (g *liveGroup) readLocked(ctx context.Context, offset int64, buf []byte) error {
	if !g.rec.Coded() {
		return g.readAny(ctx, g.rec.Good, offset, buf)
	}
	_, err := g.shards().read(ctx, offset, buf)
	return err
}

// read fills buf, shard by shard, and gives the disks that have lost something of theirs.
func (s shards) read(ctx context.Context, offset int64, buf []byte) (damaged []cluster.DiskID, err error) {
	for len(buf) > 0 {
		shard, within := int(offset/s.rec.Length), offset%s.rec.Length
		n := min(int64(len(buf)), s.rec.Length-within)
		bad, err := s.readPart(ctx, shard, within, buf[:n])
		if err != nil {
			return nil, err
		}
		damaged = append(damaged, bad...)
		offset, buf = offset+n, buf[n:]
	}
	return damaged, nil
}

// readPart fills buf with a part of a shard: from its disk, or computed from the others where that fails or takes long.
func (s shards) readPart(ctx context.Context, shard int, within int64, buf []byte) (damaged []cluster.DiskID, err error) {
	i := slices.Index(s.rec.Shards, shard)
	if i < 0 {
		return nil, s.compute(ctx, shard, within, buf)
	}
	if id := s.rec.Good[i]; !s.space.shuns(id) {
		err = hedged(ctx, buf, func(ctx context.Context, buf []byte) error { return s.readFrom(ctx, id, within, buf) },
			func(ctx context.Context, buf []byte) error {
				s.space.shun(id)
				return s.compute(ctx, shard, within, buf)
			})
		if err == nil {
			return nil, nil
		}
		if s.space.shun(id); isDamage(err) {
			damaged = append(damaged, id)
		}
	}
	failed := s.compute(ctx, shard, within, buf)
	if failed == nil || s.readFrom(ctx, s.rec.Good[i], within, buf) == nil { // it may have been passed over
		return damaged, nil
	}
	return nil, errors.Join(err, failed)
}

func (s shards) readFrom(ctx context.Context, id cluster.DiskID, within int64, buf []byte) error {
	d, err := s.space.pool.Disk(id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.space.o.Answer)
	defer cancel()
	return d.Read(ctx, s.id, s.rec.Generation, within, buf)
}

// compute fills buf with a part of a shard from the same part of others, slice by slice where some have lost other slices than others have.
func (s shards) compute(ctx context.Context, shard int, within int64, buf []byte) error {
	parts, err := s.others(ctx, shard, within, len(buf))
	if err == nil {
		var part []byte
		if part, err = pack.Compute(parts, s.rec.Data, shard); err == nil {
			copy(buf, part)
		}
		return err
	}
	if len(buf) <= int(disk.SliceSize-within%disk.SliceSize) {
		return err
	}
	for len(buf) > 0 {
		n := min(len(buf), int(disk.SliceSize-within%disk.SliceSize))
		if err := s.compute(ctx, shard, within, buf[:n]); err != nil {
			return err
		}
		within, buf = within+int64(n), buf[n:]
	}
	return nil
}

// others reads a part of as many shards as are needed, but for one. It asks no more disks than it must.
func (s shards) others(ctx context.Context, but int, within int64, n int) ([][]byte, error) {
	parts, have := make([][]byte, s.rec.Wanted), 0
	var failed []error
	left := slices.DeleteFunc(slices.Clone(s.space.order(s.rec.Good)), func(id cluster.DiskID) bool { return s.has(id) == but })
	for have < s.rec.Data {
		asked := left[:min(len(left), s.rec.Data-have)]
		if left = left[len(asked):]; len(asked) == 0 {
			return nil, fmt.Errorf("%d of %d shards can be read: %w", have, s.rec.Data, errors.Join(failed...))
		}
		got, errs := make([][]byte, len(asked)), make([]error, len(asked))
		var all sync.WaitGroup
		for i, id := range asked {
			all.Go(func() {
				got[i] = make([]byte, n)
				errs[i] = s.readFrom(ctx, id, within, got[i])
			})
		}
		all.Wait()
		for i, id := range asked {
			if errs[i] == nil {
				parts[s.has(id)] = got[i]
				have++
			} else {
				s.space.shun(id)
				failed = append(failed, fmt.Errorf("disk %s: %w", id, errs[i]))
			}
		}
	}
	return parts, nil
}

// has is which shard a disk has.
func (s shards) has(id cluster.DiskID) int { return s.rec.Shards[slices.Index(s.rec.Good, id)] }

// rebuilt is which shard is being built: the one that is lost, or else that of a disk which is to be replaced. The group is locked.
func (g *liveGroup) rebuilt(replaced cluster.DiskID) int {
	if g.rec.State() == group.Repairing {
		return g.rec.Lost()
	}
	return g.shards().has(replaced)
}

// eachPart calls do with all of a shard, a block at a time. The group is locked.
func (g *liveGroup) eachPart(ctx context.Context, shard int, do func(offset int64, data []byte) error) error {
	for offset := int64(0); offset < g.rec.Length; offset += disk.BlockSize {
		part := make([]byte, min(disk.BlockSize, g.rec.Length-offset))
		if _, err := g.shards().readPart(ctx, shard, offset, part); err != nil {
			return err
		}
		if err := do(offset, part); err != nil {
			return err
		}
	}
	return nil
}

// discardShard writes slices anew that a disk has let rot. If it does not take them it is dropped, unless it has what the others cannot give. The group is locked.
func (g *liveGroup) discardShard(ctx context.Context, from cluster.DiskID, token uint64) error {
	g.raise() // who changed the list may have died before it did
	s := g.shards()
	var unwritten error
	for offset := int64(0); offset < s.rec.Length && unwritten == nil; offset += disk.SliceSize {
		slice := make([]byte, disk.SliceSize)
		if s.readFrom(ctx, from, offset, slice) == nil {
			continue
		}
		if err := s.compute(ctx, s.has(from), offset, slice); err != nil {
			return err
		}
		unwritten = g.askOne(ctx, from, func(ctx context.Context, d Disk, generation uint64) error {
			return d.Write(ctx, g.id, generation, token, offset, slice, true)
		})
	}
	if unwritten == nil {
		return nil
	}
	for offset := int64(0); offset < s.rec.Length; offset += disk.BlockSize {
		if err := s.compute(ctx, s.has(from), offset, make([]byte, min(disk.BlockSize, s.rec.Length-offset))); err != nil {
			return err
		}
	}
	return g.dropUnlessLast(ctx, from)
}
