package kvtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"gleaner/kv"
)

// apply checks changes of several rows at once.
func apply(t *testing.T, s kv.Store) {
	ctx, tab, part := t.Context(), table(t, s, "t"), []byte("apply")
	none, v1, v2, v3 := kv.Version{}, kv.Version{Writer: 1, Seq: 1}, kv.Version{Writer: 1, Seq: 2}, kv.Version{Writer: 1, Seq: 3}
	set := func(row string, old kv.Version, value string) kv.Change {
		return kv.Change{Do: kv.Set, Row: []byte(row), Old: old, Value: []byte(value)}
	}
	remove := func(row string, old kv.Version) kv.Change {
		return kv.Change{Do: kv.Delete, Row: []byte(row), Old: old}
	}
	keep := func(row string, old kv.Version) kv.Change { return kv.Change{Do: kv.Keep, Row: []byte(row), Old: old} }
	holds := func(rows ...kv.Record) {
		t.Helper()
		keys, _ := collect(t, tab, kv.Range{Part: part})
		if len(keys) != len(rows) {
			t.Fatalf("the part holds %v, want %d rows", keys, len(rows))
		}
		for _, r := range rows {
			hasRecord(t, tab, r)
		}
	}
	row := func(name string, v kv.Version, value string) kv.Record {
		return kv.Record{Key: kv.Key{Part: part, Row: []byte(name)}, Version: v, Value: []byte(value)}
	}

	must(t, tab.Apply(ctx, part, v1, set("b", none, "1"), set("a", none, "1"), set("c", none, "1")))
	holds(row("a", v1, "1"), row("b", v1, "1"), row("c", v1, "1"))
	for what, changes := range map[string][]kv.Change{
		"one of three is new":     {set("a", v1, "2"), set("b", none, "2"), remove("c", v1)},
		"one of two has passed":   {set("a", v1, "2"), set("b", v3, "2")},
		"what is kept has passed": {set("a", v1, "2"), keep("b", v2)},
		"what is kept is gone":    {set("a", v1, "2"), keep("d", v1)},
		"a delete of nothing":     {set("a", v1, "2"), remove("d", v1)},
	} {
		want(t, what, tab.Apply(ctx, part, v2, changes...), kv.ErrConflict)
		holds(row("a", v1, "1"), row("b", v1, "1"), row("c", v1, "1"))
	}
	must(t, tab.Apply(ctx, part, v2, remove("c", v1), set("a", v1, "2"), keep("b", v1), set("d", none, "2")))
	holds(row("a", v2, "2"), row("b", v1, "1"), row("d", v2, "2"))
	must(t, tab.Apply(ctx, part, none, remove("d", v2), remove("b", v1)))
	holds(row("a", v2, "2"))

	many := make([]kv.Change, kv.MaxChanges+1)
	for i := range many {
		many[i] = set("many"+string(rune('A'+i)), none, "")
	}
	half := string(make([]byte, kv.MaxValue/2+1))
	for what, err := range map[string]error{
		"no change":             tab.Apply(ctx, part, v3),
		"nothing but keeping":   tab.Apply(ctx, part, v3, keep("a", v2)),
		"a row twice":           tab.Apply(ctx, part, v3, set("a", v2, ""), remove("a", v2)),
		"a delete of no record": tab.Apply(ctx, part, v3, set("b", none, ""), remove("c", none)),
		"a keep of no record":   tab.Apply(ctx, part, v3, set("b", none, ""), keep("c", none)),
		"a set to no version":   tab.Apply(ctx, part, none, set("b", none, "")),
		"a version twice":       tab.Apply(ctx, part, v2, set("a", v2, "")),
		"no part":               tab.Apply(ctx, nil, v3, set("b", none, "")),
		"too many":              tab.Apply(ctx, part, v3, many...),
		"too much":              tab.Apply(ctx, part, v3, set("b", none, half), set("c", none, half)),
	} {
		if err == nil || errors.Is(err, kv.ErrConflict) || errors.Is(err, kv.ErrUnknown) {
			t.Errorf("%s: got error %v, want a refusal", what, err)
		}
	}
	holds(row("a", v2, "2"))
	must(t, tab.Apply(ctx, part, v3, many[:kv.MaxChanges]...))
}

