package fabric

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Upkeep waits for clients that ask for something, and not for ever.
func TestGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s served
		waits := func(ctx context.Context) time.Duration {
			begun := time.Now()
			s.giveWay(ctx)
			return time.Since(begun)
		}
		is := func(what string, got, want time.Duration) {
			t.Helper()
			if got != want {
				t.Errorf("%s it waits for %v, want %v", what, got, want)
			}
		}
		is("where nobody has ever asked", waits(t.Context()), 0)
		end := s.count(&s.reads)
		is("while a request is under way", waits(t.Context()), mostWay)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		is("when its ctx has ended", waits(ended), moment)
		go func() {
			time.Sleep(moment * 3 / 2)
			end()
		}()
		is("while a request ends", waits(t.Context()), 2*moment)
		is("after a request", waits(t.Context()), moment)
		time.Sleep(2 * calm)
		is("a while after it", waits(t.Context()), 0)
		if s.reads.n.Load() != 1 || s.writes.n.Load() != 0 {
			t.Errorf("%d reads and %d writes were counted", s.reads.n.Load(), s.writes.n.Load())
		}
	})
}
