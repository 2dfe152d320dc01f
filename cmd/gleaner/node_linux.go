package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"gleaner/control/jobfile"
	"gleaner/fabric/dataserver"
	"gleaner/fabric/disk"
	"gleaner/fabric/registry"
	"gleaner/input"
	"gleaner/kv"
	"gleaner/local/cgroup"
)

type nodeFlags struct {
	disks                       []string
	server                      string
	listen                      string
	environment, function, rack string
	busyAbove                   float64
	sync                        syncFlag
	primary                     string
}

func newNode() *cobra.Command {
	var f nodeFlags
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Lend disk space of this machine to the fabric",
		Long: `Node is a data server of the storage fabric: it lends the fabric a part of the disks of
this machine. Each is a directory with a tier (ssd, hdd or cold) and a quota, which is
never exceeded. A directory that is empty becomes a disk of the cluster; one that is a disk of
the cluster goes on with what it has, also with another quota; any other is refused.

The cluster is the one of the data directory. Who comes first makes it, with the key by which
its servers know each other. For a server on another machine, copy fabric/cluster.json and
fabric/key to the data directory there; or give all of them one --store, by which they find each
other. Each then serves the disks of the fabric to its machine as well, as 'gleaner up' does.

With --busy-above it denies reads and writes while others use more than that much of the
machine's CPU; fronts then turn to other replicas. With --primary, what counts is the use of
that control group alone, and not that of jobs which are harvested beside it.

It goes on until Ctrl-C. What was written survives a crash: start it again with the same
disks.`,
		Example: `  mkdir /mnt/ssd1/gleaner
  gleaner node --server s1 --disk ssd:/mnt/ssd1/gleaner:100GiB

  # Two disks, for fronts on other machines too (the connection is encrypted):
  gleaner node --server s2 --disk ssd:/mnt/ssd1/gleaner:100GiB --disk hdd:/mnt/hdd1/gleaner:2000GiB --listen tls:10.0.0.7:7071

  # One of several machines that share a store:
  gleaner node --store 'cassandra://h1,h2,h3/gleaner?dc=dc1' --server s3 --disk ssd:/mnt/ssd1/gleaner:100GiB --listen tls:10.0.0.8:7071`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runNode(cmd, f) },
	}
	addStoreFlag(cmd)
	cmd.Flags().StringArrayVar(&f.disks, "disk", nil, "a disk to lend, as TIER:PATH:QUOTA; may be given again")
	cmd.Flags().StringVar(&f.server, "server", "", "name of this data server, one of its own in the cluster (default the host name)")
	cmd.Flags().StringVar(&f.listen, "listen", "", "a path with a slash (a Unix socket), host:port of loopback, or tls:host:port (default a socket in the data directory)")
	cmd.Flags().Float64Var(&f.busyAbove, "busy-above", 100, "percent of the CPU that others may use before reads and writes are denied; 100 denies none")
	cmd.Flags().StringVar(&f.primary, "primary", "", "directory of the control group whose use counts for --busy-above (default all but this process)")
	cmd.Flags().StringVar(&f.environment, "environment", "", "what this server belongs to, as a servers file has it; replicas are kept apart by it (default it is apart from all others)")
	cmd.Flags().StringVar(&f.function, "function", "", "what it does there; likewise")
	cmd.Flags().StringVar(&f.rack, "rack", "", "where it stands; likewise")
	addSyncFlag(cmd, &f.sync)
	return cmd
}

// A lent is a disk as its flag names it.
type lent struct {
	flag  string
	tier  disk.Tier
	path  string
	quota int64
	disk  *disk.Disk
}

func runNode(cmd *cobra.Command, f nodeFlags) (err error) {
	disks, err := f.parse()
	if err != nil {
		return err
	}
	n, err := openNode(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	where := n.where
	claim, err := where.Claim(cmd.Context(), f.server)
	if errors.Is(err, registry.ErrRuns) {
		return input.Errorf("--server", "a data server called %s is running; stop it first, or take another name", f.server)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, claim.Release()) }()
	defer func() { err = errors.Join(err, closeDisks(disks)) }()
	if err := openDisks(where.ID, disks); err != nil {
		return err
	}
	l, err := f.listenAt(where.Socket(f.server))
	if err != nil {
		return err
	}
	if err := claim.Announce(cmd.Context(), f.entry(dataserver.Address(l), disks)); err != nil {
		return errors.Join(err, l.Close())
	}
	n.log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	defer n.serveDisks(f.sync)()
	return f.serve(unlessLost(cmd.Context(), claim), n, l, disks)
}

var errNameTaken = errors.New("another data server has taken this one's name, which stood still for too long")

// unlessLost is a context that ends when another takes the server's name.
func unlessLost(ctx context.Context, claim *registry.Claim) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-claim.Lost():
			cancel(errNameTaken)
		case <-ctx.Done():
			cancel(nil)
		}
	}()
	return ctx
}