func applyTogether(t *testing.T, s kv.Store) {
	counted, unknown := countTogether(t, table(t, s, "t"), "together")
	if unknown != 0 || counted != togetherClients*togetherTurns {
		t.Errorf("counted to %d with %d unknown, want %d", counted, unknown, togetherClients*togetherTurns)
	}
}

// applyUnsure: with answers lost, the count is off by no more than those that
// stayed unknown, and still no row is ahead of another.
func applyUnsure(t *testing.T, s kv.Store) {
	tab := table(t, s, "t")
	inRounds(t, func(t *testing.T, seed uint64) {
		counted, unknown := countTogether(t, unsureOf(tab, seed), fmt.Sprint("together", seed))
		if want := uint64(togetherClients * togetherTurns); counted > want || counted < want-unknown {
			t.Errorf("counted to %d with %d unknown, want %d", counted, unknown, want)
		}
	})
}

const (
	togetherClients = 4
	togetherTurns   = 20
	togetherRows    = 3
)

// countTogether has clients count rows of one part up together. One row is
// deleted at odd counts, and is there at even ones. All that are there are always of
// one version, so that a client needs to read one: if the others are not, it cannot
// write. In the end all agree.
func countTogether(t *testing.T, tab kv.Table, name string) (counted, unknown uint64) {
	part := []byte(name)
	rowKey := func(i int) kv.Key { return kv.Key{Part: part, Row: []byte{byte(i)}} }
	flag := kv.Key{Part: part, Row: []byte("flag")}
	read := func(k kv.Key) (kv.Record, error) {
		r, err := tab.Get(t.Context(), k)
		if errors.Is(err, kv.ErrNotFound) {
			return kv.Record{}, nil
		}
		return r, err
	}
	// turn counts up once from the row r, and gives the row as it read it after a conflict.
	turn := func(w *kv.Writer, rng *rand.Rand, r kv.Record) (now kv.Record, err error) {
		value, _ := increment(r)
		var changes []kv.Change
		for i := range togetherRows {
			changes = append(changes, kv.Change{Row: rowKey(i).Row, Old: r.Version, Value: value})
		}
		if count := binary.BigEndian.Uint64(value); count%2 == 0 {
			changes = append(changes, kv.Change{Row: flag.Row})
		} else if count > 1 {
			changes = append(changes, kv.Change{Do: kv.Delete, Row: flag.Row, Old: r.Version})
		}
		rng.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
		_, err = w.Apply(t.Context(), tab, part, changes...)
		if errors.Is(err, kv.ErrConflict) {
			now, failure := read(rowKey(0))
			if failure != nil || now.Version == r.Version {
				return now, fmt.Errorf("a conflict, and the row is as it was: the others are not of its version %v (%v)", r.Version, failure)
			}
			return now, err
		}
		return kv.Record{}, err
	}
	var lost atomic.Uint64
	var all sync.WaitGroup
	for n := range togetherClients {
		all.Go(func() {
			w, rng := kv.NewWriter(uint64(n+1)), rand.New(rand.NewPCG(uint64(n), 5))
			for range togetherTurns {
				r, err := read(rowKey(0))
				if err == nil {
					r, err = turn(w, rng, r)
				}
				for errors.Is(err, kv.ErrConflict) {
					r, err = turn(w, rng, r)
				}
				switch {
				case errors.Is(err, kv.ErrUnknown):
					lost.Add(1)
				case err != nil:
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if u, ok := tab.(unsureTable); ok {
		u.store.arriveAll()
	}
	return agreed(t, read, rowKey, flag), lost.Load()
}

// agreed gives the count that all rows agree on.
func agreed(t *testing.T, read func(kv.Key) (kv.Record, error), rowKey func(int) kv.Key, flag kv.Key) uint64 {
	var counts [togetherRows]uint64
	for i := range counts {
		r, err := read(rowKey(i))
		must(t, err)
		counts[i] = binary.BigEndian.Uint64(r.Value)
	}
	f, err := read(flag)
	must(t, err)
	for _, c := range counts {
		if c != counts[0] || (f.Version != kv.Version{}) != (c%2 == 0) {
			t.Errorf("the rows stand at %v, the flag at %v", counts, f.Version)
		}
	}
	return counts[0]
}
