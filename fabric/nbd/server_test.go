package nbd_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gleaner/fabric/nbd"
	"gleaner/fabric/nbd/nbdtest"
)

// serve serves exports on a Unix socket until the test ends.
func serve(t testing.TB, exports nbd.Exports, options nbd.Options) net.Addr {
	t.Helper()
	l, err := nbd.Listen(filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, l, exports, options)
}

func serveOn(t testing.TB, l net.Listener, exports nbd.Exports, options nbd.Options) net.Addr {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- nbd.Serve(ctx, l, exports, options) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr()
}

func memory(name string, size int) nbdtest.Offer {
	return nbdtest.Offer{Export: nbd.Export{Name: name, Size: int64(size), MultiConn: true}, Device: nbdtest.NewMemory(size)}
}

// A trap is a device that holds reads of its first half until they are let go or their
// context ends. Flushes fail with fault.
type trap struct {
	*nbdtest.Memory
	release chan struct{}
	fault   error

	mu       sync.Mutex
	caught   int // reads that are held
	canceled int
	closed   int
}

const trapSize = 128 << 20

func newTrap() *trap {
	return &trap{Memory: nbdtest.NewMemory(trapSize), release: make(chan struct{})}
}

func (d *trap) ReadAt(ctx context.Context, p []byte, offset int64) error {
	if offset >= trapSize/2 {
		return d.Memory.ReadAt(ctx, p, offset)
	}
	d.count(&d.caught, 1)
	defer d.count(&d.caught, -1)
	select {
	case <-d.release:
		return nil
	case <-ctx.Done():
		d.count(&d.canceled, 1)
		return ctx.Err()
	}
}

func (d *trap) Flush(context.Context) error { return d.fault }

func (d *trap) Close() error {
	d.count(&d.closed, 1)
	return nil
}

func (d *trap) count(what *int, by int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*what += by
}

func (d *trap) counted(what *int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return *what
}

func (d *trap) exports() nbdtest.Exports {
	return nbdtest.Exports{{Export: nbd.Export{Name: "trap", Size: trapSize}, Device: d}}
}

var (
	held = call{kind: cmdRead, offset: 0, length: 512}
	free = call{kind: cmdRead, offset: trapSize / 2, length: 512}
)

// inBubble serves a trap to clients in memory, in time that passes when all wait.
func inBubble(t *testing.T, options nbd.Options, story func(t *testing.T, d *trap, connect func() *client, shutdown func())) {
	synctest.Test(t, func(t *testing.T) {
		d, l := newTrap(), newPipeListener()
		ctx, cancel := context.WithCancel(t.Context())
		var serving sync.WaitGroup
		serving.Go(func() { nbd.Serve(ctx, l, d.exports(), options) })
		shutdown := func() { cancel(); serving.Wait() }
		defer shutdown()
		story(t, d, func() *client {
			c, err := dial(l.dial(), "trap", true)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}, shutdown)
	})
}

// TestOneHangingRequest holds up no other of its connection, however it came to be executed.
func TestOneHangingRequest(t *testing.T) {
	inBubble(t, nbd.Options{}, func(t *testing.T, d *trap, connect func() *client, _ func()) {
		c := connect()
		hanging := map[uint64]bool{}
		for i := range 60 {
			hanging[c.send(held)] = true
			begun := time.Now()
			c.do(t, free)
			if waited := time.Since(begun); waited > 15*time.Millisecond {
				t.Fatalf("behind %d requests that hang the next waits %s", i+1, waited)
			}
		}
		close(d.release)
		for range 60 {
			a, err := c.receive()
			if err != nil || a.code != 0 || !hanging[a.cookie] {
				t.Fatalf("%+v, %v", a, err)
			}
			delete(hanging, a.cookie)
		}
		c.conn.Close()
	})
}

// A steady device takes a millisecond for each read.
type steady struct{ *nbdtest.Memory }

func (d steady) ReadAt(ctx context.Context, p []byte, offset int64) error {
	time.Sleep(time.Millisecond)
	return d.Memory.ReadAt(ctx, p, offset)
}

