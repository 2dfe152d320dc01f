package fabric_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric"
	"gleaner/fabric/disk"
	"gleaner/kv/pebble"
)

// newTiered gives a front with two servers, each with a small ssd and a large hdd, and the clock it goes by.
func newTiered(t *testing.T) (*fabric.Front, *atomic.Int64) {
	t.Helper()
	store, err := pebble.Open(t.TempDir(), pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	seconds := new(atomic.Int64)
	seconds.Store(1_000_000)
	f, err := fabric.Open(context.Background(), fabric.Options{Store: store, Now: func() time.Time { return time.Unix(seconds.Load(), 0) }})
	if err != nil {
		t.Fatal(err)
	}
	var disks []*disk.Disk
	for i := range 2 {
		on := cluster.ServerID(fmt.Sprintf("s%d", i))
		f.Join(cluster.Server{ID: on})
		for tier, quota := range map[disk.Tier]int64{disk.SSD: 64 << 20, disk.HDD: 256 << 20} {
			dir := t.TempDir()
			id := disk.Identity{Cluster: "c", Disk: fmt.Sprintf("%s-%s", on, tier), Tier: tier, Quota: quota, Log: disk.DefaultLog(8 << 20), Salt: 1}
			if err := disk.Format(disk.OS{}, dir, id); err != nil {
				t.Fatal(err)
			}
			d, err := disk.Open(disk.OS{}, dir, disk.Options{Cluster: "c"})
			if err != nil {
				t.Fatal(err)
			}
			f.Add(on, d)
			disks = append(disks, d)
		}
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		for _, d := range disks {
			d.Close()
		}
		store.Close()
	})
	return f, seconds
}

// What did not fit on the fast tier is read again and again, and comes up when there is room: up to three quarters of the tier, and
// nothing that was read only once.
func TestHotGroupsComeUp(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f, seconds := newTiered(t)
	rng := rand.NewChaCha8([32]byte{1})
	fill := func(name string, size int) []byte {
		t.Helper()
		create(t, f, name, int64(size), 2)
		data := make([]byte, size)
		rng.Read(data)
		v := open(t, f, name)
		defer v.Close()
		if err := v.WriteAt(ctx, data, 0, true); err != nil {
			t.Fatal(err)
		}
		return data
	}
	reads := func(name string, want []byte) {
		t.Helper()
		got := make([]byte, len(want))
		v := open(t, f, name)
		defer v.Close()
		if err := v.ReadAt(ctx, got, 0); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s: other bytes than were written, %v", name, err)
		}
	}
	on := func(name, tier string) int {
		t.Helper()
		s, err := f.Stat(ctx, name)
		if err != nil || s.Have[2] != s.Groups || s.Bytes[tier] != int64(s.Tiers[tier])*disk.GroupSize {
			t.Fatalf("%+v, %v", s, err)
		}
		return s.Tiers[tier]
	}
	fill("first", 64<<20) // more than fits on the fast tier
	small, once, large := fill("small", 8<<20), fill("once", 8<<20), fill("large", 64<<20)
	for name, replicas := range map[string]int{"small": 4, "once": 4, "large": 32} {
		if n := on(name, "hdd"); n != replicas {
			t.Fatalf("%d of %d replicas of %s went to the slow tier", n, replicas, name)
		}
	}
	if err := f.Remove(ctx, "first"); err != nil {
		t.Fatal(err)
	}
	if err := f.Tidy(ctx); err != nil {
		t.Fatal(err)
	}
	period := func(names map[string][]byte) {
		t.Helper()
		for name, want := range names {
			reads(name, want)
		}
		seconds.Add(10)
		time.Sleep(200 * time.Millisecond) // upkeep looks at it
	}
	period(map[string][]byte{"small": small, "once": once})
	period(map[string][]byte{"small": small})
	period(map[string][]byte{"small": small})
	if n := on("small", "ssd"); n != 0 {
		t.Errorf("%d replicas came up that were read again in two periods", n)
	}
	period(map[string][]byte{"small": small})
	await(t, "all of it is on the fast tier", func() bool { return on("small", "ssd") == 4 })

	await(t, "some of it is on the fast tier", func() bool {
		period(map[string][]byte{"large": large, "small": small})
		return on("large", "ssd") >= 12
	})
	for range 5 {
		period(map[string][]byte{"large": large})
	}
	if n := on("large", "ssd"); int64(n+on("small", "ssd"))*disk.GroupSize > 2*64<<20*3/4 {
		t.Errorf("%d replicas came up: there is no room left for writes", n)
	}
	if n := on("once", "ssd"); n != 0 {
		t.Errorf("%d replicas came up of what was read once", n)
	}
	reads("small", small)
	reads("large", large)
	if s, err := f.Stat(ctx, "large"); err != nil || s.LastRead.IsZero() || s.LastWritten.IsZero() || !s.LastWritten.Before(s.LastRead) {
		t.Errorf("%+v, %v", s, err)
	}
	if !whole(t, f) {
		t.Error("something is missing")
	}
}
