package history

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gleaner/cluster"
	"gleaner/kv"
	"gleaner/kv/mem"
)

var errDied = errors.New("the process died")

// A mortal is a store whose process dies at its last write, in the middle of it.
type mortal struct {
	kv.Store
	writes int // left to live
}

func (m *mortal) LooseTable(ctx context.Context, name string) (kv.LooseTable, error) {
	t, err := m.Store.LooseTable(ctx, name)
	return mortalTable{t, m}, err
}

func (m *mortal) Table(ctx context.Context, name string) (kv.Table, error) {
	t, err := m.Store.Table(ctx, name)
	return mortalLedger{t, m}, err
}

// dies tells whether this write is the last, and fails after it.
func (m *mortal) dies() (now bool, err error) {
	if m.writes--; m.writes < 0 {
		return false, errDied
	}
	return m.writes == 0, nil
}

type mortalTable struct {
	kv.LooseTable
	store *mortal
}

func (t mortalTable) Put(ctx context.Context, records ...kv.Record) error {
	now, err := t.store.dies()
	if now {
		return errors.Join(errDied, t.LooseTable.Put(ctx, records[:len(records)/2]...))
	}
	if err != nil {
		return err
	}
	return t.LooseTable.Put(ctx, records...)
}

func (t mortalTable) Delete(ctx context.Context, keys ...kv.Key) error {
	now, err := t.store.dies()
	if now {
		return errors.Join(errDied, t.LooseTable.Delete(ctx, keys[:len(keys)/2]...))
	}
	if err != nil {
		return err
	}
	return t.LooseTable.Delete(ctx, keys...)
}

type mortalLedger struct {
	kv.Table
	store *mortal
}

func (t mortalLedger) CompareAndSet(ctx context.Context, key kv.Key, old, next kv.Version, value []byte) error {
	now, err := t.store.dies()
	if err == nil {
		err = t.Table.CompareAndSet(ctx, key, old, next, value)
	}
	if now {
		return errors.Join(errDied, err)
	}
	return err
}

func (t mortalLedger) CompareAndDelete(ctx context.Context, key kv.Key, old kv.Version) error {
	now, err := t.store.dies()
	if err == nil {
		err = t.Table.CompareAndDelete(ctx, key, old)
	}
	if now {
		return errors.Join(errDied, err)
	}
	return err
}

// TestIndexThroughCrashes changes a history over and over, by processes that die
// at any write: at every moment the index tells what the samples are.
func TestIndexThroughCrashes(t *testing.T) {
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		store, clock := mem.New(), newClock()
		live := func(t *rapid.T, do func(*Store) error) {
			m := &mortal{store, rapid.IntRange(1, 30).Draw(t, "writes")}
			s, err := Open(ctx, m, func() time.Time { return clock.Time })
			if err == nil {
				err = do(s)
			}
			if err != nil && !errors.Is(err, errDied) {
				t.Fatal(err)
			}
			clock.advance(importLease)
			sureOf(t, openAt(t, store, clock))
		}
		t.Repeat(map[string]func(*rapid.T){
			"import": func(t *rapid.T) {
				samples := rapid.SliceOfN(drawSample, 1, 30).Draw(t, "samples")
				room := rapid.IntRange(1, 60).Draw(t, "room")
				live(t, func(s *Store) error {
					return s.Import(ctx, func(im *Import) error {
						im.room = room
						for _, sample := range samples {
							if err := im.Add(ctx, sample); err != nil {
								return err
							}
						}
						return nil
					})
				})
			},
			"remove": func(t *rapid.T) {
				server := drawSample.Draw(t, "sample").Server
				live(t, func(s *Store) error { _, err := s.Remove(ctx, server); return err })
			},
			"before": func(t *rapid.T) {
				moment := time.UnixMilli(drawSample.Draw(t, "sample").Milli)
				live(t, func(s *Store) error { return s.RemoveBefore(ctx, moment) })
			},
			"all": func(t *rapid.T) { live(t, func(s *Store) error { return s.RemoveAll(ctx) }) },
		})
	})
}

