package pebble

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"gleaner/kv"
	"gleaner/kv/kvtest"
)

func TestConformance(t *testing.T) {
	kvtest.Run(t, func(t testing.TB) kv.Store { return openAt(t, "store", vfs.NewMem()) })
}

func TestConformanceOnDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("syncs to disk thousands of times")
	}
	kvtest.Run(t, func(t testing.TB) kv.Store { return openAt(t, t.TempDir(), vfs.Default) })
}

// openAt opens a store that is closed when the test ends.
func openAt(t testing.TB, dir string, disk vfs.FS) *Store {
	t.Helper()
	s, err := open(dir, disk, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestWritersShareSyncs: while one sync goes on, other writes gather for the next.
func TestWritersShareSyncs(t *testing.T) {
	const writers, each = 64, 5
	var syncs atomic.Int64
	s := openAt(t, "store", watchedDisk{vfs.NewMem(), func() {
		syncs.Add(1)
		time.Sleep(3 * time.Millisecond)
	}})
	tab, err := s.Table(t.Context(), "t")
	must(t, err)
	syncs.Store(0)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			writer := kv.NewWriter(uint64(w + 1))
			for i := range each {
				if _, err := writer.Set(t.Context(), tab, kv.Key{Part: []byte{byte(w)}, Row: []byte{byte(i)}}, kv.Version{}, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := syncs.Load(); n > writers*each/2 {
		t.Errorf("%d writes took %d syncs", writers*each, n)
	}
}

// TestFormat: the page of the format shows what is on disk.
func TestFormat(t *testing.T) {
	s := openAt(t, "store", vfs.NewMem())
	jobs, err := s.Table(t.Context(), "jobs")
	must(t, err)
	load, err := s.LooseTable(t.Context(), "load")
	must(t, err)
	must(t, jobs.CompareAndSet(t.Context(), kv.Key{Part: []byte("a"), Row: []byte("b")}, kv.Version{}, kv.Version{Writer: 1, Seq: 2}, []byte("v")))
	must(t, jobs.CompareAndSet(t.Context(), kv.Key{Part: []byte("a\x00c")}, kv.Version{}, kv.Version{Writer: 1, Seq: 3}, []byte("w")))
	must(t, load.Put(t.Context(), kv.Record{Key: kv.Key{Part: []byte("s1"), Row: []byte("t")}, Value: []byte("9")}))
	it, err := s.db.NewIter(nil)
	must(t, err)
	var dump strings.Builder
	for ok := it.First(); ok; ok = it.Next() {
		fmt.Fprintf(&dump, "%q = %q\n", it.Key(), it.Value())
	}
	must(t, it.Close())
	page, err := os.ReadFile("../../docs/formats/kv.md")
	must(t, err)
	if !strings.Contains(string(page), dump.String()) {
		t.Errorf("docs/formats/kv.md does not show\n%s", dump.String())
	}
	if !strings.Contains(string(page), strings.TrimSpace(fmt.Sprintf(markerText, kv.Format))) {
		t.Errorf("docs/formats/kv.md does not show the marker of format %d", kv.Format)
	}
}

// TestSplitBalances: no range is over a fifth off its share, whether keys are dense, spread out, or of
// different lengths, and whether records are in memory and weighed one by one or in files and estimated.
func TestSplitBalances(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for name, key := range map[string]func(i int) kv.Key{
		"one part":    func(i int) kv.Key { return kv.Key{Part: []byte("p"), Row: fmt.Appendf(nil, "%09d", i)} },
		"many parts":  func(i int) kv.Key { return kv.Key{Part: fmt.Appendf(nil, "server-%d", i), Row: []byte("x")} },
		"lopsided":    func(i int) kv.Key { return kv.Key{Part: []byte("p"), Row: fmt.Appendf(nil, "%d", i*i*i)} },
		"few parts":   func(i int) kv.Key { return kv.Key{Part: []byte{byte(i % 3), 1}, Row: fmt.Appendf(nil, "%x", i)} },
		"all at once": func(i int) kv.Key { return kv.Key{Part: fmt.Append(nil, rng.Uint64()), Row: fmt.Append(nil, i)} },
	} {
		t.Run(name, func(t *testing.T) {
			const records, size = 40_000, 250
			s := openAt(t, "store", vfs.NewMem())
			tab, err := s.LooseTable(t.Context(), "l")
			if err != nil {
				t.Fatal(err)
			}
			fillRandom(t, tab, records, size, key)
			for _, n := range []int{2, 7, 16} {
				checkBalance(t, tab, n, records)
			}
			must(t, s.db.Flush()) // what was weighed record by record, as it was in memory, is now estimated
			for _, n := range []int{2, 7, 16} {
				checkBalance(t, tab, n, records)
			}
		})
	}
}

func checkBalance(t *testing.T, tab kv.Reader, n, records int) {
	t.Helper()
	counts := countEach(t, tab, n)
	share := records / n
	if len(counts) != n || slices.Min(counts) < share*8/10 || slices.Max(counts) > share*12/10 {
		t.Errorf("cut into %d, the ranges have %v records", n, counts)
	}
}

// fillRandom puts records of random bytes, which do not compress.
func fillRandom(t testing.TB, tab kv.LooseTable, n, size int, key func(int) kv.Key) {
	rng := rand.NewChaCha8([32]byte{})
	for at := 0; at < n; at += 1000 {
		batch := make([]kv.Record, min(1000, n-at))
		for i := range batch {
			batch[i] = kv.Record{Key: key(at + i), Value: make([]byte, size)}
			rng.Read(batch[i].Value)
		}
		if err := tab.Put(t.Context(), batch...); err != nil {
			t.Fatal(err)
		}
	}
}

// countEach cuts the table into n and counts the records of each range.
func countEach(t testing.TB, tab kv.Reader, n int) (counts []int) {
	ranges, err := tab.Split(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range ranges {
		count := 0
		for _, err := range tab.Scan(t.Context(), r) {
			if err != nil {
				t.Fatal(err)
			}
			count++
		}
		counts = append(counts, count)
	}
	return counts
}