// TestSlowDeviceIsAskedInParallel: 1,000 reads of a millisecond, 16 at a time, take about a
// sixteenth of a second and not one.
func TestSlowDeviceIsAskedInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipeListener()
		exports := nbdtest.Exports{{Export: nbd.Export{Name: "disk", Size: 4096}, Device: steady{nbdtest.NewMemory(4096)}}}
		ctx, cancel := context.WithCancel(t.Context())
		var serving sync.WaitGroup
		serving.Go(func() { nbd.Serve(ctx, l, exports, nbd.Options{}) })
		defer serving.Wait()
		defer cancel()
		c, err := dial(l.dial(), "disk", true)
		if err != nil {
			t.Fatal(err)
		}
		defer c.conn.Close()
		begun := time.Now()
		places := make(chan struct{}, 16)
		go func() {
			for range 1000 {
				places <- struct{}{}
				c.send(call{kind: cmdRead, length: 512})
			}
		}()
		for range 1000 {
			if _, err := c.receive(); err != nil {
				t.Fatal(err)
			}
			<-places
		}
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("took %s", took)
		}
	})
}

// TestRequestsAreBounded: a connection whose requests all hang is not read any further, and
// another is.
func TestRequestsAreBounded(t *testing.T) {
	inBubble(t, nbd.Options{}, func(t *testing.T, d *trap, connect func() *client, _ func()) {
		greedy, other := connect(), connect()
		var sending sync.WaitGroup
		sending.Go(func() {
			for range 2000 {
				greedy.send(held)
			}
		})
		time.Sleep(time.Minute)
		if n := d.counted(&d.caught); n < 32 || n > 64 {
			t.Errorf("%d requests of one connection are under way", n)
		}
		other.do(t, free)
		greedy.conn.Close()
		sending.Wait()
		other.conn.Close()
	})
}

// TestLargeRequestsAreBounded: a large request that hangs leaves room for another; two do
// not, and the next waits until one of them ends.
func TestLargeRequestsAreBounded(t *testing.T) {
	inBubble(t, nbd.Options{}, func(t *testing.T, d *trap, connect func() *client, _ func()) {
		heldLarge, freeLarge := held, free
		heldLarge.length, freeLarge.length = 32<<20, 32<<20
		c := connect()
		c.send(heldLarge)
		time.Sleep(time.Second)
		c.do(t, freeLarge)
		c.send(heldLarge)
		time.Sleep(time.Second)
		cookie := c.send(freeLarge)
		time.AfterFunc(time.Hour, func() { close(d.release) })
		begun := time.Now()
		for range 3 {
			if a, err := c.receive(); err != nil || a.cookie == cookie && time.Since(begun) < time.Hour {
				t.Errorf("after %s: %d, %v", time.Since(begun), a.cookie, err)
			}
		}
		c.conn.Close()
	})
}

// A fickle export can be found and opened or not.
type fickle struct {
	*trap
	find, open error
	findAgain  error // once it is open
	isOpen     bool
}

func (e *fickle) List(context.Context) ([]nbd.Export, error) { return nil, errors.New("not today") }

func (e *fickle) Find(ctx context.Context, name string) (nbd.Export, error) {
	if e.isOpen {
		return nbd.Export{Name: name, Size: trapSize}, e.findAgain
	}
	return nbd.Export{Name: name, Size: trapSize}, e.find
}

func (e *fickle) Open(context.Context, string) (nbd.Device, error) {
	e.isOpen = e.open == nil
	return e.trap, e.open
}

// TestRefusedExport: a client is told why it cannot have an export, and may ask on. What was
// opened in vain is closed, and does not count as a client.
func TestRefusedExport(t *testing.T) {
	held := errors.New("held by another server")
	for _, tc := range []struct {
		exports fickle
		want    string
		closed  int
	}{
		{fickle{find: nbd.ErrUnknown}, "0x80000006: no such export", 0},
		{fickle{find: held}, "0x80000002: held by another server", 0},
		{fickle{open: held}, "0x80000002: held by another server", 0},
		{fickle{findAgain: nbd.ErrUnknown}, "0x80000006: no such export", 1},
	} {
		e := &tc.exports
		e.trap = newTrap()
		addr := serve(t, e, nbd.Options{Clients: 1})
		conn, err := net.Dial("unix", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		c, err := dial(conn, "disk", false)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, not %q", err, tc.want)
		}
		if err := c.option(3, nil); err == nil || !strings.Contains(err.Error(), "not today") {
			t.Errorf("LIST: %v", err)
		}
		if n := e.counted(&e.closed); n != tc.closed {
			t.Errorf("%q: closed %d times", tc.want, n)
		}
		*e = fickle{trap: e.trap}
		if err := c.option(7, be(uint32(4), "disk", uint16(0))); err != nil {
			t.Errorf("when it can be had: %v", err)
		}
	}
}

