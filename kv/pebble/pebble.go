// Package pebble keeps kv tables in a directory of this machine, with the
// embedded store Pebble.
//
// A write is on disk before it is acknowledged, and concurrent writes share a
// sync. Reads of a table are linearizable and see only what is on disk; so does a
// scan, which is a snapshot. Reads of a loose table may see a write just before it
// is on disk. docs/formats/kv.md has the layout.
package pebble

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"gleaner/kv"
	"gleaner/kv/internal/flat"
)

// A Store is a kv.Store in a directory that no other process can open meanwhile.
// When the disk is full its writes wait until there is room.
type Store struct {
	dir     string
	db      *pebble.DB
	lock    *pebble.Lock
	flights *flights
	naming  sync.Mutex
	stuck   func() error // what the disk waits for now
}

// Table gives the table of that name.
func (s *Store) Table(_ context.Context, name string) (kv.Table, error) {
	if err := s.name(name, false); err != nil {
		return nil, err
	}
	return strict{&table{store: s, prefix: tablePrefix(name)}}, nil
}

// LooseTable gives the loose table of that name.
func (s *Store) LooseTable(_ context.Context, name string) (kv.LooseTable, error) {
	if err := s.name(name, true); err != nil {
		return nil, err
	}
	return loose{&table{store: s, prefix: tablePrefix(name), loose: true}}, nil
}

// Tables lists the tables.
func (s *Store) Tables(ctx context.Context) ([]kv.TableInfo, error) {
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: []byte{nameSpace}, UpperBound: []byte{nameSpace + 1}})
	if err != nil {
		return nil, fmt.Errorf("kv: list the tables in %s: %w", s.dir, explained(err))
	}
	defer it.Close()
	var all []kv.TableInfo
	for ok := it.First(); ok; ok = it.Next() {
		all = append(all, kv.TableInfo{Name: string(it.Key()[1:]), Loose: string(it.Value()) == kindOf(true)})
	}
	if err := it.Error(); err != nil {
		return nil, fmt.Errorf("kv: list the tables in %s: %w", s.dir, explained(err))
	}
	return all, nil
}

// Drop removes the table of that name.
func (s *Store) Drop(_ context.Context, name string) error {
	if err := kv.CheckName(name); err != nil {
		return err
	}
	s.naming.Lock()
	defer s.naming.Unlock()
	lo, hi := flat.Bounds(tablePrefix(name), kv.Range{})
	b := s.db.NewBatch()
	defer b.Close()
	err := errors.Join(b.DeleteRange(lo, hi, nil), b.Delete(append([]byte{nameSpace}, name...), nil), b.Commit(pebble.Sync))
	if err != nil {
		return s.failed("drop", name, err)
	}
	return nil
}

// patience is how long Close waits while the disk is full.
const patience = time.Second

// Close closes the store and releases the directory. If the disk has no room for
// that, the directory stays locked until this process ends; what was
// acknowledged is on disk.
func (s *Store) Close() error {
	closed := make(chan error, 1)
	go func() { closed <- errors.Join(s.db.Close(), s.lock.Close()) }()
	for {
		select {
		case err := <-closed:
			return err
		case <-time.After(patience):
			if lack := s.stuck(); lack != nil {
				return fmt.Errorf("kv: close the store in %s: %w", s.dir, lack)
			}
		}
	}
}

// What the first byte of a stored key says the rest is.
const (
	nameSpace  = 'n' // a table's name; the value is its kind
	tableSpace = 't' // a table's name, 0x00, a flat key; the value is a record
)

func tablePrefix(name string) []byte {
	return append(append([]byte{tableSpace}, name...), 0)
}

// name finds the table's kind, or sets it when the name is new.
func (s *Store) name(name string, loose bool) error {
	if err := kv.CheckName(name); err != nil {
		return err
	}
	s.naming.Lock()
	defer s.naming.Unlock()
	key := append([]byte{nameSpace}, name...)
	kind, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return s.db.Set(key, []byte(kindOf(loose)), pebble.Sync)
	}
	if err != nil {
		return s.failed("look up", name, err)
	}
	defer closer.Close()
	switch string(kind) {
	case kindOf(loose):
		return nil
	case kindOf(!loose):
		return kv.WrongKind(name, !loose)
	}
	return fmt.Errorf("kv: table %s is of kind %q, which this gleaner does not know", name, kind)
}

func (s *Store) failed(did, name string, err error) error {
	return fmt.Errorf("kv: %s table %s in %s: %w", did, name, s.dir, explained(err))
}

func kindOf(loose bool) string {
	if loose {
		return "loose"
	}
	return "table"
}
