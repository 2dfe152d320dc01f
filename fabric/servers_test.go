package fabric_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"gleaner/fabric"
	"gleaner/fabric/dataserver"
	"gleaner/fabric/disk"
	"gleaner/fabric/registry"
	"gleaner/kv/pebble"
)

// A rack is a cluster of data servers on Unix sockets, each with one disk.
type rack struct {
	t        testing.TB
	registry *registry.Registry
	servers  []*dataServer
}

type dataServer struct {
	name  string
	dir   string
	busy  atomic.Bool
	stop  context.CancelFunc
	ended chan error
}

func newRack(t testing.TB, servers int) *rack {
	t.Helper()
	data, err := os.MkdirTemp("", "rack") // sockets have short names
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(data) })
	where, err := registry.Open(data)
	if err != nil {
		t.Fatal(err)
	}
	r := &rack{t: t, registry: where}
	for i := range servers {
		s := &dataServer{name: fmt.Sprintf("s%d", i), dir: filepath.Join(data, fmt.Sprint("disk", i))}
		r.servers = append(r.servers, s)
		r.format(s, 1)
		r.start(s)
	}
	return r
}

func (r *rack) format(s *dataServer, life int) {
	r.t.Helper()
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		r.t.Fatal(err)
	}
	id := disk.Identity{Cluster: r.registry.ID, Disk: fmt.Sprintf("%s-%d", s.name, life), Tier: disk.SSD, Quota: 512 << 20, Salt: 1}
	if err := disk.Format(disk.OS{}, s.dir, id); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rack) start(s *dataServer) {
	r.t.Helper()
	r.startAt(s, r.registry.Socket(s.name))
}

// startAt starts a server that listens at socket.
func (r *rack) startAt(s *dataServer, socket string) {
	r.t.Helper()
	d, err := disk.Open(disk.OS{}, s.dir, disk.Options{Cluster: r.registry.ID})
	if err != nil {
		r.t.Fatal(err)
	}
	claim, err := r.registry.Claim(context.Background(), s.name)
	if err != nil {
		r.t.Fatal(err)
	}
	l, err := dataserver.Listen(socket)
	if err != nil {
		r.t.Fatal(err)
	}
	entry := registry.Server{Name: s.name, Address: dataserver.Address(l), PID: os.Getpid(), Environment: s.name,
		Disks: []registry.Disk{{ID: d.Identity().Disk, Tier: disk.SSD, Path: s.dir, Quota: d.Identity().Quota}}}
	if err := claim.Announce(context.Background(), entry); err != nil {
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

func (r *rack) halt(s *dataServer) {
	if s.stop == nil {
		return
	}
	s.stop()
	s.stop = nil
	if err := <-s.ended; err != nil {
		r.t.Log(s.name, err)
	}
}

// front gives a front that watches the rack.
func (r *rack) front(grace time.Duration) *fabric.Front {
	r.t.Helper()
	store, err := pebble.Open(r.t.TempDir(), pebble.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	f, err := fabric.Open(context.Background(), fabric.Options{Store: store, Grace: grace, Log: slog.New(slog.NewTextHandler(r.t.Output(), nil))})
	if err != nil {
		r.t.Fatal(err)
	}
	watching, stop := context.WithCancel(context.Background())
	if err := f.Watch(watching, r.registry); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		stop()
		if err := f.Close(); err != nil {
			r.t.Error(err)
		}
		store.Close()
	})
	return f
}

func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// whole reports whether no replica is missing or rotten.
func whole(t testing.TB, f *fabric.Front) bool {
	t.Helper()
	report, err := f.Check(context.Background(), func(int, int) {})
	return err == nil && report.Missing == 0 && report.Corrupt == 0 && len(report.Errors) == 0 && report.Groups > 0
}

// A vDisk with three replicas goes on while servers stop, are busy, and are reimaged, one after the
// other; what they lack is rebuilt, and everything that was answered is there.
func TestServersComeAndGo(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRack(t, 4)
	f := r.front(time.Second)
	const size = 24 << 20
	create(t, f, "v", size, 3)
	v := open(t, f, "v")
	defer v.Close()
	want := make([]byte, size)
	rng := rand.New(rand.NewPCG(1, 1))
	write := func(times int) {
		t.Helper()
		for range times {
			at := rng.Int64N(size/4096) * 4096
			n := min(size-at, int64(1+rng.IntN(64))*4096)
			for i := at; i < at+n; i += 8 {
				want[i] = byte(rng.Uint32())
			}
			if err := v.WriteAt(ctx, want[at:at+n], at, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	reads := func() {
		t.Helper()
		got := make([]byte, 1<<20)
		for at := int64(0); at < size; at += int64(len(got)) {
			if err := v.ReadAt(ctx, got, at); err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want[at:at+int64(len(got))]) {
				t.Fatalf("other bytes than were written, from %d on", at)
			}
		}
	}
	write(200)
	await(t, "three replicas of each group", func() bool { return whole(t, f) })

	for i, s := range r.servers {
		r.halt(s)
		write(50)
		reads()
		if i%2 == 0 { // the machine was reimaged
			if err := os.RemoveAll(s.dir); err != nil {
				t.Fatal(err)
			}
			r.format(s, 2+i)
		}
		r.start(s)
		write(50)
		await(t, s.name+" is back and all is rebuilt", func() bool { return whole(t, f) })
		reads()
	}

	busy := r.servers[1]
	busy.busy.Store(true)
	write(100)
	reads()
	busy.busy.Store(false)
	await(t, "what was written while a server was busy has three replicas", func() bool { return whole(t, f) })
	if err := v.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	reads()
}
