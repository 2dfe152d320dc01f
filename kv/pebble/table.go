package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"gleaner/kv"
	"gleaner/kv/internal/flat"
)

type table struct {
	store  *Store
	prefix []byte
	loose  bool
}

func (t *table) key(key kv.Key) []byte {
	size := len(t.prefix) + len(key.Part) + len(key.Row) + 2
	return flat.Append(append(make([]byte, 0, size), t.prefix...), key)
}

func (t *table) Get(ctx context.Context, key kv.Key) (kv.Record, error) {
	if err := ready(ctx, key); err != nil {
		return kv.Record{}, err
	}
	at := t.key(key)
	record, err := t.get(at)
	if !t.loose {
		if err := t.store.flights.wait(ctx, at); err != nil {
			return kv.Record{}, err
		}
	}
	return record, err
}

// Peek does not wait for a write that is under way.
func (t *table) Peek(ctx context.Context, key kv.Key) (kv.Record, error) {
	if err := ready(ctx, key); err != nil {
		return kv.Record{}, err
	}
	return t.get(t.key(key))
}

// get reads what Pebble shows, which may not be on disk yet.
func (t *table) get(at []byte) (kv.Record, error) {
	value, closer, err := t.store.db.Get(at)
	if errors.Is(err, pebble.ErrNotFound) {
		return kv.Record{}, kv.ErrNotFound
	}
	if err != nil {
		return kv.Record{}, t.failed("read", err)
	}
	defer closer.Close()
	var p flat.Parser
	part, row, err := p.Parse(at[len(t.prefix):])
	version, value, whole := t.unpack(bytes.Clone(value))
	if err != nil || !whole {
		return kv.Record{}, t.broken(at)
	}
	return kv.Record{Key: kv.Key{Part: part, Row: row}, Value: value, Version: version}, nil
}

// versionSize is how many bytes of a value, in a table that is not loose, are its version.
const versionSize = 16

// unpack splits a stored value into its version and the rest. A value that is too short is not whole.
func (t *table) unpack(stored []byte) (v kv.Version, value []byte, whole bool) {
	if t.loose {
		return v, stored, true
	}
	if len(stored) < versionSize {
		return v, nil, false
	}
	v.Writer, v.Seq = binary.BigEndian.Uint64(stored), binary.BigEndian.Uint64(stored[8:])
	return v, stored[versionSize:], true
}

func (t *table) broken(at []byte) error {
	return t.failed("read", fmt.Errorf("the record at %q does not parse", at))
}

func (t *table) Rest(r kv.Range, last kv.Key) kv.Range { return flat.Rest(r, last) }

func (t *table) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Record, error] {
	return func(yield func(kv.Record, error) bool) {
		if err := t.scan(ctx, r, yield); err != nil {
			yield(kv.Record{}, err)
		}
	}
}

// scan returns an error only if yield has not ended the scan.
func (t *table) scan(ctx context.Context, r kv.Range, yield func(kv.Record, error) bool) error {
	lo, hi := flat.Bounds(t.prefix, r)
	if bytes.Compare(lo, hi) >= 0 {
		return ctx.Err()
	}
	it, err := t.store.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: lo, UpperBound: hi})
	if err != nil {
		return t.failed("scan", err)
	}
	defer it.Close()
	if err := t.sync(); err != nil {
		return err
	}
	var p flat.Parser
	for n, ok := 0, it.First(); ok; n, ok = n+1, it.Next() {
		if n%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		stored, err := it.ValueAndErr()
		if err != nil {
			return t.failed("scan", err)
		}
		part, row, err := p.Parse(it.Key()[len(t.prefix):])
		version, value, whole := t.unpack(stored)
		if err != nil || !whole {
			return t.broken(it.Key())
		}
		if !yield(kv.Record{Key: kv.Key{Part: part, Row: row}, Value: value, Version: version}, nil) {
			return nil
		}
	}
	if err := it.Error(); err != nil {
		return t.failed("scan", err)
	}
	return nil
}

