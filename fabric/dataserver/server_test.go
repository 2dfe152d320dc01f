package dataserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gleaner/fabric/dataserver"
	"gleaner/fabric/disk"
	"gleaner/fabric/disk/disktest"
)

func wants(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

// within is a context for what must not wait.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func socket(t testing.TB) string { return filepath.Join(t.TempDir(), "s") }

func slice(with byte) []byte { return bytes.Repeat([]byte{with}, disk.SliceSize) }

// a disk with one group 1 of generation 1.
func oneGroup(t testing.TB, name string) (*disktest.FS, *disk.Disk) {
	t.Helper()
	fs := disktest.New(64<<20, diskDir)
	d := memoryDisk(t, fs, name)
	must(t, d.Create(1, 1, 1))
	must(t, d.Write(1, 1, 1, 0, slice('x'), true))
	return fs, d
}

// TestStrangers: who does not know the key, or is of another cluster, is turned away by the other side, be it
// client or server.
func TestStrangers(t *testing.T) {
	_, d := oneGroup(t, "d")
	for _, address := range []string{socket(t), "tls:127.0.0.1:0"} {
		at := serve(t, address, dataserver.Options{}, d)
		for _, other := range []dataserver.Cluster{{ID: cluster.ID, Key: [32]byte{9}}, {ID: "other", Key: cluster.Key}} {
			_, err := dataserver.Dial(within(t, 5*time.Second), at, other)
			wants(t, err, dataserver.ErrStranger)
			wants(t, err, dataserver.ErrUnreachable)
		}
		_, err := dial(t, at).Disk("reimaged").Identity(t.Context())
		wants(t, err, dataserver.ErrNoDisk)
		wants(t, err, dataserver.ErrUnreachable)
	}
}

// TestReplay: what a client said to a server is of no use to who heard it.
func TestReplay(t *testing.T) {
	_, d := oneGroup(t, "d")
	at := serve(t, "127.0.0.1:0", dataserver.Options{}, d)
	var heard bytes.Buffer
	done := make(chan struct{}, 1)
	between := relay(t, func(client net.Conn) {
		server, err := net.Dial("tcp", at)
		must(t, err)
		pass(io.MultiWriter(server, &heard), client, server, client)
		done <- struct{}{}
	})
	dial(t, between).Close()
	<-done

	again, err := net.Dial("tcp", at)
	must(t, err)
	defer again.Close()
	if _, err := io.ReadFull(again, make([]byte, 44)); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(io.LimitReader(&heard, 45+32)) // a hello for beats, with its proof
	must(t, err)
	_, err = again.Write(said)
	must(t, err)
	answer, err := io.ReadAll(again)
	must(t, err)
	if len(answer) == 0 || answer[0] != 3 {
		t.Errorf("the server answered % x", answer)
	}
}

// TestManInTheMiddle: one who ends the TLS of both sides and passes on all they say is found out.
func TestManInTheMiddle(t *testing.T) {
	_, d := oneGroup(t, "d")
	at := strings.TrimPrefix(serve(t, "tls:127.0.0.1:0", dataserver.Options{}, d), "tls:")
	forged, err := dataserver.Listen("tls:127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { forged.Close() })
	go func() {
		for {
			client, err := forged.Accept()
			if err != nil {
				return
			}
			server, err := tls.Dial("tcp", at, &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				t.Error(err)
				return
			}
			go pass(server, client, server, client)
		}
	}()
	_, err = dataserver.Dial(within(t, 5*time.Second), dataserver.Address(forged), cluster)
	wants(t, err, dataserver.ErrStranger)
}

// relay hands each connection to a port of its own to do.
func relay(t testing.TB, do func(net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var all sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { do(c) })
		}
	})
	return l.Addr().String()
}

// pass copies both ways until one side ends.
func pass(up io.Writer, from net.Conn, server, client net.Conn) {
	var both sync.WaitGroup
	both.Go(func() {
		io.Copy(up, from)
		server.Close()
	})
	io.Copy(client, server)
	client.Close()
	both.Wait()
}

