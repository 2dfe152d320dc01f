package volume

import (
	"context"
	"testing"
	"time"

	"gleaner/fabric/maps"
	"gleaner/kv"
)

// A front that is killed inside a snapshot leaves nothing that keeps the data of a removed vDisk for ever.
func TestKilledInsideSnapshot(t *testing.T) {
	ctx := context.Background()
	for left := 1; left < 14; left++ {
		_, p, store := faultySpace(t, 1)
		f := &fuse{}
		m, err := maps.Open(ctx, fusedStore{store, f}, kv.NewWriter(7))
		if err != nil {
			t.Fatal(err)
		}
		s := NewSpace(m, p, Options{Answer: time.Second, Patience: 2 * time.Second})
		v := faultyVolume(t, s, 1)
		if err := v.WriteAt(ctx, make([]byte, 4096), 0, true); err != nil {
			t.Fatal(err)
		}
		f.left = left
		err = v.Snapshot(ctx, "snap", time.Unix(0, 0))
		v.stop()
		if err == nil {
			continue
		}
		m, err = maps.Open(ctx, store, kv.NewWriter(8))
		if err != nil {
			t.Fatal(err)
		}
		s = NewSpace(m, p, Options{Answer: time.Second, Patience: 2 * time.Second})
		for _, name := range []string{"snap", "v"} {
			_ = s.Remove(ctx, name)
		}
		for range 2 { // what has no name is removed when it had none the last time either
			if err := s.Reap(ctx); err != nil {
				t.Errorf("%d: reap: %v", left, err)
			}
		}
		groups, vdisks := 0, 0
		for range m.Groups(ctx) {
			groups++
		}
		for range m.VDisks(ctx) {
			vdisks++
		}
		names := 0
		for range m.Names(ctx) {
			names++
		}
		if groups+vdisks > 0 {
			t.Errorf("killed at step %d: all %d names removed, but %d groups and %d vDisk records stay for ever", left, names, groups, vdisks)
		}
	}
}
