package main

import (
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric"
	"gleaner/history"
	"gleaner/kv/mem"
)

// The history says how often a tenant's servers are reimaged and how busy they get, by the names of tenant and server.
func TestHabits(t *testing.T) {
	store := mem.New()
	if none, err := habits(t.Context(), store); err != nil || len(none) != 0 {
		t.Errorf("an empty history says %v, %v", none, err)
	}
	past, err := history.Open(t.Context(), store, time.Now)
	must(t, err)
	begin := time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
	must(t, past.Import(t.Context(), func(im *history.Import) error {
		im.SetServers([]cluster.Server{{ID: "s1", Environment: "search", Function: "rank"}, {ID: "s2", Environment: "search", Function: "rank"}, {ID: "s3"}})
		im.AddReimages([]cluster.Reimage{{At: begin, Server: "s1"}, {At: begin.Add(40 * 24 * time.Hour), Server: "s1"}, {At: begin.Add(41 * 24 * time.Hour), Server: "s2"}})
		for i := range 14 * 24 {
			if err := im.Add(t.Context(), history.Sample{Milli: begin.Add(time.Duration(i) * time.Hour).UnixMilli(), Server: "s3", CPU: 0.4}); err != nil {
				return err
			}
		}
		return nil
	}))
	known, err := habits(t.Context(), store)
	must(t, err)
	for tenant, want := range map[cluster.TenantID]fabric.Habit{"search/rank": {Reimages: 0.75}, "s1": {Reimages: 0.75}, "s2": {Reimages: 0.75}, "s3": {Peak: 0.4}} {
		if got := known[tenant]; got.Reimages != want.Reimages || got.Peak < want.Peak-0.01 || got.Peak > want.Peak+0.01 {
			t.Errorf("%s: %+v, not %+v", tenant, got, want)
		}
	}
}
