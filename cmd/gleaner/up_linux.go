package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/control"
	"gleaner/control/board"
	"gleaner/control/jobfile"
	"gleaner/harvest"
	"gleaner/history"
	"gleaner/input"
	"gleaner/kv/pebble"
	"gleaner/local"
	"gleaner/web"
)

// steady is how long what the primary has given back must stay free on one
// machine before tasks come back: a burst of seconds does not kill them twice.
const steady = 15 * time.Second

type upFlags struct {
	listen        string
	cert, key     string
	reserveCPU    string
	reserveMemory string
	policy        string
	keep          time.Duration
	noCgroups     bool
	server        string
}

func newUp() *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Harvest this machine: run batch jobs on what its owner leaves idle",
		Long: `Up harvests this machine. All that is not a task of a job it was given is the
primary, the machine's owner. Every second it looks at what the primary uses; tasks
run on the rest, beside a reserve that is kept free for the primary to burst into.
When the primary eats into the reserve, tasks are killed, the youngest first, and
run again later. A burst is seen in less than half a second. The first lines of the log
tell what can be harvested now, and why not more.

It goes on until Ctrl-C. Jobs, and tasks that are running, survive a crash: start it
again with the same data directory and it goes on where it was.

Without permission for control groups it still works: tasks then run at the lowest
priority, but their memory is not limited. It says so when it starts.`,
		Example: `  gleaner up
  gleaner run examples/wordcount.yaml --wait     # from another terminal

  # Keep two cores and 4 GB free for the owner:
  gleaner up --reserve-cpu 2 --reserve-memory 4GB`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runUp(cmd, f) },
	}
	addDataFlag(cmd)
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:7070", "address of the HTTP API; beyond loopback it needs --tls-cert and --tls-key; none for no network at all")
	cmd.Flags().StringVar(&f.cert, "tls-cert", "", "certificate (PEM) to serve the API with")
	cmd.Flags().StringVar(&f.key, "tls-key", "", "its key (PEM)")
	cmd.Flags().StringVar(&f.reserveCPU, "reserve-cpu", "", "cores kept free for the primary (default a third; a tenth below 8 cores where the kernel isolates tasks)")
	cmd.Flags().StringVar(&f.reserveMemory, "reserve-memory", "", "memory kept free for the primary, as 4GB (default 10/32 of it)")
	cmd.Flags().StringVar(&f.policy, "policy", "history", "how much to harvest: "+strings.Join(harvest.PolicyNames(), ", "))
	cmd.Flags().DurationVar(&f.keep, "keep", 7*24*time.Hour, "how long ended jobs and their output are kept")
	cmd.Flags().StringVar(&f.server, "server", "", "name of this machine in the history (default its host name)")
	cmd.Flags().BoolVar(&f.noCgroups, "no-cgroups", false, "do without control groups")
	return cmd
}

// newTask is the supervisor of one run of a task; people do not call it.
func newTask() *cobra.Command {
	return &cobra.Command{
		Use:    "task DIR",
		Short:  "Watch over one run of a task (started by 'gleaner up')",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return local.Supervise(args[0]) },
	}
}

func runUp(cmd *cobra.Command, f upFlags) (err error) {
	policy, err := harvest.PolicyNamed(f.policy)
	if err != nil {
		return input.Errorf("--policy", "%v", err)
	}
	dir, err := dataDir(cmd)
	if err != nil {
		return err
	}
	if f.server == "" {
		if f.server, err = os.Hostname(); err != nil {
			return input.Errorf("--server", "this machine has no name; give it one")
		}
	}
	if err := history.CheckName(f.server); err != nil {
		return input.Errorf("--server", "%v", err)
	}
	named := dir
	if dir, err = trustData(named); err != nil {
		return err
	}
	if err := trustAll(dir); err != nil {
		return err
	}
	makeThreads()
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	shown := board.New(harvest.Reserve{})
	short := &shortages{shown: shown, log: log, told: map[string]time.Time{}}
	files := shareFiles(fileLimit())
	store, err := openStore(named, dir, pebble.Options{Files: files.store, Short: short.of("the store")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	past, err := history.Open(cmd.Context(), store)
	if err != nil {
		return err
	}
	world, err := local.Open(local.Options{Dir: filepath.Join(dir, "local"), Server: cluster.ServerID(f.server), Log: log,
		Plain: f.noCgroups, Equal: !harvest.Guarded(policy), Most: files.tasks, Short: short.tell})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Close()) }()
	u := &upped{flags: f, log: log, world: world, history: past, dir: dir, policy: policy, shown: shown, short: short, files: files}
	if u.reserve, err = f.reserve(world.Machine().Size(), world.Isolated()); err != nil {
		return err
	}
	return u.run(cmd.Context())
}

