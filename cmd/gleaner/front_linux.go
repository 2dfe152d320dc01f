package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"

	"gleaner/cluster"
	"gleaner/fabric"
	"gleaner/fabric/disk"
	"gleaner/fabric/nbd"
	"gleaner/fabric/registry"
	"gleaner/fabric/upkeep"
	"gleaner/input"
	"gleaner/kv"
	"gleaner/web"
)

func fabricDir(dir string) string { return filepath.Join(dir, "fabric") }

// frontSocket is where the process that has the front of a data directory open answers 'gleaner disk'.
func frontSocket(dir string) string { return filepath.Join(fabricDir(dir), "front.sock") }

// nbdSocket is where it serves vDisks.
func nbdSocket(dir string) string { return filepath.Join(fabricDir(dir), "nbd.sock") }

// A frontHost has the front of a data directory open, and serves it on sockets there.
type frontHost struct {
	front *fabric.Front
	uri   func(name string) string

	api     *web.Serving
	nbd     net.Listener // nil if vDisks are not served
	clients int          // of NBD, at most
	log     *slog.Logger
	opened  []func() error // each closes something; in the order of opening
}

// hostOptions say what a frontHost is made of.
type hostOptions struct {
	dir     string   // the data directory, which trustData gave
	server  string   // the name of this machine, which has a disk in the data directory; empty for none
	store   kv.Store // the caller closes it
	place   string   // where that is
	shared  bool     // with fronts of other data directories
	stays   bool     // vDisks are served; else it is open for one command, and for those who come meanwhile
	groups  int      // files of groups that may be open; 0 for the usual number
	clients int      // NBD connections that may be open; 0 for the usual number
	always  syncFlag // every write is on stable storage before it is answered
	log     *slog.Logger
	show    func(*fabric.Front) // is told of the front while it is open aside, and of nil before it is closed; nil if nobody looks
}

// A syncFlag says when what is written to disks is on stable storage: when the client flushes, or always.
type syncFlag bool

func addSyncFlag(cmd *cobra.Command, always *syncFlag) {
	cmd.Flags().Var(always, "sync", "when writes to disks are on stable storage: flush (once the client flushes) or always (before each is answered)")
}

func (f *syncFlag) String() string {
	if *f {
		return "always"
	}
	return "flush"
}

func (f *syncFlag) Type() string { return "when" }

func (f *syncFlag) Set(text string) error {
	if text != "flush" && text != "always" {
		return errors.New("must be flush or always")
	}
	*f = text == "always"
	return nil
}

func openFront(ctx context.Context, o hostOptions) (_ *frontHost, err error) {
	h := &frontHost{clients: o.clients, log: o.log}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	where, err := registryFor(ctx, o.dir, o.store, o.shared)
	if err != nil {
		return nil, err
	}
	if err := h.alone(o.dir); err != nil {
		return nil, err
	}
	var own *disk.Disk
	if o.server != "" && !o.shared { // other fronts could not reach it
		if own, err = openOwnDisk(ctx, o.dir, where, o.groups); err != nil {
			return nil, err
		}
	}
	if own != nil {
		h.opened = append(h.opened, own.Close)
	}
	policy, err := readPolicy(o.dir)
	if err != nil {
		return nil, err
	}
	if h.front, err = fabric.Open(ctx, fabric.Options{Store: o.store, Holder: holder(o.dir), SyncAlways: bool(o.always), Policy: policy, Log: o.log}); err != nil {
		return nil, err
	}
	h.opened = append(h.opened, h.front.Close)
	if own != nil {
		here := cluster.ServerID(o.server)
		h.front.Join(cluster.Server{ID: here})
		h.front.Add(here, own)
	}
	watching, stop := context.WithCancel(context.Background())
	var learning sync.WaitGroup
	h.opened = append(h.opened, func() error { stop(); learning.Wait(); return nil })
	if err := h.front.Watch(watching, where); err != nil {
		return nil, err
	}
	if o.stays { // it takes longer than most commands
		learning.Go(func() { learnHabits(watching, h.front, o.store, o.log) })
	}
	return h, h.listen(o)
}

// alone makes sure that no other process has the front of the data directory open: it would take the sockets and the leases.
func (h *frontHost) alone(dir string) error {
	lock, err := disk.OS{}.Lock(filepath.Join(fabricDir(dir), "front.lock"))
	if errors.Is(err, disk.ErrInUse) {
		return heldError{input.Errorf("--data", "another process has the disks of %s: wait until it serves them, stop it, or name another directory", dir)}
	}
	if err != nil {
		return err
	}
	h.opened = append(h.opened, lock.Close)
	return nil
}

// holder is who holds leases: the one process that uses a data directory, also after a restart.
func holder(dir string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	return host + ":" + dir
}

