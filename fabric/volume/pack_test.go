package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/fabric/pack"
	"gleaner/kv"
)

var fast = Form{Level: pack.Fast}

// prose gives bytes that can be compressed, other ones for each seed.
func prose(seed uint64, n int) []byte {
	rng, words := rand.New(rand.NewPCG(seed, 1)), []string{"extent ", "group ", "replica ", "generation ", "lease ", "token "}
	var out bytes.Buffer
	for out.Len() < n {
		fmt.Fprintf(&out, "%s%d ", words[rng.IntN(len(words))], rng.IntN(100))
	}
	return out.Bytes()[:n]
}

// noise gives bytes that cannot be compressed.
func noise(seed uint64, n int) []byte {
	out, rng := make([]byte, n), rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = rng.Read(out)
	return out
}

func mustWrite(t *testing.T, v *Volume, data []byte, offset int64) {
	t.Helper()
	if err := v.WriteAt(context.Background(), data, offset, false); err != nil {
		t.Fatal(err)
	}
}

func mustRead(t *testing.T, v *Volume, offset int64, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	if err := v.ReadAt(context.Background(), got, offset); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes at %d are other than were written, %v", len(want), offset, err)
	}
}

// mustPack packs groups and gives the new one.
func mustPack(t *testing.T, s *Space, form Form, ids ...disk.GroupID) Saving {
	t.Helper()
	saving, err := s.Pack(context.Background(), ids, form)
	if err != nil {
		t.Fatal(err)
	}
	return saving
}

// allGroups lists the groups that there are.
func allGroups(t *testing.T, s *Space) (ids []disk.GroupID) {
	t.Helper()
	for g, err := range s.maps.Groups(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, g.ID)
	}
	slices.Sort(ids)
	return ids
}

// Two groups become one that takes less. All reads are as before, from every replica; the old groups are gone, and a second time there is nothing to do.
func TestPack(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, p, _ := faultySpace(t, 3)
	v := faultyVolume(t, s, 2)
	defer v.Close()
	data := prose(1, 8<<20)
	mustWrite(t, v, data[:5<<20], 0) // the last quarters are spare
	mustWrite(t, v, data[6<<20:7<<20+512], 6<<20)
	clear(data[5<<20 : 6<<20])
	clear(data[7<<20+512:])
	saving := mustPack(t, s, fast, 1, 2)
	if len(saving.Groups) != 1 || saving.Before != 2*(4<<20)+2*(3<<20) || saving.After >= saving.Before/2 {
		t.Errorf("%+v", saving)
	}
	if got := allGroups(t, s); !slices.Equal(got, []disk.GroupID{saving.Groups[0]}) || has(t, p, "d0", 1) || has(t, p, "d1", 2) {
		t.Errorf("groups %v are there, or an old replica is", got)
	}
	if _, err := s.Pack(ctx, []disk.GroupID{saving.Groups[0]}, Form{Level: pack.Best}); !errors.Is(err, ErrMoot) {
		t.Errorf("packed again: %v", err)
	}
	rec, _, err := s.maps.Group(ctx, saving.Groups[0])
	if err != nil || rec.State() != group.Whole || !rec.Packed() || len(rec.Good) != 2 {
		t.Fatalf("%+v, %v", rec, err)
	}
	for _, gone := range rec.Good {
		d := p.disks[gone]
		delete(p.disks, gone)
		mustRead(t, v, 0, data)
		rng := rand.New(rand.NewPCG(3, 3))
		for range 200 {
			offset := rng.Int64N(int64(len(data)))
			mustRead(t, v, offset, data[offset:offset+rng.Int64N(min(100<<10, int64(len(data))-offset))])
		}
		p.disks[gone] = d
	}
}

