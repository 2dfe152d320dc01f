package fabric

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gleaner/cluster"
	"gleaner/fabric/disk"
)

const ssd = cluster.Tier(disk.SSD)

// newTestPool gives a pool of such servers, each with one disk of that name.
func newTestPool(seed uint64, servers []cluster.Server, groups int) *pool {
	p := newPool(seed)
	for _, s := range servers {
		p.tell(cluster.Event{Kind: cluster.ServerJoined, On: s.ID, Server: &s})
		p.add(cluster.Disk{ID: cluster.DiskID(s.ID), Tier: ssd, Free: cluster.Bytes(groups) * disk.GroupSize}, pooled{on: s.ID, tier: ssd})
	}
	return p
}

// However servers are spread over environments, functions and racks, the replicas of a group are in different environments as long as enough of
// these have room: when it is made, and when replicas are added later while servers with others are away.
func TestEnvironmentsAreKeptApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := func(what string, most int) int { return rapid.IntRange(1, most).Draw(t, what) }
		environments, functions, racks, replicas := count("environments", 8), count("functions", 4), count("racks", 6), count("replicas", 4)
		var servers []cluster.Server
		environment, full := map[cluster.DiskID]string{}, map[cluster.DiskID]bool{}
		for i := range count("servers", 30) {
			s := cluster.Server{ID: cluster.ServerID(fmt.Sprint("s", i)), Environment: fmt.Sprint("e", i%environments),
				Function: fmt.Sprint("f", rapid.IntRange(0, functions-1).Draw(t, "function")), Rack: fmt.Sprint("r", rapid.IntRange(0, racks-1).Draw(t, "rack"))}
			servers = append(servers, s)
			environment[cluster.DiskID(s.ID)] = s.Environment
			full[cluster.DiskID(s.ID)] = rapid.IntRange(0, 3).Draw(t, "full") == 0
		}
		p := newTestPool(1, servers, 100)
		var room []cluster.DiskID
		for d, is := range full {
			if is {
				p.tell(cluster.Event{Kind: cluster.DataReported, Data: []cluster.DataUse{{On: cluster.ServerID(d), Disks: []cluster.DiskUse{{ID: d}}}}})
			} else {
				room = append(room, d)
			}
		}
		p.learn(func(h *habits) {
			h.seen = map[cluster.TenantID]float64{}
			for _, s := range servers {
				h.seen[s.Tenant()] = rapid.Float64Range(0, 2).Draw(t, "reimages")
			}
		})
		different := func(disks []cluster.DiskID) int {
			seen := map[string]bool{}
			for _, d := range disks {
				seen[environment[d]] = true
			}
			return len(seen)
		}
		made := p.Place(nil, replicas)
		if len(made) != min(replicas, len(room)) || different(made) < min(len(made), different(room)) {
			t.Fatalf("%v: %d environments of %d", made, different(made), different(room))
		}
		if len(made) == 0 {
			return
		}
		away := cluster.ServerID(made[0])
		p.leave(away, map[cluster.DiskID]disk.Identity{made[0]: {}})
		one := p.Place(made, 1)
		left := map[string]bool{} // environments with a disk that has room and is not away
		for d, e := range environment {
			if !full[d] && cluster.ServerID(d) != away && !slices.ContainsFunc(made, func(m cluster.DiskID) bool { return environment[m] == e }) {
				left[e] = true
			}
		}
		if len(left) > 0 && (len(one) != 1 || !left[environment[one[0]]]) {
			t.Fatalf("%v has %v added, though %v have none of its replicas", made, one, left)
		}
	})
}

