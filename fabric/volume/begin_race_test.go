package volume

import (
	"sync"
	"testing"
)

// A disk is heard of again (Reopened) while a vDisk whose writer crashed is opened: begin fills v.marked and v.dirty, and sets v.token, without v.mu.
func TestReopenedWhileOpening(t *testing.T) {
	ctx := t.Context()
	s, p, _ := faultySpace(t, 2)
	v := faultyVolume(t, s, 2)
	for i := range int64(8) {
		if err := v.WriteAt(ctx, make([]byte, 4096), i<<20, false); err != nil {
			t.Fatal(err)
		}
	}
	v.stop()
	for range 50 {
		s = NewSpace(s.maps, p, s.o)
		var all sync.WaitGroup
		stop := make(chan struct{})
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = s.Reopened(ctx, "d0")
				}
			}
		})
		v2, err := s.Open(ctx, v.id)
		close(stop)
		all.Wait()
		if err != nil {
			t.Fatal(err)
		}
		v2.stop()
	}
}
