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
	// Next waits for the next event. io.EOF says that no more will come. The
	// event's Use is valid until the next call, the rest forever. A server joins
	// before any other event about it. Every server's use is reported again and
	// again. Next ends with the error of its context.
	Next(context.Context) (cluster.Event, error)
	// Do begins to carry out an action. The outcome comes back as an event: a
	// start as task started, then one end, or as task not started; a kill as task
	// killed, once, with its reason, unless the task ended before. Killing what
	// does not run and finishing what has ended change nothing. An error says that
	// the world itself has failed. In a world in real time, Do may be called
	// concurrently, and while Next waits.
	Do(cluster.Action) error
}

// A Recorder gets events and actions, in order. An event comes before the actions
// on it.
type Recorder interface {
	Event(cluster.Event) error
	Action(cluster.Action) error
}

// A Brain is the core and the guards of its servers. It is pure too: the same
// events give the same actions.
type Brain struct {
	// Guards are nil if servers kill no task for their primary (the policy stock),
	// or if they are guarded elsewhere: beside their tasks, by another process.
	Guards *Guards
	Core   *harvest.Core
}

// NewBrain returns a brain without servers, whose guards and core use the same
// reserve.
func NewBrain(o harvest.Options) *Brain {
	b := &Brain{Core: harvest.New(o)}
	if harvest.Guarded(o.Policy) {
		b.Guards = NewGuards(o.Reserve)
	}
	return b
}

// Step passes ev to the guards, then to the core: what a primary needs back does
// not wait for the core. It calls do with their actions.
func (b *Brain) Step(ev cluster.Event, do func(cluster.Action) error) error {
	if err := each(b.Guards.Step(ev), do); err != nil {
		return err
	}
	return each(b.Core.Step(ev), do)
}

func each(actions []cluster.Action, do func(cluster.Action) error) error {
	for _, a := range actions {
		if err := do(a); err != nil {
			return err
		}
	}
	return nil
}

// Run lets brain control world until no more events come or ctx is done. Events
// and actions go to rec, if not nil. Guards wait while the core decides and rec
// writes: for a world in real time, use RunApart.
func Run(ctx context.Context, world World, brain *Brain, rec Recorder) error {
	return rule(world, brain.Core, rec, func() (guarded, error) { return guard(ctx, world, brain.Guards) })
}

// A guarded event is one on which the guards have acted.
type guarded struct {
	cluster.Event
	kills []cluster.Action
}

// guard waits for the next event and lets guards act on it.
func guard(ctx context.Context, world World, guards *Guards) (guarded, error) {
	ev, err := world.Next(ctx)
	if err != nil {
		return guarded{}, err
	}
	kills := guards.Step(ev)
	return guarded{ev, kills}, each(kills, doing(world))
}

func doing(world World) func(cluster.Action) error {
	return func(a cluster.Action) error {
		if err := world.Do(a); err != nil {
			return fmt.Errorf("control: %s: %w", a, err)
		}
		return nil
	}
}

// rule passes event after event to the core, and records.
func rule(world World, core *harvest.Core, rec Recorder, next func() (guarded, error)) error {
	if rec == nil {
		rec = nobody{}
	}
	do := doing(world)
	for {
		ev, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := rec.Event(ev.Event); err != nil {
			return err
		}
		if err := each(ev.kills, rec.Action); err != nil {
			return err
		}
		err = each(core.Step(ev.Event), func(a cluster.Action) error {
			if err := rec.Action(a); err != nil {
				return err
			}
			return do(a)
		})
		if err != nil {
			return err
		}
	}
}

// nobody is a recorder that records nothing.
type nobody struct{}

func (nobody) Event(cluster.Event) error   { return nil }
func (nobody) Action(cluster.Action) error { return nil }
