// Package mem keeps kv tables in memory, for simulations and tests. A scan is a
// snapshot; nothing is kept after the process ends.
package mem

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
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

// Tables lists the tables.
func (s *Store) Tables(context.Context) ([]kv.TableInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []kv.TableInfo
	for _, name := range slices.Sorted(maps.Keys(s.tables)) {
		all = append(all, kv.TableInfo{Name: name, Loose: s.tables[name].loose})
	}
	return all, nil
}

// Drop removes the table of that name.
func (s *Store) Drop(_ context.Context, name string) error {
	if err := kv.CheckName(name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tables, name)
	return nil
}

// Close does nothing.
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

// A table's root is replaced as a whole: readers need no lock, writers hold mu.
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

func (t *table) Peek(ctx context.Context, key kv.Key) (kv.Record, error) { return t.Get(ctx, key) }

func (t *table) Rest(r kv.Range, last kv.Key) kv.Range { return flat.Rest(r, last) }

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

type strict struct{ *table }

func (t strict) CompareAndSet(ctx context.Context, key kv.Key, old, next kv.Version, value []byte) error {
	return t.Apply(ctx, key.Part, next, kv.Change{Do: kv.Set, Row: key.Row, Old: old, Value: value})
}

func (t strict) CompareAndDelete(ctx context.Context, key kv.Key, old kv.Version) error {
	return t.Apply(ctx, key.Part, kv.Version{}, kv.Change{Do: kv.Delete, Row: key.Row, Old: old})
}

func (t strict) Apply(ctx context.Context, part []byte, next kv.Version, changes ...kv.Change) error {
	if err := kv.CheckApply(part, next, changes); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range changes {
		var now kv.Version
		if n := t.root.Load().find(flatten(kv.Key{Part: part, Row: c.Row})); n != nil {
			now = n.record.Version
		}
		if now != c.Old {
			return kv.ErrConflict
		}
	}
	root := t.root.Load()
	for _, c := range changes {
		key := kv.Key{Part: part, Row: c.Row}
		switch c.Do {
		case kv.Set:
			root = root.put(kv.Record{Key: key, Value: c.Value, Version: next})
		case kv.Delete:
			root = root.replace(flatten(key), nil)
		}
	}
	t.root.Store(root)
	return nil
}

func (t strict) Load(ctx context.Context, records ...kv.Record) error {
	if err := kv.CheckLoad(records); err != nil {
		return err
	}
	return t.put(ctx, records)
}

// put writes records without a comparison.
func (t *table) put(ctx context.Context, records []kv.Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range records {
		if t.loose {
			r.Version = kv.Version{}
		}
		t.root.Store(t.root.Load().put(r))
	}
	return nil
}

type loose struct{ *table }

func (t loose) Put(ctx context.Context, records ...kv.Record) error {
	for _, r := range records {
		if err := r.Check(); err != nil {
			return err
		}
	}
	return t.put(ctx, records)
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
		t.root.Store(t.root.Load().replace(flatten(key), nil))
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
