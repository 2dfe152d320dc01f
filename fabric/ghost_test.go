package fabric_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gleaner/fabric/dataserver"
	"gleaner/fabric/disk"
	"gleaner/fabric/registry"
)

// startAt is start at another address.
func (r *rack) startAt(s *dataServer, socket string) {
	r.t.Helper()
	d, err := disk.Open(disk.OS{}, s.dir, disk.Options{Cluster: r.registry.ID})
	if err != nil {
		r.t.Fatal(err)
	}
	claim, err := r.registry.Claim(s.name)
	if err != nil {
		r.t.Fatal(err)
	}
	l, err := dataserver.Listen(socket)
	if err != nil {
		r.t.Fatal(err)
	}
	entry := registry.Server{Name: s.name, Address: dataserver.Address(l), PID: os.Getpid(), Environment: s.name,
		Disks: []registry.Disk{{ID: d.Identity().Disk, Tier: disk.SSD, Path: s.dir, Quota: d.Identity().Quota}}}
	if err := claim.Announce(entry); err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.ended = stop, make(chan error, 1)
	go func() {
		err := dataserver.Serve(ctx, l, dataserver.Cluster{ID: r.registry.ID, Key: r.registry.Key}, []*dataserver.LocalDisk{dataserver.Local(d)}, dataserver.Options{Busy: s.busy.Load})
		d.Close()
		claim.Release()
		s.ended <- err
	}()
	r.t.Cleanup(func() { r.halt(s) })
}

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
	for _, l := range f.Lent() {
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
