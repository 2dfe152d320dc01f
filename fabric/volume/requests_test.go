package volume

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"gleaner/fabric/maps"
	"gleaner/kv"
	"gleaner/kv/mem"
)

// requests is what a store was asked.
type requests struct {
	mu            sync.Mutex
	reads, writes int // a scan of a part is a read
}

func (r *requests) read() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
}

func (r *requests) write() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes++
}

// take gives the counts since it was last called.
func (r *requests) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.reads, r.writes = 0, 0 }()
	return fmt.Sprintf("%d reads, %d writes", r.reads, r.writes)
}

// countedStore counts what its tables are asked. Loose ones are not counted: nobody waits for them.
type countedStore struct {
	kv.Store
	requests *requests
}

func (s countedStore) Table(ctx context.Context, name string) (kv.Table, error) {
	t, err := s.Store.Table(ctx, name)
	return countedTable{t, s.requests}, err
}

type countedTable struct {
	kv.Table
	requests *requests
}

func (t countedTable) Get(ctx context.Context, key kv.Key) (kv.Record, error) {
	t.requests.read()
	return t.Table.Get(ctx, key)
}

func (t countedTable) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Record, error] {
	t.requests.read()
	return t.Table.Scan(ctx, r)
}

func (t countedTable) CompareAndSet(ctx context.Context, key kv.Key, old, next kv.Version, value []byte) error {
	t.requests.write()
	return t.Table.CompareAndSet(ctx, key, old, next, value)
}

func (t countedTable) CompareAndDelete(ctx context.Context, key kv.Key, old kv.Version) error {
	t.requests.write()
	return t.Table.CompareAndDelete(ctx, key, old)
}

func (t countedTable) Apply(ctx context.Context, part []byte, next kv.Version, changes ...kv.Change) error {
	t.requests.write()
	return t.Table.Apply(ctx, part, next, changes...)
}

// TestRequests counts what requests to a vDisk ask of the store. On Cassandra a read is a read at SERIAL and a write is a lightweight
// transaction, so each is a round trip or two (docs/store.md has the numbers).
func TestRequests(t *testing.T) {
	ctx := t.Context()
	count := &requests{}
	first, p := faultySpaceOn(t, mem.New(), 3)
	m, err := maps.Open(ctx, countedStore{mem.New(), count}, kv.NewWriter(2))
	must(t, err)
	s := NewSpace(m, p, first.o)
	vdisk, err := s.Create(ctx, "v", 64<<20, 3, time.Unix(0, 0))
	must(t, err)
	v, err := s.Open(ctx, vdisk.ID)
	must(t, err)
	write := func(block int64) func() error {
		return func() error { return v.WriteAt(ctx, pattern(1, 4096), block<<20, false) }
	}
	flush := func() error { return v.Flush(ctx) }
	must(t, write(0)()) // the first draws ids for many groups
	must(t, flush())
	for i := range int64(3) {
		must(t, write(i+1)())
	}
	count.take()
	for _, step := range []struct {
		what string
		do   func() error
		want string
	}{
		{"a write to a block that was written", write(0), "0 reads, 0 writes"},
		{"the first write to a block, with a new group for it and the next three", write(4), "0 reads, 4 writes"},
		{"the first write to the next block", write(5), "0 reads, 1 writes"},
		{"a flush after the first write to a group", flush, "0 reads, 1 writes"},
		{"a flush", flush, "0 reads, 0 writes"},
		{"a read", func() error { return v.ReadAt(ctx, make([]byte, 4096), 0) }, "0 reads, 0 writes"},
		{"close", func() error { return v.Close() }, "4 reads, 5 writes"},
		{"open", func() (err error) { v, err = s.Open(ctx, vdisk.ID); return err }, "5 reads, 2 writes"},
		{"the first read after", func() error { return v.ReadAt(ctx, make([]byte, 4096), 0) }, "3 reads, 0 writes"},
		{"the first write to a group after", write(0), "0 reads, 1 writes"},
		{"a sweep of a disk with two groups", func() error { _, err := s.Sweep(ctx, "d0"); return err }, "3 reads, 0 writes"},
		{"the renewal of a lease", func() error { v.renew(ctx); return nil }, "0 reads, 1 writes"},
	} {
		must(t, step.do())
		got := count.take()
		t.Logf("%s: %s", step.what, got)
		if got != step.want {
			t.Errorf("%s: %s, want %s", step.what, got, step.want)
		}
	}
}