// sync makes everything visible so far durable. The log is written in order:
// when its newest entry is on disk, so are all before it.
func (t *table) sync() error {
	if t.loose || !t.store.flights.any() {
		return nil
	}
	return t.store.db.LogData(nil, pebble.Sync)
}

func (t *table) failed(did string, err error) error {
	return t.store.failed(did, string(t.prefix[1:len(t.prefix)-1]), err)
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
	if len(changes) > 1 { // flights begin in the order of keys, so there is no deadlock
		changes = slices.Clone(changes)
		slices.SortFunc(changes, func(a, b kv.Change) int { return bytes.Compare(a.Row, b.Row) })
	}
	keys := make([][]byte, len(changes))
	for i, c := range changes {
		keys[i] = t.key(kv.Key{Part: part, Row: c.Row})
		land, err := t.store.flights.begin(ctx, keys[i])
		if err != nil {
			return err
		}
		defer land()
	}
	return t.swap(keys, next, changes)
}

// swap makes the changes if every version is the expected one, and returns when
// they are on disk. All keys are in flight meanwhile.
func (t strict) swap(keys [][]byte, next kv.Version, changes []kv.Change) error {
	for i, c := range changes {
		now, err := t.get(keys[i])
		if err != nil && !errors.Is(err, kv.ErrNotFound) {
			return err
		}
		if now.Version != c.Old {
			return kv.ErrConflict
		}
	}
	b := t.store.db.NewBatch()
	defer b.Close()
	for i, c := range changes {
		if err := add(b, keys[i], next, c); err != nil {
			return t.failed("write", err)
		}
	}
	if err := b.Commit(pebble.Sync); err != nil {
		return t.failed("write", fmt.Errorf("%w: %w", kv.ErrUnknown, err))
	}
	return nil
}

// add adds a change at key to b.
func add(b *pebble.Batch, key []byte, next kv.Version, c kv.Change) error {
	switch c.Do {
	case kv.Set:
		op := b.SetDeferred(len(key), versionSize+len(c.Value))
		copy(op.Key, key)
		binary.BigEndian.PutUint64(op.Value, next.Writer)
		binary.BigEndian.PutUint64(op.Value[8:], next.Seq)
		copy(op.Value[versionSize:], c.Value)
		return op.Finish()
	case kv.Delete:
		return b.Delete(key, nil)
	}
	return nil
}

type loose struct{ *table }

func (t loose) Put(ctx context.Context, records ...kv.Record) error {
	return t.apply(ctx, len(records), func(b *pebble.Batch, i int) error {
		r := records[i]
		if err := r.Check(); err != nil {
			return err
		}
		return b.Set(t.key(r.Key), r.Value, nil)
	})
}

func (t loose) Delete(ctx context.Context, keys ...kv.Key) error {
	return t.apply(ctx, len(keys), func(b *pebble.Batch, i int) error {
		if err := keys[i].Check(); err != nil {
			return err
		}
		return b.Delete(t.key(keys[i]), nil)
	})
}

// batchBytes is the size of a batch: large enough that many records share a
// sync, and small enough to stay in memory.
const batchBytes = 4 << 20

// apply adds n changes, each by add, and makes them durable. Only the last batch
// is synced, which syncs those before it; it is not empty, or Pebble would not.
func (t loose) apply(ctx context.Context, n int, add func(b *pebble.Batch, i int) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b := t.store.db.NewBatch()
	defer b.Close()
	for i := range n {
		if b.Len() >= batchBytes {
			if err := b.Commit(pebble.NoSync); err != nil {
				return t.failed("write", err)
			}
			b.Reset()
		}
		if err := add(b, i); err != nil {
			return err
		}
	}
	if err := b.Commit(pebble.Sync); err != nil {
		return t.failed("write", err)
	}
	return nil
}

func ready(ctx context.Context, key kv.Key) error {
	if err := key.Check(); err != nil {
		return err
	}
	return ctx.Err()
}