// A node is what a data server has beside its disks.
type node struct {
	dir   string   // the data directory
	store kv.Store // which it shares with others; nil if it needs none
	place string   // where that is
	where *registry.Registry
	log   *slog.Logger
}

func openNode(cmd *cobra.Command) (_ *node, err error) {
	n := &node{}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	named, err := dataDir(cmd)
	if err != nil {
		return nil, err
	}
	at, err := metadata(cmd)
	if err != nil {
		return nil, err
	}
	if at.flag == "--store" && !at.remote() {
		return nil, input.Errorf("--store", "%s is a directory, which one process has at a time; a data server takes cassandra://…, or no store", at.name)
	}
	if n.dir, err = trustData(named); err != nil {
		return nil, err
	}
	if at.remote() {
		n.place = at.id()
		if n.store, err = at.dial(cmd, false); err != nil {
			return nil, err
		}
	}
	if n.where, err = registryFor(cmd.Context(), n.dir, n.store, at.remote()); err != nil || !at.remote() {
		return n, err
	}
	return n, at.remember(n.dir)
}

func (n *node) close() error {
	if n.store == nil {
		return nil
	}
	return n.store.Close()
}

// serveDisks has a node with a store be a front, until it is told to stop, unless another process of its data directory is one.
func (n *node) serveDisks(always syncFlag) (stop func()) {
	if n.store == nil {
		return func() {}
	}
	return hostOptions{dir: n.dir, store: n.store, place: n.place, shared: true, stays: true, always: always, log: n.log}.serveAside()
}

// parse reads the flags and looks at nothing else.
func (f *nodeFlags) parse() ([]*lent, error) {
	if len(f.disks) == 0 {
		return nil, input.Errorf("--disk", "is needed: what to lend, as ssd:/mnt/ssd1/gleaner:100GiB")
	}
	if f.server == "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, input.Errorf("--server", "this machine has no name; give it one")
		}
		f.server = name
	}
	if err := registry.CheckName(f.server); err != nil {
		return nil, input.Errorf("--server", "%v", err)
	}
	if f.listen != "" {
		if err := dataserver.CheckAddress(f.listen); err != nil {
			return nil, input.Errorf("--listen", "%v", err)
		}
	}
	if !(f.busyAbove > 0 && f.busyAbove <= 100) {
		return nil, input.Errorf("--busy-above", "%v is not a percentage above 0 and up to 100", f.busyAbove)
	}
	if f.primary != "" {
		if _, err := cgroup.CPUOf(f.primary); err != nil {
			return nil, input.Errorf("--primary", "%s is not the directory of a control group that tells its CPU time", f.primary)
		}
	}
	for flag, value := range map[string]string{"--environment": f.environment, "--function": f.function} {
		if strings.Contains(value, "/") {
			return nil, input.Errorf(flag, "%q has a / in it, which stands between environment and function in a tenant's name", value)
		}
	}
	var disks []*lent
	seen := map[string]bool{}
	for _, text := range f.disks {
		d, err := parseLent(text)
		if err != nil {
			return nil, input.Errorf("--disk", "%s: %v", text, err)
		}
		if seen[d.path] {
			return nil, input.Errorf("--disk", "%s: the same directory is named twice", text)
		}
		seen[d.path] = true
		disks = append(disks, d)
	}
	return disks, nil
}

// parseLent reads TIER:PATH:QUOTA.
func parseLent(text string) (*lent, error) {
	tier, rest, _ := strings.Cut(text, ":")
	colon := strings.LastIndexByte(rest, ':')
	if colon <= 0 {
		return nil, errors.New("must be TIER:PATH:QUOTA, as ssd:/mnt/ssd1/gleaner:100GiB")
	}
	quota, err := jobfile.ParseSize(rest[colon+1:])
	if err != nil {
		return nil, fmt.Errorf("the quota %v", err)
	}
	path, err := filepath.Abs(rest[:colon])
	if err != nil {
		return nil, err
	}
	d := &lent{flag: text, tier: disk.Tier(tier), path: path, quota: int64(quota)}
	return d, d.identity("cluster").Check()
}

// identity is that of a disk to be formatted.
func (d *lent) identity(cluster string) disk.Identity {
	var drawn [16]byte
	rand.Read(drawn[:]) // never fails
	return disk.Identity{Cluster: cluster, Disk: hex.EncodeToString(drawn[:8]), Tier: d.tier, Quota: d.quota, Log: disk.DefaultLog(d.quota),
		Salt: binary.LittleEndian.Uint64(drawn[8:]) | 1}
}

// registryFor opens the registry of a fabric, for a data directory that was looked at: in the store if many share that, else in the
// directory.
func registryFor(ctx context.Context, dir string, store kv.Store, shared bool) (*registry.Registry, error) {
	if err := trustBelow(dir, false, "fabric", "fabric/*", "fabric/servers/*"); err != nil {
		return nil, err
	}
	if shared {
		return registry.OpenStore(ctx, dir, store, holder(dir))
	}
	return registry.Open(dir)
}

