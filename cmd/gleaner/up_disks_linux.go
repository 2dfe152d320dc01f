package main

import (
	"context"
	"errors"
	"time"

	"gleaner/kv"
)

// toPart is how long the front may take to end: clients of its disks get their answers.
const toPart = 10 * time.Second

// serveDisks serves the disks of the data directory until it is told to stop. Harvesting does not need them: what is
// wrong with them is logged.
func (u *wiring) serveDisks(store kv.Store) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := u.serveDisksUntil(ctx, store); err != nil && !errors.Is(err, context.Canceled) {
			u.log.Warn("no disks are served; all else goes on", "because", err)
		}
	}()
	return func() {
		cancel()
		select {
		case <-done:
		case <-time.After(toPart): // a store that waits for room keeps it; what was answered is safe
			u.log.Warn("the disks did not close in time")
		}
	}
}

func (u *wiring) serveDisksUntil(ctx context.Context, store kv.Store) error {
	h, err := openFront(ctx, hostOptions{dir: u.dir, server: u.server, store: store, stays: true, groups: u.files.groups, clients: u.files.clients, always: u.sync, log: u.log})
	if err != nil {
		return err
	}
	u.log.Info("disks are served", "socket", nbdSocket(u.dir))
	return errors.Join(h.run(ctx), h.close())
}
