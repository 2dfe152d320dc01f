// Package mem keeps kv tables in memory, for simulations and tests. A scan is a
// snapshot, and nothing outlives the process.
package mem

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"gleaner/kv"
	"gleaner/kv/internal/flat"
)

// A Store is a kv.Store in memory. Its zero value is empty and ready for use.
type Store struct {
	mu     sync.Mutex
	tables map[string]*table
}

// New gives an empty store.
func New() *Store { return new(Store) }

// Table gives the table of that name.
func (s *Store) Table(_ context.Context, name string) (kv.Table, error) {
	t, err := s.table(name, false)
	if err != nil {
		return nil, err
	}
	return strict{t}, nil
}

// LooseTable gives the loose table of that name.
func (s *Store) LooseTable(_ context.Context, name string) (kv.LooseTable, error) {
	t, err := s.table(name, true)
	if err != nil {
		return nil, err
	}
	return loose{t}, nil
}

// Close does nothing: there is nothing to let go of.
func (s *Store) Close() error { return nil }

func (s *Store) table(name string, loose bool) (*table, error) {
	if err := kv.CheckName(name); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[name]
	if t == nil {
		if s.tables == nil {
			s.tables = map[string]*table{}
		}
		t = &table{loose: loose}
		s.tables[name] = t
	}
	if t.loose != loose {
		return nil, kv.WrongKind(name, t.loose)
	}
	return t, nil
}

// A table's root is replaced whole: readers take it as it is, writers take mu.
type table struct {
	loose bool
	mu    sync.Mutex
	root  atomic.Pointer[node]
}

func (t *table) Get(ctx context.Context, key kv.Key) (kv.Record, error) {
	if err := ready(ctx, key); err != nil {
		return kv.Record{}, err
	}
	n := t.root.Load().find(flatten(key))
	if n == nil {
		return kv.Record{}, kv.ErrNotFound
	}
	return clone(n.record), nil
}

func (t *table) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Record, error] {
	return func(yield func(kv.Record, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(kv.Record{}, err)
			return
		}
		lo, hi := flat.Bounds(nil, r)
		open := len(r.Part) == 0 && r.To == nil
		t.root.Load().walk(string(lo), string(hi), open, func(n *node) bool {
			if err := ctx.Err(); err != nil {
				yield(kv.Record{}, err)
				return false
			}
			return yield(n.record, nil)
		})
	}
}

func (t *table) Split(_ context.Context, n int) ([]kv.Range, error) {
	if n < 1 {
		return nil, fmt.Errorf("kv: cannot cut a table into %d ranges", n)
	}
	root := t.root.Load()
	ranges := []kv.Range{{}}
	for i := 1; i < n && root != nil; i++ {
		cut := []byte(root.at(i * root.weight / n).key)
		last := &ranges[len(ranges)-1]
		if bytes.Compare(cut, last.From) > 0 {
			last.To = cut
			ranges = append(ranges, kv.Range{From: cut})
		}
	}
	return ranges, nil
}

func (t *table) put(r kv.Record) {
	key := flatten(r.Key)
	t.root.Store(t.root.Load().replace(key, leaf(key, clone(r))))
}

func (t *table) remove(key kv.Key) {
	t.root.Store(t.root.Load().replace(flatten(key), nil))
}

type strict struct{ *table }

func (t strict) CompareAndSet(ctx context.Context, key kv.Key, old, next kv.Version, value []byte) error {
	if err := kv.CheckSet(key, old, next); err != nil {
		return err
	}
	return t.swap(ctx, key, old, func() { t.put(kv.Record{Key: key, Value: value, Version: next}) })
}

func (t strict) CompareAndDelete(ctx context.Context, key kv.Key, old kv.Version) error {
	if err := kv.CheckDelete(key, old); err != nil {
		return err
	}
	return t.swap(ctx, key, old, func() { t.remove(key) })
}

// swap makes the change if the version under key is old.
func (t strict) swap(ctx context.Context, key kv.Key, old kv.Version, change func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var now kv.Version
	if n := t.root.Load().find(flatten(key)); n != nil {
		now = n.record.Version
	}
	if now != old {
		return kv.ErrConflict
	}
	change()
	return nil
}

type loose struct{ *table }

func (t loose) Put(ctx context.Context, records ...kv.Record) error {
	for _, r := range records {
		if err := r.Key.Check(); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range records {
		r.Version = kv.Version{}
		t.put(r)
	}
	return nil
}

func (t loose) Delete(ctx context.Context, keys ...kv.Key) error {
	for _, key := range keys {
		if err := key.Check(); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		t.remove(key)
	}
	return nil
}

func ready(ctx context.Context, key kv.Key) error {
	if err := key.Check(); err != nil {
		return err
	}
	return ctx.Err()
}

func flatten(key kv.Key) string { return string(flat.Append(nil, key)) }

func clone(r kv.Record) kv.Record {
	r.Key = kv.Key{Part: bytes.Clone(r.Key.Part), Row: bytes.Clone(r.Key.Row)}
	r.Value = bytes.Clone(r.Value)
	return r
}
