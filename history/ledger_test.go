package history

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gleaner/cluster"
	"gleaner/kv"
	"gleaner/kv/kvtest"
	"gleaner/kv/mem"
)

// A gleaner is one of several processes on one store, with a clock of its own.
type gleaner struct {
	*Store
	clock *clock
}

func newGleaner(t testing.TB, store kv.Store) gleaner {
	c := newClock()
	return gleaner{openAt(t, store, c), c}
}

// start begins an import and writes all kinds of rows but for those of Commit.
func (g gleaner) start(t testing.TB, server cluster.ServerID) *Import {
	t.Helper()
	im := begin(t, g.Store)
	im.room = 0 // every sample is written at once
	check(t, im.Add(t.Context(), Sample{Milli: 5, Server: server, CPU: 0.5, Mem: 0.5, Tenant: "web"}))
	im.SetServers([]cluster.Server{{ID: server, Rack: "r1"}})
	im.AddReimages([]cluster.Reimage{{At: time.UnixMilli(7), Server: server, Cause: "test"}})
	return im
}

// sees fails unless the store holds these servers, each as start writes it, and
// nothing else.
func (g gleaner) sees(t testing.TB, want ...cluster.ServerID) {
	t.Helper()
	all, err := g.Summaries(t.Context())
	check(t, err)
	var got []cluster.ServerID
	for _, sum := range all {
		got = append(got, sum.ID)
		if sum.Samples != 1 || sum.Rack != "r1" || sum.Owner != "web" {
			t.Errorf("%+v", sum)
		}
	}
	reimages, err := g.Reimages(t.Context())
	check(t, err)
	if !slices.Equal(got, want) || len(reimages) != len(want) {
		t.Errorf("servers %v with %d reimages, want %v", got, len(reimages), want)
	}
}

// rows counts the rows of all tables that imports write to, and the leases.
func (g gleaner) rows(t testing.TB) (n int) {
	t.Helper()
	for _, table := range []kv.Reader{g.samples, g.headers, g.servers, g.reimages, g.ledger.leases.Table} {
		for _, err := range table.Scan(t.Context(), kv.Range{}) {
			check(t, err)
			n++
		}
	}
	return n
}

// TestLeases tells of two gleaners on one store, of which one stalls.
func TestLeases(t *testing.T) {
	for name, story := range map[string]func(t *testing.T, slow, other gleaner){
		"an import under way is left alone": func(t *testing.T, slow, other gleaner) {
			im := slow.start(t, "a")
			other.clock.advance(importLease - time.Second)
			check(t, other.start(t, "b").Commit(t.Context()))
			check(t, im.Commit(t.Context()))
			other.sees(t, "a", "b")
		},
		"late writes have no effect": func(t *testing.T, slow, other gleaner) {
			im := slow.start(t, "a")
			other.clock.advance(importLease)
			check(t, other.start(t, "b").Commit(t.Context()))
			left := other.rows(t)
			check(t, im.Add(t.Context(), Sample{Milli: 6, Server: "b", CPU: 1})) // its clock says that all is well
			if err := im.Commit(t.Context()); !errors.Is(err, errGivenUp) {
				t.Errorf("commit of an import that was given up: %v", err)
			}
			other.sees(t, "b")
			if other.rows(t) == left {
				t.Error("the late writes did not arrive, so this shows nothing")
			}
			check(t, im.Abort(t.Context()))
			other.sees(t, "b")
			if n := other.rows(t); n != left {
				t.Errorf("%d rows are left of %d", n, left)
			}
		},
		"one that was given up is told as soon as it renews": func(t *testing.T, slow, other gleaner) {
			im := slow.start(t, "a")
			other.clock.advance(importLease)
			begin(t, other.Store)
			slow.clock.advance(importLease)
			if err := im.Add(t.Context(), Sample{Milli: 6, Server: "a"}); !errors.Is(err, errGivenUp) {
				t.Errorf("a sample for an import that was given up: %v", err)
			}
		},
		"one that renews is left alone": func(t *testing.T, slow, other gleaner) {
			im := slow.start(t, "a")
			for range 10 {
				slow.clock.advance(importLease / 2)
				other.clock.advance(importLease / 2)
				for range lookEvery {
					check(t, im.Add(t.Context(), Sample{Milli: 5, Server: "a", CPU: 0.5, Mem: 0.5}))
				}
				check(t, begin(t, other.Store).Abort(t.Context()))
			}
			check(t, im.Commit(t.Context()))
			other.sees(t, "a")
		},
		"one that slept goes on if nobody came": func(t *testing.T, slow, other gleaner) {
			im := slow.start(t, "a")
			slow.clock.advance(9 * importLease)
			check(t, im.Commit(t.Context()))
			other.sees(t, "a")
			if n := other.rows(t); n != 4 {
				t.Errorf("%d rows for a sample, its header, its server and a reimage", n)
			}
		},
		"a crashed import is given up when its lease has run out": func(t *testing.T, slow, other gleaner) {
			slow.start(t, "a")
			other.clock.advance(importLease - time.Second)
			check(t, begin(t, other.Store).Commit(t.Context()))
			if other.rows(t) == 0 {
				t.Error("it was given up too early")
			}
			other.clock.advance(time.Second)
			check(t, begin(t, other.Store).Commit(t.Context()))
			if n := other.rows(t); n != 0 {
				t.Errorf("%d rows are left of it", n)
			}
		},
		"a commit may come before the ledger gives it up": func(t *testing.T, slow, other gleaner) {
			im := slow.start(t, "a")
			other.clock.advance(importLease)
			lost, leases, err := other.ledger.takeLost(t.Context())
			if check(t, err); len(lost) != 1 {
				t.Errorf("lost imports: %v", lost)
			}
			check(t, im.Commit(t.Context()))
			check(t, other.giveUp(t.Context(), lost, leases))
			other.sees(t, "a")
			if n := other.rows(t); n != 4 {
				t.Errorf("%d rows for a sample, its header, its server and a reimage", n)
			}
		},
		"an import without a lease is given up at once": func(t *testing.T, slow, other gleaner) {
			im := slow.start(t, "a")
			check(t, slow.ledger.change(t.Context(), func(l *ledger) error { l.Leases = nil; return nil }))
			begin(t, other.Store)
			if err := im.Commit(t.Context()); !errors.Is(err, errGivenUp) {
				t.Errorf("commit: %v", err)
			}
		},
	} {
		for _, kind := range []string{"mem", "pebble"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				store := openStore(t, kind, t.TempDir())
				defer store.Close()
				story(t, newGleaner(t, store), newGleaner(t, store))
			})
		}
	}
}

