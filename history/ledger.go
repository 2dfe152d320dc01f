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
	"time"

	"gleaner/kv"
)

// A ledger says which imports count. Every row that an import writes carries its
// number; all of them become visible at once when the number leaves open.
type ledger struct {
	Next    uint32            `json:"next"`              // number of the next import
	Open    []uint32          `json:"open,omitempty"`    // under way
	Leases  map[uint32]string `json:"leases,omitempty"`  // name of the lease of each import under way
	Dead    []uint32          `json:"dead,omitempty"`    // given up; their rows never count
	Indexed bool              `json:"indexed,omitempty"` // every chunk has its header in the index
}

func (l *ledger) counts(id uint32) bool {
	return id < l.Next && !slices.Contains(l.Open, id) && !slices.Contains(l.Dead, id)
}

// errGivenUp is returned to an import that another process has given up.
var errGivenUp = errors.New("history: this import was given up by another process, for it had stalled")

func (l *ledger) begin(lease string) uint32 {
	id := l.Next
	l.Next++
	l.Open = append(l.Open, id)
	if l.Leases == nil {
		l.Leases = map[uint32]string{}
	}
	l.Leases[id] = lease
	return id
}

func (l *ledger) commit(id uint32) error {
	if !l.close(id) {
		return errGivenUp
	}
	return nil
}

func (l *ledger) giveUp(id uint32) {
	if l.close(id) {
		l.Dead = append(l.Dead, id)
	}
}

// close takes an import off the list of those under way, and reports whether it was on it.
func (l *ledger) close(id uint32) bool {
	at := slices.Index(l.Open, id)
	if at < 0 {
		return false
	}
	l.Open = slices.Delete(l.Open, at, at+1)
	delete(l.Leases, id)
	return true
}

// importLease is how long an import may stall before another process may give
// it up. That only delays the deletion of a crashed import's rows, so it is long:
// longer than a slow source pauses, and than two clocks differ.
const importLease = time.Hour

// A ledgerTable keeps the ledger in its one record, and the leases of the imports under way.
type ledgerTable struct {
	table  kv.Table
	writer *kv.Writer
	leases kv.Leases
	now    func() time.Time
	name   string // no other process has it
	begun  atomic.Uint64
}

var ledgerKey = kv.Key{Part: []byte("imports"), Row: []byte("ledger")}

func openLedger(ctx context.Context, store kv.Store, now func() time.Time) (*ledgerTable, error) {
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	imports, err := store.Table(ctx, "history_imports")
	if err != nil {
		return nil, fmt.Errorf("history: open: %w", err)
	}
	leases, err := store.Table(ctx, "history_leases")
	if err != nil {
		return nil, fmt.Errorf("history: open: %w", err)
	}
	writer := kv.NewWriter(binary.BigEndian.Uint64(id[:]))
	return &ledgerTable{table: imports, writer: writer, leases: kv.Leases{Table: leases, Writer: writer}, now: now, name: fmt.Sprintf("%x", id)}, nil
}

func (t *ledgerTable) read(ctx context.Context) (*ledger, error) {
	record, err := t.table.Get(ctx, ledgerKey)
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

// change edits the ledger, and does so again if another write came between.
func (t *ledgerTable) change(ctx context.Context, edit func(*ledger) error) error {
	_, err := t.writer.Update(ctx, t.table, ledgerKey, func(now kv.Record) ([]byte, error) {
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

// begin lists a new import, after it has a lease: one without is taken for lost.
func (t *ledgerTable) begin(ctx context.Context) (id uint32, lease kv.Lease, err error) {
	name := t.leaseName()
	lease, err = t.leases.Acquire(ctx, name, name, t.now(), importLease)
	if err != nil {
		return 0, lease, fmt.Errorf("history: acquire a lease for an import: %w", err)
	}
	err = t.change(ctx, func(l *ledger) error { id = l.begin(name); return nil })
	return id, lease, err
}

// leaseName gives a name that no lease has had.
func (t *ledgerTable) leaseName() string { return fmt.Sprintf("%s-%d", t.name, t.begun.Add(1)) }

// renew renews the lease of an import once a quarter of its time is over.
func (t *ledgerTable) renew(ctx context.Context, lease *kv.Lease) error {
	now := t.now()
	if now.Before(lease.Expires.Add(-importLease * 3 / 4)) {
		return nil
	}
	renewed, err := t.leases.Renew(ctx, *lease, now, importLease)
	switch {
	case errors.Is(err, kv.ErrTaken):
		return errGivenUp
	case err != nil:
		return fmt.Errorf("history: renew the lease of an import: %w", err)
	}
	*lease = renewed
	return nil
}

// release removes the lease of an import that has ended, unless another process has taken it.
func (t *ledgerTable) release(ctx context.Context, lease kv.Lease) error {
	if err := t.leases.Remove(ctx, lease); err != nil && !errors.Is(err, kv.ErrTaken) {
		return fmt.Errorf("history: remove the lease of an import: %w", err)
	}
	return nil
}

// commit makes an import count. If the store cannot tell whether that was
// written, the ledger tells.
func (t *ledgerTable) commit(ctx context.Context, id uint32) error {
	err := t.change(ctx, func(l *ledger) error { return l.commit(id) })
	if errors.Is(err, kv.ErrUnknown) {
		if l, readErr := t.read(ctx); readErr == nil && l.counts(id) {
			return nil
		}
	}
	return err
}

// giveUp gives up those of the imports that have not committed: whatever they
// have written and will write never counts. It tells which.
func (t *ledgerTable) giveUp(ctx context.Context, ids []uint32) (dead []uint32, err error) {
	err = t.change(ctx, func(l *ledger) error {
		for _, id := range ids {
			l.giveUp(id)
		}
		dead = slices.DeleteFunc(slices.Clone(ids), l.counts)
		return nil
	})
	return dead, err
}

// takeLost takes the leases that ran out, so that they cannot be renewed, and
// gives their imports, with those that have no lease: a gleaner from before
// there were leases left them.
func (t *ledgerTable) takeLost(ctx context.Context) (lost []uint32, taken []kv.Lease, err error) {
	l, err := t.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range l.Open {
		if name, leased := l.Leases[id]; leased {
			lease, err := t.leases.Acquire(ctx, name, t.leaseName(), t.now(), importLease)
			if errors.Is(err, kv.ErrTaken) {
				continue
			}
			if err != nil {
				return nil, nil, fmt.Errorf("history: take the lease of a lost import: %w", err)
			}
			taken = append(taken, lease)
		}
		lost = append(lost, id)
	}
	return lost, taken, nil
}
