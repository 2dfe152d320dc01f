package volume

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gleaner/kv"
	"gleaner/kv/cassandra"
	lab "gleaner/lab/cassandra"
	"gleaner/lab/maven"
)

// aCassandra opens a store on a real Cassandra: the one that GLEANER_CASSANDRA names, in a keyspace of its own, or one that is started for
// the test.
func aCassandra(t *testing.T) kv.Store {
	t.Helper()
	if os.Getenv("GLEANER_LONG") == "" {
		t.Skip("set GLEANER_LONG=1 to fetch Cassandra's jars and start it; it takes minutes")
	}
	text := os.Getenv("GLEANER_CASSANDRA")
	if text == "" {
		cache, err := maven.Cache()
		must(t, err)
		lib, err := lab.Fetch(t.Context(), cache, nil)
		if errors.Is(err, maven.ErrMissing) {
			t.Skip(err)
		}
		must(t, err)
		dir, err := os.MkdirTemp("", "cassandra-")
		must(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		c, err := lab.Start(t.Context(), lib, lab.Setting{Data: dir, Nodes: 1, First: netip.MustParseAddrPort("127.0.78.1:9042"), Heap: "512m"})
		must(t, err)
		t.Cleanup(c.Kill)
		text = c.Store("volume")
	}
	a, err := cassandra.Parse(text)
	must(t, err)
	a.Keyspace = fmt.Sprint("volume", time.Now().UnixNano())
	s, err := cassandra.Open(t.Context(), a, cassandra.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// TestModelOnCassandra is TestModel with the maps on a real Cassandra: the same assertions.
//
//	GLEANER_LONG=1 go test -v -run ModelOnCassandra ./fabric/volume
func TestModelOnCassandra(t *testing.T) {
	const schedules, together, share = 100, 8, 20
	store := aCassandra(t)
	var tables []*sharedTables // of so many schedules each: a scan reads what all of them left
	for i := range schedules / share {
		tables = append(tables, &sharedTables{Store: store, prefix: fmt.Sprintf("s%d_", i), tables: map[string]kv.Table{}})
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	var next, moved atomic.Int64
	count := &requests{}
	var all sync.WaitGroup
	for range together { // each waits for Cassandra most of the time
		all.Go(func() {
			for seed := next.Add(1); seed <= schedules && !t.Failed(); seed = next.Add(1) {
				w := newWorld(uint64(seed))
				w.store = countedStore{scopedStore{tables[(seed-1)/share], binary.BigEndian.AppendUint64(nil, uint64(seed))}, count}
				if err := w.run(); err != nil {
					t.Errorf("schedule %d:\n%s\n%v", seed, strings.Join(w.trail, "\n"), err)
				}
				w.end()
				moved.Add(int64(w.moved))
			}
		})
	}
	all.Wait()
	t.Logf("%d schedules, %d replicas moved, %s of Cassandra", schedules, moved.Load(), count.take())
}

// sharedTables gives each table once: to make one takes Cassandra a second.
type sharedTables struct {
	kv.Store
	prefix string // of their names
	mu     sync.Mutex
	tables map[string]kv.Table
	access kv.LooseTable
}

func (s *sharedTables) Table(ctx context.Context, name string) (kv.Table, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tables[name]; t != nil {
		return t, nil
	}
	t, err := s.Store.Table(ctx, s.prefix+name)
	if err == nil {
		s.tables[name] = t
	}
	return t, err
}

func (s *sharedTables) LooseTable(ctx context.Context, name string) (_ kv.LooseTable, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.access == nil {
		s.access, err = s.Store.LooseTable(ctx, s.prefix+name)
	}
	return s.access, err
}

// scopedStore is a store of its own in tables that it shares: its parts begin with a prefix of eight bytes. When groups were used is not told apart: the
// model does not look at it.
type scopedStore struct {
	kv.Store
	prefix []byte
}

func (s scopedStore) Table(ctx context.Context, name string) (kv.Table, error) {
	t, err := s.Store.Table(ctx, name)
	return scopedTable{t, s.prefix}, err
}

type scopedTable struct {
	kv.Table
	prefix []byte
}

func (t scopedTable) part(part []byte) []byte { return append(bytes.Clone(t.prefix), part...) }

func (t scopedTable) key(k kv.Key) kv.Key { return kv.Key{Part: t.part(k.Part), Row: k.Row} }

func (t scopedTable) own(r kv.Record) kv.Record {
	r.Key.Part = r.Key.Part[len(t.prefix):]
	return r
}

func (t scopedTable) Get(ctx context.Context, key kv.Key) (kv.Record, error) {
	r, err := t.Table.Get(ctx, t.key(key))
	if err == nil {
		r = t.own(r)
	}
	return r, err
}

func (t scopedTable) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Record, error] {
	if r.Part != nil {
		r.Part = t.part(r.Part)
	}
	return func(yield func(kv.Record, error) bool) {
		for r, err := range t.Table.Scan(ctx, r) {
			if err == nil && !bytes.HasPrefix(r.Key.Part, t.prefix) {
				continue
			}
			if err == nil {
				r = t.own(r)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (t scopedTable) CompareAndSet(ctx context.Context, key kv.Key, old, next kv.Version, value []byte) error {
	return t.Table.CompareAndSet(ctx, t.key(key), old, next, value)
}

func (t scopedTable) CompareAndDelete(ctx context.Context, key kv.Key, old kv.Version) error {
	return t.Table.CompareAndDelete(ctx, t.key(key), old)
}

func (t scopedTable) Apply(ctx context.Context, part []byte, next kv.Version, changes ...kv.Change) error {
	return t.Table.Apply(ctx, t.part(part), next, changes...)
}
