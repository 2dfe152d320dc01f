package kvtest

import (
	"context"
	"math/rand/v2"
	"sync"

	"gleaner/kv"
)

// Unsure gives s with answers lost, as on a bad network: about half of the
// compare-and-sets and -deletes return kv.ErrUnknown, and were applied, were not,
// or will be, some calls later.
func Unsure(s kv.Store, seed uint64) kv.Store {
	return &unsure{Store: s, rng: rand.New(rand.NewPCG(seed, 0))}
}

type unsure struct {
	kv.Store
	mu   sync.Mutex
	rng  *rand.Rand
	late []func() // calls under way that the caller has no answer to
}

func (s *unsure) Table(ctx context.Context, name string) (kv.Table, error) {
	t, err := s.Store.Table(ctx, name)
	return unsureTable{t, s}, err
}

// unsureOf gives a table with answers lost, as those of an Unsure store.
func unsureOf(t kv.Table, seed uint64) kv.Table {
	return unsureTable{t, &unsure{rng: rand.New(rand.NewPCG(seed, 0))}}
}

type unsureTable struct {
	kv.Table
	store *unsure
}

func (t unsureTable) Get(ctx context.Context, key kv.Key) (kv.Record, error) {
	t.store.arrive()
	return t.Table.Get(ctx, key)
}

func (t unsureTable) CompareAndSet(ctx context.Context, key kv.Key, old, next kv.Version, value []byte) error {
	return t.store.call(func() error { return t.Table.CompareAndSet(ctx, key, old, next, value) })
}

func (t unsureTable) CompareAndDelete(ctx context.Context, key kv.Key, old kv.Version) error {
	return t.store.call(func() error { return t.Table.CompareAndDelete(ctx, key, old) })
}

func (t unsureTable) Apply(ctx context.Context, part []byte, next kv.Version, changes ...kv.Change) error {
	return t.store.call(func() error { return t.Table.Apply(ctx, part, next, changes...) })
}

// call makes a call, or part of it.
func (s *unsure) call(do func() error) error {
	s.arrive()
	switch s.draw(6) {
	case 0:
		_ = do() // whatever the answer is, it is lost
		return kv.ErrUnknown
	case 1:
		return kv.ErrUnknown
	case 2:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.late = append(s.late, func() { _ = do() })
		return kv.ErrUnknown
	}
	return do()
}

// arrive makes a late call now and then.
func (s *unsure) arrive() {
	s.mu.Lock()
	var call func()
	if n := len(s.late); n > 0 && s.rng.IntN(3) == 0 {
		i := s.rng.IntN(n)
		call = s.late[i]
		s.late[i] = s.late[n-1]
		s.late = s.late[:n-1]
	}
	s.mu.Unlock()
	if call != nil {
		call()
	}
}

// arriveAll makes all late calls.
func (s *unsure) arriveAll() {
	s.mu.Lock()
	calls := s.late
	s.late = nil
	s.mu.Unlock()
	for _, call := range calls {
		call()
	}
}

func (s *unsure) draw(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}
