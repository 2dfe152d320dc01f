package kvtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"gleaner/kv"
)

// Parts and rows that a careless encoding would confuse.
var (
	awkwardParts = []string{"\x00", "\x00\x00", "\x00\x01", "\x00\xff", "\x01", "a", "a\x00", "a\x00\x01", "a\x00\x01b", "a\x00\xff", "a\x01", "ab", "b", "\xff", "\xff\xff"}
	awkwardRows  = []string{"", "\x00", "\x00\x00", "\x00\x01", "\x00\xff", "\x01", "a", "a\x00", "ab", "\xfe", "\xff", "\xff\x00", "\xff\xff"}
)

// fill puts every awkward row into every awkward part, in no particular order.
func fill(t testing.TB, tab kv.LooseTable) {
	var records []kv.Record
	for _, p := range awkwardParts {
		for _, r := range awkwardRows {
			records = append(records, kv.Record{Key: key(p, r), Value: []byte(p + "|" + r)})
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	rng.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
	must(t, tab.Put(t.Context(), records...))
}

func rowsAreInOrder(t *testing.T, s kv.Store) {
	tab := looseTable(t, s, "l")
	fill(t, tab)
	for _, p := range awkwardParts {
		var wanted []string
		for _, r := range awkwardRows { // which are in the order of their bytes
			wanted = append(wanted, quoted(key(p, r)))
		}
		keys, values := collect(t, tab, kv.Range{Part: []byte(p)})
		if !slices.Equal(keys, wanted) {
			t.Errorf("part %q holds\n%v, want\n%v", p, keys, wanted)
		}
		for _, r := range awkwardRows {
			if got := values[quoted(key(p, r))]; got != p+"|"+r {
				t.Errorf("part %q row %q holds %q", p, r, got)
			}
		}
	}
	togetherAndInOrder(t, tab)
}

// togetherAndInOrder scans the whole table, part by part in the store's own order.
func togetherAndInOrder(t *testing.T, tab kv.Reader) {
	var last kv.Key
	left := map[string]bool{} // parts that the scan has finished
	n := 0
	for record, err := range tab.Scan(t.Context(), kv.Range{}) {
		must(t, err)
		k := record.Key
		switch {
		case !bytes.Equal(k.Part, last.Part):
			left[string(last.Part)] = true
		case bytes.Compare(k.Row, last.Row) <= 0:
			t.Errorf("row %q of part %q comes after %q", k.Row, k.Part, last.Row)
		}
		if left[string(k.Part)] {
			t.Errorf("part %q comes in pieces", k.Part)
		}
		last = kv.Key{Part: bytes.Clone(k.Part), Row: bytes.Clone(k.Row)}
		n++
	}
	if wanted := len(awkwardParts) * len(awkwardRows); n != wanted {
		t.Errorf("a scan gives %d records, want %d", n, wanted)
	}
}

func ranges(t *testing.T, s kv.Store) {
	tab := looseTable(t, s, "l")
	fill(t, tab)
	bounds := [][]byte{nil}
	for _, r := range awkwardRows {
		bounds = append(bounds, []byte(r))
	}
	for _, p := range []string{"\x00", "a", "a\x00", "\xff", "not there"} {
		for _, from := range bounds {
			for _, to := range bounds {
				var wanted []string
				for _, r := range awkwardRows {
					inside := r >= string(from) && (to == nil || r < string(to))
					if inside && p != "not there" {
						wanted = append(wanted, quoted(key(p, r)))
					}
				}
				keys, _ := collect(t, tab, kv.Range{Part: []byte(p), From: from, To: to})
				if !slices.Equal(keys, wanted) {
					t.Fatalf("part %q from %q to %q: got %v, want %v", p, from, to, keys, wanted)
				}
			}
		}
	}
}

// scanStops: a loop over a scan may end early, scan again inside, and write.
func scanStops(t *testing.T, s kv.Store) {
	tab := looseTable(t, s, "l")
	fill(t, tab)
	for range 3 {
		outer := 0
		for record, err := range tab.Scan(t.Context(), kv.Range{Part: []byte("a")}) {
			must(t, err)
			inner, _ := collect(t, tab, kv.Range{Part: []byte("b")})
			if len(inner) != len(awkwardRows) {
				t.Fatalf("a scan in a scan gives %d records", len(inner))
			}
			must(t, tab.Delete(t.Context(), record.Key))
			must(t, tab.Put(t.Context(), kv.Record{Key: record.Key}))
			if outer++; outer == 2 {
				break
			}
		}
		if outer != 2 {
			t.Fatalf("the scan gave %d records and ended", outer)
		}
	}
}

// scanResumes: a scan that is resumed after each record yields what one scan does.
func scanResumes(t *testing.T, s kv.Store) {
	tab := looseTable(t, s, "l")
	fill(t, tab)
	pieces, err := tab.Split(t.Context(), 3)
	must(t, err)
	pieces = append(pieces, kv.Range{}, kv.Range{Part: []byte("a\x00")}, kv.Range{Part: []byte("a"), From: []byte("\x00\x01"), To: []byte("ab")})
	for _, r := range pieces {
		whole, _ := collect(t, tab, r)
		var bit []string
		for rest := r; ; {
			last, ok := first(t, tab, rest)
			if !ok {
				break
			}
			bit = append(bit, quoted(last))
			rest = tab.Rest(rest, last)
		}
		if !slices.Equal(bit, whole) {
			t.Errorf("%q bit by bit gives\n%v, at once\n%v", r, bit, whole)
		}
	}
}

// first gives the first key of a range.
func first(t tb, tab kv.Reader, r kv.Range) (kv.Key, bool) {
	for record, err := range tab.Scan(t.Context(), r) {
		must(t, err)
		return kv.Key{Part: bytes.Clone(record.Key.Part), Row: bytes.Clone(record.Key.Row)}, true
	}
	return kv.Key{}, false
}

// scanWhileWriting scans while one writer counts up its records and others are
// written and deleted: each of the former is yielded once, with a count that it
// had during the scan.
func scanWhileWriting(t *testing.T, s kv.Store) {
	const writers, each, scans = 3, 20, 15
	tab := table(t, s, "t")
	var begun, acked [writers * each]atomic.Uint64
	name := func(i int) kv.Key { return kv.Key{Part: []byte{byte(i % 5), 'p'}, Row: []byte{byte(i)}} }
	write := func(w *kv.Writer, version kv.Version, i int) kv.Version {
		count := begun[i].Add(1)
		version, err := w.Set(t.Context(), tab, name(i), version, binary.BigEndian.AppendUint64(nil, count))
		if err != nil {
			t.Errorf("write %d of record %d: %v", count, i, err)
		}
		acked[i].Store(count)
		return version
	}
	var ready, done sync.WaitGroup
	stop := make(chan struct{})
	defer done.Wait()
	defer close(stop)
	for n := range writers {
		ready.Add(1)
		done.Go(func() {
			w := kv.NewWriter(uint64(n + 1))
			var versions [each]kv.Version
			for i := range each {
				versions[i] = write(w, kv.Version{}, n*each+i)
			}
			ready.Done()
			for round := 0; ; round++ {
				select {
				case <-stop:
					return
				default:
				}
				i := round % each
				versions[i] = write(w, versions[i], n*each+i)
				passing := key("passing", fmt.Sprint(n))
				v, err := w.Set(t.Context(), tab, passing, kv.Version{}, nil)
				if err == nil {
					err = w.Delete(t.Context(), tab, passing, v)
				}
				if err != nil {
					t.Errorf("a passing record: %v", err)
				}
			}
		})
	}
	ready.Wait()
	for range scans {
		var before [writers * each]uint64
		for i := range before {
			before[i] = acked[i].Load()
		}
		_, values := collect(t, tab, kv.Range{})
		for i := range before {
			value, there := values[quoted(name(i))]
			if !there || len(value) != 8 {
				t.Fatalf("the scan gives record %d as %q", i, value)
			}
			if count := binary.BigEndian.Uint64([]byte(value)); count < before[i] || count > begun[i].Load() {
				t.Fatalf("the scan gives count %d of record %d, which stood at %d before it and is at %d after", count, i, before[i], begun[i].Load())
			}
		}
	}
}

func splitCoversOnce(t *testing.T, s kv.Store) {
	tab := looseTable(t, s, "l")
	covers(t, tab, 4, 0)
	fill(t, tab)
	for _, n := range []int{1, 2, 3, 7, 64, 1000} {
		covers(t, tab, n, len(awkwardParts)*len(awkwardRows))
	}
	if _, err := tab.Split(t.Context(), 0); err == nil {
		t.Error("a table was cut into 0 ranges")
	}
}

// covers splits the table into n ranges, checks that they yield each of its
// records once, and tells how many each yields.
func covers(t tb, tab kv.Reader, n, records int) (counts []int) {
	t.Helper()
	pieces, err := tab.Split(t.Context(), n)
	must(t, err)
	if len(pieces) < 1 || len(pieces) > n {
		t.Fatalf("cut into %d, want 1 to %d", len(pieces), n)
	}
	var all []string
	for _, r := range pieces {
		keys, _ := collect(t, tab, r)
		all = append(all, keys...)
		counts = append(counts, len(keys))
	}
	whole, _ := collect(t, tab, kv.Range{})
	slices.Sort(all)
	slices.Sort(whole)
	if !slices.Equal(all, whole) || len(whole) != records {
		t.Fatalf("cut into %d, the ranges hold %v records, the table %d, want %d", n, counts, len(whole), records)
	}
	return counts
}

// split: of records of one size in many parts, no range has over twice its share.
func split(t *testing.T, s kv.Store) {
	const parts, rows, n = 200, 20, 4
	tab := looseTable(t, s, "l")
	var records []kv.Record
	for i := range parts * rows {
		k := key(fmt.Sprintf("part%d", i%parts), fmt.Sprintf("row%d", i))
		records = append(records, kv.Record{Key: k, Value: make([]byte, 100)})
	}
	must(t, tab.Put(t.Context(), records...))
	counts := covers(t, tab, n, parts*rows)
	if len(counts) != n || slices.Max(counts) > 2*parts*rows/n {
		t.Errorf("cut into %v", counts)
	}
}