// TestImportsAtOnce has imports of two gleaners begin, write, stall and end in
// any order, over a store that loses answers. What was acknowledged is there
// whole, with the value of the highest number; what was given up is not.
func TestImportsAtOnce(t *testing.T) {
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		var store kv.Store = mem.New()
		if rapid.Bool().Draw(t, "unsure") {
			store = kvtest.Unsure(store, rapid.Uint64().Draw(t, "seed"))
		}
		clocks := []*clock{newClock(), newClock()}
		stores := []*Store{reopen(store, clocks[0]), reopen(store, clocks[1])}
		open, added, fate := []*Import{}, map[uint32][]int64{}, map[uint32]bool{}
		take := func(t *rapid.T) *Import {
			if len(open) == 0 {
				t.Skip("no import is under way")
			}
			i := rapid.IntRange(0, len(open)-1).Draw(t, "import")
			im := open[i]
			open = slices.Delete(open, i, i+1)
			return im
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				im, err := stores[rapid.IntRange(0, 1).Draw(t, "gleaner")].Begin(ctx)
				if err != nil {
					return
				}
				im.room = rapid.IntRange(0, 8).Draw(t, "room")
				for _, slot := range rapid.SliceOfN(rapid.Int64Range(0, 9), 1, 9).Draw(t, "slots") {
					if im.Add(ctx, Sample{Milli: slot * dayMilli / 4, Server: "a", CPU: fromMillionths(int32(im.id))}) != nil {
						return // as a crash
					}
					added[im.id] = append(added[im.id], slot*dayMilli/4)
				}
				open = append(open, im)
			},
			"commit": func(t *rapid.T) {
				im := take(t)
				err := im.Commit(ctx)
				if err == nil || im.ended || errors.Is(err, errGivenUp) {
					fate[im.id] = err == nil || im.ended
				}
				if err != nil {
					_ = im.Abort(ctx)
				}
			},
			"abort": func(t *rapid.T) {
				im := take(t)
				if im.Abort(ctx) == nil {
					fate[im.id] = false
				}
			},
			"crash": func(t *rapid.T) { take(t) },
			"stall": func(t *rapid.T) { clocks[rapid.IntRange(0, 1).Draw(t, "clock")].advance(importLease) },
			"": func(t *rapid.T) {
				l, err := stores[0].ledger.read(ctx)
				check(t, err)
				want := map[int64]int32{}
				for _, id := range slices.Sorted(maps.Keys(added)) {
					if in, told := fate[id]; told && in != l.counts(id) {
						t.Fatalf("import %d counts: %v; its owner was told %v", id, l.counts(id), in)
					}
					for _, milli := range added[id] {
						if l.counts(id) {
							want[milli] = int32(id)
						}
					}
				}
				got := map[int64]int32{}
				for s, err := range stores[1].Samples(ctx, "a", time.UnixMilli(0), time.UnixMilli(lastMilli)) {
					check(t, err)
					got[s.Milli] = toMillionths(s.CPU)
				}
				if !maps.Equal(got, want) {
					t.Fatalf("samples %v, want %v", got, want)
				}
			},
		})
	})
}

// reopen opens a history over a store that may lose answers.
func reopen(store kv.Store, c *clock) *Store {
	for {
		if s, err := Open(context.Background(), store, func() time.Time { return c.Time }); err == nil {
			return s
		}
	}
}
