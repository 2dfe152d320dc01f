package hands

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// All is done, at once if need be; few goroutines wait afterwards, and none once the pool is closed.
func TestHands(t *testing.T) {
	p := New()
	for range 3 {
		var all sync.WaitGroup
		meet := make(chan struct{})
		for i := range 10 * mostIdle {
			all.Add(1)
			p.Go(func() {
				defer all.Done()
				if i == 10*mostIdle-1 {
					close(meet)
				}
				<-meet // all are there
			})
		}
		all.Wait()
	}
	await := func(what string, holds func(n int) bool) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); !holds(goroutines()); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d goroutines %s", goroutines(), what)
			}
		}
	}
	await("wait", func(n int) bool { return n > 0 && n <= mostIdle })
	p.Close()
	await("are left", func(n int) bool { return n == 0 })
}

func goroutines() int {
	text := make([]byte, 1<<20)
	return strings.Count(string(text[:runtime.Stack(text, true)]), "(*Pool).serve(")
}
