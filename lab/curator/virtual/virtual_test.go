package virtual

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/fabric/upkeep"
	"gleaner/placement"
	"gleaner/sim/disks"
)

const groupSize = disk.GroupSize

// A house is a fabric of servers with an SSD for 20 groups and an HDD for 80 each.
type house struct {
	*Fabric
	t    *testing.T
	made int
}

func newHouse(t *testing.T, servers int, off bool) *house {
	t.Helper()
	o := Options{Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Faster: 1, Tiers: []cluster.Tier{"ssd", "hdd"}, Policy: upkeep.Default(), Off: off, Seed: 1}
	for i := range servers {
		name := fmt.Sprint("s", i)
		o.Owners = append(o.Owners, placement.Tenant{Environment: name, Function: name})
		o.Servers = append(o.Servers, placement.Server{Tenant: placement.TenantIndex(i), Rack: name})
	}
	f, err := New(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	h := &house{Fabric: f, t: t}
	for i := range servers {
		h.plug(i)
	}
	return h
}

// plug puts new disks into a server.
func (h *house) plug(server int) {
	h.made++
	for tier, groups := range map[cluster.Tier]int64{"ssd": 20, "hdd": 80} {
		kind := disks.HDD()
		if tier == "ssd" {
			kind = disks.SSD()
		}
		kind.Capacity = groups * groupSize
		h.AddDisk(cluster.DiskID(fmt.Sprint(tier, h.made)), placement.ServerIndex(server), tier, kind)
	}
}

// write makes a vDisk of some groups and writes it.
func (h *house) write(at time.Duration, groups int64) disk.VDiskID {
	h.t.Helper()
	id, err := h.Create(context.Background(), groups*groupSize, 2)
	for i := range groups {
		if err == nil {
			_, err = h.Write(context.Background(), at, id, i*groupSize, groupSize)
		}
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return id
}

func (h *house) advance(to time.Duration) {
	h.t.Helper()
	if err := h.Advance(context.Background(), to); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) share(tier cluster.Tier) float64 {
	v := h.view()
	for _, u := range v.Usages() {
		if u.Tier == tier {
			return u.Share()
		}
	}
	return 0
}

// check compares the maps with what is held, and what disks have taken with the groups on them.
func (h *house) check() {
	h.t.Helper()
	used, n := map[cluster.DiskID]int64{}, 0
	for rec, err := range h.maps.Groups(context.Background()) {
		if err != nil {
			h.t.Fatal(err)
		}
		n++
		g := h.groups[rec.ID]
		if g == nil || !slices.Equal(g.Good, rec.Good) || rec.State() != group.Whole || h.vdisks[rec.VDisk] == nil {
			h.t.Fatalf("the maps have %+v, held is %+v", rec, g)
		}
		servers := map[placement.ServerIndex]bool{}
		for _, d := range rec.Good {
			used[d] += groupSize
			servers[h.disks[d].Server] = true
			if h.disks[d].gone {
				h.t.Fatalf("group %s is on disk %s, which is gone", rec.ID, d)
			}
		}
		if len(servers) != rec.Wanted {
			h.t.Fatalf("group %s is on %d servers", rec.ID, len(servers))
		}
	}
	if n != len(h.groups) {
		h.t.Fatalf("%d groups in the maps, %d held", n, len(h.groups))
	}
	for id, d := range h.disks {
		if !d.gone && d.Used != used[id] {
			h.t.Fatalf("disk %s: %d bytes are taken, %d are in groups", id, d.Used, used[id])
		}
	}
}

func TestRemovedDataIsRemovedFromDisks(t *testing.T) {
	for _, off := range []bool{false, true} {
		h := newHouse(t, 4, off)
		gone, kept := h.write(0, 10), h.write(0, 5)
		if err := h.Remove(context.Background(), gone); err != nil {
			t.Fatal(err)
		}
		h.advance(time.Minute)
		want := 5
		if off {
			want = 15
		} else {
			h.check()
		}
		if len(h.groups) != want || h.vdisks[kept] == nil {
			t.Errorf("off %v: %d groups are left, want %d", off, len(h.groups), want)
		}
		// Nothing is left in the maps of what was removed.
		blocks := 0
		if err := h.maps.EachBlock(context.Background(), func(disk.VDiskID, int64, maps.Block) error { blocks++; return nil }); err != nil || blocks != want*maps.ExtentsPerGroup {
			t.Errorf("off %v: %d blocks are left (%v)", off, blocks, err)
		}
	}
}

func TestFullTierIsRelievedOfTheColdest(t *testing.T) {
	h := newHouse(t, 4, false)
	old := h.write(0, 19)
	h.advance(time.Minute)
	recent := h.write(time.Minute, 19)
	if before := h.share("ssd"); before < 0.9 {
		t.Fatalf("SSDs are %.2f full", before)
	}
	h.advance(30 * time.Minute)
	h.check()
	if after := h.share("ssd"); after > 0.8 {
		t.Errorf("SSDs are still %.2f full", after)
	}
	slow := func(id disk.VDiskID) (n int) {
		for _, g := range h.vdisks[id].groups {
			for _, d := range h.groups[g].Good {
				if h.disks[d].Tier == "hdd" {
					n++
				}
			}
		}
		return n
	}
	if slow(old) == 0 || slow(recent) > 0 {
		t.Errorf("%d replicas of the old vDisk and %d of the recent one were moved down", slow(old), slow(recent))
	}
}

// A server that is reimaged is missed for ten and a half minutes; then all that it had is made again elsewhere.
func TestAPulledServerIsMadeUpFor(t *testing.T) {
	h := newHouse(t, 6, false)
	h.write(0, 30)
	h.advance(time.Minute)
	h.Pull(2)
	h.advance(10 * time.Minute)
	if done := h.Upkeep(10 * time.Minute).Done[upkeep.Rebuild]; done > 0 {
		t.Errorf("%d were rebuilt before the server counts as lost", done)
	}
	h.advance(time.Hour)
	h.check()
	if u := h.Upkeep(time.Hour); u.Done[upkeep.Rebuild] == 0 || u.Waiting > 0 || u.Lost > 0 {
		t.Errorf("%+v", u)
	}
}

func TestReadsGoToTheDiskThatIsLessBehind(t *testing.T) {
	h := newHouse(t, 2, true)
	id := h.write(0, 1)
	at := time.Minute
	for i, want := range []time.Duration{1, 1, 2} {
		done, err := h.Read(context.Background(), at, id, 0, 8192)
		if err != nil || done-at != want*disks.SSD().Service(8192, false) {
			t.Errorf("read %d took %v (%v)", i, done-at, err)
		}
	}
}

func TestFullDisksRefuseWrites(t *testing.T) {
	h := newHouse(t, 2, true)
	h.write(0, 100)
	id, err := h.Create(context.Background(), groupSize, 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Write(context.Background(), 0, id, 0, groupSize); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
}

// Whatever is written, removed and pulled: when upkeep has had time, the maps and the disks agree and every group has its replicas.
func TestSpaceAddsUp(t *testing.T) {
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 0))
		h := newHouse(t, 8, false)
		var all []disk.VDiskID
		at := time.Duration(0)
		for range 60 {
			at += time.Duration(rng.Int64N(int64(10 * time.Minute)))
			switch n := rng.IntN(12); {
			case n < 4 && len(all) < 8:
				all = append(all, h.write(at, 1+rng.Int64N(30)))
			case n < 6 && len(all) > 0:
				i := rng.IntN(len(all))
				if err := h.Remove(context.Background(), all[i]); err != nil {
					t.Fatal(err)
				}
				all = slices.Delete(all, i, i+1)
			case n == 6:
				at += time.Hour // what the last one had is made again
				h.advance(at)
				h.Pull(placement.ServerIndex(n))
				h.plug(n)
			}
			h.advance(at)
		}
		h.advance(at + 12*time.Hour)
		h.check()
		if len(h.vdisks) != len(all) {
			t.Errorf("seed %d: %d vDisks are left, want %d", seed, len(h.vdisks), len(all))
		}
	}
}
