package storage_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"gleaner/cluster"
	"gleaner/placement"
	"gleaner/sim/datacenter"
	"gleaner/sim/storage"
)

var epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// TestScenarios plays the files of testdata: where blocks are, which servers are
// reimaged when, and what happens to the blocks.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return play(t, d)
		})
	})
}

// scripted places new blocks where the scenario says, and rebuilds on the servers
// from 100 on, in order.
type scripted struct {
	new  [][]placement.ServerIndex
	next placement.ServerIndex
}

func (p *scripted) Place(have []placement.ServerIndex, _ placement.ServerIndex, n int, _ *rand.Rand) ([]placement.ServerIndex, error) {
	if len(have) == 0 {
		first := p.new[0]
		p.new = p.new[1:]
		return append(have, first...), nil
	}
	for len(have) < n {
		have = append(have, p.next)
		p.next++
	}
	return have, nil
}
func (p *scripted) Take(placement.ServerIndex) placement.DiskIndex { return 0 }
func (p *scripted) Release(placement.DiskIndex, int)               {}

func play(t *testing.T, d *datadriven.TestData) string {
	p := &scripted{next: 100}
	var reimages []datacenter.Reimage
	for line := range strings.SplitSeq(d.Input, "\n") {
		fields := strings.Fields(line)
		switch fields[0] {
		case "block":
			var at []placement.ServerIndex
			for _, f := range fields[1:] {
				var s placement.ServerIndex
				if _, err := fmt.Sscan(f, &s); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				at = append(at, s)
			}
			p.new = append(p.new, at)
		case "reimage":
			var server int32
			at, err := time.ParseDuration(fields[2])
			if _, bad := fmt.Sscan(fields[1], &server); bad != nil || err != nil {
				t.Fatalf("%q: %v %v", line, bad, err)
			}
			reimages = append(reimages, datacenter.Reimage{At: epoch.Add(at), Server: server})
		}
	}
	blocks, replicas := len(p.new), len(p.new[0])
	store, err := storage.Fill(p, 1000, blocks, replicas, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	var length string
	d.ScanArgs(t, "for", &length)
	until, err := time.ParseDuration(length)
	if err != nil {
		t.Fatal(err)
	}
	result, err := store.Run(reimages, epoch, epoch.Add(until), nil)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for b := range blocks {
		fmt.Fprintf(&out, "block on %v\n", store.Replicas(b))
	}
	fmt.Fprintf(&out, "%d reimages, %d rebuilt, %d lost\n", result.Reimages, result.Rebuilt, result.Lost)
	return out.String()
}

// drawCluster draws a small cluster with spare room.
func drawCluster(t *rapid.T) (*placement.Inventory, int) {
	inv, servers := placement.NewInventory(1), 0
	for i := range 27 {
		name := fmt.Sprint(i)
		tenant := inv.AddTenant(placement.Tenant{Environment: name, Function: name, ReimageRate: float64(i / 9), Peak: float64(i % 9)})
		for range rapid.IntRange(1, 3).Draw(t, "servers") {
			inv.AddServer(placement.Server{Tenant: tenant, Rack: fmt.Sprint(servers / 4)}, 40)
			servers++
		}
	}
	return inv, servers
}

func TestWhatIsNotLostIsWholeAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, servers := drawCluster(t)
		placer := []storage.Placer{
			placement.NewGrid(inv, placement.Paper), placement.NewGrid(inv, placement.History), placement.Stock{Inventory: inv}, placement.Random{Inventory: inv},
		}[rapid.IntRange(0, 3).Draw(t, "policy")]
		blocks, replicas := rapid.IntRange(1, 150).Draw(t, "blocks"), rapid.IntRange(1, 4).Draw(t, "replicas")
		store, err := storage.Fill(placer, servers, blocks, replicas, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
		if err != nil {
			t.Fatal(err)
		}
		var reimages []datacenter.Reimage
		for range rapid.IntRange(0, 40).Draw(t, "reimages") {
			at := epoch.Add(time.Duration(rapid.IntRange(0, 12*60).Draw(t, "minute")) * time.Minute)
			reimages = append(reimages, datacenter.Reimage{At: at, Server: int32(rapid.IntRange(0, servers-1).Draw(t, "server"))})
		}
		slices.SortStableFunc(reimages, func(a, b datacenter.Reimage) int { return a.At.Compare(b.At) })
		// Two days are enough to rebuild anything.
		result, err := store.Run(reimages, epoch, epoch.AddDate(0, 0, 2), nil)
		if err != nil {
			t.Fatal(err)
		}
		lost, on := 0, make([]int, servers)
		for b := range blocks {
			at := store.Replicas(b)
			if len(at) == 0 {
				lost++
			} else if len(at) != replicas {
				t.Fatalf("block %d has %d of %d replicas after two days", b, len(at), replicas)
			}
			for i, s := range at {
				on[s]++
				if slices.Contains(at[:i], s) {
					t.Fatalf("block %d is twice on server %d", b, s)
				}
			}
		}
		if lost != result.Lost || result.Reimages != len(reimages) {
			t.Fatalf("%d blocks are gone of %d reimages, the result is %+v", lost, len(reimages), result)
		}
		for s, n := range on {
			if free := inv.Free(placement.ServerIndex(s)); free != 40-n {
				t.Fatalf("server %d holds %d blocks, but has room for %d of 40", s, n, free)
			}
		}
	})
}

