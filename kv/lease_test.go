package kv_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"gleaner/kv"
	"gleaner/kv/mem"
)

// An unanswered table carries out writes and does not say so, and cannot be read meanwhile.
type unanswered struct {
	kv.Table
	out bool
}

func (t *unanswered) CompareAndSet(ctx context.Context, key kv.Key, old, next kv.Version, value []byte) error {
	err := t.Table.CompareAndSet(ctx, key, old, next, value)
	if t.out && err == nil {
		err = kv.ErrUnknown
	}
	return err
}

func (t *unanswered) Get(ctx context.Context, key kv.Key) (kv.Record, error) {
	if t.out {
		return kv.Record{}, errors.New("too few replicas")
	}
	return t.Table.Get(ctx, key)
}

// TestLeaseAfterAnOutage: a holder whose renewal was carried out and not answered still holds its lease when the store
// answers again: nobody has acquired it. It can renew it, release it and remove it. Who was followed by another cannot, nor can
// one who has released it renew it.
func TestLeaseAfterAnOutage(t *testing.T) {
	ctx, ttl := t.Context(), 10*time.Second
	now := time.Unix(1000, 0)
	under, err := mem.New().Table(ctx, "leases")
	must(t, err)
	table := &unanswered{Table: under}
	ls := kv.Leases{Table: table, Writer: kv.NewWriter(7)}
	held := func() kv.Lease {
		t.Helper()
		l, err := ls.Acquire(ctx, "it", "me", now, ttl)
		must(t, err)
		table.out = true
		if _, err := ls.Renew(ctx, l, now.Add(time.Second), ttl); !errors.Is(err, kv.ErrUnknown) {
			t.Errorf("an outage says %v", err)
		}
		table.out = false
		return l
	}

	l, err := ls.Renew(ctx, held(), now.Add(2*time.Second), ttl)
	must(t, err)
	if is, err := ls.Get(ctx, "it"); err != nil || !is.Expires.Equal(now.Add(12*time.Second)) || is.Token != l.Token {
		t.Errorf("it is %+v, %v", is, err)
	}
	must(t, ls.Release(ctx, held()))
	if is, err := ls.Get(ctx, "it"); err != nil || is.Holder != "" {
		t.Errorf("released, it is %+v, %v", is, err)
	}
	l = held()
	must(t, ls.Release(ctx, l))
	if _, err := ls.Renew(ctx, l, now, ttl); !errors.Is(err, kv.ErrTaken) {
		t.Errorf("a released lease is renewed: %v", err)
	}
	must(t, ls.Remove(ctx, held()))

	l = held()
	_, err = ls.Acquire(ctx, "it", "another", now.Add(time.Minute), ttl)
	must(t, err)
	if _, err := ls.Renew(ctx, l, now.Add(time.Minute), ttl); !errors.Is(err, kv.ErrTaken) {
		t.Errorf("a lease that another took is renewed: %v", err)
	}
	if err := ls.Release(ctx, l); !errors.Is(err, kv.ErrTaken) {
		t.Errorf("a lease that another took is released: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
