package fabric_test

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"
)

// A server is started again at once, at another address and with another disk in another directory. The disk that it no longer has
// must count as away: not as the replica that allows to drop the only one that there is, and not as good for ever.
func TestServerMovesWithoutItsDisk(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRack(t, 2)
	f := r.front(time.Second)
	create(t, f, "v", 4<<20, 2)
	v := open(t, f, "v")
	defer v.Close()
	want := bytes.Repeat([]byte("x"), 4096)
	if err := v.WriteAt(ctx, want, 0, true); err != nil {
		t.Fatal(err)
	}
	if err := v.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	moved, other := r.servers[0], r.servers[1]
	spare := &dataServer{name: moved.name, dir: filepath.Join(filepath.Dir(moved.dir), "spare")}
	r.format(spare, 2)
	r.halt(moved)
	moved.dir = spare.dir
	r.startAt(moved, filepath.Join(filepath.Dir(moved.dir), "elsewhere"))
	time.Sleep(2 * time.Second)
	all, err := f.Lent(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		t.Log(l)
		if l.Disk == "s0-1" && l.State == "up" {
			t.Errorf("disk s0-1 is of no server and counts as up")
		}
	}
	r.halt(other)
	time.Sleep(35 * time.Second) // it is away for longer than the grace
	r.start(other)
	time.Sleep(15 * time.Second)
	got := make([]byte, 4096)
	if err := v.ReadAt(ctx, got, 0); err != nil || !bytes.Equal(got, want) {
		s, _ := f.Stat(ctx, "v")
		t.Errorf("the disk that has it is back, and it is not read: %q, %v\n%+v", got[:4], err, s)
	}
}