// sureOf fails unless the summaries are those of the samples.
func sureOf(t fataler, s *Store) {
	t.Helper()
	all, err := s.Summaries(context.Background())
	check(t, err)
	for _, sum := range all {
		var times []int64
		for sample, err := range s.Samples(context.Background(), sum.ID, time.UnixMilli(0), time.UnixMilli(lastMilli)) {
			check(t, err)
			times = append(times, sample.Milli)
		}
		if sum.Samples != int64(len(times)) || len(times) > 0 && (sum.First.UnixMilli() != times[0] || sum.Last.UnixMilli() != times[len(times)-1]) {
			t.Fatalf("the index tells %d samples of %s from %v to %v; they are at %v", sum.Samples, sum.ID, sum.First, sum.Last, times)
		}
	}
}

// TestOldHistory opens a history from before there was an index and before the
// rows of servers and reimages had the number of their import.
func TestOldHistory(t *testing.T) {
	ctx, store := t.Context(), mem.New()
	s := open(t, store)
	im := begin(t, s)
	for i := range int64(10) {
		check(t, im.Add(ctx, Sample{Milli: i * dayMilli / 3, Server: "a", CPU: 0.5}))
	}
	check(t, im.Commit(ctx))
	before, err := s.Summaries(ctx)
	check(t, err)

	check(t, dropAll(ctx, s.headers, kv.Range{}, every))
	check(t, dropAll(ctx, s.servers, kv.Range{}, every))
	check(t, s.servers.Put(ctx, kv.Record{Key: kv.Key{Part: serversPart, Row: []byte("a")}, Value: []byte(`{"rack":"r1"}`)}))
	check(t, s.reimages.Put(ctx, kv.Record{Key: kv.Key{Part: []byte("a"), Row: []byte("\x00\x00\x00\x00\x00\x00\x00\x07")}, Value: []byte("test")}))
	check(t, s.ledger.change(ctx, func(l *ledger) error { l.Indexed = false; return nil }))

	s = open(t, store)
	before[0].Rack = "r1"
	if after, err := s.Summaries(ctx); err != nil || !slices.Equal(after, before) {
		t.Errorf("the old history is %+v, %v; want %+v", after, err, before)
	}
	if all, err := s.Reimages(ctx); err != nil || len(all) != 1 || all[0] != (cluster.Reimage{At: time.UnixMilli(7).UTC(), Server: "a", Cause: "test"}) {
		t.Errorf("its reimages are %v, %v", all, err)
	}
	if found, err := s.Remove(ctx, "a"); err != nil || !found {
		t.Errorf("removed: %v, %v", found, err)
	}
	sureOf(t, s)
}

func FuzzParseIndexed(f *testing.F) {
	c, err := newCodec()
	if err != nil {
		f.Fatal(err)
	}
	row, err := indexed(kv.Record{Value: c.encode([]point{{0, 5, absent}, {120_000, 7, absent}})})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(row.Value)
	f.Fuzz(func(t *testing.T, value []byte) {
		h, size, err := parseIndexed(value)
		if err == nil && (h.count < 1 || h.count > maxPoints || h.first < 0 || h.last < h.first || h.last >= dayMilli || size < 0 || size > kv.MaxValue) {
			t.Fatalf("%x is %+v of %d bytes", value, h, size)
		}
	})
}

// TestChoosingReadsNoSamples: the index tells the span of the history, so
// choosing a window reads only the last samples of some servers, for the step.
func TestChoosingReadsNoSamples(t *testing.T) {
	ctx := t.Context()
	s := importAll(t, mem.New(), newFeed(300, 3000))
	read := countReads(s)
	w, _, err := s.LastWindow(ctx, Choice{Length: Month})
	check(t, err)
	choosing := *read
	series, err := s.Window(ctx, w)
	check(t, err)
	window := read.bytes - choosing.bytes
	if len(series) != 300 || w.Len != 3000 {
		t.Fatalf("%d tenants over %d slots", len(series), w.Len)
	}
	if held := held(t, s); window < held || window > held+held/10 {
		t.Errorf("the window took %d bytes of %d", window, held)
	}
	if choosing.chunks > 2*stepServers || choosing.bytes > window/3 {
		t.Errorf("choosing it read %d chunks and %d bytes; reading it took %d", choosing.chunks, choosing.bytes, window)
	}
}
