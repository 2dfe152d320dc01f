package dataserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gleaner/fabric/dataserver"
	"gleaner/fabric/disk"
	"gleaner/fabric/disk/disktest"
)

// Environment of a test binary that is to serve a disk at a socket.
const servedSocket = "DATASERVER_TEST_SOCKET"

func TestMain(m *testing.M) {
	if at := os.Getenv(servedSocket); at != "" {
		fmt.Fprintln(os.Stderr, serveProcess(at))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serveProcess serves a disk in memory with group 1 until it is killed.
func serveProcess(at string) error {
	fs := disktest.New(64<<20, diskDir)
	err := disk.Format(fs, diskDir, disk.Identity{Cluster: cluster.ID, Disk: "d", Tier: disk.SSD, Quota: 32 << 20, Log: 2 << 20, Salt: 7})
	if err != nil {
		return err
	}
	d, err := disk.Open(fs, diskDir, disk.Options{Cluster: cluster.ID})
	if err != nil {
		return err
	}
	if err := d.Create(1, 1, 1); err != nil {
		return err
	}
	l, err := dataserver.Listen(at)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return dataserver.Serve(context.Background(), l, cluster, []*dataserver.LocalDisk{dataserver.Local(d)}, dataserver.Options{})
}

// startProcess starts a server of its own.
func startProcess(t *testing.T, at string) *os.Process {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), servedSocket+"="+at)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill() // it may be gone
		cmd.Wait()
	})
	_, err = io.ReadFull(out, make([]byte, len("ready\n")))
	must(t, err)
	return cmd.Process
}

// stop stops a process, and returns when none of its threads runs any more.
func stop(t *testing.T, p *os.Process) {
	t.Helper()
	must(t, p.Signal(syscall.SIGSTOP))
	for runs := true; runs; time.Sleep(time.Millisecond) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Pid))
		must(t, err)
		runs = false
		for _, file := range threads {
			text, err := os.ReadFile(file)
			if err == nil {
				after := text[bytes.LastIndexByte(text, ')')+1:]
				runs = runs || !bytes.HasPrefix(after, []byte(" T"))
			}
		}
	}
}

// TestStoppedServer: requests to a server that is stopped fail at their deadline, however many there are, and
// without a beat all go on when the server does.
func TestStoppedServer(t *testing.T) {
	at := socket(t)
	server := startProcess(t, at)
	c := dial(t, at)
	d := c.Disk("d")
	must(t, d.Write(t.Context(), 1, 1, 1, 0, slice('x'), false))
	stop(t, server)
	begun := time.Now()
	var all sync.WaitGroup
	for w := range 40 { // more than socket and window hold
		all.Go(func() {
			ctx := within(t, 300*time.Millisecond)
			err := d.Write(ctx, 1, 1, 1, int64(w%4)*disk.BlockSize, bytes.Repeat([]byte{byte(w)}, disk.BlockSize), false)
			late := errors.Is(err, dataserver.ErrUnreachable) // begun after the connection was given up
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, dataserver.ErrLost) && !late {
				t.Errorf("got %v", err)
			}
		})
	}
	all.Wait()
	_, err := c.Beat(within(t, 300*time.Millisecond))
	wants(t, err, context.DeadlineExceeded)
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}

	// The beat gave all connections up.
	wants(t, d.Read(within(t, 300*time.Millisecond), 1, 1, 0, slice(0)), dataserver.ErrUnreachable)
	must(t, server.Signal(syscall.SIGCONT))
	reads(t, d)
	must(t, d.Write(t.Context(), 1, 1, 1, 0, slice('y'), true))
}

// reads reads until it can.
func reads(t *testing.T, d dataserver.Disk) {
	t.Helper()
	var err error
	for begun := time.Now(); time.Since(begun) < 30*time.Second; time.Sleep(10 * time.Millisecond) {
		if err = d.Read(t.Context(), 1, 1, 0, slice(0)); err == nil {
			return
		}
		if !errors.Is(err, dataserver.ErrUnreachable) && !errors.Is(err, dataserver.ErrLost) {
			break
		}
	}
	t.Fatal(err)
}

// TestBeatFindsOut: what is in flight to a server that is stopped is lost when a beat meets its deadline.
func TestBeatFindsOut(t *testing.T) {
	at := socket(t)
	server := startProcess(t, at)
	c := dial(t, at)
	must(t, c.Disk("d").Read(t.Context(), 1, 1, 0, slice(0)))
	stop(t, server)
	lost := make(chan error)
	go func() { lost <- c.Disk("d").Read(context.Background(), 1, 1, 0, slice(0)) }()
	_, err := c.Beat(within(t, time.Second)) // by then the read is in flight
	wants(t, err, context.DeadlineExceeded)
	wants(t, <-lost, dataserver.ErrLost)
}

// TestKilledServer: what is in flight is lost, and the client finds the next server at that address.
func TestKilledServer(t *testing.T) {
	at := socket(t)
	server := startProcess(t, at)
	d := dial(t, at).Disk("d")
	must(t, d.Read(t.Context(), 1, 1, 0, slice(0)))
	stop(t, server)
	lost := make(chan error)
	go func() { lost <- d.Write(context.Background(), 1, 1, 1, 0, slice('x'), false) }()
	time.Sleep(50 * time.Millisecond)
	must(t, server.Kill())
	wants(t, <-lost, dataserver.ErrLost)
	for {
		err := d.Read(within(t, time.Second), 1, 1, 0, slice(0))
		if errors.Is(err, dataserver.ErrUnreachable) {
			break
		}
		wants(t, err, dataserver.ErrLost) // the client has not noticed yet
	}
	startProcess(t, at)
	reads(t, d)
}

