package control

import (
	"context"
	"errors"
	"fmt"
	"io"

	"gleaner/cluster"
	"gleaner/harvest"
)

// A World is a cluster, real or simulated. What it promises is tested by worldtest.
type World interface {
	// Next waits for the next thing to happen. io.EOF says that nothing will
	// happen any more. What the event points to stays as it is until the next call.
	// A server joins before anything is said of it. Every server's use is reported
	// again and again. Next ends with the error of its context.
	Next(context.Context) (cluster.Event, error)
	// Do begins to carry out an action. That it was carried out, or could not
	// be, comes back as an event: a start as task started, then one end, or as
	// task not started; a kill as task killed, once, with its reason, unless the
	// task ended before. To kill what does not run or to finish what has ended
	// changes nothing. An error says that the world itself has failed.
	Do(cluster.Action) error
}

// A Recorder keeps what happens, in order. An event comes before what was
// decided on it.
type Recorder interface {
	Event(cluster.Event) error
	Action(cluster.Action) error
}

// A Brain decides: the core, and a guard for every server. It is a pure
// machine too: the same events give the same actions.
type Brain struct {
	core      *harvest.Core
	reserve   harvest.Reserve
	unguarded bool // servers kill nobody for their primary (the policy stock)
	guards    map[cluster.ServerID]*harvest.Guard
}

// NewBrain gives a brain without servers, whose guards keep the reserve that
// its core counts on.
func NewBrain(o harvest.Options) *Brain {
	return &Brain{core: harvest.New(o), reserve: o.Reserve, unguarded: !harvest.Guarded(o.Policy), guards: map[cluster.ServerID]*harvest.Guard{}}
}

// Step hands ev to those it concerns, guards first: what a primary needs back
// does not wait for the core. Each action is given to do before the next is
// decided on.
func (b *Brain) Step(ev cluster.Event, do func(cluster.Action) error) error {
	if !b.unguarded {
		if err := b.guard(ev, do); err != nil {
			return err
		}
	}
	return each(b.core.Step(ev), do)
}

func (b *Brain) guard(ev cluster.Event, do func(cluster.Action) error) error {
	switch ev.Kind {
	case cluster.ServerJoined:
		b.guards[ev.Server.ID] = harvest.NewGuard(*ev.Server, b.reserve)
	case cluster.ServerLeft:
		delete(b.guards, ev.On)
	case cluster.UseReported:
		one := ev
		for i := range ev.Use {
			one.Use = ev.Use[i : i+1]
			if err := b.ask(ev.Use[i].On, one, do); err != nil {
				return err
			}
		}
	case cluster.TaskStarted, cluster.TaskFinished, cluster.TaskFailed, cluster.TaskKilled, cluster.TaskNotStarted:
		return b.ask(ev.On, ev, do)
	}
	return nil
}

func (b *Brain) ask(on cluster.ServerID, ev cluster.Event, do func(cluster.Action) error) error {
	g := b.guards[on]
	if g == nil {
		return nil
	}
	return each(g.Step(ev), do)
}

func each(actions []cluster.Action, do func(cluster.Action) error) error {
	for _, a := range actions {
		if err := do(a); err != nil {
			return err
		}
	}
	return nil
}

// Run lets brain rule world until nothing happens any more or ctx is done.
// What happens and is decided goes to rec, unless that is nil.
func Run(ctx context.Context, world World, brain *Brain, rec Recorder) error {
	do := func(a cluster.Action) error {
		if rec != nil {
			if err := rec.Action(a); err != nil {
				return err
			}
		}
		if err := world.Do(a); err != nil {
			return fmt.Errorf("control: %s: %w", a, err)
		}
		return nil
	}
	for {
		ev, err := world.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if rec != nil {
			if err := rec.Event(ev); err != nil {
				return err
			}
		}
		if err := brain.Step(ev, do); err != nil {
			return err
		}
	}
}
