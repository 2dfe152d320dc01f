// Package harvester runs a gleaner: the loop over a world, the history of its
// primaries, the learning of how tasks load the machine, and the daily upkeep.
// Machine and network are passed in.
package harvester

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"gleaner/cluster"
	"gleaner/control"
	"gleaner/control/board"
	"gleaner/control/diary"
	"gleaner/control/loads"
	"gleaner/dilation"
	"gleaner/harvest"
	"gleaner/history"
)

// A World is a control.World that runs from day to day.
type World interface {
	control.World
	// Publish sends the classes to the core.
	Publish([]cluster.Class)
	// Spent is how a run that has ended spent its time; false if not known.
	Spent(cluster.TaskID) (cluster.Spent, bool)
	// Prune forgets the jobs that ended before a time.
	Prune(before time.Time) error
	// Stop kills all tasks, waits until they are gone, and returns those that will
	// be run again. Do is not called any more.
	Stop(reason string) []cluster.TaskID
}

// Options of a Harvester.
type Options struct {
	World    World
	Server   cluster.Server // the machine
	Isolated bool           // the kernel gives tasks only idle cores
	Policy   harvest.Policy
	Reserve  harvest.Reserve
	Keep     time.Duration // how long ended jobs are kept
	History  *history.Store
	Board    *board.Board
	Log      *slog.Logger
}

// A Harvester is a gleaner that is up.
type Harvester struct {
	Options
	learner *learner
}

// New returns a Harvester with what was learned before. Board has had no event yet.
func New(ctx context.Context, o Options) (*Harvester, error) {
	o.Board.Reserve, o.Board.Unaware, o.Board.Machine = o.Reserve, !harvest.Guarded(o.Policy), coresAndDisk
	l, err := newLearner(ctx, o.World, coresAndDisk(o.Server.Size()), o.History)
	return &Harvester{o, l}, err
}

// coresAndDisk is the resources of loading vectors on one machine.
func coresAndDisk(size cluster.Resources) dilation.Machine {
	return dilation.Machine{max(1, int(size.CPU/cluster.Core)), 1}
}

// Known is a job with the loading vectors learned for its stages.
func (h *Harvester) Known(job *cluster.Job) *cluster.Job { return h.learner.Known(job) }

// Learned lists how tasks load the machine, by stage, and the machine's resources.
func (h *Harvester) Learned() ([]loads.Learned, dilation.Machine) {
	return h.learner.Learned(), coresAndDisk(h.Server.Size())
}

// steady is harvest.Options.Steady on one machine: a burst of seconds does not
// kill tasks twice.
const steady = 15 * time.Second

// Run harvests until ctx is done or something fails. It calls serve to serve
// requests until the ctx it gets is done. When Run returns, no task is left.
func (h *Harvester) Run(ctx context.Context, serve func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	diary := diary.New(h.History, h.Log)
	brain := control.NewBrain(harvest.Options{Policy: h.Policy, Reserve: h.Reserve, Rand: rand.New(rand.NewPCG(rand.Uint64(), 0)), Steady: steady,
		Choice: harvest.ByBoth, Machine: coresAndDisk})
	loop := func(ctx context.Context) error {
		return control.RunApart(ctx, h.World, brain, control.Recorders{h.Board, diary, h.learner, logged{h.Log}})
	}
	ended := make(chan error, 5)       // one for each of them
	var active, keepers sync.WaitGroup // the active end before tasks are ended
	for _, act := range []func(context.Context) error{loop, serve} {
		active.Go(func() { ended <- act(ctx) })
	}
	for _, keep := range []func(context.Context) error{diary.Keep, h.learner.keep, h.upkeep} {
		keepers.Go(func() { ended <- keep(ctx) })
	}
	err := <-ended // the first to end ends all
	stop()
	active.Wait()
	h.endTasks()
	within(parting, keepers.Wait) // a store that waits for room may hold them up
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// parting is how long the writers of the history may take to end.
const parting = 2 * time.Second

// within waits until do is done, but no longer than patience.
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

// endTasks ends the tasks and logs which will be run again.
func (h *Harvester) endTasks() {
	h.Log.Info("stopping")
	again := h.World.Stop("gleaner stops")
	if len(again) == 0 {
		return
	}
	var names []string
	for _, id := range again {
		names = append(names, id.String())
	}
	h.Log.Info("tasks were ended and will be run again when gleaner is next up", "count", len(again), "tasks", strings.Join(names, " "))
}
