// Package tracetest asks one thing of thousands of cases, each made from a seed:
// that a result or an input error comes of it, and neither a panic nor a hang.
package tracetest

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
	"time"
)

// patience is how long one case may take before it counts as a hang. Cases are
// made to take milliseconds; a busy machine is not to fail them.
const patience = time.Minute

// Cases calls check with the seeds from 1 to few, or to many with GLEANER_LONG=1,
// or with the one in GLEANER_SEED. What check panics with fails the test, and so
// does an error; either way the seed is told, and how to run it again.
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
	debug.SetTraceback("all") // a hang is where some goroutine stands
	for seed := first; seed <= last; seed++ {
		again := fmt.Sprintf("seed %d; again with: GLEANER_SEED=%d go test -run '^%s$' .", seed, seed, t.Name())
		watchdog := time.AfterFunc(patience, func() { panic(fmt.Sprintf("no end after %v: %s", patience, again)) })
		err := attempt(check, seed)
		watchdog.Stop()
		if err != nil {
			t.Fatalf("%s\n%v", again, err)
		}
	}
}

// attempt makes an error of a panic.
func attempt(check func(int) error, seed int) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return check(seed)
}
