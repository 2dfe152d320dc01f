package curator

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"gleaner/curator/shuffle"
	"gleaner/curator/task"
	"gleaner/kv"
	"gleaner/kv/mem"
)

// A scan that rests three times as long as it works takes four times as long, and is never at work for longer than a batch takes.
func TestScanRests(t *testing.T) {
	alone, longest := scanSlowly(t, 0)
	if longest != alone {
		t.Errorf("a scan of %v that does not rest was at work for %v", alone, longest)
	}
	rested, longest := scanSlowly(t, 3)
	if rested < 4*alone-time.Second || rested > 4*alone+time.Second {
		t.Errorf("it took %v, and %v without rest", rested, alone)
	}
	if longest > batch*time.Millisecond {
		t.Errorf("it was at work for %v", longest)
	}
}

// scanSlowly scans a range of records of which each takes a millisecond. It gives how long that took, and for how long it went on at most without a rest.
func scanSlowly(t *testing.T, rest int) (took, longest time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		ctx, store := context.Background(), mem.New()
		table, err := store.Table(ctx, "t")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4096 {
			if err := table.Load(ctx, kv.Record{Key: kv.Key{Part: []byte("p"), Row: []byte{byte(i >> 8), byte(i)}}, Version: kv.Version{Writer: 1, Seq: 1}}); err != nil {
				t.Fatal(err)
			}
		}
		var begun, last time.Time
		slow := func(*kv.Record, *Pairs) error {
			if now := time.Now(); now != last {
				begun = now
			}
			time.Sleep(time.Millisecond)
			last = time.Now()
			longest = max(longest, last.Sub(begun))
			return nil
		}
		c, err := Open(ctx, store, kv.NewWriter(1), Options{Name: "p", Tables: map[string]kv.Reader{"t": table}, Space: shuffle.Dir(t.TempDir()), Ranges: 1, Partitions: 1, Rest: rest,
			Jobs: []Job{{Name: "slow", Inputs: []Input{{Table: "t", Map: slow}}, Reduce: func([]byte, *Values, func(task.Task)) error { return nil }}}})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := c.Scan(ctx, func(task.Task) error { return nil }); err != nil {
			t.Fatal(err)
		}
		took = time.Since(start)
	})
	return took, longest
}
