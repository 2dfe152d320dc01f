package main

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/local/proc"
)

// A primaryWatch says whether others than this process need the machine, as OSDI'16 §5.4 has data
// servers deny access while the primary's CPU is above a limit.
type primaryWatch struct {
	limit float64 // share of all cores
	busy  atomic.Bool
}

// watch looks every second until ctx ends.
func (w *primaryWatch) watch(ctx context.Context, log *slog.Logger) {
	before, failed := takeUse()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for failed == nil {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var now use
		if now, failed = takeUse(); failed == nil && now.cpu.Total() > before.cpu.Total() {
			w.tell(now.others(before), log)
			before = now
		}
	}
	w.busy.Store(false)
	log.Error("how busy this machine is cannot be told any more: nothing is denied", "err", failed)
}

func (w *primaryWatch) tell(share float64, log *slog.Logger) {
	busy := share > w.limit
	if w.busy.Swap(busy) != busy {
		log.Info("the primary needs this machine", "busy", busy, "cpu", share)
	}
}

// use is how much CPU was used since a machine and this process began.
type use struct {
	cpu proc.CPU
	own time.Duration
}

func takeUse() (use, error) {
	cpu, err := proc.ReadCPU()
	if err != nil {
		return use{}, err
	}
	var own unix.Rusage
	err = unix.Getrusage(unix.RUSAGE_SELF, &own)
	return use{cpu, time.Duration(own.Utime.Nano() + own.Stime.Nano())}, err
}

// others is the share of all cores that others than this process used since a use before.
func (u use) others(before use) float64 {
	busy := u.cpu.Busy() - before.cpu.Busy() - (u.own - before.own)
	total := time.Duration(u.cpu.Total()-before.cpu.Total()) * proc.Tick
	return max(0, float64(busy)/float64(total))
}