// TestBackoff: a client does not dial at each request.
func TestBackoff(t *testing.T) {
	var mu sync.Mutex
	dials := 0
	at := relay(t, func(c net.Conn) {
		mu.Lock()
		dials++
		mu.Unlock()
		c.Close()
	})
	c, err := dataserver.NewClient(at, cluster)
	must(t, err)
	defer c.Close()
	for begun := time.Now(); time.Since(begun) < 500*time.Millisecond; {
		wants(t, c.Disk("d").Sync(t.Context()), dataserver.ErrUnreachable)
	}
	mu.Lock()
	defer mu.Unlock()
	if dials < 2 || dials > 5 { // at 0, 50, 150, 350 ms
		t.Errorf("%d dials", dials)
	}
}

// TestClosedClient: nothing is in flight after Close, and nothing begins.
func TestClosedClient(t *testing.T) {
	fs, d := oneGroup(t, "d")
	g := newGate(fs)
	c := dial(t, serve(t, socket(t), dataserver.Options{}, d))
	must(t, c.Disk("d").Read(t.Context(), 1, 1, 0, slice(0)))
	g.shut.Store(true)
	defer g.open()
	lost := make(chan error)
	go func() { lost <- c.Disk("d").Read(context.Background(), 1, 1, 0, slice(0)) }()
	time.Sleep(20 * time.Millisecond)
	c.Close()
	wants(t, <-lost, dataserver.ErrLost)
	wants(t, c.Disk("d").Sync(t.Context()), dataserver.ErrUnreachable)
}

// TestServerEnds: requests under way are answered before a server ends.
func TestServerEnds(t *testing.T) {
	fs, d := oneGroup(t, "d")
	g := newGate(fs)
	l, err := dataserver.Listen(socket(t))
	must(t, err)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- dataserver.Serve(ctx, l, cluster, []*dataserver.LocalDisk{dataserver.Local(d)}, dataserver.Options{})
	}()
	at := dial(t, dataserver.Address(l)).Disk("d")
	must(t, at.Read(t.Context(), 1, 1, 0, slice(0)))
	g.shut.Store(true)
	defer g.open()
	answered := make(chan error)
	go func() { answered <- at.Write(context.Background(), 1, 1, 1, 0, slice('y'), false) }()
	time.Sleep(50 * time.Millisecond)
	end()
	time.Sleep(50 * time.Millisecond)
	g.open()
	must(t, <-answered)
	must(t, <-ended)
}

// TestLies: a client gives up a server whose answers cannot be right.
func TestLies(t *testing.T) {
	_, d := oneGroup(t, "d")
	real := serve(t, "127.0.0.1:0", dataserver.Options{}, d)
	for name, lie := range map[string]string{
		"no such request": "\x00\x00\x00\x00\x00\x00\x00\x00\x63\x00\x00\x00\x00\x00\x00\x00",
		"too long":        "\xff\xff\xff\xff\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00",
		"status":          "\x00\x00\x00\x00\x09\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00",
		"short of bytes":  "\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00",
		"bad error":       "\x01\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00x",
	} {
		at := relay(t, func(client net.Conn) {
			server, err := net.Dial("tcp", real)
			must(t, err)
			go func() {
				io.Copy(server, client)
				server.Close()
			}()
			welcome := make([]byte, 4096)
			io.ReadFull(server, welcome[:44])
			client.Write(welcome[:44])
			n, _ := server.Read(welcome)
			client.Write(welcome[:n])
			io.ReadFull(server, welcome[:16]) // the answer to the request
			io.Copy(client, strings.NewReader(lie))
			io.Copy(io.Discard, server)
		})
		c, err := dataserver.NewClient(at, cluster)
		must(t, err)
		if err := c.Disk("d").Read(within(t, 5*time.Second), 1, 1, 0, slice(0)); !errors.Is(err, dataserver.ErrLost) {
			t.Errorf("%s: got %v", name, err)
		}
		c.Close()
	}
}

// TestReopened: who knows a disk as it was opened is told that it was opened again, and others are not.
func TestReopened(t *testing.T) {
	fs, d := oneGroup(t, "d")
	at := socket(t)
	start := func(d *disk.Disk) (end func()) {
		l, err := dataserver.Listen(at)
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- dataserver.Serve(ctx, l, cluster, []*dataserver.LocalDisk{dataserver.Local(d)}, dataserver.Options{})
		}()
		return func() {
			cancel()
			must(t, <-ended)
		}
	}
	end := start(d)
	c := dial(t, at)
	b, err := c.Beat(t.Context())
	must(t, err)
	known := c.Opened(b.Disks[0].Identity)
	must(t, known.Read(t.Context(), 1, 1, 0, slice(0)))
	end()
	end = start(d) // another server, the same disk
	reads(t, known)
	end()
	d, err = disk.Open(fs.Kill(), diskDir, disk.Options{Cluster: cluster.ID})
	must(t, err)
	defer d.Close()
	end = start(d)
	defer end()
	reads(t, c.Disk("d"))
	wants(t, known.Read(t.Context(), 1, 1, 0, slice(0)), dataserver.ErrReopened)
	_, err = known.Identity(t.Context())
	wants(t, err, dataserver.ErrReopened)
}
