// Package tracetest tests thousands of cases, each made from a seed: each must end in a
// result or an input error, without a panic, a hang, or too much memory.
package tracetest

import (
	"fmt"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"testing"
	"time"
)

// What one case may take. Cases take milliseconds and kilobytes; the limits are so high
// that a busy machine does not fail them.
const (
	mostTime   = 4 * time.Minute
	mostMemory = 2 << 30
)

// Cases calls check with the seeds from 1 to few, or to many with GLEANER_LONG=1, or with
// the one in GLEANER_SEED. A panic or an error fails the test with the seed and the
// command to repeat it. If another goroutine ends the process, the last line before has
// the seed.
func Cases(t *testing.T, few, many int, check func(seed int) error) {
	t.Helper()
	first, last := 1, few
	if os.Getenv("GLEANER_LONG") != "" {
		last = many
	}
	if text := os.Getenv("GLEANER_SEED"); text != "" {
		seed, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("GLEANER_SEED=%s is not a number", text)
		}
		first, last = seed, seed
	}
	debug.SetTraceback("all") // shows where a goroutine hangs
	for seed := first; seed <= last; seed++ {
		again := fmt.Sprintf("seed %d; again with: GLEANER_SEED=%d go test -run '^%s$' .", seed, seed, t.Name())
		fmt.Fprintf(os.Stderr, "\r%s", again)
		stop := watch(again)
		err := attempt(check, seed)
		stop()
		if err != nil {
			t.Fatalf("%s\n%v", again, err)
		}
	}
}

// watch ends the process if a case takes too much.
func watch(again string) (stop func()) {
	done, begun := make(chan struct{}), time.Now()
	go func() {
		look := time.NewTicker(100 * time.Millisecond)
		defer look.Stop()
		held := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		for {
			select {
			case <-done:
				return
			case <-look.C:
			}
			if metrics.Read(held); held[0].Value.Uint64() > mostMemory {
				panic(fmt.Sprintf("%d bytes held: %s", held[0].Value.Uint64(), again))
			}
			if time.Since(begun) > mostTime {
				panic(fmt.Sprintf("no end after %v: %s", mostTime, again))
			}
		}
	}()
	return func() { close(done) }
}

// attempt turns a panic into an error.
func attempt(check func(int) error, seed int) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return check(seed)
}
