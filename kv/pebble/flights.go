package pebble

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// flights are the compare-and-sets under way, at most one a key. Pebble shows a
// write before it is on disk; a reader that meets one waits for the flight to land,
// so that nobody sees what a crash may take back. Other keys wait for nothing, so
// their writes share one sync.
type flights struct {
	seed   maphash.Seed
	count  atomic.Int64
	shards [256]struct {
		sync.Mutex
		landed map[string]chan struct{} // closed when the flight of that key has landed
	}
}

func newFlights() *flights {
	f := &flights{seed: maphash.MakeSeed()}
	for i := range f.shards {
		f.shards[i].landed = map[string]chan struct{}{}
	}
	return f
}

// begin waits until no other flight has key, and begins one. It ends by land.
func (f *flights) begin(ctx context.Context, key []byte) (land func(), err error) {
	shard := &f.shards[maphash.Bytes(f.seed, key)%uint64(len(f.shards))]
	for {
		shard.Lock()
		other, busy := shard.landed[string(key)]
		if !busy {
			break
		}
		shard.Unlock()
		if err := wait(ctx, other); err != nil {
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

// settle waits until the flight of key, if there is one, has landed.
func (f *flights) settle(ctx context.Context, key []byte) error {
	shard := &f.shards[maphash.Bytes(f.seed, key)%uint64(len(f.shards))]
	shard.Lock()
	landed, busy := shard.landed[string(key)]
	shard.Unlock()
	if !busy {
		return nil
	}
	return wait(ctx, landed)
}

// any tells whether some flight is under way.
func (f *flights) any() bool { return f.count.Load() > 0 }

func wait(ctx context.Context, landed <-chan struct{}) error {
	select {
	case <-landed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
