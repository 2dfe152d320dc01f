package fabric_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"

	"gleaner/fabric/disk"
	"gleaner/fabric/nbd"
	"gleaner/fabric/upkeep"
)

const block = disk.BlockSize

// Whole groups of the vDisk are given back, and of others all but a block: what is left takes no more than it needs.
func TestSpaceOfFullDisksReturns(t *testing.T) {
	t.Parallel()
	if used, live := destroy(t, func(n int) bool { return n < 16 || n >= 32 && n%4 == 1 }); used > 1.02*live {
		t.Errorf("%.0f bytes are in use for %.0f", used, live)
	}
}

// Blocks are given back at random. While space is short, what is left of groups is gathered, and dead ends are cut off.
func TestSpaceOfScatteredBlocks(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	used, live := destroy(t, func(int) bool { return rng.IntN(2) == 0 })
	t.Logf("%.2f times what is alive is in use", used/live)
	if used > 1.02*live {
		t.Errorf("%.0f bytes are in use for %.0f", used, live)
	}
}

// destroy has five vDisks fill the disks to the last block, with what is kept for upkeep too. Four of them are removed; of the fifth a part is overwritten
// and all but some blocks are given back. It gives what is in use after upkeep, and what is alive.
func destroy(t *testing.T, keep func(block int) bool) (used, live float64) {
	ctx := context.Background()
	s := newShelf(t, upkeep.Policy{})
	s.add("a", disk.SSD, 160*block)
	s.add("b", disk.SSD, 160*block)
	data := s.fill("kept", 64*block, 2)
	gone := []string{"one", "two", "three", "four"}
	var devices []nbd.Device
	for _, name := range gone { // each begins a group, which may grow into what is kept for upkeep
		create(t, s.Front, name, 1<<30, 2)
		v := open(t, s.Front, name)
		if err := v.WriteAt(ctx, data[:block], 0, false); err != nil {
			t.Fatal(err)
		}
		devices = append(devices, v)
	}
	for _, v := range devices {
		if err := writeUntil(v, data[:block]); !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if s.share("a") < 0.99 || s.share("b") < 0.99 {
		t.Fatalf("the disks are %.1f%% and %.1f%% full", 100*s.share("a"), 100*s.share("b"))
	}

	kept := open(t, s.Front, "kept")
	copy(data[8*block:], bytes.Repeat([]byte("again"), block))
	if err := kept.WriteAt(ctx, data[8*block:13*block], 8*block, false); err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(data); at += block {
		if keep(at / block) {
			live += 2 * block
			continue
		}
		if err := kept.Trim(ctx, int64(at), block, false); err != nil {
			t.Fatal(err)
		}
		clear(data[at : at+block])
	}
	if err := kept.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range gone {
		if err := s.Remove(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	s.scan()
	s.scan()
	s.holds("kept", data)
	if r, err := s.Check(ctx, func(int, int) {}); err != nil || r.Orphans != 0 || r.Missing != 0 || len(r.Errors) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	return float64(s.used()), live
}

// writeUntil writes a block over and over, until one cannot be written.
func writeUntil(v nbd.Device, data []byte) (err error) {
	for at := int64(0); err == nil; at += block {
		err = v.WriteAt(context.Background(), data, at, false)
	}
	return err
}
