package kv_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gleaner/kv"
	"gleaner/kv/mem"
)

// A record is read, changed and written back, again after a conflict.
func ExampleWriter_Update() {
	ctx := context.Background()
	store := mem.New()
	jobs, err := store.Table(ctx, "jobs")
	if err != nil {
		fmt.Println(err)
		return
	}
	w := kv.NewWriter(4711) // in a real process, drawn at random
	key := kv.Key{Part: []byte("nightly"), Row: []byte("runs")}
	for range 3 {
		r, err := w.Update(ctx, jobs, key, func(now kv.Record) ([]byte, error) {
			return append(now.Value, '|'), nil
		})
		fmt.Println(string(r.Value), r.Version.Seq, err)
	}
	// Output:
	// | 1 <nil>
	// || 2 <nil>
	// ||| 3 <nil>
}

// One of two becomes the master, and the other takes over when the lease expires.
func ExampleLeases() {
	ctx := context.Background()
	store := mem.New()
	table, err := store.Table(ctx, "leases")
	if err != nil {
		fmt.Println(err)
		return
	}
	leases := kv.Leases{Table: table, Writer: kv.NewWriter(4711)}
	noon := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

	l, err := leases.Acquire(ctx, "master", "ann", noon, time.Minute)
	fmt.Println(l.Holder, l.Token, err)
	_, err = leases.Acquire(ctx, "master", "bob", noon.Add(30*time.Second), time.Minute)
	fmt.Println(errors.Is(err, kv.ErrTaken), err)
	l, err = leases.Acquire(ctx, "master", "bob", noon.Add(time.Minute), time.Minute)
	fmt.Println(l.Holder, l.Token, err)
	// Output:
	// ann 1 <nil>
	// true kv: another holds the lease: ann holds master until 2026-11-01T12:01:00Z
	// bob 2 <nil>
}