// TestClientVanishes: what it asked for is canceled, and then its device is closed.
func TestClientVanishes(t *testing.T) {
	inBubble(t, nbd.Options{}, func(t *testing.T, d *trap, connect func() *client, _ func()) {
		c := connect()
		for range 3 {
			c.send(held)
			time.Sleep(time.Second)
		}
		c.conn.Close()
		synctest.Wait()
		if d.counted(&d.canceled) != 3 || d.counted(&d.closed) != 1 {
			t.Errorf("%d of 3 canceled, closed %d times", d.canceled, d.closed)
		}
	})
}

// TestDisconnect: what was asked before DISC is answered before the end.
func TestDisconnect(t *testing.T) {
	inBubble(t, nbd.Options{}, func(t *testing.T, d *trap, connect func() *client, _ func()) {
		c := connect()
		c.send(held)
		time.Sleep(time.Second)
		c.send(call{kind: cmdDisc})
		time.Sleep(time.Hour)
		close(d.release)
		if a, err := c.receive(); err != nil || a.code != 0 {
			t.Errorf("%+v, %v", a, err)
		}
		if _, err := c.receive(); err == nil {
			t.Error("the connection is still there")
		}
	})
}

// TestShutdown: a request that ends soon is answered; one that does not is canceled, and Serve returns.
func TestShutdown(t *testing.T) {
	for _, soon := range []bool{true, false} {
		inBubble(t, nbd.Options{}, func(t *testing.T, d *trap, connect func() *client, shutdown func()) {
			c := connect()
			c.send(held)
			time.Sleep(time.Second)
			if soon {
				time.AfterFunc(time.Second, func() { close(d.release) })
			}
			var answered answer
			var err error
			var receiving sync.WaitGroup
			receiving.Go(func() { answered, err = c.receive() })
			begun := time.Now()
			shutdown()
			receiving.Wait()
			if took := time.Since(begun); took > 6*time.Second {
				t.Errorf("Serve took %s to end", took)
			}
			if soon && (err != nil || answered.code != 0) {
				t.Errorf("a request that ended in time: %+v, %v", answered, err)
			}
			if d.closed != 1 {
				t.Errorf("closed %d times", d.closed)
			}
		})
	}
}

// TestLastClient: the device is closed when the last of its clients has left, and opened anew
// for the next.
func TestLastClient(t *testing.T) {
	inBubble(t, nbd.Options{}, func(t *testing.T, d *trap, connect func() *client, _ func()) {
		a, b := connect(), connect()
		a.conn.Close()
		synctest.Wait()
		if d.counted(&d.closed) != 0 {
			t.Fatal("closed before the last client left")
		}
		b.do(t, free)
		b.conn.Close()
		synctest.Wait()
		if d.counted(&d.closed) != 1 {
			t.Fatal("not closed after the last client left")
		}
		c := connect()
		c.do(t, free)
		c.conn.Close()
		synctest.Wait()
		if d.counted(&d.closed) != 2 {
			t.Fatal("not closed again")
		}
	})
}

// TestListenerFails: Serve says so, and keeps no client.
func TestListenerFails(t *testing.T) {
	l, err := nbd.Listen(filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- nbd.Serve(t.Context(), l, nbdtest.Exports{memory("disk", 4096)}, nbd.Options{}) }()
	conn, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c, err := dial(conn, "disk", true)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
	if a, err := c.receive(); err == nil {
		t.Errorf("still served: %+v", a)
	}
}

// A turnstile fails when a device is opened while it is open, or closed while it is not.
type turnstile struct {
	nbdtest.Exports
	t    *testing.T
	mu   sync.Mutex
	open bool
}

type turnstileDevice struct {
	nbd.Device
	exports *turnstile
}

func (e *turnstile) turn(open bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open == open {
		e.t.Errorf("open was %v and is to be %v", e.open, open)
	}
	e.open = open
}

func (e *turnstile) Open(ctx context.Context, name string) (nbd.Device, error) {
	e.turn(true)
	device, err := e.Exports.Open(ctx, name)
	return turnstileDevice{device, e}, err
}

func (d turnstileDevice) Close() error {
	time.Sleep(100 * time.Microsecond)
	d.exports.turn(false)
	return nil
}

// TestComingAndGoing: whoever comes while others leave finds the device open.
func TestComingAndGoing(t *testing.T) {
	e := &turnstile{Exports: nbdtest.Exports{memory("disk", 4096)}, t: t}
	addr := serve(t, e, nbd.Options{})
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range 50 {
				conn, err := net.Dial("unix", addr.String())
				if err != nil {
					t.Error(err)
					return
				}
				c, err := dial(conn, "disk", true)
				if err != nil {
					t.Error(err)
					return
				}
				if a := c.do(t, call{kind: cmdRead, length: 512}); a.code != 0 {
					t.Errorf("%+v", a)
				}
				conn.Close()
			}
		})
	}
	clients.Wait()
}