// TestSilentStrangers: those who connect and say nothing keep nobody out.
func TestSilentStrangers(t *testing.T) {
	_, d := oneGroup(t, "d")
	at := serve(t, socket(t), dataserver.Options{}, d)
	for range 200 {
		c, err := net.Dial("unix", at)
		must(t, err)
		defer c.Close()
	}
	_, err := dataserver.Dial(within(t, 5*time.Second), at, cluster)
	must(t, err)
}

func TestTooManyConnections(t *testing.T) {
	_, d := oneGroup(t, "d")
	at := serve(t, socket(t), dataserver.Options{Connections: 2}, d)
	first := dial(t, at)
	_, err := first.Disk("d").Stat(t.Context(), 1)
	must(t, err)
	_, err = dataserver.Dial(t.Context(), at, cluster)
	wants(t, err, dataserver.ErrBusy)
	first.Close()
	for err != nil { // until the server has seen that the first left
		_, err = dataserver.Dial(within(t, 5*time.Second), at, cluster)
	}
}

// TestBeyondTheMachine: both sides refuse to speak without TLS to other machines.
func TestBeyondTheMachine(t *testing.T) {
	for _, address := range []string{"10.1.2.3:7071", "example.org:7071", "0.0.0.0:7071", "7071", ""} {
		if _, err := dataserver.NewClient(address, cluster); err == nil {
			t.Errorf("a client may dial %q", address)
		}
		if _, err := dataserver.Listen(address); err == nil {
			t.Errorf("a server may listen on %q", address)
		}
	}
	l, err := net.Listen("tcp", "0.0.0.0:0")
	must(t, err)
	if err := dataserver.Serve(t.Context(), l, cluster, nil, dataserver.Options{}); err == nil || !strings.Contains(err.Error(), "TLS") {
		t.Errorf("got %v", err)
	}
}

// TestBegun: what is begun is done as it is by Write and Sync, refusals included, and what would take time is not begun.
func TestBegun(t *testing.T) {
	fs, d := oneGroup(t, "d")
	at := dial(t, serve(t, socket(t), dataserver.Options{}, d)).Disk("d").(interface {
		dataserver.Disk
		BeginWrite(ctx context.Context, group disk.GroupID, generation, token uint64, offset int64, data []byte, sync bool) func() error
		BeginSync(ctx context.Context) func() error
	})
	ctx, begun := t.Context(), slice('y')
	if at.BeginWrite(ctx, 1, 1, 1, 0, begun, false) != nil {
		t.Error("a write was begun before there was a connection")
	}
	must(t, at.Sync(ctx))
	refused := at.BeginWrite(ctx, 1, 2, 1, 0, slice('n'), false)
	written := at.BeginWrite(ctx, 1, 1, 1, disk.SliceSize, begun, false)
	clear(begun) // the caller's again
	must(t, written())
	err, stale := refused(), new(*disk.GenerationError)
	if !errors.As(err, stale) {
		t.Errorf("got %v", err)
	}
	for name, wait := range map[string]func() error{
		"large": at.BeginWrite(ctx, 1, 1, 1, 0, make([]byte, 64<<10), false), "beyond": at.BeginWrite(ctx, 1, 1, 1, disk.GroupSize, slice(0), false),
	} {
		if wait != nil {
			t.Errorf("%s: it was begun", name)
		}
	}
	var synced atomic.Bool
	fs.Fault(func(op, _ string) error {
		if op == "sync" {
			synced.Store(true)
		}
		return nil
	})
	must(t, at.BeginSync(ctx)())
	if !synced.Load() {
		t.Error("nothing was synced")
	}
	got := slice(0)
	must(t, at.Read(ctx, 1, 1, disk.SliceSize, got))
	if !bytes.Equal(got, slice('y')) {
		t.Errorf("read %q...", got[:8])
	}
}

