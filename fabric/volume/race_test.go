package volume

import (
	"context"
	"sync"
	"testing"
	"time"

	"gleaner/kv/pebble"
)

// A rebuild takes a lease while a client opens the vDisk: the client must not be fenced by its own front.
func TestOpenWhileRebuilding(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	broken := 0
	var last error
	for i := range 100 {
		store, err := pebble.Open(t.TempDir(), pebble.Options{}) // which takes its time
		if err != nil {
			t.Fatal(err)
		}
		s, p := faultySpaceOn(t, store, 3)
		v := faultyVolume(t, s, 2)
		if err := v.WriteAt(ctx, make([]byte, 4096), 0, false); err != nil {
			t.Fatal(err)
		}
		delete(p.disks, "d1")
		if err := v.WriteAt(ctx, make([]byte, 4096), 0, false); err != nil {
			t.Fatal(err)
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { spin(i % 13); _ = s.Rebuild(ctx, 1, "") })
		spin(i % 7)
		v, err = s.Open(ctx, 1)
		wg.Wait()
		if err == nil {
			err = v.WriteAt(ctx, make([]byte, 4096), 0, true)
			if err == nil {
				v.renew(ctx)
				err = v.WriteAt(ctx, make([]byte, 4096), 0, true)
			}
		}
		if v != nil {
			v.stop()
			v.keeper.Wait()
		}
		if err != nil {
			broken++
			last = err
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if broken > 0 {
		t.Errorf("%d clients were shut out by a rebuild of their own front: %v", broken, last)
	}
}

func spin(n int) {
	for end := time.Now().Add(time.Duration(n) * 100 * time.Microsecond); time.Now().Before(end); {
	}
}
