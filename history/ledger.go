package history

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"gleaner/kv"
)

// A ledger says which imports count. Every chunk carries the number of the
// import that wrote it; an import becomes visible, whole, when its number
// leaves open.
type ledger struct {
	Next uint32   `json:"next"`           // number of the next import
	Open []uint32 `json:"open,omitempty"` // under way
	Dead []uint32 `json:"dead,omitempty"` // given up; whatever they left is passed over for ever
}

func (l *ledger) counts(id uint32) bool {
	return id < l.Next && !slices.Contains(l.Open, id) && !slices.Contains(l.Dead, id)
}

// errGivenUp is returned by commit for an import that somebody else took for dead.
var errGivenUp = errors.New("history: this import was given up by another process")

func (l *ledger) begin() uint32 {
	id := l.Next
	l.Next++
	l.Open = append(l.Open, id)
	return id
}

func (l *ledger) commit(id uint32) error {
	at := slices.Index(l.Open, id)
	if at < 0 {
		return errGivenUp
	}
	l.Open = slices.Delete(l.Open, at, at+1)
	return nil
}

func (l *ledger) giveUp(id uint32) {
	if at := slices.Index(l.Open, id); at >= 0 {
		l.Open = slices.Delete(l.Open, at, at+1)
		l.Dead = append(l.Dead, id)
	}
}

// books keeps the ledger in its one record.
type books struct {
	table  kv.Table
	writer uint64
	seq    atomic.Uint64
}

var ledgerKey = kv.Key{Part: []byte("imports"), Row: []byte("ledger")}

func openBooks(table kv.Table) (*books, error) {
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return &books{table: table, writer: binary.BigEndian.Uint64(random[:]) | 1}, nil
}

func (b *books) read(ctx context.Context) (ledger, kv.Version, error) {
	var l ledger
	record, err := b.table.Get(ctx, ledgerKey)
	if errors.Is(err, kv.ErrNotFound) {
		return l, kv.Version{}, nil
	}
	if err == nil {
		err = json.Unmarshal(record.Value, &l)
	}
	if err != nil {
		return l, kv.Version{}, fmt.Errorf("history: read the ledger of imports: %w", err)
	}
	return l, record.Version, nil
}

// change reads the ledger, changes it and writes it back, again whenever somebody else was faster.
func (b *books) change(ctx context.Context, edit func(*ledger) error) error {
	for {
		l, version, err := b.read(ctx)
		if err != nil {
			return err
		}
		if err := edit(&l); err != nil {
			return err
		}
		value, err := json.Marshal(l)
		if err != nil {
			return fmt.Errorf("history: %w", err)
		}
		next := kv.Version{Writer: b.writer, Seq: b.seq.Add(1)}
		err = b.table.CompareAndSet(ctx, ledgerKey, version, next, value)
		if errors.Is(err, kv.ErrUnknown) {
			var now kv.Version
			if _, now, err = b.read(ctx); err == nil && now != next {
				err = kv.ErrConflict
			}
		}
		if !errors.Is(err, kv.ErrConflict) {
			return err
		}
	}
}
