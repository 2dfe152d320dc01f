package pebble

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// flights are the compare-and-sets in flight, at most one per key. Pebble shows a
// write before it is on disk, so a reader of a key in flight waits: it must not
// see what a crash may undo. Writes of other keys do not wait, and share one sync.
type flights struct {
	seed   maphash.Seed
	count  atomic.Int64
	shards [256]struct {
		sync.Mutex
		landed map[string]chan struct{} // closed when the write of that key is on disk
	}
}

func newFlights() *flights {
	f := &flights{seed: maphash.MakeSeed()}
	for i := range f.shards {
		f.shards[i].landed = map[string]chan struct{}{}
	}
	return f
}

// begin waits until key is not in flight, and begins a flight, which land ends.
func (f *flights) begin(ctx context.Context, key []byte) (land func(), err error) {
	shard := &f.shards[maphash.Bytes(f.seed, key)%uint64(len(f.shards))]
	for {
		shard.Lock()
		other, busy := shard.landed[string(key)]
		if !busy {
			break
		}
		shard.Unlock()
		if err := closed(ctx, other); err != nil {
			return nil, err
		}
	}
	defer shard.Unlock()
	mine := make(chan struct{})
	shard.landed[string(key)] = mine
	f.count.Add(1)
	return func() {
		shard.Lock()
		defer shard.Unlock()
		delete(shard.landed, string(key))
		f.count.Add(-1)
		close(mine)
	}, nil
}

// wait waits until key is not in flight.
func (f *flights) wait(ctx context.Context, key []byte) error {
	shard := &f.shards[maphash.Bytes(f.seed, key)%uint64(len(f.shards))]
	shard.Lock()
	landed, busy := shard.landed[string(key)]
	shard.Unlock()
	if !busy {
		return nil
	}
	return closed(ctx, landed)
}

// any tells whether any key is in flight.
func (f *flights) any() bool { return f.count.Load() > 0 }

// closed waits until landed is closed.
func closed(ctx context.Context, landed <-chan struct{}) error {
	select {
	case <-landed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
