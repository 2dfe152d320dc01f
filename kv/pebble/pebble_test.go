package pebble

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

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
	s, err := open(dir, disk)
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

// TestSplitBalances: of a table too large to be weighed record by record, no range
// is over a fifth off its share, whether keys are dense, spread out, or of
// different lengths.
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
				counts := countEach(t, tab, n)
				share := records / n
				if len(counts) != n || slices.Min(counts) < share*8/10 || slices.Max(counts) > share*12/10 {
					t.Errorf("cut into %d, the ranges have %v records", n, counts)
				}
			}
		})
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
