// Package dilation measures on real processes how much jobs slow each other
// down, and how well the model predicts it (PEVA'16 §4 and §5).
package dilation

import (
	"context"
	"math"
	"runtime"
	"slices"
	"time"

	model "gleaner/dilation"
	"gleaner/local/mix"
)

// A Bench runs commands side by side on this machine.
type Bench struct {
	// Cores are how many the commands share; 0: all there are.
	Cores int
	// Std returns the command of a standard job of that size; of size 0 it runs
	// until it is killed.
	Std func(kind string, size int64) []string
	// Tries is how often a measurement that others disturb is tried; the quietest
	// is taken. 0: once.
	Tries int
	// Done is called after every measurement. It may be nil.
	Done func()

	Rounds    int // measured so far
	Disturbed int // of them, in which others used the machine too
}

// Machine is the resources that the commands share: cores and one disk.
func (b *Bench) Machine() model.Machine {
	if b.Cores > 0 {
		return model.Machine{b.Cores, 1}
	}
	return model.Machine{runtime.NumCPU(), 1}
}

// Resources names the resources of loading vectors here.
func Resources() []string { return []string{"cpu", "io"} }

// noise is how much of a core others may use before a measurement is repeated:
// interrupts and the kernel's own threads use less.
const noise = 0.25

// run runs commands side by side, and repeats it if others used the machine too.
func (b *Bench) run(ctx context.Context, commands ...mix.Command) ([]mix.Took, error) {
	best := mix.Result{Others: math.Inf(1)}
	for range max(b.Tries, 1) {
		r, err := mix.Run(ctx, b.Cores, commands)
		if err != nil {
			return nil, err
		}
		if r.Others < best.Others {
			best = r
		}
		if r.Others <= noise {
			break
		}
	}
	b.Rounds++
	if best.Others > noise {
		b.Disturbed++
	}
	if b.Done != nil {
		b.Done()
	}
	return best.Took, nil
}

// alone runs one command.
func (b *Bench) alone(ctx context.Context, args []string) (mix.Took, error) {
	took, err := b.run(ctx, mix.Command{Args: args})
	if err != nil {
		return mix.Took{}, err
	}
	return took[0], nil
}

// beside runs a command beside a probe on each instance of a resource.
func (b *Bench) beside(ctx context.Context, args []string, resource int) (mix.Took, error) {
	commands := []mix.Command{{Args: args}}
	for range b.Machine()[resource] {
		commands = append(commands, mix.Command{Args: b.Std(Resources()[resource], 0), Background: true})
	}
	took, err := b.run(ctx, commands...)
	if err != nil {
		return mix.Took{}, err
	}
	return took[0], nil
}

// copies runs n of a command at once and returns their mean time in seconds.
func (b *Bench) copies(ctx context.Context, args []string, n int) (float64, error) {
	took, err := b.run(ctx, slices.Repeat([]mix.Command{{Args: args}}, n)...)
	sum := 0.0
	for _, t := range took {
		sum += t.Wall().Seconds()
	}
	return sum / float64(n), err
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	n := len(times)
	return (times[n/2] + times[(n-1)/2]) / 2
}