// Half of the servers are left out once it is known that they are reimaged more often, from the front's own memory or from a history; not while most were never reimaged.
func TestPlacesAreLearned(t *testing.T) {
	var servers []cluster.Server
	for i := range 20 {
		servers = append(servers, cluster.Server{ID: cluster.ServerID(fmt.Sprintf("s%02d", i))})
	}
	for _, tc := range []struct {
		seen, history int // tenants that were reimaged
		want          int // servers with replicas
	}{{0, 0, 20}, {5, 0, 20}, {20, 0, 10}, {0, 20, 10}, {8, 10, 20}} {
		p := newTestPool(1, servers, 10_000)
		p.learn(func(h *habits) {
			h.seen, h.history = map[cluster.TenantID]float64{}, map[cluster.TenantID]Habit{}
			for i, s := range servers {
				h.seen[s.Tenant()] = float64(max(0, tc.seen-i))
				h.history[s.Tenant()] = Habit{Reimages: float64(max(0, tc.history-i))}
			}
		})
		used := map[cluster.DiskID]bool{}
		for range 100 {
			for _, d := range p.Place(nil, 3) {
				used[d] = true
			}
		}
		if len(used) != tc.want {
			t.Errorf("%+v: %d are used", tc, len(used))
		}
		for i, s := range servers[:10] {
			if tc.want == 10 && used[cluster.DiskID(s.ID)] {
				t.Errorf("%+v: %d is used, which is reimaged often", tc, i)
			}
		}
	}
}

// Stat says what falls short, and whether there is too little to choose from.
func TestShortfalls(t *testing.T) {
	servers := []cluster.Server{{ID: "a", Environment: "x", Rack: "1"}, {ID: "b", Environment: "y", Rack: "1"}, {ID: "c", Environment: "x", Rack: "1"}, {ID: "d", Environment: "y", Rack: "1"}}
	p := newTestPool(1, servers, 10)
	s := newPlacement(p.rules())
	for _, disks := range [][]cluster.DiskID{{"a"}, {"a", "b"}, {"a", "c"}, {"a", "b", "c"}} {
		s.add(p.quality(disks))
	}
	if s.Groups != 3 || s.Well != 0 {
		t.Errorf("%+v", s)
	}
	got := ""
	for _, w := range s.Wishes {
		got += fmt.Sprintf("%s: %d, short %v\n", w.Different, w.Kept, w.Short)
	}
	if want := `environments: 1, short map[2 on ssd for 3 replicas:1 no room elsewhere then, or servers or their habits have changed since:1]
functions: 1, short map[2 on ssd for 3 replicas:1 no room elsewhere then, or servers or their habits have changed since:1]
racks: 0, short map[1 on ssd for 2 replicas:2 1 on ssd for 3 replicas:1]
`; got != want {
		t.Errorf("got\n%s", got)
	}
}

// BenchmarkPool chooses the servers of new groups of three replicas, and of the third where one was lost, and tells which share of the groups keeps every wish.
func BenchmarkPool(b *testing.B) {
	for _, size := range []struct{ servers, tenants int }{{60, 20}, {5000, 350}} {
		rng := rand.New(rand.NewPCG(1, 1))
		var servers []cluster.Server
		seen := map[cluster.TenantID]float64{}
		for i := range size.servers {
			tenant := i % size.tenants
			s := cluster.Server{ID: cluster.ServerID(fmt.Sprint("s", i)), Environment: fmt.Sprint("e", tenant*3/5), Function: fmt.Sprint("f", tenant%7), Rack: fmt.Sprint("r", i/3)}
			servers = append(servers, s)
			seen[s.Tenant()] = rng.ExpFloat64()
		}
		p := newTestPool(1, servers, 1<<16)
		p.learn(func(h *habits) { h.seen = seen })
		var first [10_000][]cluster.DiskID
		b.Run(fmt.Sprint(size.servers, "servers"), func(b *testing.B) {
			i, well := 0, newPlacement(p.rules())
			for b.Loop() {
				first[i%len(first)] = p.Place(nil, 3)
				i++
			}
			for _, disks := range first[:min(i, len(first))] {
				well.add(p.quality(disks))
			}
			b.ReportMetric(100*float64(well.Well)/float64(well.Groups), "%wishes")
		})
		b.Run(fmt.Sprint(size.servers, "servers_repair"), func(b *testing.B) {
			i, well := 0, newPlacement(p.rules())
			for b.Loop() {
				on := first[i%len(first)]
				i++
				if len(on) == 0 {
					continue // -benchtime asks for fewer than there are
				}
				on[2] = p.Place(on[:2], 1)[0]
			}
			for _, disks := range first[:min(i, len(first))] {
				well.add(p.quality(disks))
			}
			b.ReportMetric(100*float64(well.Well)/float64(well.Groups), "%wishes")
		})
	}
}
