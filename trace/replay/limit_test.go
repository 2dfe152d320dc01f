package replay

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestLimit: a call that takes too long is ended, and only that one.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit{of: t.Context(), time: time.Second}
		defer l.close()
		for i, tc := range []struct {
			takes time.Duration
			late  bool
		}{{900 * time.Millisecond, false}, {900 * time.Millisecond, false}, {1100 * time.Millisecond, true}, {900 * time.Millisecond, false}} {
			ctx, began := l.begin(), time.Now()
			if until, ok := ctx.Deadline(); !ok || !until.Equal(began.Add(time.Second)) {
				t.Errorf("call %d may take until %v", i, until)
			}
			time.Sleep(tc.takes)
			if ended := ctx.Err() != nil; ended != tc.late || l.end() != tc.late {
				t.Errorf("call %d took %v and was ended: %v", i, tc.takes, ended)
			}
		}
	})
}