// openDisks opens those that are there first, so that nothing is formatted if one of them is
// refused.
func openDisks(cluster string, disks []*lent) error {
	var empty []*lent
	for _, d := range disks {
		if err := d.open(cluster); errors.Is(err, disk.ErrWiped) {
			empty = append(empty, d)
		} else if err != nil {
			return d.refusal(err)
		}
	}
	for _, d := range empty {
		if err := d.format(cluster); err != nil {
			return d.refusal(err)
		}
	}
	return nil
}

func (d *lent) open(cluster string) (err error) {
	if d.disk, err = disk.Open(disk.OS{}, d.path, disk.Options{Cluster: cluster}); err != nil {
		return err
	}
	id := d.disk.Identity()
	if id.Tier != d.tier {
		return input.Errorf("--disk", "%s: that disk was formatted as %s", d.flag, id.Tier)
	}
	if id.Quota == d.quota {
		return nil
	}
	return d.disk.SetQuota(d.quota)
}

// format makes a disk of an empty directory. A missing one is not made: what should be mounted above it may not be.
func (d *lent) format(cluster string) error {
	if err := disk.Format(disk.OS{}, d.path, d.identity(cluster)); err != nil {
		return err
	}
	return d.open(cluster)
}

// refusal says which flag is to blame, where the user can do something about it.
func (d *lent) refusal(err error) error { return diskRefusal("--disk", d.flag, err) }

// diskRefusal says why a disk that flag names as name cannot be used.
func diskRefusal(flag, name string, err error) error {
	for _, known := range []struct {
		cause error
		why   string
	}{
		{disk.ErrOtherDisk, "it is a disk of another cluster than that of --data or --store"},
		{disk.ErrInUse, "another process has it open"},
		{disk.ErrNotEmpty, "it has files and is not a disk; name an empty directory"},
		{disk.ErrSpace, "there is less space than the quota asks for"},
		{disk.ErrDamaged, "it cannot be trusted; what it held is on other disks: empty the directory to use it anew"},
		{fs.ErrNotExist, "there is no such directory"},
		{fs.ErrPermission, "it may not be used"},
	} {
		if errors.Is(err, known.cause) {
			return input.Errorf(flag, "%s: %s (%v)", name, known.why, err)
		}
	}
	return err
}

func closeDisks(disks []*lent) error {
	var errs []error
	for _, d := range disks {
		if d.disk != nil {
			errs = append(errs, d.disk.Close())
		}
	}
	return errors.Join(errs...)
}

// mostSocket is how long the name of a Unix socket may be.
const mostSocket = 107

func (f nodeFlags) listenAt(socket string) (net.Listener, error) {
	address := f.listen
	if address == "" {
		address = socket
	}
	if strings.Contains(address, "/") {
		path, err := filepath.Abs(address)
		if err != nil {
			return nil, err
		}
		if address = path; len(address) > mostSocket {
			return nil, input.Errorf("--listen", "%s is longer than the %d bytes that a socket's name may have; name another", address, mostSocket)
		}
	}
	l, err := dataserver.Listen(address)
	if err != nil {
		return nil, input.Errorf("--listen", "%v", err)
	}
	return l, nil
}

func (f nodeFlags) entry(address string, disks []*lent) registry.Server {
	s := registry.Server{Address: address, PID: os.Getpid(), Environment: f.environment, Function: f.function, Rack: f.rack}
	for _, d := range disks {
		s.Disks = append(s.Disks, registry.Disk{ID: d.disk.Identity().Disk, Tier: d.tier, Path: d.path, Quota: d.quota})
	}
	return s
}

func (f nodeFlags) serve(ctx context.Context, n *node, l net.Listener, disks []*lent) error {
	log, where := n.log, n.where
	var open []*dataserver.LocalDisk
	for _, d := range disks {
		usage := d.disk.Usage()
		log.Info("disk", "id", d.disk.Identity().Disk, "tier", d.tier, "path", d.path, "quota", usage.Quota, "used", usage.Used, "groups", usage.Groups)
		open = append(open, dataserver.Local(d.disk))
	}
	log.Info("node is up", "server", f.server, "cluster", where.ID, "listening", dataserver.Address(l))
	primary := &primaryWatch{limit: f.busyAbove / 100, group: f.primary}
	watching, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	if primary.limit < 1 {
		watcher.Go(func() { primary.watch(watching, log) })
	}
	err := dataserver.Serve(ctx, l, dataserver.Cluster{ID: where.ID, Key: where.Key}, open, dataserver.Options{Busy: primary.busy.Load, Log: log})
	stop()
	watcher.Wait()
	if errors.Is(context.Cause(ctx), errNameTaken) {
		return errors.Join(errNameTaken, err)
	}
	if err == nil {
		log.Info("node has stopped", "server", f.server, "because", context.Cause(ctx))
	}
	return err
}
