package placement

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"gleaner/cluster"
)

func knowNothing(s cluster.Server) (Tenant, bool) {
	return Tenant{Environment: string(s.Tenant())}, false
}

// Three servers come with their disks; then one is busy, one is full and the third
// gets another owner.
func TestAFleetFollowsEvents(t *testing.T) {
	f := NewFleet(blockBytes, "ssd", knowNothing)
	g := NewGrid(f.Inventory, Rules{Hard: Environments})
	for i := range 3 {
		on := cluster.ServerID(fmt.Sprint("s", i))
		f.Step(cluster.Event{Kind: cluster.ServerJoined, Server: &cluster.Server{ID: on, Environment: fmt.Sprint("e", i)}})
		f.Step(cluster.Event{Kind: cluster.DiskJoined, On: on, Disk: &cluster.Disk{ID: cluster.DiskID("ssd of " + on), Tier: "ssd", Free: 10 * blockBytes}})
		f.Step(cluster.Event{Kind: cluster.DiskJoined, On: on, Disk: &cluster.Disk{ID: cluster.DiskID("hdd of " + on), Tier: "hdd", Free: 99 * blockBytes}})
	}
	r := rand.New(rand.NewPCG(1, 1))
	place := func(n int) string {
		placed, err := g.Place(nil, Nowhere, n, r)
		if err != nil {
			return err.Error()
		}
		on := map[string]bool{}
		for _, s := range placed {
			for _, id := range []cluster.ServerID{"s0", "s1", "s2"} {
				if i, known := f.Server(id); known && i == s {
					on[string(id)] = true
				}
			}
		}
		return fmt.Sprint(sorted(on))
	}
	expect := func(n int, want string) {
		t.Helper()
		if got := place(n); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	expect(3, "[s0 s1 s2]")
	if f.room.all != 30 {
		t.Errorf("room for %d blocks: those of another tier are not counted", f.room.all)
	}
	f.Step(cluster.Event{Kind: cluster.DataReported, Data: []cluster.DataUse{{On: "s0", Busy: true},
		{On: "s1", Disks: []cluster.DiskUse{{ID: "ssd of s1", Free: blockBytes - 1}, {ID: "hdd of s1"}}}, {On: "nobody", Busy: true}}})
	expect(1, "[s2]")
	f.Step(cluster.Event{Kind: cluster.ServerJoined, Server: &cluster.Server{ID: "s2", Environment: "e0"}})
	expect(1, "placement: diversity is low: only 0 tenants have room; no new blocks of 1 replicas")
	f.Step(cluster.Event{Kind: cluster.DiskJoined, On: "s2", Disk: &cluster.Disk{ID: "ssd of s2, anew", Tier: "ssd", Free: blockBytes}})
	f.Step(cluster.Event{Kind: cluster.DataReported, Data: []cluster.DataUse{{On: "s0"}}})
	expect(2, "placement: diversity is low: only 1 tenants have room; no new blocks of 2 replicas") // s0 and s2 are one owner's now
	f.Step(cluster.Event{Kind: cluster.DataServerLeft, On: "s0"})
	expect(1, "[s2]")
}

// What is learned of owners moves them to other cells of a new grid. Servers whose racks are not known are apart.
func TestAFleetLearns(t *testing.T) {
	rate := map[string]float64{}
	f := NewFleet(blockBytes, "ssd", func(s cluster.Server) (Tenant, bool) {
		return Tenant{Environment: s.Environment, ReimageRate: rate[s.Environment]}, false
	})
	for i := range 9 {
		on := cluster.ServerID(fmt.Sprint("s", i))
		f.Step(cluster.Event{Kind: cluster.ServerJoined, Server: &cluster.Server{ID: on, Environment: fmt.Sprint("e", i)}})
		f.Step(cluster.Event{Kind: cluster.DiskJoined, On: on, Disk: &cluster.Disk{ID: cluster.DiskID(on), Tier: "ssd", Free: 10 * blockBytes}})
	}
	column := func() int { _, c := NewGrid(f.Inventory, Paper).Cell(0); return c }
	first := column()
	rate["e0"] = 1
	unasked := column()
	f.Learn()
	if last := column(); first != 0 || unasked != 0 || last != 2 {
		t.Errorf("the tenant that is reimaged most is in column %d, then %d, then %d", first, unasked, last)
	}
	g := NewGrid(f.Inventory, Paper)
	if q := g.Choice(nil); q != (Quality{9, 3, 3, 9, 1, 9}) {
		t.Errorf("the choice is %+v", q)
	}
	f.Step(cluster.Event{Kind: cluster.DataServerLeft, On: "s0"})
	if q := g.Choice([]ServerIndex{0, 1, 2}); q.Replicas != 8 || q.Environments != 6 || q.Functions != 0 || q.Racks != 6 {
		t.Errorf("the choice beside three is %+v", q)
	}
}

// However often servers and disks come, move, report and go, the room is as the last
// event of each says.
func TestAFleetKeepsTheLastEvent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := NewFleet(blockBytes, "ssd", knowNothing)
		type disk struct {
			on   cluster.ServerID
			free cluster.Bytes
		}
		disks, owner, busy := map[cluster.DiskID]disk{}, map[cluster.ServerID]string{}, map[cluster.ServerID]bool{}
		leave := func(on cluster.ServerID) {
			for id, d := range disks {
				if d.on == on {
					delete(disks, id)
				}
			}
			busy[on] = false
		}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			on := cluster.ServerID(rapid.SampledFrom([]string{"s1", "s2", "s3"}).Draw(t, "on"))
			id := cluster.DiskID(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "disk"))
			free := cluster.Bytes(rapid.IntRange(0, 3*blockBytes).Draw(t, "free"))
			switch rapid.IntRange(0, 4).Draw(t, "kind") {
			case 0:
				env := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "environment")
				f.Step(cluster.Event{Kind: cluster.ServerJoined, Server: &cluster.Server{ID: on, Environment: env}})
				if owner[on] != env {
					leave(on)
				}
				owner[on] = env
			case 1:
				f.Step(cluster.Event{Kind: cluster.DiskJoined, On: on, Disk: &cluster.Disk{ID: id, Tier: "ssd", Free: free}})
				if owner[on] != "" {
					disks[id] = disk{on, free}
				}
			case 2:
				f.Step(cluster.Event{Kind: cluster.DiskLeft, On: on, Disk: &cluster.Disk{ID: id}})
				delete(disks, id)
			case 3:
				f.Step(cluster.Event{Kind: rapid.SampledFrom([]cluster.EventKind{cluster.ServerLeft, cluster.DataServerLeft}).Draw(t, "left"), On: on})
				leave(on)
			case 4:
				is := rapid.Bool().Draw(t, "busy")
				f.Step(cluster.Event{Kind: cluster.DataReported, Data: []cluster.DataUse{{On: on, Busy: is, Disks: []cluster.DiskUse{{ID: id, Free: free}}}}})
				if owner[on] == "" {
					break
				}
				busy[on] = is
				if d, known := disks[id]; known {
					disks[id] = disk{d.on, free}
				}
			}
			want, open := map[cluster.ServerID]int{}, map[string]bool{}
			for _, d := range disks {
				if n := int(d.free / blockBytes); n > 0 {
					want[d.on] += n
					if !busy[d.on] {
						open[owner[d.on]] = true
					}
				}
			}
			for on := range owner {
				if s, known := f.Server(on); !known || f.Free(s) != want[on] {
					t.Fatalf("%d fit on %s, not %d", f.Free(s), on, want[on])
				}
			}
			if f.Room() != len(open) {
				t.Fatalf("%d tenants have room, not %d", f.Room(), len(open))
			}
		}
	})
}