// What was packed can be written: the new bytes are in a group of their own, the old ones stay packed, and a part of a slice keeps the rest of it.
func TestWriteToPacked(t *testing.T) {
	t.Parallel()
	s, _, _ := faultySpace(t, 2)
	v := faultyVolume(t, s, 2)
	data := prose(2, 4<<20)
	mustWrite(t, v, data, 0)
	packed := mustPack(t, s, fast, 1).Groups[0]
	for _, at := range []int{0, 100, 4096, 1<<20 - 10, 3<<20 + 77} {
		mustWrite(t, v, []byte("written since, "), int64(at))
		copy(data[at:], "written since, ")
		mustRead(t, v, 0, data)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	v, err := s.Open(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	mustRead(t, v, 0, data)
	if got := allGroups(t, s); len(got) != 2 {
		t.Errorf("groups %v", got)
	}
	again := mustPack(t, s, Form{Level: pack.Best}, allGroups(t, s)...) // the new extents and the old ones together
	mustRead(t, v, 0, data)
	if got := allGroups(t, s); !slices.Equal(got, []disk.GroupID{again.Groups[0]}) || again.Groups[0] == packed {
		t.Errorf("groups %v", got)
	}
}

// Clones and snapshots read what was packed under them. A packed group goes with the last of its extents.
func TestPackUnderSnapshots(t *testing.T) {
	ctx := context.Background()
	s, p, _ := faultySpace(t, 2)
	v := faultyVolume(t, s, 2)
	data := prose(3, 4<<20)
	mustWrite(t, v, data, 0)
	if err := v.Snapshot(ctx, "s", time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	mustRead(t, v, 0, data) // it knows where the extents are
	cl, err := s.Clone(ctx, "s", "c", time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Open(ctx, cl.ID)
	if err != nil {
		t.Fatal(err)
	}
	packed := mustPack(t, s, fast, 1).Groups[0]
	mustRead(t, v, 0, data)
	mustRead(t, c, 0, data)
	if err := v.Zero(ctx, 0, 8<<20, false, false); err != nil {
		t.Fatal(err)
	}
	mustRead(t, v, 0, make([]byte, 4<<20))
	mustRead(t, c, 0, data)
	for _, err := range []error{v.Close(), c.Close(), s.Remove(ctx, "v"), s.Remove(ctx, "c"), s.Reap(ctx)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := allGroups(t, s); !slices.Equal(got, []disk.GroupID{packed}) {
		t.Errorf("groups %v", got)
	}
	for _, err := range []error{s.Remove(ctx, "s"), s.Reap(ctx)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := allGroups(t, s); len(got) > 0 || has(t, p, "d0", packed) {
		t.Errorf("groups %v, or a replica is left", got)
	}
}

// Pack does nothing where it saves nothing, or where a group is not as it was.
func TestPackIsMoot(t *testing.T) {
	ctx := context.Background()
	s, p, _ := faultySpace(t, 3)
	v := faultyVolume(t, s, 2)
	defer v.Close()
	mustWrite(t, v, noise(1, 4<<20), 0)
	mustWrite(t, v, prose(1, 4<<20), 4<<20)
	before := allGroups(t, s)
	pack := func(ids ...disk.GroupID) error { _, err := s.Pack(ctx, ids, fast); return err }
	for what, err := range map[string]error{"what cannot be compressed": pack(1), "a group that is not there": pack(2, 99)} {
		if !errors.Is(err, ErrMoot) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, err := range map[string]error{"none": pack(), "twice": pack(2, 2), "too many": pack(make([]disk.GroupID, MaxPacked+1)...)} {
		if err == nil || errors.Is(err, ErrMoot) {
			t.Errorf("%s: %v", what, err)
		}
	}
	away := p.disks["d0"]
	delete(p.disks, "d0")
	mustWrite(t, v, []byte("x"), 4<<20) // without d0
	p.disks["d0"] = away
	if err := pack(2); !errors.Is(err, ErrMoot) {
		t.Errorf("a degraded group: %v", err)
	}
	if got := allGroups(t, s); !slices.Equal(got, before) {
		t.Errorf("groups %v, want %v", got, before)
	}
}

// Pack that fails leaves all as it was, and nothing of the new group.
func TestPackFails(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for what, spoil := range map[string]func(Disk) Disk{
		"no room":     func(d Disk) Disk { return fullDisk{d} },
		"other bytes": func(d Disk) Disk { return lyingDisk{d} },
		"no disk":     nil,
	} {
		t.Run(what, func(t *testing.T) {
			s, p, _ := faultySpace(t, 3)
			v := faultyVolume(t, s, 2)
			defer v.Close()
			data := prose(1, 4<<20)
			mustWrite(t, v, data, 0)
			p.order = []cluster.DiskID{"d0", "d2"}
			if spoil == nil {
				p.order = p.order[:1]
			} else {
				p.disks["d2"] = spoil(p.disks["d2"])
			}
			if _, err := s.Pack(ctx, []disk.GroupID{1}, fast); err == nil || errors.Is(err, ErrMoot) {
				t.Error(err)
			}
			if got := allGroups(t, s); !slices.Equal(got, []disk.GroupID{1}) || has(t, p, "d0", 2) || has(t, p, "d2", 2) {
				t.Errorf("groups %v, or something is left of the new one", got)
			}
			mustRead(t, v, 0, data)
		})
	}
}

// Clients write and read while all that there is is packed, again and again: nothing is lost.
func TestPackWhileWriting(t *testing.T) {
	ctx := context.Background()
	s, _, _ := faultySpace(t, 3)
	v := faultyVolume(t, s, 2)
	defer v.Close()
	const clients, writes = 4, 100
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for n := range writes {
				at := int64(n*clients+client) * 16384
				if err := v.WriteAt(ctx, bytes.Repeat([]byte{byte(n)}, 5000), at, false); err != nil {
					t.Error(err)
				}
				got := make([]byte, 5000)
				if err := v.ReadAt(ctx, got, at); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{byte(n)}, 5000)) {
					t.Errorf("write %d of client %d reads as %d, %v", n, client, got[0], err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	packed := 0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		for _, id := range allGroups(t, s) {
			_, err := s.Pack(ctx, []disk.GroupID{id}, fast)
			switch {
			case err == nil:
				packed++
			case !errors.Is(err, ErrMoot):
				t.Fatal(err)
			}
		}
	}
	if t.Logf("%d groups packed", packed); packed == 0 {
		t.Error("nothing was packed")
	}
	for i := range clients * writes {
		mustRead(t, v, int64(i)*16384, bytes.Repeat([]byte{byte(i / clients)}, 5000))
	}
}

// syncDisk calls a function before it syncs.
type syncDisk struct {
	Disk
	before func()
}

func (d syncDisk) Sync(ctx context.Context) error {
	d.before()
	return d.Disk.Sync(ctx)
}

// A group that is written while it is packed stays as it is, with what was written, and nothing is left of the new one.
func TestPackGivesWayToAWrite(t *testing.T) {
	s, p, _ := faultySpace(t, 3)
	v := faultyVolume(t, s, 2)
	defer v.Close()
	data := prose(1, 4<<20)
	mustWrite(t, v, data, 0)
	p.order = []cluster.DiskID{"d0", "d2"}
	p.disks["d2"] = syncDisk{p.disks["d2"], func() { mustWrite(t, v, []byte("in between"), 5<<10) }}
	copy(data[5<<10:], "in between")
	if _, err := s.Pack(context.Background(), []disk.GroupID{1}, fast); !errors.Is(err, ErrMoot) {
		t.Error(err)
	}
	mustRead(t, v, 0, data)
	if got := allGroups(t, s); !slices.Equal(got, []disk.GroupID{1}) || has(t, p, "d0", 2) {
		t.Errorf("groups %v, or something is left of the new one", got)
	}
}

// A front that is killed while it packs, at whichever step, leaves every extent in one place, where it can be read. The next front packs what is left to pack, and what was left of
// the first try is removed.
func TestKilledInsidePack(t *testing.T) {
	t.Parallel()
	killedInside(t, 3, func(s *Space) error {
		_, err := s.Pack(context.Background(), []disk.GroupID{1, 2}, fast)
		return err
	})
}

// The store and all disks fail at some step of Pack, whichever it is, and work again afterwards. The front goes on: what is written then is there, wherever an extent was left, also for the next front.
func TestPackFailsAtAnyStep(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for left := 1; ; left += stride() {
		_, p, store := faultySpace(t, 3)
		f := &fuse{}
		for id, d := range p.disks {
			p.disks[id] = plug{d.(*slowDisk).Disk.(plug).d, f}
		}
		m, err := maps.Open(ctx, fusedStore{store, f}, kv.NewWriter(7))
		if err != nil {
			t.Fatal(err)
		}
		s := NewSpace(m, p, Options{Answer: time.Second, Patience: time.Second})
		v := faultyVolume(t, s, 2)
		want := make([]byte, 8<<20)
		for at := range int64(8) {
			mustWrite(t, v, prose(uint64(at), 9000), at<<20)
			copy(want[at<<20:], prose(uint64(at), 9000))
		}
		f.left = left
		_, failed := s.Pack(ctx, []disk.GroupID{1, 2}, fast)
		f.left, f.blown = 0, false
		for at := range int64(8) {
			mustWrite(t, v, []byte("written since"), at<<20+4000)
			copy(want[at<<20+4000:], "written since")
		}
		mustRead(t, v, 0, want)
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		s = NewSpace(m, p, Options{})
		if v, err = s.Open(ctx, 1); err != nil {
			t.Fatal(err)
		}
		mustRead(t, v, 0, want)
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		if failed == nil {
			t.Logf("%d steps", left-1)
			return
		}
	}
}

// mustBeListed checks that every packed extent is a tenant of the group that it is in: who removes the group looks at those alone.
func mustBeListed(t *testing.T, s *Space) {
	t.Helper()
	err := s.maps.EachExtent(context.Background(), func(e maps.ExtentID, at maps.Extent) error {
		g, _, err := s.maps.Group(context.Background(), at.Group)
		if err == nil && at.Packed != nil && !slices.Contains(g.Tenants, e) {
			err = fmt.Errorf("extent %s is in group %s, which does not know of it", e, at.Group)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// stride is how many steps there are from one at which a front is killed, or loses an answer, to the next: one with GLEANER_LONG=1.
func stride() int {
	if os.Getenv("GLEANER_LONG") != "" {
		return 1
	}
	return 3
}

// killedInside kills a front that does something to two groups of prose, after one step, and some more, and so on. What was written is there each time, also when the next
// front has done the same once more; no group is left then that no extent is in, and no replica that no group has.
func killedInside(t *testing.T, disks int, do func(*Space) error) {
	ctx := context.Background()
	data := make([]byte, 8<<20)
	for at := 0; at < len(data); at += 1 << 20 {
		copy(data[at:], prose(uint64(at%(4<<20)), 16<<10)) // the groups are equal
	}
	for left := 1; ; left += stride() {
		_, p, store := faultySpace(t, disks)
		dead := &fuse{}
		start := func(f *fuse, writer uint64) *Space {
			for id, d := range p.disks {
				if slow, ok := d.(*slowDisk); ok {
					d = slow.Disk
				}
				p.disks[id] = plug{d.(plug).d, f}
			}
			m, err := maps.Open(ctx, fusedStore{store, f}, kv.NewWriter(writer))
			if err != nil {
				t.Fatal(err)
			}
			return NewSpace(m, p, Options{Answer: time.Second, Patience: time.Second})
		}
		s := start(dead, 7)
		v := faultyVolume(t, s, 2)
		for at := int64(0); at < int64(len(data)); at += 1 << 20 {
			mustWrite(t, v, data[at:at+16<<10], at)
		}
		dead.left = left
		done := do(s)
		v.stop()
		s = start(&fuse{}, 8)
		v, err := s.Open(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		mustRead(t, v, 0, data)
		mustBeListed(t, s)
		for _, id := range allGroups(t, s) {
			if err := s.remove(ctx, 1, id); err != nil {
				t.Fatal(err)
			}
		}
		if err := do(s); err != nil && !errors.Is(err, ErrMoot) {
			t.Fatalf("killed at step %d, and then: %v", left, err)
		}
		mustRead(t, v, 0, data)
		for id := range p.disks {
			if _, err := s.Sweep(ctx, id); err != nil {
				t.Fatal(err)
			}
			for g := range disk.GroupID(200) {
				rec, _, err := s.maps.Group(ctx, g)
				if has(t, p, id, g) != (err == nil && slices.Contains(rec.Good, id)) {
					t.Fatalf("killed at step %d: disk %s has group %s: %t, and its record is %+v, %v", left, id, g, has(t, p, id, g), rec, err)
				}
			}
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		if done == nil && !dead.blown {
			t.Logf("%d steps", left-1)
			return
		}
	}
}
