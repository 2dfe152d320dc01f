// Package kvtest is the test suite that every kv.Store must pass.
package kvtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"gleaner/kv"
)

// Open gives a store with nothing in it, and closes it when the test ends.
type Open func(t testing.TB) kv.Store

// Run tests that the stores that open gives keep what kv promises. The tests run in parallel: on a network most of their
// time is waiting. Some of them share a store, and its tables: each uses parts of its own, or they all put the same into them. To make a
// table is what takes some stores longest.
func Run(t *testing.T, open Open) {
	common := open(t)
	own, shared := open, func(testing.TB) kv.Store { return common }
	for _, test := range []struct {
		name string
		run  func(*testing.T, kv.Store)
		open Open
	}{
		{"Names", names, own},
		{"Drop", drop, own},
		{"CompareAndSet", compareAndSet, own},
		{"CompareAndDelete", compareAndDelete, own},
		{"Apply", apply, shared},
		{"ApplyTogether", applyTogether, shared},
		{"ApplyUnsure", applyUnsure, shared},
		{"Load", load, own},
		{"Loose", loose, own},
		{"BytesAreTheCallers", bytesAreTheCallers, own},
		{"Cancelled", cancelled, own},
		{"RowsAreInOrder", rowsAreInOrder, shared},
		{"Ranges", ranges, shared},
		{"ScanStops", scanStops, own},
		{"ScanResumes", scanResumes, shared},
		{"ScanWhileWriting", scanWhileWriting, own},
		{"SplitCoversOnce", splitCoversOnce, own},
		{"Split", split, own},
		{"Leases", leases, own},
		{"OneLeaseHolder", oneLeaseHolder, own},
		{"Update", update, shared},
		{"UpdateUnsure", updateUnsure, shared},
		{"Linearizable", linearizable, shared},
		{"LinearizableUnsure", linearizableUnsure, shared},
		{"Twin", twin, own},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, test.open(t))
		})
	}
}

// tb is what the checks need of a test, or of one run of a property.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Context() context.Context
}

func must(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t tb, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("%s: got error %v, want %v", what, err, target)
	}
}

func table(t testing.TB, s kv.Store, name string) kv.Table {
	t.Helper()
	tab, err := s.Table(t.Context(), name)
	must(t, err)
	return tab
}

func looseTable(t testing.TB, s kv.Store, name string) kv.LooseTable {
	t.Helper()
	tab, err := s.LooseTable(t.Context(), name)
	must(t, err)
	return tab
}

func key(part, row string) kv.Key { return kv.Key{Part: []byte(part), Row: []byte(row)} }

// collect scans r. Keys are given as part and row, quoted.
func collect(t tb, tab kv.Reader, r kv.Range) (keys []string, values map[string]string) {
	t.Helper()
	values = map[string]string{}
	for record, err := range tab.Scan(t.Context(), r) {
		must(t, err)
		k := quoted(record.Key)
		if _, twice := values[k]; twice {
			t.Fatalf("scan of %q gave %s twice", r, k)
		}
		keys = append(keys, k)
		values[k] = string(record.Value)
	}
	return keys, values
}

func quoted(k kv.Key) string { return fmt.Sprintf("%q/%q", k.Part, k.Row) }

func names(t *testing.T, s kv.Store) {
	ctx := t.Context()
	for _, bad := range []string{"", "A", "a-b", "a/b", "1a", "_a", "é", string(bytes.Repeat([]byte("a"), 49))} {
		if _, err := s.Table(ctx, bad); err == nil {
			t.Errorf("%q named a table", bad)
		}
	}
	v := kv.Version{Writer: 1, Seq: 1}
	must(t, table(t, s, "a").CompareAndSet(ctx, key("p", "r"), kv.Version{}, v, []byte("in a")))
	must(t, table(t, s, "ab").CompareAndSet(ctx, key("p", "r"), kv.Version{}, v, []byte("in ab")))
	if _, values := collect(t, table(t, s, "a"), kv.Range{}); !maps.Equal(values, map[string]string{`"p"/"r"`: "in a"}) {
		t.Errorf("table a holds %v", values)
	}
	if _, err := s.LooseTable(ctx, "a"); err == nil {
		t.Error("a table was given as a loose one")
	}
	looseTable(t, s, "l")
	if _, err := s.Table(ctx, "l"); err == nil {
		t.Error("a loose table was given as one that compares")
	}
	all, err := s.Tables(ctx)
	must(t, err)
	if want := []kv.TableInfo{{Name: "a"}, {Name: "ab"}, {Name: "l", Loose: true}}; !slices.Equal(all, want) {
		t.Errorf("the store lists %v, want %v", all, want)
	}
}

