package fabric_test

import (
	"context"
	"os"
	"testing"
	"time"
)

// A disk is put into another server, and a new one in its place. The server that has it now is up within the second: the disk is
// up and has all it had, and nothing may be dropped from it.
func TestMovedDiskIsNotWiped(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRack(t, 2)
	f := r.front(time.Hour)
	create(t, f, "v", 4<<20, 2)
	mustWrite(t, f, "v", 'A', 1<<20)
	old := r.servers[0]
	r.halt(old)
	other := &dataServer{name: "t0", dir: old.dir + "-moved"}
	if err := os.Rename(old.dir, other.dir); err != nil {
		t.Fatal(err)
	}
	r.format(old, 2)
	r.start(old) // the front sees within half a second that s0-1 is not there, and drops it a second later
	for stateOf(f, "s0-2") != "up" {
		time.Sleep(5 * time.Millisecond)
	}
	r.start(other)
	seen := false
	for end := time.Now().Add(6 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		s, err := f.Stat(ctx, "v")
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case s.Have[1] > 0 && seen:
			t.Fatalf("s0-1 is %s at t0, and its replicas were dropped: %v", stateOf(f, "s0-1"), s.Have)
		case s.Have[1] > 0:
			t.Skip("the machine is too busy: the front saw s0-1 at t0 only after a second")
		}
		lent := lentAs(f, "s0-1")
		seen = seen || lent.Server == "t0" && lent.State == "up"
	}
	if !seen {
		t.Error("the front never saw s0-1 at t0")
	}
}
