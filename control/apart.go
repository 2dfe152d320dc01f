package control

import (
	"context"
	"slices"
	"sync"
)

// RunApart is Run for a world in real time: guards act on events at once, however
// long the core decides or rec writes. Core and rec get each event later, in order,
// with the guards' actions on it, so that a recording is the same.
func RunApart(ctx context.Context, world World, brain *Brain, rec Recorder) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	line := &line{news: make(chan struct{}, 1)}
	var guards sync.WaitGroup
	guards.Go(func() {
		for {
			ev, err := guard(ctx, world, brain.Guards)
			if line.put(ev, err); err != nil {
				return
			}
		}
	})
	err := rule(world, brain.Core, rec, func() (guarded, error) { return line.next(ctx) })
	stop()
	guards.Wait()
	return err
}

// A line is the events that wait for the core.
type line struct {
	news chan struct{} // there is something in it

	mu     sync.Mutex
	events []guarded
	err    error // that comes after them
}

// put adds an event, or the error that ends the line.
func (l *line) put(ev guarded, err error) {
	ev.Use, ev.kills = slices.Clone(ev.Use), slices.Clone(ev.kills)
	l.mu.Lock()
	if l.err = err; err == nil {
		l.events = append(l.events, ev)
	}
	l.mu.Unlock()
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// next waits for the first event.
func (l *line) next(ctx context.Context) (guarded, error) {
	for {
		if ev, ok, err := l.take(); ok || err != nil {
			return ev, err
		}
		select {
		case <-ctx.Done():
			return guarded{}, ctx.Err()
		case <-l.news:
		}
	}
}

func (l *line) take() (ev guarded, ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) == 0 {
		return guarded{}, false, l.err
	}
	ev = l.events[0]
	l.events = l.events[1:]
	return ev, true, nil
}