// drop: a table that was dropped is empty, may be made again as the other kind,
// and the records of other tables stay.
func drop(t *testing.T, s kv.Store) {
	ctx, v := t.Context(), kv.Version{Writer: 1, Seq: 1}
	for _, name := range []string{"a", "ab", "b"} {
		must(t, table(t, s, name).CompareAndSet(ctx, key("p", "r"), kv.Version{}, v, []byte(name)))
	}
	must(t, s.Drop(ctx, "a"))
	must(t, s.Drop(ctx, "never"))
	if s.Drop(ctx, "No") == nil {
		t.Error("a name that is none was dropped")
	}
	if keys, _ := collect(t, looseTable(t, s, "a"), kv.Range{}); len(keys) > 0 {
		t.Errorf("after the drop the table holds %v", keys)
	}
	for _, name := range []string{"ab", "b"} {
		hasRecord(t, table(t, s, name), kv.Record{Key: key("p", "r"), Value: []byte(name), Version: v})
	}
}

func compareAndSet(t *testing.T, s kv.Store) {
	ctx, tab, k := t.Context(), table(t, s, "t"), key("p", "r")
	v1, v2 := kv.Version{Writer: 1, Seq: 1}, kv.Version{Writer: 2, Seq: 1}

	_, err := tab.Get(ctx, k)
	want(t, "get of nothing", err, kv.ErrNotFound)
	want(t, "set over nothing", tab.CompareAndSet(ctx, k, v1, v2, nil), kv.ErrConflict)
	must(t, tab.CompareAndSet(ctx, k, kv.Version{}, v1, []byte("one")))
	want(t, "set as new", tab.CompareAndSet(ctx, k, kv.Version{}, v2, nil), kv.ErrConflict)
	want(t, "set over another", tab.CompareAndSet(ctx, k, v2, kv.Version{Writer: 3, Seq: 3}, nil), kv.ErrConflict)
	hasRecord(t, tab, kv.Record{Key: k, Value: []byte("one"), Version: v1})

	must(t, tab.CompareAndSet(ctx, k, v1, v2, nil))
	hasRecord(t, tab, kv.Record{Key: k, Version: v2})
	want(t, "set over the past", tab.CompareAndSet(ctx, k, v1, kv.Version{Writer: 3, Seq: 3}, nil), kv.ErrConflict)

	big := kv.Version{Writer: 1<<64 - 1, Seq: 1<<64 - 1}
	must(t, tab.CompareAndSet(ctx, k, v2, big, []byte("big")))
	hasRecord(t, tab, kv.Record{Key: k, Value: []byte("big"), Version: big})

	for what, err := range map[string]error{
		"a version twice":  tab.CompareAndSet(ctx, k, big, big, nil),
		"no version":       tab.CompareAndSet(ctx, k, big, kv.Version{}, nil),
		"no part":          tab.CompareAndSet(ctx, key("", "r"), kv.Version{}, v1, nil),
		"a part too long":  tab.CompareAndSet(ctx, kv.Key{Part: make([]byte, kv.MaxKey+1)}, kv.Version{}, v1, nil),
		"a value too long": tab.CompareAndSet(ctx, k, big, v1, make([]byte, kv.MaxValue+1)),
		"a row too long":   tab.CompareAndSet(ctx, kv.Key{Part: []byte("p"), Row: make([]byte, kv.MaxKey+1)}, kv.Version{}, v1, nil),
		"a get of no part": second(tab.Get(ctx, key("", "r"))),
	} {
		if err == nil || errors.Is(err, kv.ErrConflict) || errors.Is(err, kv.ErrNotFound) {
			t.Errorf("%s: got error %v, want a refusal", what, err)
		}
	}
	hasRecord(t, tab, kv.Record{Key: k, Value: []byte("big"), Version: big})

	long := kv.Key{Part: bytes.Repeat([]byte{0}, kv.MaxKey), Row: bytes.Repeat([]byte{255}, kv.MaxKey)}
	must(t, tab.CompareAndSet(ctx, long, kv.Version{}, v1, []byte("long")))
	hasRecord(t, tab, kv.Record{Key: long, Value: []byte("long"), Version: v1})
	if rest, _ := collect(t, tab, tab.Rest(kv.Range{Part: long.Part}, long)); len(rest) > 0 {
		t.Errorf("%d records come after the last", len(rest))
	}
	if _, rest := collect(t, tab, tab.Rest(kv.Range{}, long)); rest[quoted(long)] != "" {
		t.Error("a record comes after itself")
	}
}

