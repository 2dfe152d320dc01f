package kvtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gleaner/kv"
)

// leases tells the story of one lease and three who want it.
func leases(t *testing.T, s kv.Store) {
	ctx, at := t.Context(), time.Unix(1_000_000, 0).UTC()
	ls := kv.Leases{Table: table(t, s, "leases"), Writer: kv.NewWriter(1)}
	acquire := func(holder string, now time.Time) kv.Lease {
		t.Helper()
		l, err := ls.Acquire(ctx, "master", holder, now, 10*time.Second)
		must(t, err)
		return l
	}
	never, err := ls.Get(ctx, "master")
	must(t, err)
	if never.Held(at) {
		t.Error("a lease that nobody acquired is held")
	}
	ann := acquire("ann", at)
	if ann.Token != 1 || ann.Holder != "ann" || !ann.Expires.Equal(at.Add(10*time.Second)) {
		t.Errorf("acquired %+v", ann)
	}
	standing, err := ls.Acquire(ctx, "master", "bob", at.Add(9*time.Second), time.Minute)
	want(t, "bob acquires before the end", err, kv.ErrTaken)
	if standing.Holder != "ann" || standing.Token != 1 {
		t.Errorf("bob is told of %+v", standing)
	}
	if _, err := ls.Acquire(ctx, "other", "bob", at, time.Minute); err != nil {
		t.Errorf("bob acquires another: %v", err)
	}
	renewed, err := ls.Renew(ctx, ann, at.Add(9*time.Second), 10*time.Second)
	must(t, err)
	if renewed.Token != 1 || !renewed.Expires.Equal(at.Add(19*time.Second)) {
		t.Errorf("renewed to %+v", renewed)
	}
	// If the answer was lost, she knows only of the lease before it.
	renewed, err = ls.Renew(ctx, ann, at.Add(9*time.Second), 10*time.Second)
	must(t, err)
	if renewed.Token != 1 || !renewed.Expires.Equal(at.Add(19*time.Second)) {
		t.Errorf("renewed again to %+v", renewed)
	}

	bob := acquire("bob", at.Add(19*time.Second))
	if bob.Token != 2 {
		t.Errorf("bob has token %d", bob.Token)
	}
	_, err = ls.Renew(ctx, renewed, at.Add(19*time.Second), time.Minute)
	want(t, "ann renews what bob has", err, kv.ErrTaken)
	want(t, "ann releases what bob has", ls.Release(ctx, renewed), kv.ErrTaken)

	// After it expired, but nobody has acquired it.
	bob, err = ls.Renew(ctx, bob, at.Add(time.Hour), 10*time.Second)
	must(t, err)
	// Bob's process starts again, without its lease.
	again := acquire("bob", at.Add(time.Hour))
	_, err = ls.Renew(ctx, bob, at.Add(time.Hour), time.Minute)
	want(t, "bob's former self renews", err, kv.ErrTaken)
	must(t, ls.Release(ctx, again))
	cat := acquire("cat", at.Add(time.Hour))
	if cat.Token != 4 {
		t.Errorf("cat has token %d", cat.Token)
	}
	want(t, "bob removes what cat has", ls.Remove(ctx, bob), kv.ErrTaken)
	must(t, ls.Remove(ctx, cat))
	_, err = ls.Renew(ctx, cat, at.Add(time.Hour), time.Minute)
	want(t, "cat renews what she removed", err, kv.ErrTaken)
	if gone, err := ls.Get(ctx, "master"); err != nil || gone.Held(at) || gone.Token != 0 {
		t.Errorf("removed, but there is %+v, %v", gone, err)
	}
	acquire("dan", at)
	_, err = ls.Renew(ctx, ann, at, time.Minute)
	want(t, "ann renews what dan has by the token that she had", err, kv.ErrTaken)
	want(t, "ann removes it", ls.Remove(ctx, ann), kv.ErrTaken)
	if _, err := ls.Acquire(ctx, "master", "", at, time.Hour); err == nil {
		t.Error("nobody acquired a lease")
	}
}

// oneLeaseHolder has many acquire at once, over and over: one gets it, and
// no token is given twice.
func oneLeaseHolder(t *testing.T, s kv.Store) {
	const holders, turns, ttl = 6, 10, time.Second
	tab := table(t, Unsure(s, 7), "leases")
	var tokens sync.Map
	for turn := range turns {
		now := time.Unix(int64(turn)*10, 0)
		var winners atomic.Int64
		var all sync.WaitGroup
		for n := range holders {
			all.Go(func() {
				ls := kv.Leases{Table: tab, Writer: kv.NewWriter(uint64(turn*holders + n + 1))}
				l, err := ls.Acquire(t.Context(), "master", fmt.Sprint("holder", n), now, ttl)
				switch {
				case err == nil:
					winners.Add(1)
					if _, twice := tokens.LoadOrStore(l.Token, n); twice {
						t.Errorf("token %d was given twice", l.Token)
					}
				case !errors.Is(err, kv.ErrTaken) && !errors.Is(err, kv.ErrUnknown):
					t.Error(err)
				}
			})
		}
		all.Wait()
		if winners.Load() > 1 {
			t.Errorf("turn %d: %d hold the lease", turn, winners.Load())
		}
	}
}

func update(t *testing.T, s kv.Store) {
	counted, unknown := count(t, table(t, s, "t"), "counter")
	if unknown != 0 || counted != 100 {
		t.Errorf("counted to %d with %d unknown, want 100", counted, unknown)
	}
}

// updateUnsure: a count whose answers are lost is off by no more than those
// that stayed unknown.
func updateUnsure(t *testing.T, s kv.Store) {
	counted, unknown := count(t, table(t, Unsure(s, 3), "t"), "unsure counter")
	if counted > 100 || counted < 100-unknown {
		t.Errorf("counted to %d with %d unknown, want 100", counted, unknown)
	}
}

// count has four writers count one record up, 25 times each.
func count(t *testing.T, tab kv.Table, name string) (counted, unknown uint64) {
	counter := key(name, "")
	var lost atomic.Uint64
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			w := kv.NewWriter(uint64(n + 1))
			for range 25 {
				_, err := w.Update(t.Context(), tab, counter, increment)
				switch {
				case errors.Is(err, kv.ErrUnknown):
					lost.Add(1)
				case err != nil:
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	r, err := tab.Get(t.Context(), counter)
	must(t, err)
	wrong := errors.New("enough")
	_, err = kv.NewWriter(9).Update(t.Context(), tab, counter, func(kv.Record) ([]byte, error) { return nil, wrong })
	want(t, "an update that gives up", err, wrong)
	return binary.BigEndian.Uint64(r.Value), lost.Load()
}

func increment(now kv.Record) ([]byte, error) {
	var n uint64
	if now.Version != (kv.Version{}) {
		n = binary.BigEndian.Uint64(now.Value)
	}
	return binary.BigEndian.AppendUint64(nil, n+1), nil
}
