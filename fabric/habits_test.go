package fabric

import (
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/registry"
	"gleaner/kv/mem"
)

// Upkeep takes more of the time in the hours in which servers are used less, and the least while an owner needs one.
func TestLoadByHours(t *testing.T) {
	w := cluster.Window{From: time.Date(2026, time.November, 2, 22, 0, 0, 0, time.UTC), Step: 30 * time.Minute, Len: 4 * 48}
	var night, flat []float32
	for i := range w.Len {
		use := float32(0.8)
		if h := w.From.Add(time.Duration(i) * w.Step).Hour(); h < 6 {
			use = 0.2
		}
		if i%7 == 0 {
			use = float32(math.NaN()) // no sample
		}
		night, flat = append(night, use), append(flat, 0.5)
	}
	p := newPool(1)
	for name, d := range map[cluster.ServerID]pooled{"sleeps": {}, "steady": {}, "unknown": {}, "needed": {busy: true}} {
		s := cluster.Server{ID: name, Environment: string(name)}
		p.tell(cluster.Event{Kind: cluster.ServerJoined, On: name, Server: &s})
		d.on, d.tier = name, tiers[0]
		p.disks[cluster.DiskID(name)] = d
	}
	tenant := func(name string) cluster.TenantID { s := cluster.Server{Environment: name}; return s.Tenant() }
	p.learn(func(h *habits) {
		h.history = map[cluster.TenantID]Habit{tenant("sleeps"): {Hours: HoursOf(w, night)}, tenant("steady"): {Hours: HoursOf(w, flat)}}
	})
	for _, tc := range []struct {
		hour  int
		disks []cluster.DiskID
		want  float64
	}{
		{3, []cluster.DiskID{"sleeps"}, 0}, {12, []cluster.DiskID{"sleeps"}, 1}, {3, []cluster.DiskID{"steady"}, 0.5}, {3, []cluster.DiskID{"unknown"}, 0.5},
		{3, []cluster.DiskID{"sleeps", "steady"}, 0.5}, {12, []cluster.DiskID{"steady", "sleeps"}, 1}, {3, []cluster.DiskID{"sleeps", "needed"}, 1},
		{3, []cluster.DiskID{"gone"}, 0.5}, {3, nil, 0.5},
	} {
		if got := p.load(tc.disks, tc.hour); math.Abs(got-tc.want) > 1e-6 {
			t.Errorf("at %d o'clock the load of %v is %v, want %v", tc.hour, tc.disks, got, tc.want)
		}
	}
}

// A server was reimaged if another disk is where one was that is nowhere any more, also while no front was up; each time counts once, however many disks were
// wiped.
func TestReimagesAreNoticed(t *testing.T) {
	store, now := mem.New(), time.Date(2026, time.November, 16, 12, 0, 0, 0, time.UTC)
	entry := func(name string, disks ...string) registry.Server { // path, id, path, id, …
		e := registry.Server{Name: name, Address: "/s", Environment: "e"}
		for i := 0; i < len(disks); i += 2 {
			e.Disks = append(e.Disks, registry.Disk{Path: disks[i], ID: disks[i+1]})
		}
		return e
	}
	for _, tc := range []struct {
		what    string
		entries []registry.Server
		wiped   map[cluster.DiskID]cluster.ServerID
		rate    float64 // of the two servers' tenant
	}{
		{"two servers", []registry.Server{entry("s1", "/a", "a1", "/b", "b1"), entry("s2", "/a", "c1")}, nil, 0},
		{"the same", []registry.Server{entry("s1", "/a", "a1", "/b", "b1"), entry("s2", "/a", "c1")}, nil, 0},
		{"two disks of one are wiped", []registry.Server{entry("s1", "/a", "a2", "/b", "b2"), entry("s2", "/a", "c1")}, map[cluster.DiskID]cluster.ServerID{"a1": "s1", "b1": "s1"}, 1.0 / 2},
		{"disks change places", []registry.Server{entry("s1", "/a", "b2", "/b", "c1"), entry("s2", "/a", "a2")}, nil, 1.0 / 2},
		{"one is lent no more", []registry.Server{entry("s1", "/a", "b2"), entry("s2", "/a", "a2")}, nil, 1.0 / 2},
		{"both are wiped", []registry.Server{entry("s1", "/a", "x"), entry("s2", "/a", "y")}, map[cluster.DiskID]cluster.ServerID{"b2": "s1", "a2": "s2"}, 3.0 / 2},
	} {
		f, err := Open(t.Context(), Options{Store: store}) // a front of its own each time
		if err != nil {
			t.Fatal(err)
		}
		m, err := f.remembered(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wiped, news, err := m.notice(t.Context(), tc.entries, now)
		rate := m.rates(tc.entries, now)["e"]
		if err != nil || !maps.Equal(wiped, tc.wiped) || !news || rate != tc.rate {
			t.Errorf("%s: %v are wiped, news %v, rate %v, %v", tc.what, wiped, news, rate, err)
		}
		if wiped, news, err := m.notice(t.Context(), tc.entries, now); len(wiped) > 0 || news || err != nil {
			t.Errorf("%s, seen again: %v are wiped, news %v, %v", tc.what, wiped, news, err)
		}
		if later := m.rates(tc.entries, now.Add(10*month))["e"]; fmt.Sprintf("%.6f", later) != fmt.Sprintf("%.6f", rate/10) {
			t.Errorf("%s: ten months later the rate is %v", tc.what, later)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
