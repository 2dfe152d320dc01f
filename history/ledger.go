package history

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

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
var errGivenUp = errors.New("this import was given up by another process")

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
	writer *kv.Writer
}

var ledgerKey = kv.Key{Part: []byte("imports"), Row: []byte("ledger")}

func openBooks(table kv.Table) (*books, error) {
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return &books{table, kv.NewWriter(binary.BigEndian.Uint64(id[:]))}, nil
}

func (b *books) read(ctx context.Context) (*ledger, error) {
	record, err := b.table.Get(ctx, ledgerKey)
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return nil, fmt.Errorf("history: read the ledger of imports: %w", err)
	}
	return parseLedger(record.Value)
}

func parseLedger(value []byte) (*ledger, error) {
	l := new(ledger)
	if len(value) == 0 {
		return l, nil
	}
	if err := json.Unmarshal(value, l); err != nil {
		return nil, fmt.Errorf("history: read the ledger of imports: %w", err)
	}
	return l, nil
}

// change edits the ledger, again whenever somebody else was faster.
func (b *books) change(ctx context.Context, edit func(*ledger) error) error {
	_, err := b.writer.Update(ctx, b.table, ledgerKey, func(now kv.Record) ([]byte, error) {
		l, err := parseLedger(now.Value)
		if err == nil {
			err = edit(l)
		}
		if err != nil {
			return nil, err
		}
		return json.Marshal(l)
	})
	if err != nil {
		return fmt.Errorf("history: change the ledger of imports: %w", err)
	}
	return nil
}

// commit makes an import count. Where the store cannot tell whether it was
// written, the ledger itself does.
func (b *books) commit(ctx context.Context, id uint32) error {
	err := b.change(ctx, func(l *ledger) error { return l.commit(id) })
	if errors.Is(err, kv.ErrUnknown) {
		if l, readErr := b.read(ctx); readErr == nil && l.counts(id) {
			return nil
		}
	}
	return err
}
