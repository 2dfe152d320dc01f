package main

import (
	"context"
	"errors"
	"time"

	"gleaner/kv"
)

// toPart is how long the front may take to end: clients of its disks get their answers.
const toPart = 10 * time.Second

// serveAside serves the disks beside what this process does for others, until it is told to stop. What is
// wrong with them is logged.
func (o hostOptions) serveAside() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := o.serveUntil(ctx); err != nil && !errors.Is(err, context.Canceled) {
			o.log.Warn("no disks are served; all else goes on", "because", err)
		}
	}()
	return func() {
		cancel()
		select {
		case <-done:
		case <-time.After(toPart): // a store that waits for room keeps it; what was answered is safe
			o.log.Warn("the disks did not close in time")
		}
	}
}

// serveUntil serves them until ctx ends, as soon as no other process of the data directory does.
func (o hostOptions) serveUntil(ctx context.Context) error {
	h, err := openFront(ctx, o)
	for errors.Is(err, kv.ErrHeld) && pause(ctx) {
		h, err = openFront(ctx, o)
	}
	if err != nil {
		return err
	}
	o.log.Info("disks are served", "socket", nbdSocket(o.dir))
	if o.show != nil {
		o.show(h.front)
	}
	err = h.run(ctx)
	if o.show != nil {
		o.show(nil)
	}
	return errors.Join(err, h.close())
}