func TestARunCanBeStopped(t *testing.T) {
	store, err := storage.Fill(&scripted{new: [][]placement.ServerIndex{{1}}}, 10, 1, 1, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	if _, err := store.Run(nil, epoch, epoch.AddDate(1, 0, 0), func(share float64) error {
		if share > 0.5 {
			return stop
		}
		return nil
	}); !errors.Is(err, stop) {
		t.Errorf("ended with %v", err)
	}
}

func TestAFullClusterRefusesBlocks(t *testing.T) {
	inv := placement.NewInventory(1)
	inv.AddTenant(placement.Tenant{})
	inv.AddServer(placement.Server{}, 2)
	inv.AddServer(placement.Server{}, 2)
	_, err := storage.Fill(placement.Random{Inventory: inv}, 2, 3, 2, rand.New(rand.NewPCG(1, 1)))
	var refused *placement.DiversityError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "after 2 of 3 blocks") {
		t.Errorf("%v", err)
	}
}

func TestAnAccessFailsWhenAllReplicasAreBusy(t *testing.T) {
	// Three servers of one tenant each; the third is busy in the second slot only.
	d := datacenter.New("three", cluster.Window{From: epoch, Step: time.Minute, Len: 2}, epoch)
	d.Add(cluster.Server{ID: "idle"}, []float32{0.1, 0.65})
	d.Add(cluster.Server{ID: "busy"}, []float32{0.9, 0.67})
	d.Add(cluster.Server{ID: "changing"}, []float32{0.1, 0.9})
	r := rand.New(rand.NewPCG(1, 1))
	for _, tc := range []struct {
		on          []placement.ServerIndex
		first, last int
		want        int
	}{
		{[]placement.ServerIndex{0, 1}, 0, 2, 0}, {[]placement.ServerIndex{1, 2}, 0, 1, 0}, {[]placement.ServerIndex{1, 2}, 1, 2, 100}, {[]placement.ServerIndex{1}, 0, 2, 100}, {[]placement.ServerIndex{2}, 0, 1, 0},
	} {
		store, err := storage.Fill(&scripted{new: [][]placement.ServerIndex{tc.on}}, 3, 1, len(tc.on), r)
		if err != nil {
			t.Fatal(err)
		}
		if got := store.Access(d, tc.first, tc.last, 100, r); got != tc.want {
			t.Errorf("block on %v, slots %d to %d: %d of 100 accesses fail, not %d", tc.on, tc.first, tc.last, got, tc.want)
		}
	}
}

// BenchmarkYear is DC-9 with a tenth of its servers and blocks; all of it, with
// `gleaner simulate storage`, takes ten times as long.
func BenchmarkYear(b *testing.B) {
	p, err := datacenter.Find("DC-9")
	if err != nil {
		b.Fatal(err)
	}
	d := datacenter.Generate(p, datacenter.Options{Servers: 500, Seed: 1})
	b.Run("500servers_400000blocks", func(b *testing.B) {
		for b.Loop() {
			r := rand.New(rand.NewPCG(1, 1))
			store, err := storage.Fill(randomly(d), len(d.Servers), 400_000, 3, r)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := store.Run(d.Reimages, d.Now, d.Now.AddDate(1, 0, 0), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func randomly(d *datacenter.Datacenter) storage.Placer {
	inv := placement.NewInventory(256 << 20)
	inv.AddTenant(placement.Tenant{})
	for _, s := range d.Servers {
		inv.AddServer(placement.Server{}, s.Disk)
	}
	return placement.Random{Inventory: inv}
}