// TestBusy: while the primary needs the machine, work is refused and the rest goes on.
func TestBusy(t *testing.T) {
	_, d := oneGroup(t, "d")
	var busy atomic.Bool
	c := dial(t, serve(t, socket(t), dataserver.Options{Busy: busy.Load}, d))
	ctx, at := t.Context(), c.Disk("d")
	check := func(want error) {
		t.Helper()
		for name, err := range map[string]error{
			"read": at.Read(ctx, 1, 1, 0, slice(0)), "write": at.Write(ctx, 1, 1, 1, 0, make([]byte, 100<<10), false),
			"salvage": at.Salvage(ctx, 1, 1, 0, slice(0)),
		} {
			if !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", name, err, want)
			}
		}
		_, err := at.Verify(ctx, 1)
		wants(t, err, want)
		_, err = at.Stat(ctx, 1)
		must(t, err)
		must(t, at.Sync(ctx))
		b, err := c.Beat(ctx)
		must(t, err)
		if b.Busy != (want != nil) {
			t.Errorf("the beat is %+v", b)
		}
	}
	check(nil)
	busy.Store(true)
	check(dataserver.ErrBusy)
	busy.Store(false)
	check(nil)
}

// TestBeat: a beat tells how disks are.
func TestBeat(t *testing.T) {
	fs, d := oneGroup(t, "d")
	_, e := oneGroup(t, "e")
	c := dial(t, serve(t, socket(t), dataserver.Options{}, d, e))
	must(t, d.Write(1, 1, 1, 0, make([]byte, disk.BlockSize), false)) // in place
	fs.Flip(filepath.Join(diskDir, "groups", disk.GroupID(1).String()), (12288+99)*8)
	fs.Fault(func(op, _ string) error {
		if op == "sync" {
			return errors.New("worn out")
		}
		return nil
	})
	d.Write(1, 1, 1, disk.SliceSize, slice('y'), true) // fails the disk
	d.Read(1, 1, 0, slice(0))
	var b dataserver.Beat
	for range 100 {
		var err error
		b, err = c.Beat(t.Context())
		must(t, err)
		if b.Disks[0].Failed != "" {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	got := b.Disks[0]
	if got.Identity.Disk != "d" || got.Identity.Salt != 0 || got.Identity.Quota != 32<<20 || got.Identity.Tier != disk.SSD ||
		!strings.Contains(got.Failed, "worn out") || got.Used <= 2<<20 || got.Free <= 0 || got.Groups != 1 || got.Rotten != 1 || got.Age > time.Minute {
		t.Errorf("the beat is %+v", got)
	}
	if b.Disks[1].Identity.Disk != "e" || b.Disks[1].Failed != "" {
		t.Errorf("the beat is %+v", b.Disks[1])
	}
}

// A gate stops a disk's file system until it is opened.
type gate struct {
	shut atomic.Bool
	once sync.Once
	way  chan struct{}
}

func (g *gate) open() {
	g.shut.Store(false)
	g.once.Do(func() { close(g.way) })
}

func newGate(fs *disktest.FS) *gate {
	g := &gate{way: make(chan struct{})}
	fs.Fault(func(op, _ string) error {
		if g.shut.Load() {
			<-g.way
		}
		return nil
	})
	return g
}

// TestHungDisk: a disk that hangs holds up neither another disk nor beats, and has no more in hand
// than it may.
func TestHungDisk(t *testing.T) {
	fs, d := oneGroup(t, "hung")
	_, e := oneGroup(t, "well")
	g := newGate(fs)
	at := serve(t, socket(t), dataserver.Options{}, d, e)
	g.shut.Store(true)
	var all sync.WaitGroup
	defer all.Wait()
	defer g.open()
	var refused atomic.Int64
	for range 6 { // clients, that may have 64 requests in flight each
		c := dial(t, at)
		for range 64 {
			all.Go(func() {
				err := c.Disk("hung").Read(context.Background(), 1, 1, 0, slice(0))
				if errors.Is(err, dataserver.ErrBusy) {
					refused.Add(1)
				} else if err != nil && !errors.Is(err, dataserver.ErrLost) {
					t.Error(err)
				}
			})
		}
	}
	c := dial(t, at)
	for refused.Load() < 6*64-256 {
		b, err := c.Beat(within(t, 5*time.Second))
		must(t, err)
		if b.Disks[0].Identity.Disk != "hung" {
			t.Errorf("the beat is %+v", b)
		}
		must(t, c.Disk("well").Read(within(t, 5*time.Second), 1, 1, 0, slice(0)))
	}
	err := c.Disk("hung").Read(within(t, 5*time.Second), 1, 1, 0, slice(0))
	wants(t, err, dataserver.ErrBusy)
	_, err = c.Disk("hung").Identity(within(t, 5*time.Second))
	must(t, err)
	if n := refused.Load(); n > 6*64-256 {
		t.Errorf("%d were refused", n)
	}
}

// TestDeadlines: a request that a disk does not answer ends when its ctx does, and the connection goes on.
func TestDeadlines(t *testing.T) {
	fs, d := oneGroup(t, "d")
	g := newGate(fs)
	c := dial(t, serve(t, socket(t), dataserver.Options{}, d))
	at := c.Disk("d")
	must(t, at.Read(t.Context(), 1, 1, 0, slice(0)))
	g.shut.Store(true)
	defer g.open()
	buf := slice(0)
	wants(t, at.Read(within(t, 50*time.Millisecond), 1, 1, 0, buf), context.DeadlineExceeded)
	wants(t, at.Write(within(t, 50*time.Millisecond), 1, 1, 1, 0, slice('y'), false), context.DeadlineExceeded)
	canceled, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	wants(t, at.Create(canceled, 2, 1, 1), context.Canceled)
	g.open()
	must(t, at.Write(t.Context(), 1, 1, 1, 0, slice('z'), false))
	for i, b := range buf {
		if b != 0 {
			t.Fatalf("byte %d was given back to the caller and then written", i)
		}
	}
	must(t, at.Read(t.Context(), 1, 1, 0, buf))
	if !bytes.Equal(buf, slice('z')) {
		t.Errorf("read %q", buf[:4])
	}
}

// TestManyAtOnce has many callers share one connection, some of whom give up at any moment.
func TestManyAtOnce(t *testing.T) {
	_, d := oneGroup(t, "d")
	at := dial(t, serve(t, socket(t), dataserver.Options{}, d)).Disk("d")
	must(t, at.Write(t.Context(), 1, 1, 1, 0, bytes.Repeat([]byte{7}, disk.BlockSize), false))
	var all sync.WaitGroup
	for w := range 32 {
		all.Go(func() {
			for i := range 40 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if w%4 == 0 {
					cancel()
					ctx, cancel = context.WithTimeout(t.Context(), time.Duration(i)*50*time.Microsecond)
				}
				size := disk.SliceSize
				if w%3 == 0 {
					size = disk.BlockSize
				}
				buf := bytes.Repeat([]byte{7}, size)
				var err error
				if w%5 < 3 {
					err = at.Write(ctx, 1, 1, 1, 0, buf, false)
				} else {
					clear(buf)
					err = at.Read(ctx, 1, 1, 0, buf)
				}
				cancel()
				switch {
				case err == nil && bytes.Count(buf, []byte{7}) != size:
					t.Error("other bytes")
				case err != nil && (w%4 != 0 || !errors.Is(err, context.DeadlineExceeded)):
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// TestDeafClient: a client that asks and takes no answers holds up itself alone.
func TestDeafClient(t *testing.T) {
	_, d := oneGroup(t, "d")
	real := serve(t, "127.0.0.1:0", dataserver.Options{}, d)
	must(t, d.Write(1, 1, 1, 0, make([]byte, disk.BlockSize), false))
	deaf := make(chan struct{})
	between := relay(t, func(client net.Conn) {
		server, err := net.Dial("tcp", real)
		must(t, err)
		go io.Copy(server, client)
		io.CopyN(client, server, 1000) // the handshake, and where an answer begins
		<-deaf
		client.Close()
		server.Close()
	})
	t.Cleanup(func() { close(deaf) }) // before the relay waits for it
	c, err := dataserver.NewClient(between, cluster)
	must(t, err)
	defer c.Close()
	var all sync.WaitGroup
	for range 5 {
		for range 64 {
			all.Go(func() {
				err := c.Disk("d").Read(within(t, 300*time.Millisecond), 1, 1, 0, make([]byte, disk.BlockSize))
				if err == nil {
					t.Error("it was not deaf")
				}
			})
		}
		all.Wait()
		must(t, dial(t, real).Disk("d").Read(within(t, 5*time.Second), 1, 1, 0, make([]byte, disk.BlockSize)))
	}
}
