// Package mix runs commands side by side on this machine and times them.
package mix

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"gleaner/local/proc"
)

// A Command is one of those that run side by side.
type Command struct {
	Args  []string
	Start time.Duration // after the first
	// Background commands run as long as another does, and are then ended.
	Background bool
}

// A Took is when a command ran and what it used.
type Took struct {
	Start, End time.Duration // since the first was started
	CPU        time.Duration // used, by children it has waited for as well
	// Pressure is how long something on the machine was stalled for the disk
	// meanwhile; negative if the kernel does not report it.
	Pressure time.Duration
}

// Wall is how long the run took.
func (t Took) Wall() time.Duration { return t.End - t.Start }

// A Result is when the commands ran, and how quiet the machine was.
type Result struct {
	Took   []Took
	Others float64 // average cores that others used, or the hypervisor took; 0 if not known
}

// memory is about as much as a command uses at its start.
const memory = 48 << 20

// Run runs the commands on the first cores of this machine, or on all if cores is
// 0, and waits for them. If one fails, or ctx is done, all are killed with
// everything they have started.
func Run(ctx context.Context, cores int, commands []Command) (Result, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if err := warm(cores, memory*len(commands)); err != nil {
		return Result{}, fmt.Errorf("mix: %w", err)
	}
	took := make([]Took, len(commands))
	begin, busy := time.Now(), busyTime()
	var all, front sync.WaitGroup
	for i, c := range commands {
		if !c.Background {
			front.Add(1)
		}
		all.Go(func() {
			if !c.Background {
				defer front.Done()
			}
			var err error
			if took[i], err = c.run(ctx, cores, begin); err != nil {
				stop(err)
			}
		})
	}
	front.Wait()
	failed := context.Cause(ctx)
	stop(nil)
	all.Wait()
	return Result{took, others(took, busyTime()-busy, time.Since(begin))}, failed
}

// busyTime is how long cores have been busy; 0 if /proc does not have it.
func busyTime() time.Duration {
	cpu, _ := proc.ReadCPU()
	return cpu.Busy()
}

// others is the average cores that the machine used during while, without the commands.
func others(took []Took, busy, while time.Duration) float64 {
	for _, t := range took {
		busy -= t.CPU
	}
	return max(0, busy.Seconds()/while.Seconds())
}

// tail is how much of a failed command's output is reported.
const tail = 400

func (c Command) run(ctx context.Context, cores int, begin time.Time) (Took, error) {
	select {
	case <-ctx.Done():
		return Took{}, ctx.Err()
	case <-time.After(time.Until(begin.Add(c.Start))):
	}
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.WaitDelay = time.Second // processes it has left behind may hold its output open
	var said bytes.Buffer
	cmd.Stderr = &said
	before := pressure()
	took := Took{Start: time.Since(begin), Pressure: -1}
	if err := startOn(cores, cmd); err != nil {
		return Took{}, fmt.Errorf("mix: start %s: %w", c.Args[0], err)
	}
	ended := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		for {
			killGroup(cmd)
			select {
			case <-ended:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})()
	err := cmd.Wait()
	took.End = time.Since(begin)
	close(ended)
	killGroup(cmd) // processes it has left behind
	if before >= 0 {
		took.Pressure = pressure() - before
	}
	took.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	switch {
	case ctx.Err() != nil:
		return took, ctx.Err()
	case err != nil:
		text := strings.TrimSpace(said.String())
		said := ""
		if text != "" {
			said = ": " + text[max(0, len(text)-tail):]
		}
		return took, fmt.Errorf("%s: %w%s", strings.Join(c.Args, " "), err, said)
	}
	return took, nil
}
