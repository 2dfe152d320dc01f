package pebble

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"gleaner/kv"
)

const million = 1_000_000

// benchKey spreads the records over parts of a thousand rows.
func benchKey(i int) kv.Key {
	return kv.Key{Part: fmt.Appendf(nil, "part-%06d", i/1000), Row: fmt.Appendf(nil, "row-%03d", i%1000)}
}

// binaryKey is the same with numbers as bytes, which are mostly 0x00.
func binaryKey(i int) kv.Key {
	return kv.Key{Part: binary.BigEndian.AppendUint64(nil, uint64(i/1000)), Row: binary.BigEndian.AppendUint64(nil, uint64(i%1000))}
}

// filled gives a table of n records of 100 bytes, all in files.
func filled(b *testing.B, n int, key func(int) kv.Key) (*Store, strict) {
	b.Helper()
	s := openAt(b, b.TempDir(), vfs.Default)
	tab, err := s.Table(b.Context(), "t")
	must(b, err)
	t := tab.(strict)
	value := make([]byte, versionSize+100)
	batch := s.db.NewBatch()
	for i := range n {
		binary.BigEndian.PutUint64(value[8:], uint64(i+1))
		binary.BigEndian.PutUint64(value[versionSize:], uint64(i)*0x9e3779b97f4a7c15)
		if err := batch.Set(t.key(key(i)), value, nil); err != nil {
			b.Fatal(err)
		}
		if batch.Len() > batchBytes {
			must(b, batch.Commit(pebble.NoSync))
			batch.Reset()
		}
	}
	must(b, batch.Commit(pebble.Sync))
	must(b, batch.Close())
	must(b, s.db.Compact(b.Context(), []byte{tableSpace}, []byte{tableSpace + 1}, false))
	return s, t
}

func must(b testing.TB, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkScan reads a table through Pebble's own iterator, raw, and through kv. Each round does both, one after the
// other, because the machine is faster at some times than at others; the medians of all rounds are reported.
func BenchmarkScan(b *testing.B) {
	b.Run("text", func(b *testing.B) { benchScan(b, benchKey) })
	b.Run("binary", func(b *testing.B) { benchScan(b, binaryKey) })
}

func benchScan(b *testing.B, key func(int) kv.Key) {
	s, tab := filled(b, million, key)
	var raw, through, share []float64 // CPU ns a record, and their ratio in percent
	for b.Loop() {
		r, k := scanTime(b, func() (int, int) { return scanRaw(b, s) }), scanTime(b, func() (int, int) { return scanTable(b, tab) })
		raw, through, share = append(raw, r), append(through, k), append(share, 100*r/k)
	}
	for unit, all := range map[string][]float64{"raw-cpu-ns/record": raw, "kv-cpu-ns/record": through, "%-of-raw": share} {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], unit)
	}
}

// scanTime is the CPU time a record of a scan of all million takes, in ns.
func scanTime(b *testing.B, scan func() (records, size int)) float64 {
	began := cpuTime()
	if records, size := scan(); records != million || size < 100*million {
		b.Fatalf("%d records of %d bytes", records, size)
	}
	return float64(cpuTime()-began) / million
}

func scanRaw(b *testing.B, s *Store) (records, size int) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tableSpace}, UpperBound: []byte{tableSpace + 1}})
	must(b, err)
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			b.Fatal(err)
		}
		records++
		size += len(it.Key()) + len(value)
	}
	must(b, it.Close())
	return records, size
}

func scanTable(b *testing.B, tab kv.Reader) (records, size int) {
	for r, err := range tab.Scan(b.Context(), kv.Range{}) {
		if err != nil {
			b.Fatal(err)
		}
		records++
		size += len(r.Key.Part) + len(r.Key.Row) + len(r.Value)
	}
	return records, size
}

// cpuTime is what this process has used of its processors: on a busy machine
// it says more than the clock.
func cpuTime() int64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}

// BenchmarkCompareAndSet writes to disk with one writer and with many, each on
// keys of its own. Writers that come together share syncs.
func BenchmarkCompareAndSet(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("%dwriters", writers), func(b *testing.B) {
			var syncs atomic.Int64
			s := openAt(b, b.TempDir(), watchedDisk{vfs.Default, func() { syncs.Add(1) }})
			tab, err := s.Table(b.Context(), "t")
			must(b, err)
			var all sync.WaitGroup
			syncs.Store(0)
			b.ResetTimer()
			for w := range writers {
				all.Go(func() {
					writer, value := kv.NewWriter(uint64(w+1)), make([]byte, 100)
					for i := w; i < b.N; i += writers {
						if _, err := writer.Set(b.Context(), tab, benchKey(i), kv.Version{}, value); err != nil {
							b.Error(err)
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
			b.ReportMetric(float64(syncs.Load())/float64(b.N), "syncs/write")
		})
	}
}

func BenchmarkGet(b *testing.B) {
	_, tab := filled(b, million, benchKey)
	b.Run(fmt.Sprintf("%drecords", million), func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := tab.Get(b.Context(), benchKey(i*7919%million)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkSplit(b *testing.B) {
	_, tab := filled(b, million, benchKey)
	for _, n := range []int{16, 256} {
		b.Run(fmt.Sprintf("%drecords/%dranges", million, n), func(b *testing.B) {
			for b.Loop() {
				_, err := tab.Split(b.Context(), n)
				must(b, err)
			}
		})
	}
}