func second[T any](_ T, err error) error { return err }

// hasRecord checks that Get, Peek and Scan give the record.
func hasRecord(t *testing.T, tab kv.Reader, r kv.Record) {
	t.Helper()
	got, err := tab.Get(t.Context(), r.Key)
	must(t, err)
	same(t, got, r)
	peeked, err := tab.Peek(t.Context(), r.Key)
	must(t, err)
	same(t, peeked, r)
	found := false
	for got, err := range tab.Scan(t.Context(), kv.Range{Part: r.Key.Part, From: r.Key.Row}) {
		must(t, err)
		same(t, got, r)
		found = true
		break
	}
	if !found {
		t.Fatalf("the scan does not give %s", quoted(r.Key))
	}
}

func same(t *testing.T, got, want kv.Record) {
	t.Helper()
	if quoted(got.Key) != quoted(want.Key) || !bytes.Equal(got.Value, want.Value) || got.Version != want.Version {
		t.Fatalf("got %s = %q of %v, want %s = %q of %v",
			quoted(got.Key), got.Value, got.Version, quoted(want.Key), want.Value, want.Version)
	}
}

func compareAndDelete(t *testing.T, s kv.Store) {
	ctx, tab, k := t.Context(), table(t, s, "t"), key("p", "")
	v1, v2 := kv.Version{Writer: 1, Seq: 1}, kv.Version{Writer: 1, Seq: 2}
	want(t, "delete of nothing", tab.CompareAndDelete(ctx, k, v1), kv.ErrConflict)
	must(t, tab.CompareAndSet(ctx, k, kv.Version{}, v1, []byte("x")))
	want(t, "delete of another", tab.CompareAndDelete(ctx, k, v2), kv.ErrConflict)
	if err := tab.CompareAndDelete(ctx, k, kv.Version{}); err == nil || errors.Is(err, kv.ErrConflict) {
		t.Errorf("delete of no version: got error %v, want a refusal", err)
	}
	must(t, tab.CompareAndDelete(ctx, k, v1))
	_, err := tab.Get(ctx, k)
	want(t, "get of what was deleted", err, kv.ErrNotFound)
	want(t, "delete twice", tab.CompareAndDelete(ctx, k, v1), kv.ErrConflict)
	if keys, _ := collect(t, tab, kv.Range{}); len(keys) > 0 {
		t.Errorf("after the delete a scan gives %v", keys)
	}
	must(t, tab.CompareAndSet(ctx, k, kv.Version{}, v2, []byte("again")))
	hasRecord(t, tab, kv.Record{Key: k, Value: []byte("again"), Version: v2})
}

// load: what was loaded is as if it had been written, and may be loaded twice.
func load(t *testing.T, s kv.Store) {
	ctx, tab := t.Context(), table(t, s, "t")
	v1, v2 := kv.Version{Writer: 1<<64 - 1, Seq: 1}, kv.Version{Writer: 2, Seq: 1}
	records := []kv.Record{{Key: key("p", ""), Version: v1, Value: []byte("empty row")}, {Key: key("q", "r"), Version: v2}}
	for i := range 300 {
		records = append(records, kv.Record{Key: key("p", fmt.Sprintf("%03d", i)), Version: kv.Version{Writer: 3, Seq: uint64(i + 1)}, Value: make([]byte, 1000)})
	}
	must(t, tab.Load(ctx))
	must(t, tab.Load(ctx, records...))
	must(t, tab.Load(ctx, records[:2]...))
	for _, r := range []kv.Record{records[0], records[1], records[301]} {
		hasRecord(t, tab, r)
	}
	if keys, _ := collect(t, tab, kv.Range{}); len(keys) != len(records) {
		t.Errorf("%d of %d records are there", len(keys), len(records))
	}
	if tab.Load(ctx, kv.Record{Key: key("p", "x")}) == nil || tab.Load(ctx, kv.Record{Version: v1}) == nil {
		t.Error("a record without a version, or without a part, was loaded")
	}
	v3 := kv.Version{Writer: 9, Seq: 9}
	want(t, "set as new", tab.CompareAndSet(ctx, key("p", ""), kv.Version{}, v3, nil), kv.ErrConflict)
	must(t, tab.CompareAndSet(ctx, key("p", ""), v1, v3, []byte("new")))
	hasRecord(t, tab, kv.Record{Key: key("p", ""), Version: v3, Value: []byte("new")})
	must(t, tab.CompareAndDelete(ctx, key("q", "r"), v2))
	_, err := tab.Get(ctx, key("q", "r"))
	want(t, "get of what was deleted", err, kv.ErrNotFound)
}