// reserve is what is kept free of a machine of that size, on which the kernel
// isolates tasks or does not.
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

// upped is a gleaner that is up.
type upped struct {
	flags   upFlags
	log     *slog.Logger
	world   *local.World
	history *history.Store
	dir     string
	reserve harvest.Reserve
	policy  harvest.Policy
	shown   *board.Board
	short   *shortages
	files   fileShare
}

// most is what one task may be given.
func (u *upped) most() cluster.Resources {
	size := u.world.Machine().Size()
	if !harvest.Guarded(u.policy) {
		return size
	}
	return u.reserve.Most(size)
}

// sayHarvestable says what tasks can be given now, and why not more.
func (u *upped) sayHarvestable() {
	size := u.world.Machine().Size()
	now, because := size.RoundUp(), "the policy does not look at the primary"
	if harvest.Guarded(u.policy) {
		now, because = harvestable(size, u.world.Last().Primary, u.reserve, u.world.Isolated())
	}
	if now.CPU == 0 || now.Memory == 0 { // a task needs both
		now = cluster.Resources{}
	}
	u.log.Info("can be harvested now", "room", now.String(), "because", because)
}

// harvestable says what tasks can be given now, beside a primary that uses so
// much, and who has the rest.
func harvestable(size, uses cluster.Resources, kept harvest.Reserve, isolated bool) (now cluster.Resources, because string) {
	reserve, counted := kept.Of(size), kept.Counted(uses)
	now = size.Sub(reserve).Sub(counted).Max(cluster.Resources{})
	now.Memory = now.Memory / cluster.MB * cluster.MB
	because = fmt.Sprintf("of %s the primary uses %s, and %s are kept free for it", size.RoundUp(), counted, reserve)
	switch {
	case kept.Step < cluster.Core:
	case isolated:
		because += "; its use counts in whole cores"
	default:
		because += "; its use counts in whole cores, as the kernel does not isolate tasks from it (control groups with cpu.idle, Linux 5.15)"
	}
	return now, because
}

func (u *upped) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	u.shown.Reserve = u.reserve
	u.shown.Machine = coresAndDisk(u.world.Machine().Size())
	learner, err := newLearner(ctx, u.world, u.history, u.log)
	if err != nil {
		return err
	}
	api := &web.API{Board: u.shown, Machine: knowing{u.world, learner.Book}, Most: u.most(), Gone: local.ErrNoJob, Ended: local.ErrEnded,
		Harvested: func() cluster.Resources { return u.world.Last().Harvested }}
	failed := make(chan error, 8) // more than there are to fail
	served, err := u.serve(api, failed)
	if err != nil {
		return err
	}
	defer served.close()
	size := u.world.Machine().Size()
	u.log.Info("up", "machine", size.RoundUp().String(), "reserve", u.reserve.Of(size).String(), "policy", u.flags.policy, "data", u.dir, "listening", served.where())
	u.sayHarvestable()
	if most := u.most(); most.CPU <= 0 || most.Memory <= 0 {
		u.log.Warn("nothing can ever be harvested here: the reserve and the least that the primary counts as are all there is; see --reserve-cpu and --reserve-memory")
	}
	diary := newDiary(u.history, u.world.Machine(), u.log)
	brain := control.NewBrain(harvest.Options{Policy: u.policy, Reserve: u.reserve, Rand: rand.New(rand.NewPCG(rand.Uint64(), 0)), Steady: steady,
		Choice: harvest.ByBoth, Machine: coresAndDisk})
	var keepers sync.WaitGroup
	for _, keep := range []func(context.Context) error{diary.keep, learner.keep, u.upkeep} {
		keepers.Go(func() { failed <- keep(ctx) })
	}
	loop := make(chan error, 1)
	go func() {
		loop <- control.RunApart(ctx, u.world, brain, recorders{u.shown, diary, learner, logged{u.log}})
	}()
	select {
	case err = <-failed:
		stop()
		<-loop
	case err = <-loop:
		stop()
	}
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	served.close()
	u.stop()
	within(parting, keepers.Wait) // a store that waits for room keeps them
	return err
}

// parting is how long those who keep the history may take to end.
const parting = 2 * time.Second

// within waits until do is done, but not for longer than patience lasts.
func within(patience time.Duration, do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(patience):
	}
}

// stop ends the tasks and tells which will be run again.
func (u *upped) stop() {
	u.log.Info("stopping")
	again := u.world.Stop("gleaner stops")
	if len(again) == 0 {
		return
	}
	var names []string
	for _, id := range again {
		names = append(names, id.String())
	}
	u.log.Info("tasks were ended and will be run again when gleaner is next up", "count", len(again), "tasks", strings.Join(names, " "))
}
