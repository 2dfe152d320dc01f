package kvtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"gleaner/kv"
	"gleaner/kv/mem"
)

// TestTheCheckerCatches breaks a correct store in typical ways: the checker finds each.
func TestTheCheckerCatches(t *testing.T) {
	for name, breaks := range map[string]func(kv.Store, uint64) kv.Store{
		"a swap that does not compare":       func(s kv.Store, seed uint64) kv.Store { return &faulty{Store: s, rng: seeded(seed), blind: true} },
		"a read of the past":                 func(s kv.Store, seed uint64) kv.Store { return &faulty{Store: s, rng: seeded(seed), stale: true} },
		"a lost answer taken for a conflict": func(s kv.Store, seed uint64) kv.Store { return &faulty{Store: Unsure(s, seed), hasty: true} },
	} {
		caught := 0
		for seed := range uint64(rounds) {
			err := check(t.Context(), table(t, breaks(mem.New(), seed), "t"), "register", seed, false)
			if errors.Is(err, errNotLinearizable) {
				caught++
			}
		}
		if caught < rounds/2 {
			t.Errorf("%s was caught in %d of %d histories", name, caught, rounds)
		}
	}
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 9)) }

type faulty struct {
	kv.Store
	blind, stale, hasty bool
	mu                  sync.Mutex
	rng                 *rand.Rand
	past                map[string]kv.Record
}

func (f *faulty) Table(ctx context.Context, name string) (kv.Table, error) {
	t, err := f.Store.Table(ctx, name)
	f.past = map[string]kv.Record{}
	return faultyTable{t, f}, err
}

type faultyTable struct {
	kv.Table
	f *faulty
}

func (t faultyTable) Get(ctx context.Context, key kv.Key) (kv.Record, error) {
	r, err := t.Table.Get(ctx, key)
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	past, seen := t.f.past[quoted(key)]
	if err == nil {
		t.f.past[quoted(key)] = r
	}
	if t.f.stale && seen && t.f.rng.IntN(2) == 0 {
		return past, nil
	}
	return r, err
}

func (t faultyTable) CompareAndSet(ctx context.Context, key kv.Key, old, next kv.Version, value []byte) error {
	if t.f.blind {
		if now, err := t.Table.Get(ctx, key); err == nil {
			old = now.Version
		}
	}
	err := t.Table.CompareAndSet(ctx, key, old, next, value)
	if t.f.hasty && errors.Is(err, kv.ErrUnknown) {
		return kv.ErrConflict
	}
	return err
}