// TestClientsAreCapped: one too many is told so, and may come when another has left.
func TestClientsAreCapped(t *testing.T) {
	addr := serve(t, nbdtest.Exports{memory("disk", 4096)}, nbd.Options{Clients: 2})
	connect := func() (*client, error) {
		conn, err := net.Dial("unix", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return dial(conn, "disk", true)
	}
	first, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect(); err != nil {
		t.Fatal(err)
	}
	if _, err := connect(); err == nil || !strings.Contains(err.Error(), "2 clients have an export open") {
		t.Errorf("a third of two clients: %v", err)
	}
	first.conn.Close()
	for range 100 {
		if _, err = connect(); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error(err)
}

// TestSilentCrowd: many who connect and say nothing keep nobody out, and the oldest of them are cut.
func TestSilentCrowd(t *testing.T) {
	addr := serve(t, nbdtest.Exports{memory("disk", 4096)}, nbd.Options{})
	var silent []net.Conn
	for range 300 {
		conn, err := net.Dial("unix", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		silent = append(silent, conn)
	}
	conn, err := net.Dial("unix", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := dial(conn, "disk", true); err != nil {
		t.Error(err)
	}
	for i, conn := range silent[:300-64] {
		conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.Copy(io.Discard, conn); isTimeout(err) {
			t.Fatalf("client %d of a silent crowd is still there", i)
		}
	}
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// TestDeafClient: a client that takes no replies is not read any more, and others are served.
func TestDeafClient(t *testing.T) {
	addr := serve(t, nbdtest.Exports{memory("disk", 1<<20)}, nbd.Options{})
	connect := func() *client {
		conn, err := net.Dial("unix", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		c, err := dial(conn, "disk", true)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	deaf, other := connect(), connect()
	deaf.conn.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
	request := be(uint32(0x25609513), uint16(0), uint16(cmdRead), uint64(1), uint64(0), uint32(1<<20))
	sent := 0
	for {
		if _, err := deaf.conn.Write(request); err != nil {
			break
		}
		sent++
	}
	if sent > 20_000 {
		t.Errorf("%d reads were taken from a client that takes no reply", sent)
	}
	other.do(t, call{kind: cmdRead, length: 1 << 20})
}

func TestErrorsOfDevices(t *testing.T) {
	for err, code := range map[error]uint32{
		errors.New("lost"):                        5,
		fmt.Errorf("group 7: %w", syscall.ENOSPC): 28,
		syscall.EDQUOT:                            28, syscall.EFBIG: 28, syscall.EROFS: 1, syscall.EACCES: 1, syscall.EPERM: 1,
		syscall.EINVAL: 22, syscall.ENOMEM: 12, syscall.ESHUTDOWN: 108, syscall.ECONNRESET: 5,
		errors.New(strings.Repeat("ü", 9000)): 5,
	} {
		inBubble(t, nbd.Options{}, func(t *testing.T, d *trap, connect func() *client, _ func()) {
			d.fault = err
			c := connect()
			if a := c.do(t, call{kind: cmdFlush}); a.code != code {
				t.Errorf("%v: %d, not %d", err, a.code, code)
			}
			c.conn.Close()
		})
	}
}

func TestBeyondLoopbackNeedsTLS(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := nbd.Serve(t.Context(), l, nbdtest.Exports{}, nbd.Options{}); err == nil || !strings.Contains(err.Error(), "needs TLS") {
		t.Errorf("%v", err)
	}
}

func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := nbd.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := nbd.Listen(path); err == nil || !strings.Contains(err.Error(), "another server does") {
		t.Errorf("while another listens: %v", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	if l, err = nbd.Listen(path); err != nil {
		t.Fatalf("in place of a socket left behind: %v", err)
	}
	l.Close()
	if err := os.WriteFile(path, []byte("letters"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := nbd.Listen(path); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("in place of a file: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "letters" {
		t.Errorf("the file was touched: %q, %v", text, err)
	}
}

func ExampleURI() {
	fmt.Println(nbd.URI(&net.UnixAddr{Net: "unix", Name: "/data dir/nbd.sock"}, "disk 1", false))
	fmt.Println(nbd.URI(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 10809}, "disk", true))
	// Output:
	// nbd+unix:///disk%201?socket=/data%20dir/nbd.sock
	// nbds://10.0.0.7:10809/disk
}
