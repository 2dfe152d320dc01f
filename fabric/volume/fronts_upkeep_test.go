package volume

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/kv"
)

// standStill opens a vDisk with a group of text at one front, which then stands still until another has it. It gives the volumes of both.
func standStill(t *testing.T, fronts []*Space) (before, now *Volume) {
	t.Helper()
	ctx := t.Context()
	vdisk, err := fronts[0].Create(ctx, "v", 8<<20, 2, time.Unix(0, 0))
	must(t, err)
	before, err = fronts[0].Open(ctx, vdisk.ID)
	must(t, err)
	must(t, before.WriteAt(ctx, prose(1, 4<<20), 0, true))
	must(t, before.Close()) // so that the group is not marked
	before, err = fronts[0].Open(ctx, vdisk.ID)
	must(t, err)
	reads(t, before, 0, prose(1, 4<<20))
	before.stop()
	before.keeper.Wait()
	now, err = fronts[1].Open(ctx, vdisk.ID)
	must(t, err)
	must(t, now.WriteAt(ctx, pattern(2, 4096), 0, true))
	return before, now
}

// TestStoodStillBeforeRelocate: a front that stood still does not put the copy of an extent in its place that another has written to since.
func TestStoodStillBeforeRelocate(t *testing.T) {
	before, now := standStill(t, newLapsing(t, 2))
	for block := range int64(4) {
		if err := before.Relocate(t.Context(), block, maps.ExtentID{Group: 1, Quarter: uint8(block)}); !errors.Is(err, ErrFenced) {
			t.Errorf("block %d: %v", block, err)
		}
	}
	reads(t, now, 0, pattern(2, 4096))
	must(t, now.Close())
}

// TestStoodStillWhilePacking: a front that stood still after it wrote a packed group, before extents are said to be there, does not say so when another has written
// to them since.
func TestStoodStillWhilePacking(t *testing.T) {
	ctx, fronts := t.Context(), newLapsing(t, 2)
	vdisk, err := fronts[0].Create(ctx, "v", 8<<20, 2, time.Unix(0, 0))
	must(t, err)
	before, err := fronts[0].Open(ctx, vdisk.ID)
	must(t, err)
	must(t, before.WriteAt(ctx, prose(1, 4<<20), 0, true))
	must(t, before.Close())
	before, err = fronts[0].Open(ctx, vdisk.ID)
	must(t, err)
	before.stop()
	before.keeper.Wait()
	packed, goOn := packSlowly(t, fronts[0], 1)
	now, err := fronts[1].Open(ctx, vdisk.ID)
	must(t, err)
	must(t, now.WriteAt(ctx, pattern(2, 4096), 0, false))
	goOn()
	if err := <-packed; err == nil {
		t.Error("the group was packed by who had lost the lease")
	}
	reads(t, now, 0, pattern(2, 4096))
	reads(t, now, 4096, prose(1, 4<<20)[4096:])
	must(t, now.Close())
	_ = before.Close() // another had it
	mustPack(t, fronts[0], fast, 1)
	now, err = fronts[1].Open(ctx, vdisk.ID)
	must(t, err)
	reads(t, now, 0, pattern(2, 4096))
	must(t, now.Close())
}

// packSlowly packs a group, and does not go on when the new one is written until it is told to.
func packSlowly(t *testing.T, s *Space, id disk.GroupID) (packed chan error, goOn func()) {
	t.Helper()
	p := s.pool.(*slowPool)
	stop := make(chan struct{})
	for _, d := range p.disks {
		d.(*slowDisk).sync = stop
	}
	packed = make(chan error, 1)
	go func() {
		_, err := s.Pack(context.Background(), []disk.GroupID{id}, fast)
		packed <- err
	}()
	for len(disksWith(t, p, id+1)) < 2 { // it is there, and not synced
		time.Sleep(time.Millisecond)
	}
	return packed, func() { close(stop) }
}

// TestSweptWhilePacked: a front that sweeps the disks leaves what another is packing.
func TestSweptWhilePacked(t *testing.T) {
	ctx, fronts := t.Context(), newFronts(t, 2)
	vdisk, err := fronts[0].Create(ctx, "v", 8<<20, 2, time.Unix(0, 0))
	must(t, err)
	v, err := fronts[0].Open(ctx, vdisk.ID)
	must(t, err)
	must(t, v.WriteAt(ctx, prose(1, 4<<20), 0, true))
	must(t, v.Close())
	packed, goOn := packSlowly(t, fronts[0], 1)
	for _, id := range fronts[0].pool.(*slowPool).order {
		if removed, err := fronts[1].Sweep(ctx, id); err != nil || removed > 0 {
			t.Errorf("disk %s: %d replicas removed, %v", id, removed, err)
		}
	}
	goOn()
	must(t, <-packed)
	if marks, err := fronts[0].maps.Marks(ctx, vdisk.ID); err != nil || len(marks) > 0 {
		t.Errorf("marks %v are left, %v", marks, err)
	}
	v, err = fronts[1].Open(ctx, vdisk.ID)
	must(t, err)
	reads(t, v, 0, prose(1, 4<<20))
	must(t, v.Close())
}

// disksWith lists the disks that have a group.
func disksWith(t *testing.T, p *slowPool, id disk.GroupID) (on []cluster.DiskID) {
	for _, d := range p.order {
		if has(t, p, d, id) {
			on = append(on, d)
		}
	}
	return on
}

// TestIdlePackedExtents: an extent that a crash left without a block is removed, though it was packed since and its first group is gone; those in use stay.
func TestIdlePackedExtents(t *testing.T) {
	ctx := t.Context()
	s, _, _ := faultySpace(t, 2)
	v := faultyVolume(t, s, 2)
	data := prose(1, 4<<20)
	mustWrite(t, v, data, 0)
	to := mustPack(t, s, fast, 1).Groups[0]
	must(t, v.Close())
	_, err := s.maps.Blocks(ctx, 1, 2, 3, func(block int64, _ maps.Block, version kv.Version) error {
		return s.maps.DeleteBlock(ctx, 1, block, version)
	})
	must(t, err)
	if err := s.RemoveIdle(ctx, 1, []uint8{0, 1, 3}); !errors.Is(err, ErrMoot) {
		t.Errorf("what is in use was removed: %v", err)
	}
	must(t, s.RemoveIdle(ctx, 1, []uint8{0, 1, 2, 3}))
	left, err := s.made(ctx, 1)
	if want := []maps.ExtentID{{Group: 1, Quarter: 0}, {Group: 1, Quarter: 1}, {Group: 1, Quarter: 3}}; err != nil || !slices.Equal(left, want) {
		t.Fatalf("extents %v are left, %v", left, err)
	}
	if err := s.RemoveIdle(ctx, 1, []uint8{2}); !errors.Is(err, ErrMoot) {
		t.Errorf("again: %v", err)
	}
	v, err = s.Open(ctx, 1)
	must(t, err)
	mustRead(t, v, 0, data[:2<<20])
	mustRead(t, v, 3<<20, data[3<<20:])
	must(t, v.Trim(ctx, 0, 8<<20, true))
	must(t, v.Close())
	if groups := allGroups(t, s); len(groups) > 0 {
		t.Errorf("groups %v are left, with %s", groups, to)
	}
}