func loose(t *testing.T, s kv.Store) {
	ctx, tab := t.Context(), looseTable(t, s, "l")
	must(t, tab.Put(ctx))
	must(t, tab.Delete(ctx))
	must(t, tab.Put(ctx,
		kv.Record{Key: key("p", "a"), Value: []byte("1")},
		kv.Record{Key: key("q", "b"), Value: []byte("2"), Version: kv.Version{Writer: 9, Seq: 9}},
		kv.Record{Key: key("p", "a"), Value: []byte("3")}))
	hasRecord(t, tab, kv.Record{Key: key("p", "a"), Value: []byte("3")})
	hasRecord(t, tab, kv.Record{Key: key("q", "b"), Value: []byte("2")})
	must(t, tab.Delete(ctx, key("p", "a"), key("p", "never")))
	_, err := tab.Get(ctx, key("p", "a"))
	want(t, "get of what was deleted", err, kv.ErrNotFound)
	hasRecord(t, tab, kv.Record{Key: key("q", "b"), Value: []byte("2")})
	if tab.Put(ctx, kv.Record{Key: key("p", "a"), Value: make([]byte, kv.MaxValue+1)}) == nil {
		t.Error("a value too long was accepted")
	}
	if tab.Put(ctx, kv.Record{Key: key("", "a")}) == nil || tab.Delete(ctx, key("", "a")) == nil {
		t.Error("a key without a part was accepted")
	}

	many := make([]kv.Record, 100)
	for i := range many {
		many[i] = kv.Record{Key: key("many", fmt.Sprint(i)), Value: make([]byte, 200_000)}
	}
	must(t, tab.Put(ctx, many...))
	if keys, _ := collect(t, tab, kv.Range{Part: []byte("many")}); len(keys) != len(many) {
		t.Errorf("%d of %d large records are there", len(keys), len(many))
	}
}

// bytesAreTheCallers: what was handed in or out may be changed afterwards.
func bytesAreTheCallers(t *testing.T, s kv.Store) {
	ctx := t.Context()
	write := map[string]func(k kv.Key, value []byte) kv.Reader{
		"table": func(k kv.Key, value []byte) kv.Reader {
			tab := table(t, s, "t")
			must(t, tab.CompareAndSet(ctx, k, kv.Version{}, kv.Version{Writer: 1, Seq: 1}, value))
			return tab
		},
		"loose": func(k kv.Key, value []byte) kv.Reader {
			tab := looseTable(t, s, "l")
			must(t, tab.Put(ctx, kv.Record{Key: k, Value: value}))
			return tab
		},
	}
	for _, name := range slices.Sorted(maps.Keys(write)) {
		k, value := key("p", "r"), []byte("value")
		tab := write[name](k, value)
		k.Part[0], k.Row[0], value[0] = 'x', 'x', 'x'
		got, err := tab.Get(ctx, key("p", "r"))
		must(t, err)
		got.Key.Part[0], got.Key.Row[0], got.Value[0] = 'y', 'y', 'y'
		if _, values := collect(t, tab, kv.Range{}); values[`"p"/"r"`] != "value" {
			t.Errorf("%s: holds %v", name, values)
		}
	}
}

// cancelled: a context that is done keeps a call from doing anything.
func cancelled(t *testing.T, s kv.Store) {
	tab, loose := table(t, s, "t"), looseTable(t, s, "l")
	v := kv.Version{Writer: 1, Seq: 1}
	must(t, tab.CompareAndSet(t.Context(), key("p", "r"), kv.Version{}, v, nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var scanned error
	for _, err := range tab.Scan(ctx, kv.Range{}) {
		scanned = err
	}
	for what, err := range map[string]error{
		"Get":              second(tab.Get(ctx, key("p", "r"))),
		"Peek":             second(tab.Peek(ctx, key("p", "r"))),
		"Scan":             scanned,
		"CompareAndSet":    tab.CompareAndSet(ctx, key("p", "new"), kv.Version{}, v, nil),
		"CompareAndDelete": tab.CompareAndDelete(ctx, key("p", "r"), v),
		"Put":              loose.Put(ctx, kv.Record{Key: key("p", "r")}),
		"Delete":           loose.Delete(ctx, key("p", "r")),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s under a cancelled context: got error %v", what, err)
		}
	}
	if keys, _ := collect(t, tab, kv.Range{}); !slices.Equal(keys, []string{`"p"/"r"`}) {
		t.Errorf("the table holds %v", keys)
	}
}
