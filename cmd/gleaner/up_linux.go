package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/control/harvester"
	"gleaner/control/jobfile"
	"gleaner/harvest"
	"gleaner/history"
	"gleaner/input"
	"gleaner/kv"
	"gleaner/kv/pebble"
	"gleaner/local"
	"gleaner/web"
)

type upFlags struct {
	listen        string
	cert, key     string
	reserveCPU    string
	reserveMemory string
	policyName    string
	keep          time.Duration
	noCgroups     bool
	server        string
	sync          syncFlag
	users         string
}

func newUp() *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Harvest this machine: run batch jobs on what its owner leaves idle",
		Long: `Up harvests this machine. Everything that is not a task of a submitted job is the
primary, the machine's owner. Every second it measures what the primary uses; tasks
run on the rest, less a reserve that is kept free for bursts of the primary. When the
primary uses the reserve, tasks are killed, the youngest first, and run again later. A
burst is detected in less than half a second. The first lines of the log say what can
be harvested now, and why not more.

It goes on until Ctrl-C. Jobs, and tasks that are running, survive a crash: start it
again with the same data directory and it continues where it was.

It prints a link to a page that shows all of this in a browser. The link lets one
browser in, within an hour; 'gleaner status --link' prints another.

It also serves the disks of the data directory ('gleaner disk').

Without permission for control groups it still works: tasks then run at the lowest
priority, but their memory is not limited. It says so when it starts.`,
		Example: `  gleaner up
  gleaner run examples/wordcount.yaml --wait     # from another terminal

  # Keep two cores and 4 GB free for the owner:
  gleaner up --reserve-cpu 2 --reserve-memory 4GB

  # With the history and the disks of all machines in one store:
  gleaner up --store 'cassandra://h1,h2,h3/gleaner?dc=dc1'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runUp(cmd, f) },
	}
	addStoreFlag(cmd)
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:7070", "address of the HTTP API; beyond loopback it needs --tls-cert and --tls-key; none for no network")
	cmd.Flags().StringVar(&f.cert, "tls-cert", "", "certificate (PEM) to serve the API with")
	cmd.Flags().StringVar(&f.key, "tls-key", "", "its key (PEM)")
	cmd.Flags().StringVar(&f.reserveCPU, "reserve-cpu", "", "cores kept free for the primary (default a third; a tenth below 8 cores where the kernel isolates tasks)")
	cmd.Flags().StringVar(&f.reserveMemory, "reserve-memory", "", "memory kept free for the primary, as 4GB (default 10/32 of it)")
	cmd.Flags().StringVar(&f.policyName, "policy", "history", "how much to harvest: "+strings.Join(harvest.PolicyNames(), ", "))
	cmd.Flags().DurationVar(&f.keep, "keep", 7*24*time.Hour, "how long ended jobs and their output are kept")
	cmd.Flags().StringVar(&f.server, "server", "", "name of this machine in the history (default its host name)")
	addSyncFlag(cmd, &f.sync)
	cmd.Flags().StringVar(&f.users, "users", "", "accept jobs of every user of this machine through a socket in this directory, and run their tasks as them; only as root (with no value "+usersDir+")")
	cmd.Flags().Lookup("users").NoOptDefVal = usersDir
	cmd.Flags().BoolVar(&f.noCgroups, "no-cgroups", false, "use no control groups")
	return cmd
}

// newTask is a supervisor of tasks; users do not call it.
func newTask() *cobra.Command {
	return &cobra.Command{
		Use:    "task",
		Short:  "Supervise tasks (started by 'gleaner up')",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(*cobra.Command, []string) error { return local.Supervise() },
	}
}

func runUp(cmd *cobra.Command, f upFlags) (err error) {
	u, err := f.wiring(cmd)
	if err != nil {
		return err
	}
	if err := local.KeepFiles(); err != nil {
		return err
	}
	makeThreads()
	at, err := metadata(cmd)
	if err != nil {
		return err
	}
	store, err := unlessStopped(cmd.Context(), func() (kv.Store, error) { return u.openStore(cmd, at) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	disks := hostOptions{dir: u.dir, server: u.server, store: store, place: at.id(), shared: at.remote(), stays: true, groups: u.files.groups, clients: u.files.clients, always: u.sync, log: u.log, show: u.disks.show}
	defer disks.serveAside()() // harvesting does not need them
	past, err := history.Open(cmd.Context(), store, time.Now)
	if err != nil {
		return err
	}
	users, err := local.UsersDir(u.users, u.dir)
	if err != nil {
		return err
	}
	world, err := local.Open(local.Options{Dir: filepath.Join(u.dir, "local"), Server: cluster.ServerID(u.server), Log: u.log,
		Plain: f.noCgroups, Equal: !harvest.Guarded(u.policy), Most: u.files.tasks, Users: users, Short: u.short.Tell})
	if errors.Is(err, local.ErrHeld) {
		return input.Errorf("--data", "another process holds %s; stop it first, or name another directory", u.dir)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Close()) }()
	if err := at.remember(u.dir); err != nil { // now that the directory is ours
		return err
	}
	return u.harvest(cmd.Context(), world, past)
}

// openStore opens the metadata, where --store says or in the data directory.
func (u *wiring) openStore(cmd *cobra.Command, at place) (_ kv.Store, err error) {
	if at.remote() {
		return at.dial(cmd, false)
	}
	real := u.dir
	if at.flag == "--store" {
		if real, err = trustData(at.name); err != nil {
			return nil, at.blamed(err)
		}
	}
	const patience = 3 * time.Second // a command that has it open ends soon
	for since := time.Now(); ; {
		store, err := at.openReal(cmd.Context(), real, pebble.Options{Files: u.files.store, Short: u.short.Of("the store")})
		if !errors.Is(err, kv.ErrHeld) || time.Since(since) > patience || !pause(cmd.Context()) {
			return store, err
		}
	}
}

// unlessStopped calls do, which may wait for room on the disk, but returns at once if
// gleaner is stopped meanwhile.
func unlessStopped[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := do()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// A wiring is what the parts of a gleaner that is up need.
type wiring struct {
	upFlags
	policy harvest.Policy
	dir    string // the data directory
	log    *slog.Logger
	shown  *board.Board
	short  *harvester.Shortages
	files  fileShare
	out    io.Writer

	browsers  *web.Browsers
	disks     disksBehind
	usersLock *os.File // of the directory of --users
}

// wiring checks the flags.
func (f upFlags) wiring(cmd *cobra.Command) (u *wiring, err error) {
	u = &wiring{upFlags: f, out: cmd.OutOrStdout(), browsers: &web.Browsers{}, log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)), shown: board.New(harvest.Reserve{}), files: shareFiles(fileLimit())}
	u.short = harvester.NewShortages(u.shown, u.log)
	if u.policy, err = harvest.PolicyNamed(f.policyName); err != nil {
		return nil, input.Errorf("--policy", "%v", err)
	}
	named, err := dataDir(cmd)
	if err != nil {
		return nil, err
	}
	if u.server == "" {
		if u.server, err = os.Hostname(); err != nil {
			return nil, input.Errorf("--server", "this machine has no name; give it one")
		}
	}
	if err := history.CheckName(u.server); err != nil {
		return nil, input.Errorf("--server", "%v", err)
	}
	if u.dir, err = trustData(named); err != nil {
		return nil, err
	}
	if _, err := readPolicy(u.dir); err != nil {
		return nil, err
	}
	if err := u.trustUsers(f.users); err != nil {
		return nil, err
	}
	return u, trustAll(u.dir)
}

// harvest joins the world, the history and the API, and goes on until ctx is done.
func (u *wiring) harvest(ctx context.Context, world *local.World, past *history.Store) error {
	size := world.Machine().Size()
	reserve, err := u.reserve(size, world.Isolated())
	if err != nil {
		return err
	}
	up, err := harvester.New(ctx, harvester.Options{World: world, Server: world.Machine(), Isolated: world.Isolated(),
		Policy: u.policy, Reserve: reserve, Keep: u.keep, History: past, Board: u.shown, Log: u.log})
	if err != nil {
		return err
	}
	api := &web.API{Board: u.shown, Machine: knowing{world, up}, Most: up.Most(), Version: version(),
		Harvested: func() cluster.Resources { return world.Last().Harvested }, Storage: u.disks.told}
	pages, end := u.pages(ctx, api, up, past)
	defer end()
	served, base, err := u.serve(api, pages)
	if err != nil {
		return err
	}
	u.log.Info("up", "machine", size.RoundUp().String(), "reserve", reserve.Of(size).String(), "policy", u.policyName, "data", u.dir, "listening", served.String())
	room, because := up.Room(world.Last().Primary)
	u.log.Info("can be harvested now", "room", room.String(), "because", because)
	if most := up.Most(); most.CPU <= 0 || most.Memory <= 0 {
		u.log.Warn("nothing can ever be harvested here: the reserve and the least use of a primary take everything; see --reserve-cpu and --reserve-memory")
	}
	u.invite(base)
	return up.Run(ctx, served.Run)
}

// A knowing world adds to jobs what the harvester has learned of them.
type knowing struct {
	*local.World
	up *harvester.Harvester
}

// Submit accepts a job; see local.World.
func (k knowing) Submit(job *cluster.Job) (cluster.JobID, error) {
	return k.World.Submit(k.up.Known(job))
}

// reserve is the reserve of a machine of that size; isolated says whether the kernel
// isolates tasks.
func (f upFlags) reserve(size cluster.Resources, isolated bool) (harvest.Reserve, error) {
	kept := harvest.ReserveFor(size, isolated)
	fixed := kept.Fixed
	if f.reserveCPU == "0" {
		fixed.CPU = 0
	} else if f.reserveCPU != "" {
		cores, err := jobfile.ParseCores(f.reserveCPU)
		if err != nil {
			return harvest.Reserve{}, input.Errorf("--reserve-cpu", "%q: %v", f.reserveCPU, err)
		}
		fixed.CPU = cores
	}
	if f.reserveMemory == "0" {
		fixed.Memory = 0
	} else if f.reserveMemory != "" {
		memory, err := jobfile.ParseSize(f.reserveMemory)
		if err != nil {
			return harvest.Reserve{}, input.Errorf("--reserve-memory", "%q: %v", f.reserveMemory, err)
		}
		fixed.Memory = memory
	}
	if !fixed.Fits(size) {
		return harvest.Reserve{}, input.Errorf("--reserve-cpu", "a reserve of %s is more than the %s of this machine", fixed, size)
	}
	fixed.Memory = fixed.Memory / cluster.MB * cluster.MB
	return harvest.Reserve{Fixed: fixed, Step: kept.Step}, nil
}
