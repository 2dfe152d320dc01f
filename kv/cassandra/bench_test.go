package cassandra

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"gleaner/kv"
)

// BenchmarkBesideDriver compares this package with the bare driver, which sends the
// same statements to the same cluster: GLEANER_NODES of them (1), and a scan of
// GLEANER_RECORDS (100,000). 8 clients get and compare-and-set.
func BenchmarkBesideDriver(b *testing.B) {
	c := newCluster(b, number("GLEANER_NODES", 1), "")
	s := openNew(b, c)
	tab := tableOf(b, s, "t").(strict)
	records := number("GLEANER_RECORDS", 100_000)
	fillTable(b, tab, records)
	for _, what := range []struct {
		name         string
		ours, driver func(*testing.B)
	}{
		{"get", func(b *testing.B) {
			inParallel(b, func(i int) error {
				_, err := tab.Get(b.Context(), benchKey(i%records))
				return err
			})
		}, func(b *testing.B) {
			inParallel(b, func(i int) error {
				var part, row, value []byte
				var writer, seq int64
				k := benchKey(i % records)
				return s.session.Query(tab.get, k.Part, k.Row).Consistency(gocql.Serial).ScanContext(b.Context(), &part, &row, &writer, &seq, &value)
			})
		}},
		{"compare-and-set", func(b *testing.B) {
			fresh := freshKeys()
			inParallel(b, func(i int) error {
				return tab.CompareAndSet(b.Context(), fresh(i), kv.Version{}, kv.Version{Writer: 1, Seq: 1}, make([]byte, 100))
			})
		}, func(b *testing.B) {
			fresh := freshKeys()
			inParallel(b, func(i int) error {
				k := fresh(i)
				ok, err := s.session.Query(tab.insert, k.Part, k.Row, int64(1), int64(1), make([]byte, 100)).MapScanCASContext(b.Context(), map[string]any{})
				if err == nil && !ok {
					err = kv.ErrConflict
				}
				return err
			})
		}},
		{"scan", func(b *testing.B) {
			n := 0
			for b.Loop() {
				for _, err := range tab.Scan(b.Context(), kv.Range{}) {
					must(b, err)
					n++
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
		}, func(b *testing.B) {
			n := 0
			for b.Loop() {
				rows := s.session.Query(tab.ofRing, token(0).cql(), lastToken.cql()).IterContext(b.Context())
				var part, row, value []byte
				for writer, seq := int64(0), int64(0); rows.Scan(&part, &row, &writer, &seq, &value); n++ {
				}
				must(b, rows.Close())
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
		}},
	} {
		b.Run(what.name+"/warm", what.driver) // Java's compiler is busy at first
		for range 2 {                         // in turns, since the machine is not the same all the time
			b.Run(what.name+"/ours", what.ours)
			b.Run(what.name+"/driver", what.driver)
		}
	}
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

// inParallel has 8 clients make b.N calls.
func inParallel(b *testing.B, call func(i int) error) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := call(int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
