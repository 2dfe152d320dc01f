package pack

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// photos are disks that need only a slot, a cache that needs a CPU each, and
// web tasks, which are of this group.
func photos(t *testing.T, group string) []*shape {
	ss, err := shapes(&Problem{
		Resources: []string{"slots", "cores", "sockets"},
		Servers:   []Server{{Name: "small", Cost: 100, Capacity: []float64{2, 0, 2}}, {Name: "big", Cost: 180, Capacity: []float64{4, 0, 4}}},
		Purchases: []Purchase{{Name: "cpu", Cost: 37, Change: []float64{0, 1, -1}}},
		Items: []Item{
			{Name: "photos", Count: 50, Demand: []float64{1, 0, 0}, Group: "data"},
			{Name: "cache", Count: 50, Demand: []float64{0, 1, 0}, Group: "data"},
			{Name: "web", Count: 50, Demand: []float64{0, 0.5, 0}, Group: group},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return ss
}

// tally counts servers by content.
func tally(loads []load) map[string]int {
	out := map[string]int{}
	for _, l := range loads {
		out[fmt.Sprint(l.shape, l.v)] += l.times
	}
	return out
}

// TestTrimIsAboutLoads has a disk too many in all servers but one: that is one
// more load, however many servers there are.
func TestTrimIsAboutLoads(t *testing.T) {
	ss := photos(t, "")
	full, ok := cheapest(ss, []int{1, 2, 0})
	if !ok {
		t.Fatal("a disk and two caches fit no server")
	}
	for _, servers := range []int{3, 300} {
		got := trim(ss, []load{{full, servers}}, []int{1, 2 * servers, 0})
		if len(got) != 2 || got[0].times != 1 || got[1].times != servers-1 {
			t.Errorf("%d servers became %d loads: %v", servers, len(got), tally(got))
		}
	}
}

// TestTrimServerByServer compares with servers that are each a load of its
// own: the same are left, and nothing beyond need is, be it whole servers.
func TestTrimServerByServer(t *testing.T) {
	web := map[string][]*shape{"": photos(t, ""), "data": photos(t, "data")}
	rapid.Check(t, func(t *rapid.T) {
		ss := web[rapid.SampledFrom([]string{"", "data"}).Draw(t, "group of web")]
		var loads, single []load
		var have [3]int
		for range rapid.IntRange(1, 4).Draw(t, "loads") {
			content := []int{rapid.IntRange(0, 2).Draw(t, "photos"), rapid.IntRange(0, 2).Draw(t, "cache"), rapid.IntRange(0, 4).Draw(t, "web")}
			c, ok := cheapest(ss, content)
			if !ok {
				t.Skip("fits no server")
			}
			times := rapid.IntRange(1, 5).Draw(t, "times")
			loads = append(loads, load{c, times})
			for range times {
				single = append(single, load{c, 1})
			}
			for i, n := range content {
				have[i] += n * times
			}
		}
		need := make([]int, len(have))
		for i, n := range have {
			need[i] = rapid.IntRange(0, n).Draw(t, "need")
		}
		got, want := trim(ss, loads, need), trim(ss, single, need)
		if !maps.Equal(tally(got), tally(want)) {
			t.Fatalf("%v is left, server by server %v", tally(got), tally(want))
		}
		for i, n := range need {
			for _, l := range got {
				n -= ss[l.shape].count(l.v, i) * l.times
			}
			if n != 0 {
				t.Fatalf("of %d of item %d, %d are left", need[i], i, need[i]-n)
			}
		}
	})
}
