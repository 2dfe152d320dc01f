package cassandra

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"gleaner/kv"
	"gleaner/kv/pebble"
)

// BenchmarkBesideDriver compares this package with the bare driver, which sends the
// same statements to the same cluster: GLEANER_NODES of them (1), and a scan of
// GLEANER_RECORDS (100,000).
func BenchmarkBesideDriver(b *testing.B) {
	c := newCluster(b, number("GLEANER_NODES", 1), "")
	s := openNew(b, c)
	tab := tableOf(b, s, "t").(strict)
	records := number("GLEANER_RECORDS", 100_000)
	fillTable(b, tab, records)
	ctx, v := b.Context(), kv.Version{Writer: 1, Seq: 1}
	b.Run("get", func(b *testing.B) {
		beside(b, 8, func(i int) error {
			_, err := tab.Get(ctx, benchKey(i%records))
			return err
		}, func(i int) error {
			var part, row, value []byte
			var writer, seq int64
			k := benchKey(i % records)
			return s.session.Query(tab.get, k.Part, k.Row).Consistency(gocql.Serial).ScanContext(ctx, &part, &row, &writer, &seq, &value)
		})
	})
	b.Run("compare-and-set", func(b *testing.B) {
		fresh := freshKeys()
		beside(b, 8, func(i int) error {
			return tab.CompareAndSet(ctx, fresh(i), kv.Version{}, v, make([]byte, 100))
		}, func(i int) error {
			k := fresh(i)
			ok, err := s.session.Query(tab.insert, k.Part, k.Row, int64(1), int64(1), make([]byte, 100)).MapScanCASContext(ctx, map[string]any{})
			if err == nil && !ok {
				err = kv.ErrConflict
			}
			return err
		})
	})
	b.Run("scan", func(b *testing.B) {
		beside(b, 1, func(int) error {
			for _, err := range tab.Scan(ctx, kv.Range{}) {
				if err != nil {
					return err
				}
			}
			return nil
		}, func(int) error {
			rows := s.session.Query(tab.ofRing, token(0).cql(), lastToken.cql()).IterContext(ctx)
			var part, row, value []byte
			for writer, seq := int64(0), int64(0); rows.Scan(&part, &row, &writer, &seq, &value); {
			}
			return rows.Close()
		})
	})
}

// BenchmarkOnPebble makes the same calls on the same records in a directory of this machine, for the record.
func BenchmarkOnPebble(b *testing.B) {
	s, err := pebble.Open(b.TempDir(), pebble.Options{})
	must(b, err)
	b.Cleanup(func() { must(b, s.Close()) })
	tab := tableOf(b, s, "t")
	records := number("GLEANER_RECORDS", 100_000)
	fillTable(b, tab, records)
	ctx := b.Context()
	b.Run("get", func(b *testing.B) {
		alone(b, 8, func(i int) error {
			_, err := tab.Get(ctx, benchKey(i%records))
			return err
		})
	})
	b.Run("compare-and-set", func(b *testing.B) {
		fresh := freshKeys()
		alone(b, 8, func(i int) error {
			return tab.CompareAndSet(ctx, fresh(i), kv.Version{}, kv.Version{Writer: 1, Seq: 1}, make([]byte, 100))
		})
	})
	b.Run("scan", func(b *testing.B) {
		alone(b, 1, func(int) error {
			for _, err := range tab.Scan(ctx, kv.Range{}) {
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// alone has clients make b.N calls, and reports how long each takes.
func alone(b *testing.B, clients int, call func(i int) error) {
	var next, took atomic.Int64
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
				began := time.Now()
				if err := call(int(i)); err != nil {
					b.Error(err)
					return
				}
				took.Add(int64(time.Since(began)))
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(took.Load())/float64(b.N), "call-ns")
}

// beside has clients make b.N calls of each kind, in turns, since the machine is not
// the same all the time, and reports how long each takes.
func beside(b *testing.B, clients int, ours, driver func(i int) error) {
	var next atomic.Int64
	var took [2]atomic.Int64
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for i := next.Add(1) - 1; i < 2*int64(b.N); i = next.Add(1) - 1 {
				call := []func(int) error{ours, driver}[i%2]
				began := time.Now()
				if err := call(int(i)); err != nil {
					b.Error(err)
					return
				}
				took[i%2].Add(int64(time.Since(began)))
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(took[0].Load())/float64(b.N), "ours-ns")
	b.ReportMetric(float64(took[1].Load())/float64(b.N), "driver-ns")
	b.ReportMetric(100*float64(took[1].Load())/float64(took[0].Load()), "%-of-driver")
}

func number(variable string, usual int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return usual
}

// benchKey gives key i: ten rows a part.
func benchKey(i int) kv.Key {
	return kv.Key{Part: fmt.Append(nil, "part", i/10), Row: binary.BigEndian.AppendUint32(nil, uint32(i))}
}

var drawn atomic.Int64

// freshKeys gives keys that no other benchmark uses.
func freshKeys() func(i int) kv.Key {
	run := drawn.Add(1)
	return func(i int) kv.Key { return kv.Key{Part: fmt.Append(nil, "fresh", run, "-", i), Row: []byte("r")} }
}

func fillTable(b *testing.B, tab kv.Table, n int) {
	var some []kv.Record
	for i := range n {
		some = append(some, kv.Record{Key: benchKey(i), Version: kv.Version{Writer: 1, Seq: 1}, Value: make([]byte, 100)})
		if len(some) == 10_000 || i == n-1 {
			must(b, tab.Load(b.Context(), some...))
			some = some[:0]
		}
	}
}
