package main

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/local/cgroup"
	"gleaner/local/proc"
)

// A primaryWatch says whether the primary needs the machine, as OSDI'16 §5.4 has data
// servers deny access while the primary's CPU is above a limit.
type primaryWatch struct {
	limit float64 // share of all cores
	group string  // control group of the primary; empty if all but this process are
	busy  atomic.Bool
	calm  int // looks in a row that found it below the limit
}

// A primary that begins to use all cores is noticed within two looks, well within a second. It has to be below the limit for a
// second before it counts as calm: each replica that misses a write is to be rebuilt.
const (
	lookEvery = 200 * time.Millisecond
	calmAfter = int(time.Second / lookEvery)
)

// watch looks until ctx ends.
func (w *primaryWatch) watch(ctx context.Context, log *slog.Logger) {
	before, failed := takeUse(w.group)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for failed == nil {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var now use
		if now, failed = takeUse(w.group); failed == nil && now.all.Total() > before.all.Total() {
			w.tell(now.share(before), log)
			before = now
		}
	}
	w.busy.Store(false)
	log.Error("how busy this machine is cannot be told any more: nothing is denied", "err", failed)
}

func (w *primaryWatch) tell(share float64, log *slog.Logger) {
	w.calm++
	if share > w.limit {
		w.calm = 0
	}
	if busy := w.calm == 0 || w.busy.Load() && w.calm < calmAfter; w.busy.Swap(busy) != busy {
		log.Info("the primary needs this machine", "busy", busy, "cpu", share)
	}
}

// use is how much CPU all and the primary have used since they began.
type use struct {
	all     proc.CPU
	primary time.Duration
}

// takeUse reads the use of a control group, or of all but this process. A group that is not there uses nothing: the primary is being started again.
func takeUse(group string) (use, error) {
	all, err := proc.ReadCPU()
	if err != nil {
		return use{}, err
	}
	if group != "" {
		used, _ := cgroup.CPUOf(group)
		return use{all, used}, nil
	}
	var own unix.Rusage
	err = unix.Getrusage(unix.RUSAGE_SELF, &own)
	return use{all, all.Busy() - time.Duration(own.Utime.Nano()+own.Stime.Nano())}, err
}

// share is the share of all cores that the primary used since a use before.
func (u use) share(before use) float64 {
	total := time.Duration(u.all.Total()-before.all.Total()) * proc.Tick
	return max(0, float64(u.primary-before.primary)/float64(total))
}