// readPolicy reads when upkeep is due; the default where the data directory does not say.
func readPolicy(dir string) (upkeep.Policy, error) {
	path := filepath.Join(fabricDir(dir), "policy.yaml")
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // a pipe would be waited for
		return upkeep.Policy{}, input.Errorf(path, "not a file")
	}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return upkeep.Policy{}, input.Errorf(path, "%v", errors.Unwrap(err))
	}
	return upkeep.ReadPolicy(path, text)
}

// listen opens the sockets.
func (h *frontHost) listen(o hostOptions) error {
	ready := make(chan struct{})
	close(ready)
	h.api = &web.Serving{Ready: ready, Log: o.log}
	if o.stays {
		l, reach, err := listenShort(nbdSocket(o.dir))
		if err != nil {
			return err
		}
		h.nbd = l
		h.opened = append(h.opened, l.Close)
		h.uri = func(name string) string { return nbd.URI(&net.UnixAddr{Name: reach, Net: "unix"}, name, false) }
	} else {
		h.api.Patience = longestGuest
	}
	l, _, err := listenShort(frontSocket(o.dir))
	if err != nil {
		return err
	}
	h.opened = append(h.opened, l.Close)
	disks := &web.Disks{Front: h.front, Stays: o.stays, URI: h.uri, Store: o.place}
	h.api.Add(&http.Server{Handler: disks.Handler()}, netutil.LimitListener(l, commands), "socket "+frontSocket(o.dir))
	return nil
}

// commands is how many commands are answered at once.
const commands = 32

// longestGuest is how long a command that is done waits for others that use the disks through it.
const longestGuest = 24 * time.Hour

// listenShort listens on a socket, however long its name is. Others reach it by the name reach as long as this
// process runs.
func listenShort(path string) (_ net.Listener, reach string, err error) {
	address, release, err := socketAddress(path)
	if err != nil {
		return nil, "", err
	}
	l, err := nbd.Listen(address)
	if err != nil {
		release()
		return nil, "", err
	}
	reach = path
	if address != path {
		var number int
		if _, err := fmt.Sscanf(address, "/proc/self/fd/%d/", &number); err != nil {
			panic(err) // socketAddress writes it so
		}
		reach = fmt.Sprintf("/proc/%d/fd/%d/%s", os.Getpid(), number, filepath.Base(path))
	}
	return releasing{l, sync.OnceValue(func() error {
		defer release()
		return l.Close()
	})}, reach, nil
}

// A releasing listener gives its address back when it is closed, which may be done twice.
type releasing struct {
	net.Listener
	close func() error
}

func (r releasing) Close() error { return r.close() }

// run serves until ctx is done.
func (h *frontHost) run(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return h.api.Run(ctx) })
	if h.nbd != nil {
		all.Go(func() error {
			return nbd.Serve(ctx, h.nbd, h.front.Exports(), nbd.Options{Clients: h.clients, Log: h.log})
		})
	}
	if err := all.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// during serves as long as do takes, and until the requests of others are answered. If
// that takes long, linger is called.
func (h *frontHost) during(do func() error, linger func()) error {
	serving, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- h.run(serving) }()
	err := do()
	stop()
	late := time.AfterFunc(time.Second, linger)
	defer late.Stop()
	return errors.Join(err, <-ended, h.close())
}

func (h *frontHost) close() error {
	var errs []error
	for i := len(h.opened) - 1; i >= 0; i-- {
		errs = append(errs, h.opened[i]())
	}
	h.opened = nil
	return errors.Join(errs...)
}

// openOwnDisk opens the disk in the data directory. At first it is made, with a tenth of the free space;
// there is none where data servers lend disks.
func openOwnDisk(ctx context.Context, dir string, where *registry.Registry, groups int) (*disk.Disk, error) {
	path := filepath.Join(fabricDir(dir), "disk")
	d, err := disk.Open(disk.OS{}, path, disk.Options{Cluster: where.ID, OpenGroups: groups})
	if err == nil {
		return d, nil
	}
	if errors.Is(err, disk.ErrWiped) || errors.Is(err, fs.ErrNotExist) {
		if servers, err := where.Servers(ctx); err != nil || len(servers) > 0 {
			return nil, err
		}
		if err = formatOwnDisk(dir, path, where.ID); err == nil {
			d, err = disk.Open(disk.OS{}, path, disk.Options{Cluster: where.ID, OpenGroups: groups})
		}
	}
	if err != nil {
		return nil, diskRefusal("--data", path, err)
	}
	return d, nil
}

func formatOwnDisk(dir, path, cluster string) error {
	free, err := disk.OS{}.Free(dir)
	if err != nil {
		return err
	}
	own := lent{tier: disk.SSD, path: path, quota: free / 10}
	if err := own.identity(cluster).Check(); err != nil {
		return input.Errorf("--data", "a tenth of the free space in %s is too little for a disk: %v", dir, err)
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return disk.Format(disk.OS{}, path, own.identity(cluster))
}
